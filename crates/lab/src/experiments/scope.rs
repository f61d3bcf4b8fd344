//! What a run covers, and what it runs on.

use std::fmt;
use std::time::Duration;

use forebay::EmulatedMedia;

use crate::engines::EngineName;
use crate::workload::Scale;

/// The study's NVDIMM (Study §4).
const STUDY_CACHE_BYTES: u64 = 16 << 30;

/// What a run covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Scope {
    /// The papers' sizes are divided by this.
    pub scale: Scale,
    /// Fewer places and shorter runs.
    pub is_quick: bool,
    /// Whose series figures have, in this order.
    pub engines: Vec<EngineName>,
    /// The same seed gives the same work.
    pub seed: u64,
    /// The papers' engines store and flush the content of blocks, instead of streaming it as Forebay does.
    pub flushes_content: bool,
    /// How often everything is measured, each time on fresh memory and a fresh disk. Tinca's paper has three runs (§5.1) and
    /// Spindle's five (§5.1).
    pub runs: usize,
    /// How long one of the study's jobs runs, all its runs together.
    pub job_duration: Duration,
}

impl Scope {
    /// Everything at the scale of figures.
    #[must_use]
    pub fn full(seed: u64) -> Scope {
        Scope {
            scale: Scale::FULL,
            is_quick: false,
            engines: EngineName::ALL.to_vec(),
            seed,
            flushes_content: false,
            runs: 5,
            job_duration: Duration::from_millis(1000),
        }
    }

    /// Everything in a few minutes.
    #[must_use]
    pub fn quick(seed: u64) -> Scope {
        Scope {
            scale: Scale::QUICK,
            is_quick: true,
            runs: 3,
            job_duration: Duration::from_millis(150),
            ..Scope::full(seed)
        }
    }

    /// Bytes of the cache under the study's jobs.
    #[must_use]
    pub fn study_cache_bytes(&self) -> u64 {
        self.scale.bytes(STUDY_CACHE_BYTES)
    }
}

/// What one of the study's jobs runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Contender {
    /// The memory alone.
    Raw,
    /// An engine over it.
    Engine(EngineName),
    /// The same with the cleaner that all designs have in common.
    Cleaned(EngineName),
}

impl Contender {
    /// The engine, if there is one.
    #[must_use]
    pub const fn engine(self) -> Option<EngineName> {
        match self {
            Contender::Raw => None,
            Contender::Engine(engine) | Contender::Cleaned(engine) => Some(engine),
        }
    }

    /// The same with the cleaner; raw memory and Forebay, whose own always works, as they are.
    #[must_use]
    pub fn with_cleaner(self) -> Contender {
        match self {
            Contender::Engine(engine) if engine != EngineName::Forebay => {
                Contender::Cleaned(engine)
            }
            other => other,
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Raw => f.write_str("raw memory"),
            Contender::Engine(engine) => write!(f, "{engine}"),
            Contender::Cleaned(engine) => write!(f, "{engine} with the cleaner"),
        }
    }
}

/// The medium of the study: memory as it is.
pub(super) const STUDY_MEDIA: EmulatedMedia = EmulatedMedia::Nvdimm;
