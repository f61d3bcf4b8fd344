//! The pool below a file buffer: one in memory, or one on an SSD.

use forebay::{Backing, Pool, PoolOptions, RuntimeOptions};
use forebay_files::FileBufferParts;
use forebay_log::shadow::{Image, ShadowDevice, ShadowState};
use forebay_log::{LogError, Options as LogOptions};
use forebay_pmem::Region;
use forebay_pmem::shadow::{CrashState, Distribution, Shadow, ShadowModel};
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Bytes of a pool in memory: some hundred blocks.
const POOL_BYTES: u64 = 512 << 10;
/// A ring on an SSD with as few segments as can be. A transaction of a quarter of one holds a piece of the names' log, as in every pool
/// that a program can make.
const SEGMENT_PAGES: u32 = 36;
const SEGMENTS: u32 = 8;
/// Bytes that a crash of the SSD leaves or loses together.
const UNIT: usize = 512;
/// How long a writer over an SSD waits for room: so long that none gives up because the machine stands still for a moment.
const WAIT: Duration = Duration::from_secs(2);

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Ssd,
}

/// What there is of a pool.
#[derive(Clone)]
pub enum PoolImage {
    Memory(Vec<u8>),
    Ssd(ShadowState),
}

/// A moment of one, at which the power may fail.
pub enum PoolState {
    Memory(CrashState),
    Ssd(ShadowState),
}

/// One in use.
pub enum PoolMedium {
    Memory(Arc<Shadow>),
    Ssd(Arc<ShadowDevice>),
}

/// Is told of a moment, and of the SSD's state if there is one.
pub type Note = dyn Fn(Option<&ShadowState>) + Send + Sync;

/// The same, for what is called by it.
pub enum WeakMedium {
    Memory(Weak<Shadow>),
    Ssd(Weak<ShadowDevice>),
}

impl Hash for PoolImage {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match self {
            PoolImage::Memory(bytes) => bytes.hash(hasher),
            PoolImage::Ssd(state) => state.hash().hash(hasher),
        }
    }
}

fn log_options(seed: u64) -> LogOptions {
    LogOptions {
        gathers: false,
        seed: Some(seed),
        segment_pages: Some(SEGMENT_PAGES),
        ..LogOptions::default()
    }
}

impl PoolImage {
    /// One that was just made.
    pub fn new(kind: Kind, seed: u64) -> Result<PoolImage, String> {
        match kind {
            Kind::Memory => new_in_memory(seed),
            Kind::Ssd => {
                let pages = (SEGMENT_PAGES * (SEGMENTS + 1)) as usize;
                let state = ShadowState::new(Image::zeroed(pages), UNIT);
                let device = Arc::new(ShadowDevice::new(state));
                let told = |error: LogError| error.to_string();
                let log = forebay_log::create(device.clone(), log_options(seed)).map_err(told)?;
                log.close().map_err(told)?;
                Ok(PoolImage::Ssd(device.state()))
            }
        }
    }

    /// How many times as long programs over it are: more of them lap a ring.
    pub fn times_as_long(&self) -> usize {
        match self {
            PoolImage::Memory(_) => 1,
            PoolImage::Ssd(_) => 2,
        }
    }

    /// The generation that it is in; 0 if it never had a volume.
    pub fn generation(&self) -> Result<u64, String> {
        match self {
            PoolImage::Memory(bytes) => {
                let shadow = Arc::new(Shadow::from_image(bytes, ShadowModel::Lines));
                let sides = Pool::sides_on(vec![Region::on_shadow(shadow)]);
                let sides = sides.map_err(|error| format!("an old pool: {error}"))?;
                Ok(sides.first().map_or(0, |(_, side)| side.generation))
            }
            PoolImage::Ssd(state) => {
                let device = Arc::new(ShadowDevice::new(state.clone()));
                let log = forebay_log::open(device, log_options(0));
                let log = log.map_err(|error| format!("an old pool: {error}"))?;
                Ok(log.volumes().first().map_or(0, |row| row.generation))
            }
        }
    }
}

fn new_in_memory(seed: u64) -> Result<PoolImage, String> {
    forebay::unstable::set_thread_hint(0);
    forebay::unstable::set_random_seed(Some(seed));
    let options = PoolOptions::default()
        .block_bytes(512)
        .lanes(2)
        .lane_bytes(32 << 10)
        .volumes(1)
        .background(false);
    let shadow = Arc::new(Shadow::new(POOL_BYTES, ShadowModel::Lines));
    let region = Region::on_shadow(Arc::clone(&shadow));
    let pool = Pool::create_on(vec![region], &options).map_err(|error| error.to_string())?;
    pool.close().map_err(|error| error.to_string())?;
    Ok(PoolImage::Memory(shadow.crash_state().durable().to_vec()))
}

