//! What is crashed: Forebay's pool, through all that it can do, or an engine of the lab, through
//! what every engine can. What differs between the two meets the rest of the checker here.

use crate::cache::{Begins, OpenCache};
use crate::content::noise;
use crate::engine;
use crate::engine_scenario;
use crate::engine_shape::Maker;
use crate::files;
use crate::image::Image;
use crate::load;
use crate::pool;
use crate::refusal::Refusal;
use crate::scenario::{Script, Shape};
use crate::systematic;
use forebay::{Backing, Error};
use forebay_lab::engines::EngineName;
use forebay_pmem::Region;
use std::collections::HashMap;
use std::str::FromStr;

/// What the command line calls pools with their entries in DRAM.
const IN_DRAM: &str = "forebay-in-dram";
/// And pools whose table has seals, of one copy.
const CHECKSUM: &str = "forebay-checksum";
/// And pools on members that hold the same.
const MIRRORED: &str = "forebay-mirror";
/// And those in which large transactions fill rows with parity.
const ROWS: &str = "forebay-parity";
/// And the engine of pools on an SSD.
const SSD: &str = "ssd";
/// And the same on two members.
const SSD_MIRROR: &str = "ssd-mirror";
/// And the durable file buffer over one of these.
const FILES_SSD: &str = "files-ssd";
/// And a pool in memory in front of one on an SSD.
const STACKED: &str = "stacked";

/// What is crashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Forebay's own pool.
    Pool,
    /// The same, each with its entry table in DRAM while it is open.
    PoolInDram,
    /// The same, each with a table of one copy that has seals.
    PoolChecksum,
    /// The same on two to four members that hold the same: each image is recovered with all, with each one dead, and with
    /// an old copy in its place.
    PoolMirrored,
    /// The same on three to five members, where large transactions fill rows with parity.
    PoolRows,
    /// An engine behind the trait that all of them have.
    Engine {
        /// Which one.
        maker: Maker,
        /// Its paper's protocol exactly as printed.
        as_printed: bool,
        /// With the cleaner that all of them can have.
        has_cleaner: bool,
    },
    /// The durable file buffer over a real directory.
    Files,
    /// The same over a pool on an SSD.
    FilesSsd,
    /// The engine of pools on an SSD, on the shadow device.
    Ssd,
    /// The same on two members that hold the same.
    SsdMirror,
    /// A pool in memory in front of one on an SSD.
    Stacked,
}

impl Subject {
    /// Every engine of the papers, oldest first.
    pub const PAPERS: [EngineName; 4] = [
        EngineName::Classic,
        EngineName::Ubj,
        EngineName::Tinca,
        EngineName::Spindle,
    ];

    /// Whether it is Forebay's own pool, one way or the other.
    pub fn is_pool(self) -> bool {
        matches!(
            self,
            Subject::Pool | Subject::PoolInDram | Subject::PoolChecksum
        ) || self.is_mirrored()
    }

    /// Whether it is the durable file buffer, over one pool or the other.
    pub fn is_of_files(self) -> bool {
        matches!(self, Subject::Files | Subject::FilesSsd)
    }

    /// Whether all of its scenarios are drawn from seeds.
    pub fn is_random(self) -> bool {
        self.is_of_files() || matches!(self, Subject::Ssd | Subject::SsdMirror | Subject::Stacked)
    }

    /// Whether its members hold the same.
    pub fn is_mirrored(self) -> bool {
        matches!(self, Subject::PoolMirrored | Subject::PoolRows)
    }

    /// An engine of the lab.
    pub const fn engine(name: EngineName, as_printed: bool) -> Subject {
        Subject::Engine {
            maker: Maker::Lab(name),
            as_printed,
            has_cleaner: false,
        }
    }

    /// An engine of the lab with its cleaner.
    pub const fn engine_with_cleaner(name: EngineName) -> Subject {
        Subject::Engine {
            maker: Maker::Lab(name),
            as_printed: false,
            has_cleaner: true,
        }
    }

