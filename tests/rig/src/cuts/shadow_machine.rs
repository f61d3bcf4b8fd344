//! A pool in shadow memory or on a shadow device, or a published design in memory, served to a guest by this process:
//! at any moment the power can fail.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fastrand::Rng;
use forebay::{Pool, PoolOptions, RegionOptions, RuntimeOptions};
use forebay_lab::Engine;
use forebay_lab::engines::{self, EngineName, EngineOptions, JournalMode};
use forebay_lab_cli::EngineDevice;
use forebay_log::Options as LogOptions;
use forebay_log::shadow::ShadowState;
use forebay_pmem::Region;
use forebay_serve::BlockDevice;
use forebay_serve::vhost::{VhostUserOptions, VhostUserServer};
use parking_lot::Mutex;

use super::early_device::EarlyDevice;
use super::plan::{Kind, Session};
use super::ssd_device::SsdDevice;
use crate::Result;
use crate::machine::{Cut, Medium, PoolMedium, Ssd};

/// Less than what a load writes, so that blocks leave the pool and come back.
const POOL_BYTES: u64 = 24 << 20;
/// XFS needs 300 MiB.
const DISK_BYTES: u64 = 320 << 20;

const CUT_LIMIT: Duration = Duration::from_secs(60);

/// A served pool, or a served design.
pub struct Machine {
    // In this order they end.
    _server: VhostUserServer,
    pool: Option<Pool>,
    medium: Medium,
    early: Option<Arc<EarlyDevice>>,
    ssd: Option<Arc<SsdDevice>>,
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

/// A new pool on a new disk, which the log has through `device`.
fn create_on(device: Arc<SsdDevice>, options: RuntimeOptions) -> Result<Pool> {
    let log = forebay_log::create(device, LogOptions::default())?;
    Ok(Pool::on_log(log, options)?)
}

/// What a cut left is recovered, and half the time the power fails once more in the midst of that, at a moment at
/// which something was written.
fn recover_on(ssd: Ssd, rng: &mut Rng, options: RuntimeOptions) -> Result<(Pool, Ssd)> {
    let open = |ssd: &Ssd| {
        let device = Arc::clone(&ssd.device);
        forebay_log::open(device, LogOptions::default())
    };
    let mut left = ssd;
    if rng.bool() {
        let moments: Arc<Mutex<Vec<ShadowState>>> = Arc::default();
        let noted = Arc::clone(&moments);
        let note = move |state: &ShadowState| noted.lock().push(state.clone());
        left.device.observe(Some(Box::new(note)));
        drop(open(&left)?);
        left.device.observe(None);
        let moments = std::mem::take(&mut *moments.lock());
        let moment = rng.choice(&moments).ok_or("a recovery wrote nothing")?;
        left = Ssd::holding(moment.cut(rng), left.unit_bytes);
    }
    let pool = Pool::on_log(open(&left)?, options)?;
    Ok((pool, left))
}

impl Machine {
    /// A new pool in shadow memory or on a shadow device, or the cache of another engine, as the session's kind wants
    /// it, served at `socket`.
    pub fn new(session: &Session, rng: &mut Rng, socket: &Path) -> Result<Machine> {
        let options = options(rng);
        if let Some(unit) = session.kind.unit() {
            let (medium, ssd) = Medium::with_ssd(POOL_BYTES, unit.bytes(), DISK_BYTES);
            let device = Arc::new(SsdDevice::new(ssd.device));
            let pool = create_on(Arc::clone(&device), options)?;
            let disk = of_pool(&pool, &medium, rng)?;
            let mut machine = Self::serve(disk, Some(pool), medium, socket, false)?;
            machine.ssd = Some(device);
            return Ok(machine);
        }
        let is_early = session.kind == Kind::EarlyAnswers;
        let (medium, region) = Medium::with_pool(POOL_BYTES, session.kind.model(), DISK_BYTES);
        if session.engine != EngineName::Forebay {
            let (backing, options) = (medium.backing(), design_options());
            let engine = engines::create(session.engine, region, backing, &options)?;
            return Self::serve(of_design(engine), None, medium, socket, is_early);
        }
        let pool = Pool::create_on(vec![region], &PoolOptions::default().runtime(options))?;
        let device = of_pool(&pool, &medium, rng)?;
        Self::serve(device, Some(pool), medium, socket, is_early)
    }

    /// What the cut left, recovered: `pool_file` gets the pool's bytes. A pool in memory is opened there as any pool is.
    pub fn recover(
        session: &Session,
        cut: &Cut,
        rng: &mut Rng,
        pool_file: &Path,
        socket: &Path,
    ) -> Result<Machine> {
        let mut medium = cut.sample(rng, pool_file)?;
        if session.engine != EngineName::Forebay {
            let region = Region::open(pool_file, &RegionOptions::default())?;
            let engine =
                engines::open(session.engine, region, medium.backing(), &design_options())?;
            return Self::serve(of_design(engine), None, medium, socket, false);
        }
        let options = options(rng);
        let pool = match medium.pool.clone() {
            PoolMedium::Ssd(ssd) => {
                let (pool, ssd) = recover_on(ssd, rng, options)?;
                medium.pool = PoolMedium::Ssd(ssd);
                pool
            }
            _ => Pool::open_with(&[pool_file], options)?,
        };
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
            pool,
            medium,
            early,
            ssd: None,
        })
    }

    /// Whether the pool is on an SSD.
    pub fn is_on_ssd(&self) -> bool {
        self.ssd.is_some()
    }

    /// Segments that the pool's log has reused so far, where it is on an SSD.
    pub fn segments_reused(&self) -> u64 {
        let of_log = self.pool.as_ref().and_then(|pool| pool.stats().ssd);
        of_log.map_or(0, |of_log| of_log.recycled_segments)
    }

    /// Has the SSD ignore flushes from now on.
    ///
    /// # Panics
    /// There is none.
    pub fn ignore_flushes(&self) {
        let ssd = self.ssd.as_ref().expect("the pool is on an SSD");
        ssd.ignore_flushes();
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
    /// of what the pool does, after so many more of its stores, flushes and fences, or of the beginnings and ends of
    /// its writes. `reported` is asked right before that moment and right after it.
    ///
    /// # Panics
    /// Of a recovered machine in memory, which keeps everything.
    pub fn cut<R: Send + 'static>(
        &self,
        events: u64,
        reported: impl Fn() -> R + Send + Sync + 'static,
    ) -> Result<(R, Cut, R)> {
        let left = AtomicU64::new(events);
        let (give, taken) = mpsc::channel();
        let watcher = move |cut: &dyn Fn() -> Cut| {
            // Once only, by whichever thread comes to it.
            if left.fetch_sub(1, Ordering::Relaxed) != 0 {
                return;
            }
            // Fails only where the receiver is gone.
            let _ = give.send((reported(), cut(), reported()));
        };
        self.medium.watch(Some(Arc::new(watcher)));
        let taken = forebay_harness::wait_for(CUT_LIMIT, || Ok(taken.try_recv().ok()));
        self.medium.watch(None);
        taken?.ok_or_else(|| "the pool did too little to be cut".into())
    }
}
