//! The calls that the checker makes into the cache, and the images that pools start from.

use crate::cache::Begins;
use crate::harm::MediumMap;
use crate::image::{Image, regions};
use crate::refusal::Refusal;
use crate::scenario::Shape;
use forebay::unstable::{locate_block, medium_areas};
use forebay::{
    Backing, Pool, PoolOptions, Redundancy, ReplacementPolicy, ScrubOptions, VerifyPolicy, Volume,
};
use forebay_pmem::Region;
use forebay_pmem::shadow::Shadow;
use forebay_volatile::VolatileDisk;
use parking_lot::Mutex;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The number of the incarnation of a pool that takes the place of a lost one.
const LOST: u64 = 1 << 33;

/// A pool with its volumes attached; nothing happens in it but what is asked for.
pub struct OpenPool {
    /// The pool.
    pub pool: Pool,
    /// The newest handles; a volume that was detached and attached again is another one.
    volumes: Vec<Mutex<Volume>>,
    /// Handles of volumes that were detached, until they were checked.
    left: Mutex<Vec<Volume>>,
    has_detached: AtomicBool,
}

/// Options for a pool of `shape`.
fn options(shape: &Shape) -> PoolOptions {
    PoolOptions::default()
        .block_bytes(shape.block_bytes as u32)
        .strict(shape.strict)
        .checksums(shape.checksums)
        .lanes(shape.lanes)
        .lane_bytes(shape.lane_bytes)
        .volumes(shape.volumes as u32)
        .unit_bytes(shape.unit_bytes() as u32)
        .background(false)
        .throttle_deadline(Duration::ZERO)
        .fill_on_read(shape.fill_on_read)
        .sequential_cutoff_bytes((shape.cutoff_blocks * shape.block_bytes) as u64)
        .read_ahead_bytes((shape.ahead_blocks * shape.block_bytes) as u64)
        .share_duplicates(shape.shares)
        .compare_writes(shape.compares)
        .always_compare(true)
        .entries_in_dram(shape.entries_in_dram)
        .redundancy(match (shape.mirrored, shape.sealed) {
            (true, _) if shape.has_rows => Redundancy::Parity,
            (true, _) => Redundancy::Mirror,
            (false, true) => Redundancy::Checksum,
            (false, false) => Redundancy::None,
        })
        .dirty_low_per_mille(shape.watermarks.0)
        .free_low_per_mille(shape.watermarks.1)
        .verify(match shape.verifies {
            true => VerifyPolicy::Always,
            false => VerifyPolicy::Never,
        })
        .replacement(match shape.is_lru {
            true => ReplacementPolicy::Lru,
            false => ReplacementPolicy::Sieve,
        })
}

/// Opens the pool on `regions`, or makes it, and attaches its volumes. Processes on one medium need different `incarnation`
/// numbers: their salts are made of them.
pub fn open(
    shape: &Shape,
    begins: Begins,
    incarnation: u64,
    regions: Vec<Region>,
    backing: impl Fn(usize) -> Backing,
) -> Result<OpenPool, Refusal> {
    repeat_choices(shape, incarnation);
    let is_missing = begins == Begins::OpenedWithout || regions.len() < shape.members;
    // All but one of three and more need no word.
    let is_missing = shape.mirrored && shape.members == 2 && is_missing;
    let options = options(shape).without_missing(is_missing);
    let (what, pool) = match begins {
        Begins::Opened | Begins::OpenedWithout => (
            "open",
            Pool::open_on(regions, options.runtime_options().clone()),
        ),
        Begins::Grown => {
            let mut by_name = |path: &Path| {
                let mut all = (0..shape.volumes).map(&backing);
                let found = all.find(|backing| backing.identity().path == path);
                found.ok_or_else(|| {
                    forebay::ErrorKind::Volume(format!("no backing {}", path.display())).into()
                })
            };
            let grown = Pool::grow_on(
                regions,
                shape.medium_bytes(),
                &mut by_name,
                &mut |_| ControlFlow::Continue(()),
                options.runtime_options().clone(),
            );
            ("grow", grown)
        }
        Begins::Created => {
            // What the old pool had is known to be lost.
            let options = options.accept_stale(true);
            ("create", Pool::create_on(regions, &options))
        }
    };
    let pool = pool.map_err(|error| Refusal::new(what, &error))?;
    attached(shape, pool, backing).map_err(|error| Refusal::new("attach", &error))
}