    /// The same with the cleaner that the papers' engines can have.
    pub fn cleaned(self) -> Result<Subject, String> {
        match self {
            Subject::Engine {
                maker: Maker::Lab(name),
                as_printed: false,
                ..
            } if Subject::PAPERS.contains(&name) => Ok(Subject::engine_with_cleaner(name)),
            _ => Err(String::from(
                "--cleaner goes with --engine classic, ubj, tinca or spindle, without --as-printed",
            )),
        }
    }

    /// The same with its paper's protocol as printed.
    pub fn printed(self) -> Result<Subject, String> {
        match self {
            Subject::Engine {
                maker: Maker::Lab(name),
                ..
            } if Subject::PAPERS.contains(&name) => Ok(Subject::engine(name, true)),
            _ => Err(String::from(
                "no paper prints this protocol; --as-printed goes with --engine classic, ubj, \
                 tinca or spindle",
            )),
        }
    }

    /// The flags that choose it on the command line, each after a space.
    pub fn flags(self) -> String {
        match self {
            Subject::Pool => String::new(),
            Subject::PoolInDram => format!(" --engine {IN_DRAM}"),
            Subject::PoolChecksum => format!(" --engine {CHECKSUM}"),
            Subject::PoolMirrored => format!(" --engine {MIRRORED}"),
            Subject::PoolRows => format!(" --engine {ROWS}"),
            Subject::Engine {
                maker,
                as_printed,
                has_cleaner,
            } => {
                let printed = if as_printed { " --as-printed" } else { "" };
                let cleaner = if has_cleaner { " --cleaner" } else { "" };
                format!(" --engine {maker}{printed}{cleaner}")
            }
            Subject::Files => String::from(" --engine files"),
            Subject::FilesSsd => format!(" --engine {FILES_SSD}"),
            Subject::Ssd => format!(" --engine {SSD}"),
            Subject::SsdMirror => format!(" --engine {SSD_MIRROR}"),
            Subject::Stacked => format!(" --engine {STACKED}"),
        }
    }

    /// The name of a row of the report.
    pub fn row(self, what: &str) -> String {
        match self {
            Subject::Pool => String::from(what),
            Subject::PoolInDram => format!("{what}_entries_in_dram"),
            Subject::PoolChecksum => format!("{what}_checksum"),
            Subject::PoolMirrored => format!("{what}_mirror"),
            Subject::PoolRows => format!("{what}_parity"),
            Subject::Engine {
                maker,
                as_printed,
                has_cleaner,
            } => {
                let printed = if as_printed { "_as_printed" } else { "" };
                let cleaner = if has_cleaner { "_cleaner" } else { "" };
                format!("{what}_{maker}{printed}{cleaner}")
            }
            Subject::Files => format!("{what}_files"),
            Subject::FilesSsd => format!("{what}_files_ssd"),
            Subject::Ssd => format!("{what}_{SSD}"),
            Subject::SsdMirror => format!("{what}_ssd_mirror"),
            Subject::Stacked => format!("{what}_{STACKED}"),
        }
    }

    /// A shape drawn from `rng`.
    pub fn random_shape(self, rng: &mut fastrand::Rng) -> Shape {
        match self {
            _ if self.is_pool() => Shape::random(rng),
            Subject::Engine {
                maker,
                as_printed,
                has_cleaner,
            } => engine_scenario::random_shape(rng, maker, as_printed, has_cleaner),
            _ => unreachable!("files and SSDs have no shape"),
        }
    }

    /// How many systematic scripts it has.
    pub fn systematic_scripts(self) -> usize {
        match self {
            _ if self.is_pool() => systematic::SCRIPTS,
            Subject::Engine { .. } => engine_scenario::SCRIPTS,
            _ => 0,
        }
    }

