//! A pool, or a published design, in shadow memory over a backing with a volatile cache, served to a guest by this process: at
//! any moment the power can fail, and what that leaves is one of the states it could leave.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fastrand::Rng;
use forebay::{Backing, Pool, PoolOptions, RegionOptions, RuntimeOptions};
use forebay_lab::engines::{self, EngineName, EngineOptions, JournalMode};
use forebay_lab_cli::EngineDevice;
use forebay_pmem::Region;
use forebay_pmem::shadow::{CrashState, Shadow, ShadowEvent, ShadowModel};
use forebay_serve::vhost::{VhostUserOptions, VhostUserServer};
use forebay_serve::{BlockDevice, VolumeDevice};
use forebay_volatile::{Content, DiskState, VolatileDisk};

use super::early_device::EarlyDevice;
use crate::Result;

/// Less than what a load writes, so that blocks leave the pool and come back.
pub const POOL_BYTES: u64 = 24 << 20;
/// XFS needs 300 MiB.
pub const DISK_BYTES: u64 = 320 << 20;

/// A disk's sync takes its time, in which the power may fail.
pub const SYNC_TIME: Duration = Duration::from_millis(2);
const CUT_LIMIT: Duration = Duration::from_secs(60);

/// A served pool, or a served design.
pub struct Machine {
    // In this order they end.
    _server: VhostUserServer,
    _pool: Option<Pool>,
    store: Arc<VolatileDisk>,
    shadow: Option<Arc<Shadow>>,
    early: Option<Arc<EarlyDevice>>,
}

/// What a power cut could leave.
pub struct Cut {
    media: CrashState,
    store: DiskState,
}

/// The backing.
fn disk(content: Content) -> Arc<VolatileDisk> {
    let disk = VolatileDisk::sparse("disk", DISK_BYTES, content);
    Arc::new(disk.telling_holes().with_sync_time(SYNC_TIME))
}

/// Background threads whose work differs from seed to seed.
fn options(rng: &mut Rng) -> RuntimeOptions {
    RuntimeOptions {
        dirty_low_per_mille: *rng.choice(&[0, 100, 500]).expect("there are some"),
        ..RuntimeOptions::default()
    }
}

/// The designs as the daemon serves them: the file system has the journal.
fn design_options() -> EngineOptions {
    EngineOptions {
        journal_mode: JournalMode::None,
        ..EngineOptions::default()
    }
}

/// Most of what can be switched off is on, in most sessions.
fn switch(pool: &Pool, rng: &mut Rng) {
    let mut is_on = || rng.u32(..4) > 0;
    pool.set_share_duplicates(is_on());
    pool.set_compare_writes(is_on());
    pool.set_defer_journal(is_on());
}

impl Machine {
    /// A new pool in shadow memory, or the cache of another engine, served at `socket`; it answers too
    /// early if `is_early`.
    ///
    /// # Errors
    /// It cannot be served.
    pub fn new(
        engine: EngineName,
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
        let store = disk(Content::default());
        if engine != EngineName::Forebay {
            let backing = Backing::from_store(store.clone());
            let engine = engines::create(engine, region, backing, &design_options())?;
            let device = Arc::new(EngineDevice::new(engine.into()));
            return Self::serve(device, None, store, Some(shadow), socket, is_early);
        }
        let pool = Pool::create_on(vec![region], &options)?;
        switch(&pool, rng);
        let volume = pool.attach(Backing::from_store(store.clone()))?;
        let device = Arc::new(VolumeDevice::new(volume));
        Self::serve(device, Some(pool), store, Some(shadow), socket, is_early)
    }