impl PoolState {
    /// What a power cut may leave of it.
    pub fn sample(&self, rng: &mut fastrand::Rng) -> PoolImage {
        match self {
            PoolState::Memory(state) => {
                let mut pool = Vec::new();
                let distribution = Distribution::ALL[rng.usize(..Distribution::ALL.len())];
                state.sample_from(distribution, rng, &mut pool);
                PoolImage::Memory(pool)
            }
            PoolState::Ssd(state) => PoolImage::Ssd(ShadowState::new(state.cut(rng), UNIT)),
        }
    }

    /// What a kill leaves of it.
    pub fn killed(&self, rng: &mut fastrand::Rng) -> PoolImage {
        match self {
            PoolState::Memory(state) => {
                let mut pool = Vec::new();
                state.sample_from(Distribution::Everything, rng, &mut pool);
                PoolImage::Memory(pool)
            }
            PoolState::Ssd(state) => PoolImage::Ssd(state.killed(rng)),
        }
    }
}

impl PoolMedium {
    pub fn of(image: &PoolImage) -> PoolMedium {
        match image {
            PoolImage::Memory(bytes) => {
                PoolMedium::Memory(Arc::new(Shadow::from_image(bytes, ShadowModel::Lines)))
            }
            PoolImage::Ssd(state) => PoolMedium::Ssd(Arc::new(ShadowDevice::new(state.clone()))),
        }
    }

    /// As it is now.
    pub fn state(&self) -> PoolState {
        match self {
            PoolMedium::Memory(shadow) => PoolState::Memory(shadow.crash_state()),
            PoolMedium::Ssd(device) => PoolState::Ssd(device.state()),
        }
    }

    pub fn downgrade(&self) -> WeakMedium {
        match self {
            PoolMedium::Memory(shadow) => WeakMedium::Memory(Arc::downgrade(shadow)),
            PoolMedium::Ssd(device) => WeakMedium::Ssd(Arc::downgrade(device)),
        }
    }

    /// Calls `note` at every moment at which a crash may leave something new. An SSD says what it is then, since it is locked meanwhile.
    pub fn on_moment(&self, note: Arc<Note>) {
        match self {
            PoolMedium::Memory(shadow) => shadow.set_hook(Some(Arc::new(move |_| note(None)))),
            PoolMedium::Ssd(device) => {
                device.observe(Some(Box::new(move |state: &ShadowState| note(Some(state)))));
            }
        }
    }

    /// Nobody is told any more.
    pub fn forget(&self) {
        match self {
            PoolMedium::Memory(shadow) => shadow.set_hook(None),
            PoolMedium::Ssd(device) => device.observe(None),
        }
    }

    /// What a file buffer over it is opened from. Incarnations of one medium need different numbers.
    pub fn parts(&self, side: Backing, incarnation: u64) -> io::Result<FileBufferParts> {
        let options = RuntimeOptions::default().background(false);
        match self {
            PoolMedium::Memory(shadow) => {
                let region = Region::on_shadow(Arc::clone(shadow));
                let parts = FileBufferParts::new(vec![region], side);
                Ok(parts.runtime(options.throttle_deadline(Duration::ZERO)))
            }
            PoolMedium::Ssd(device) => {
                let log = forebay_log::open(device.clone(), log_options(incarnation));
                let log = log.map_err(io::Error::other)?;
                // Without a thread a writer recycles by itself, if it may wait at all.
                let options = options.throttle_deadline(WAIT);
                let pool = Pool::on_log(log, options.clone()).map_err(io::Error::other)?;
                // The buffer starts no thread either: its syncs would be unseen, and no replay would repeat it.
                Ok(FileBufferParts::over(pool, side).runtime(options))
            }
        }
    }
}

impl WeakMedium {
    pub fn upgrade(&self) -> Option<PoolMedium> {
        Some(match self {
            WeakMedium::Memory(shadow) => PoolMedium::Memory(shadow.upgrade()?),
            WeakMedium::Ssd(device) => PoolMedium::Ssd(device.upgrade()?),
        })
    }
}