/// As `open` of a pool that is there, with the error that it gives, where loss is accepted or not.
pub fn open_or_why(
    shape: &Shape,
    incarnation: u64,
    regions: Vec<Region>,
    backing: impl Fn(usize) -> Backing,
    accepts_loss: bool,
) -> forebay::Result<OpenPool> {
    repeat_choices(shape, incarnation);
    let options = options(shape).accept_loss(accepts_loss);
    let runtime = options.runtime_options().clone();
    attached(shape, Pool::open_on(regions, runtime)?, backing)
}

/// As `open_or_why`, without members that are missing or not.
pub fn open_members(
    shape: &Shape,
    incarnation: u64,
    regions: Vec<Region>,
    backing: impl Fn(usize) -> Backing,
    without_missing: bool,
) -> forebay::Result<OpenPool> {
    repeat_choices(shape, incarnation);
    let options = options(shape).without_missing(without_missing);
    let runtime = options.runtime_options().clone();
    attached(shape, Pool::open_on(regions, runtime)?, backing)
}

/// Opens a pool that is there, and attaches nothing.
pub fn open_by_itself(
    shape: &Shape,
    incarnation: u64,
    regions: Vec<Region>,
) -> forebay::Result<Pool> {
    repeat_choices(shape, incarnation);
    Pool::open_on(regions, options(shape).runtime_options().clone())
}

/// What a pool leaves to chance is the same in every run of an incarnation.
fn repeat_choices(shape: &Shape, incarnation: u64) {
    forebay::unstable::set_thread_hint(0);
    forebay::unstable::set_duplicate_bits(shape.duplicate_bits);
    forebay::unstable::set_random_seed(Some(incarnation));
}

/// Which volumes' backings a pool may have that knows nothing of them.
pub fn admitted(shape: &Shape, backing: impl Fn(usize) -> Backing) -> Result<Vec<bool>, String> {
    repeat_choices(shape, LOST);
    let regions = (0..shape.members)
        .map(|_| Region::on_shadow(Arc::new(Shadow::new(shape.member_bytes(), shape.model()))));
    let pool = Pool::create_on(regions.collect(), &options(shape));
    let pool = pool.map_err(|error| format!("a new pool: {error}"))?;
    let admitted = (0..shape.volumes).map(|volume| match pool.attach(backing(volume)) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), forebay::ErrorKind::Stale { .. }) => Ok(false),
        Err(error) => Err(format!("a new pool: attach: {error}")),
    });
    admitted.collect()
}

fn attached(
    shape: &Shape,
    pool: Pool,
    backing: impl Fn(usize) -> Backing,
) -> forebay::Result<OpenPool> {
    let volumes = (0..shape.volumes).map(|volume| pool.attach(backing(volume)));
    let volumes = volumes.collect::<forebay::Result<Vec<Volume>>>()?;
    Ok(OpenPool {
        pool,
        volumes: volumes.into_iter().map(Mutex::new).collect(),
        left: Mutex::default(),
        has_detached: AtomicBool::new(false),
    })
}

impl OpenPool {
    /// A volume.
    pub fn volume(&self, volume: usize) -> Volume {
        self.volumes[volume].lock().clone()
    }

    /// Detaches a volume and attaches its backing again.
    pub fn detach(&self, volume: usize, backing: Backing) -> forebay::Result<()> {
        self.has_detached.store(true, Ordering::Relaxed);
        let left = self.volume(volume);
        self.pool.detach(left.clone())?;
        self.left.lock().push(left);
        let attached = self.pool.attach(backing)?;
        *self.volumes[volume].lock() = attached;
        Ok(())
    }

