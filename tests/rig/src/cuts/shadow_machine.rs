//! A pool in shadow memory over a backing with a volatile cache, served to a guest by this process: at
//! any moment the power can fail, and what that leaves is one of the states it could leave.

use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use forebay::{Backing, Pool, PoolOptions, RuntimeOptions};
use forebay_pmem::Region;
use forebay_pmem::shadow::{CrashState, Shadow, ShadowModel};
use forebay_serve::vhost::{VhostUserOptions, VhostUserServer};
use forebay_serve::{BlockDevice, VolumeDevice};

use super::early_device::EarlyDevice;
use super::volatile_store::{VolatileState, VolatileStore};
use crate::Result;

/// Less than what a load writes, so that blocks leave the pool and come back.
pub const POOL_BYTES: u64 = 24 << 20;
/// XFS needs 300 MiB.
pub const DISK_BYTES: u64 = 320 << 20;

/// A served pool.
pub struct Machine {
    // In this order they end.
    _server: VhostUserServer,
    _pool: Pool,
    store: Arc<VolatileStore>,
    shadow: Option<Arc<Shadow>>,
}

/// What a power cut could leave.
pub struct Cut {
    media: CrashState,
    store: VolatileState,
}

/// Background threads whose work differs from seed to seed.
fn options(rng: &mut Rng) -> RuntimeOptions {
    RuntimeOptions {
        dirty_low_per_mille: *rng.choice(&[0, 100, 500]).expect("there are some"),
        ..RuntimeOptions::default()
    }
}

impl Machine {
    /// A new pool in shadow memory, served at `socket`; it answers too early if `is_early`.
    ///
    /// # Errors
    /// It cannot be served.
    pub fn new(
        model: ShadowModel,
        rng: &mut Rng,
        socket: &Path,
        is_early: bool,
    ) -> Result<Machine> {
        let shadow = Arc::new(Shadow::new(POOL_BYTES, model));
        let options = PoolOptions {
            member_bytes: POOL_BYTES,
            runtime: options(rng),
            ..PoolOptions::default()
        };
        let region = Region::on_shadow(Arc::clone(&shadow));
        let pool = Pool::create_on(vec![region], &options)?;
        let store = Arc::new(VolatileStore::new(DISK_BYTES));
        Self::serve(pool, store, Some(shadow), socket, is_early)
    }

    /// What the cut left, recovered: `pool_file` gets the pool's bytes and is opened as any pool is.
    ///
    /// # Errors
    /// Recovery refuses what it finds.
    pub fn recover(cut: &Cut, rng: &mut Rng, pool_file: &Path, socket: &Path) -> Result<Machine> {
        std::fs::write(pool_file, cut.media.sample(rng))?;
        let store = Arc::new(cut.store.sample(rng));
        let pool = Pool::open_with(&[pool_file], options(rng))?;
        Self::serve(pool, store, None, socket, false)
    }

    fn serve(
        pool: Pool,
        store: Arc<VolatileStore>,
        shadow: Option<Arc<Shadow>>,
        socket: &Path,
        is_early: bool,
    ) -> Result<Machine> {
        let volume = pool.attach(Backing::from_store(store.clone()))?;
        let mut device: Arc<dyn BlockDevice> = Arc::new(VolumeDevice::new(volume));
        if is_early {
            device = Arc::new(EarlyDevice::new(device));
        }
        let server = VhostUserServer::start(device, socket, VhostUserOptions::default())?;
        Ok(Machine {
            _server: server,
            _pool: pool,
            store,
            shadow,
        })
    }

    /// What the power failing now could leave of pool and backing, both at the same moment.
    ///
    /// # Panics
    /// Of a recovered machine, whose memory keeps everything.
    pub fn cut(&self) -> Cut {
        let shadow = self.shadow.as_ref().expect("only shadow memory is cut");
        let (media, store) = shadow.crash_state_with(|| self.store.crash_state());
        Cut { media, store }
    }
}

impl Cut {
    /// How many lines or sectors of the pool and sectors of the backing it may keep or lose.
    pub fn undecided(&self) -> u64 {
        (self.media.pending_units() + self.store.unsynced_sectors()) as u64
    }
}