    /// What the cut left, recovered: `pool_file` gets the pool's bytes and is opened as any pool is.
    ///
    /// # Errors
    /// Recovery refuses what it finds.
    pub fn recover(
        engine: EngineName,
        cut: &Cut,
        rng: &mut Rng,
        pool_file: &Path,
        socket: &Path,
    ) -> Result<Machine> {
        std::fs::write(pool_file, cut.media.sample(rng))?;
        let store = disk(cut.store.sample(rng));
        if engine != EngineName::Forebay {
            let region = Region::open(pool_file, &RegionOptions::default())?;
            let backing = Backing::from_store(store.clone());
            let engine = engines::open(engine, region, backing, &design_options())?;
            let device = Arc::new(EngineDevice::new(engine.into()));
            return Self::serve(device, None, store, None, socket, false);
        }
        let pool = Pool::open_with(&[pool_file], options(rng))?;
        switch(&pool, rng);
        let volume = pool.attach(Backing::from_store(store.clone()))?;
        let device = Arc::new(VolumeDevice::new(volume));
        Self::serve(device, Some(pool), store, None, socket, false)
    }

    fn serve(
        mut device: Arc<dyn BlockDevice>,
        pool: Option<Pool>,
        store: Arc<VolatileDisk>,
        shadow: Option<Arc<Shadow>>,
        socket: &Path,
        is_early: bool,
    ) -> Result<Machine> {
        let early = is_early.then(|| Arc::new(EarlyDevice::new(Arc::clone(&device))));
        if let Some(early) = &early {
            device = Arc::clone(early) as _;
        }
        let server = VhostUserServer::start(device, socket, VhostUserOptions::default())?;
        Ok(Machine {
            _server: server,
            _pool: pool,
            store,
            shadow,
            early,
        })
    }

    /// What the power failing could leave once `is_due` says so, of a server that answers early: it has done
    /// nothing since the call, whatever it answered. `reported` is as for [`Machine::cut`].
    ///
    /// # Errors
    /// Of `is_due` and `reported`; it is not due for too long; a signal came.
    ///
    /// # Panics
    /// Of a machine that does not answer early.
    pub fn cut_early<R>(
        &self,
        mut is_due: impl FnMut() -> Result<bool>,
        reported: impl Fn() -> Result<R>,
    ) -> Result<(R, Cut, R)> {
        let early = self.early.as_ref().expect("it answers early");
        let shadow = self.shadow.as_ref().expect("only shadow memory is cut");
        early.hold(true);
        let due = forebay_harness::wait_for(CUT_LIMIT, || Ok(is_due()?.then_some(())));
        let before = reported();
        let (media, store) = shadow.crash_state_with(|| self.store.crash_state());
        let after = reported();
        early.hold(false);
        due?.ok_or("nothing was answered early within a minute")?;
        Ok((before?, Cut { media, store }, after?))
    }

    /// What the power failing could leave of pool and backing, both at the same moment: in the midst
    /// of what the pool does, after so many more of its stores, flushes and fences. `reported` is
    /// asked right before that moment and right after it.
    ///
    /// # Errors
    /// The pool does nothing for too long, or a signal came.
    ///
    /// # Panics
    /// Of a recovered machine, whose memory keeps everything.
    pub fn cut<R: Send + 'static>(
        &self,
        events: u64,
        reported: impl Fn() -> R + Send + Sync + 'static,
    ) -> Result<(R, Cut, R)> {
        let shadow = self.shadow.as_ref().expect("only shadow memory is cut");
        let (weak, store) = (Arc::downgrade(shadow), Arc::clone(&self.store));
        let left = AtomicU64::new(events);
        let (give, taken) = mpsc::channel();
        let hook = move |_: ShadowEvent| {
            // Once only, by whichever thread comes to it.
            if left.fetch_sub(1, Ordering::Relaxed) != 0 {
                return;
            }
            let Some(shadow) = weak.upgrade() else { return };
            let before = reported();
            let (media, store) = shadow.crash_state_with(|| store.crash_state());
            // Fails only where the receiver is gone.
            let _ = give.send((before, Cut { media, store }, reported()));
        };
        shadow.set_hook(Some(Arc::new(hook)));
        let taken = forebay_harness::wait_for(CUT_LIMIT, || Ok(taken.try_recv().ok()));
        shadow.set_hook(None);
        taken?.ok_or_else(|| "the pool did too little to be cut".into())
    }
}

impl Cut {
    /// How many lines or sectors of the pool and sectors of the backing it may keep or lose.
    pub fn undecided(&self) -> u64 {
        (self.media.pending_units() + self.store.unsynced_sectors()) as u64
    }
}