    /// Asserts that handles of volumes that were detached read nothing: the backing may be older than the pool, and
    /// change between two reads. Nothing excuses it.
    pub fn assert_left_refuse(&self) {
        for left in std::mem::take(&mut *self.left.lock()) {
            let read = left.read(0, &mut vec![0; left.block_size()]);
            assert!(read.is_err(), "{left:?} was detached, and reads");
        }
    }

    /// Reads everything, from what the members have, and puts right what is wrong. Says whether the pool ever found
    /// anything wrong.
    pub fn scrub(&self) -> forebay::Result<bool> {
        let options = ScrubOptions::default();
        let report = self
            .pool
            .scrub(&options, &mut |_| ControlFlow::Continue(()))?;
        let stats = self.pool.stats();
        let totals = stats.totals;
        let found = [
            report.found,
            totals.repaired,
            totals.transient,
            totals.unrepaired,
            totals.lost,
            totals.healed,
            stats.media_errors,
        ];
        Ok(found.iter().any(|count| *count > 0))
    }

    /// What lies where on a member.
    pub fn medium_map(&self, shape: &Shape, member: usize) -> MediumMap {
        let volumes = (0..shape.volumes).map(|volume| self.volume(volume));
        let blocks = volumes.flat_map(|volume| {
            let located = (0..volume.blocks()).map(move |block| locate_block(&volume, block));
            located.flatten()
        });
        MediumMap {
            spared: Vec::new(),
            areas: medium_areas(&self.pool),
            live: blocks
                .flat_map(|block| block.bytes)
                .filter(|(on, _)| *on == member)
                .map(|(_, bytes)| bytes)
                .collect(),
        }
    }

    /// Whether handles of volumes may be those of volumes that are gone.
    pub fn has_detached(&self) -> bool {
        self.has_detached.load(Ordering::Relaxed)
    }

    /// Blocks that one transaction can change.
    pub fn transaction_blocks_max(&self) -> usize {
        self.pool.transaction_limit_bytes() as usize / self.volume(0).block_size()
    }

    /// Changes the replacement policy to the other one.
    pub fn switch_replacement(&self) {
        self.pool.set_replacement(match self.pool.replacement() {
            ReplacementPolicy::Sieve => ReplacementPolicy::Lru,
            _ => ReplacementPolicy::Sieve,
        });
    }

    /// Closes it in order.
    pub fn close(self) -> forebay::Result<()> {
        drop((self.volumes, self.left));
        self.pool.close()
    }
}

/// A pool of `shape` that holds nothing, over backings that hold `stores`.
pub fn template(shape: &Shape, stores: Vec<Vec<u8>>) -> Result<Image, String> {
    forebay::unstable::set_random_seed(Some(u64::MAX));
    // The volumes are attached before their backings are as large as they will be.
    let mut small = Image {
        stores: stores.clone(),
        ..Image::default()
    };
    for bytes in &mut small.stores {
        bytes.truncate(shape.first_bytes());
    }
    let disks: Vec<Arc<VolatileDisk>> = small.crash_stores(shape, 0);
    let shadow = || Arc::new(Shadow::new(shape.member_bytes(), shape.model()));
    let shadows: Vec<Arc<Shadow>> = (0..shape.members).map(|_| shadow()).collect();
    let pool = Pool::create_on(regions(&shadows), &options(shape))
        .map_err(|error| format!("create a pool of {shape:?}: {error}"))?;
    if shape.starts_attached {
        let backing = |volume: usize| Backing::from_store(disks[volume].clone());
        let attached = attached(shape, pool, backing);
        drop(attached.map_err(|error| format!("attach: {error}"))?);
    }
    let media = shadows.iter().map(|shadow| {
        let mut bytes = shadow.crash_state().durable().to_vec();
        bytes.resize(shape.medium_bytes() as usize, 0);
        bytes
    });
    let marks = disks.iter().map(|disk| disk.crash_state().mark.durable());
    Ok(Image {
        media: media.collect(),
        stores,
        marks: marks.collect(),
        ..Image::default()
    })
}