    /// The shape and the script with this number.
    pub fn systematic_script(self, number: usize) -> (Shape, Script) {
        match self {
            _ if self.is_pool() => systematic::script(number),
            Subject::Engine {
                maker,
                as_printed,
                has_cleaner,
            } => engine_scenario::systematic_script(number, maker, as_printed, has_cleaner),
            _ => unreachable!("files and SSDs have no systematic scripts"),
        }
    }
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Subject, String> {
        match text {
            "forebay" => Ok(Subject::Pool),
            IN_DRAM => Ok(Subject::PoolInDram),
            CHECKSUM => Ok(Subject::PoolChecksum),
            MIRRORED => Ok(Subject::PoolMirrored),
            ROWS => Ok(Subject::PoolRows),
            "files" => Ok(Subject::Files),
            FILES_SSD => Ok(Subject::FilesSsd),
            SSD => Ok(Subject::Ssd),
            SSD_MIRROR => Ok(Subject::SsdMirror),
            STACKED => Ok(Subject::Stacked),
            "forebay-engine" => Ok(Subject::engine(EngineName::Forebay, false)),
            name => match name.parse() {
                Ok(name) => Ok(Subject::engine(name, false)),
                Err(error) => Err(Error::to_string(&error)),
            },
        }
    }
}

/// A script drawn from `rng`, for a pool or an engine.
pub fn random_script(rng: &mut fastrand::Rng, shape: &Shape) -> Script {
    match &shape.engine {
        Some(engine) => engine_scenario::random_script(rng, shape, engine),
        None => load::random_script(rng, shape),
    }
}

/// Opens what `regions` hold, or makes it anew. Incarnations of one medium need different `incarnation` numbers: what they
/// leave to chance is made of them.
pub fn open(
    shape: &Shape,
    begins: Begins,
    incarnation: u64,
    mut regions: Vec<Region>,
    backing: impl Fn(usize) -> Backing,
) -> Result<OpenCache, Refusal> {
    if let Some(engine) = &shape.engine {
        let region = regions.pop().expect("an engine has one region");
        let anew = begins == Begins::Created;
        let opened = engine::open(shape, engine, incarnation, (region, backing(0)), anew)?;
        return Ok(Box::new(opened));
    }
    let opened = pool::open(shape, begins, incarnation, regions, backing)?;
    Ok(Box::new(opened))
}

/// So many are kept: shapes that are drawn at random seldom come again, and a long campaign draws too many for memory.
const TEMPLATES_MAX: usize = 256;

/// Freshly made caches by shape: making one takes longer than recovering one.
#[derive(Default)]
pub struct Templates {
    images: HashMap<Shape, Image>,
    files: Option<files::TestEnv>,
    files_ssd: Option<files::TestEnv>,
}

impl Templates {
    /// A cache of `shape` that holds nothing, over backings that do.
    pub fn get(&mut self, shape: &Shape) -> Result<&Image, String> {
        if !self.images.contains_key(shape) {
            let stores = (0..shape.volumes)
                .map(|volume| disk(shape, volume))
                .collect();
            let image = match &shape.engine {
                Some(engine) => engine::template(shape, engine, stores)?,
                None => pool::template(shape, stores)?,
            };
            if self.images.len() == TEMPLATES_MAX {
                self.images.clear();
            }
            self.images.insert(shape.clone(), image);
        }
        Ok(&self.images[shape])
    }

    /// Where the file buffer is crashed, made when it is asked for first.
    pub fn files(&mut self, subject: Subject) -> Result<&files::TestEnv, String> {
        let (made, kind) = match subject {
            Subject::FilesSsd => (&mut self.files_ssd, files::Kind::Ssd),
            _ => (&mut self.files, files::Kind::Memory),
        };
        if made.is_none() {
            *made = Some(files::TestEnv::new(kind)?);
        }
        Ok(made.as_ref().expect("it was made"))
    }
}

/// A disk as it is before it is cached.
fn disk(shape: &Shape, volume: usize) -> Vec<u8> {
    let mut bytes = noise(0x5eed + volume as u64, shape.volume_bytes());
    // One block in four is zero, as most of a new disk is.
    for block in (3..shape.volume_blocks).step_by(4) {
        let start = block * shape.block_bytes;
        let end = (start + shape.block_bytes).min(bytes.len());
        bytes[start..end].fill(0);
    }
    bytes
}
