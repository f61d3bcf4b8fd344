//! A pool in shadow memory, or a published design there, served to a guest by this process: at any moment the
//! power can fail.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fastrand::Rng;
use forebay::{Pool, PoolOptions, RegionOptions, RuntimeOptions};
use forebay_lab::Engine;
use forebay_lab::engines::{self, EngineName, EngineOptions, JournalMode};
use forebay_lab_cli::EngineDevice;
use forebay_pmem::Region;
use forebay_pmem::shadow::{ShadowEvent, ShadowModel};
use forebay_serve::BlockDevice;
use forebay_serve::vhost::{VhostUserOptions, VhostUserServer};

use super::early_device::EarlyDevice;
use crate::Result;
use crate::machine::{Cut, Medium};

/// Less than what a load writes, so that blocks leave the pool and come back.
const POOL_BYTES: u64 = 24 << 20;
/// XFS needs 300 MiB.
const DISK_BYTES: u64 = 320 << 20;

const CUT_LIMIT: Duration = Duration::from_secs(60);

/// A served pool, or a served design.
pub struct Machine {
    // In this order they end.
    _server: VhostUserServer,
    _pool: Option<Pool>,
    medium: Medium,
    early: Option<Arc<EarlyDevice>>,
}

/// Background threads whose work differs from seed to seed.
fn options(rng: &mut Rng) -> RuntimeOptions {
    RuntimeOptions::default()
        .dirty_low_per_mille(*rng.choice(&[0, 100, 500]).expect("there are some"))
}

/// The designs as the daemon serves them: the file system has the journal.
fn design_options() -> EngineOptions {
    EngineOptions {
        journal_mode: JournalMode::None,
        ..EngineOptions::default()
    }
}

/// The disk of a pool. Most of what can be switched off is on, in most sessions.
fn of_pool(pool: &Pool, medium: &Medium, rng: &mut Rng) -> Result<Arc<dyn BlockDevice>> {
    let mut is_on = || rng.u32(..4) > 0;
    pool.set_share_duplicates(is_on());
    pool.set_compare_writes(is_on());
    pool.set_defer_journal(is_on());
    Ok(medium.volume_of(pool)?)
}

fn of_design(engine: Box<dyn Engine>) -> Arc<dyn BlockDevice> {
    Arc::new(EngineDevice::new(engine.into()))
}

impl Machine {
    /// A new pool in shadow memory, or the cache of another engine, served at `socket`; it answers too
    /// early if `is_early`.
    pub fn new(
        engine: EngineName,
        model: ShadowModel,
        rng: &mut Rng,
        socket: &Path,
        is_early: bool,
    ) -> Result<Machine> {
        let options = PoolOptions::default().runtime(options(rng));
        let (medium, region) = Medium::with_pool(POOL_BYTES, model, DISK_BYTES);
        if engine != EngineName::Forebay {
            let engine = engines::create(engine, region, medium.backing(), &design_options())?;
            return Self::serve(of_design(engine), None, medium, socket, is_early);
        }
        let pool = Pool::create_on(vec![region], &options)?;
        let device = of_pool(&pool, &medium, rng)?;
        Self::serve(device, Some(pool), medium, socket, is_early)
    }

    /// What the cut left, recovered: `pool_file` gets the pool's bytes and is opened as any pool is.
    pub fn recover(
        engine: EngineName,
        cut: &Cut,
        rng: &mut Rng,
        pool_file: &Path,
        socket: &Path,
    ) -> Result<Machine> {
        let medium = cut.sample(rng, pool_file)?;
        if engine != EngineName::Forebay {
            let region = Region::open(pool_file, &RegionOptions::default())?;
            let engine = engines::open(engine, region, medium.backing(), &design_options())?;
            return Self::serve(of_design(engine), None, medium, socket, false);
        }
        let pool = Pool::open_with(&[pool_file], options(rng))?;
        let device = of_pool(&pool, &medium, rng)?;
        Self::serve(device, Some(pool), medium, socket, false)
    }

    fn serve(
        mut device: Arc<dyn BlockDevice>,
        pool: Option<Pool>,
        medium: Medium,
        socket: &Path,
        is_early: bool,
    ) -> Result<Machine> {
        let early = is_early.then(|| Arc::new(EarlyDevice::new(Arc::clone(&device))));
        if let Some(early) = &early {
            device = Arc::clone(early) as _;
        }
        Ok(Machine {
            _server: VhostUserServer::start(device, socket, VhostUserOptions::default())?,
            _pool: pool,
            medium,
            early,
        })
    }

    /// What the power failing could leave once `is_due` says so, of a server that answers early: it has done
    /// nothing since the call, whatever it answered. `reported` is as for [`Machine::cut`].
    ///
    /// # Panics
    /// Of a machine that does not answer early.
    pub fn cut_early<R>(
        &self,
        mut is_due: impl FnMut() -> Result<bool>,
        reported: impl Fn() -> Result<R>,
    ) -> Result<(R, Cut, R)> {
        let early = self.early.as_ref().expect("it answers early");
        early.hold(true);
        let due = forebay_harness::wait_for(CUT_LIMIT, || Ok(is_due()?.then_some(())));
        let (before, cut, after) = (reported(), self.medium.cut(), reported());
        early.hold(false);
        due?.ok_or("nothing was answered early within a minute")?;
        Ok((before?, cut, after?))
    }

    /// What the power failing could leave of pool and backing, both at the same moment: in the midst
    /// of what the pool does, after so many more of its stores, flushes and fences. `reported` is
    /// asked right before that moment and right after it.
    ///
    /// # Panics
    /// Of a recovered machine, whose memory keeps everything.
    pub fn cut<R: Send + 'static>(
        &self,
        events: u64,
        reported: impl Fn() -> R + Send + Sync + 'static,
    ) -> Result<(R, Cut, R)> {
        let shadow = self.medium.shadow.as_ref();
        let shadow = shadow.expect("only shadow memory is cut");
        let (weak, store) = (Arc::downgrade(shadow), Arc::clone(&self.medium.store));
        let left = AtomicU64::new(events);
        let (give, taken) = mpsc::channel();
        let hook = move |_: ShadowEvent| {
            // Once only, by whichever thread comes to it.
            if left.fetch_sub(1, Ordering::Relaxed) != 0 {
                return;
            }
            let medium = Medium {
                shadow: weak.upgrade(),
                store: Arc::clone(&store),
            };
            // Fails only where the receiver is gone.
            let _ = give.send((reported(), medium.cut(), reported()));
        };
        shadow.set_hook(Some(Arc::new(hook)));
        let taken = forebay_harness::wait_for(CUT_LIMIT, || Ok(taken.try_recv().ok()));
        shadow.set_hook(None);
        taken?.ok_or_else(|| "the pool did too little to be cut".into())
    }
}
