//! A pool on an SSD: made, opened, closed, and what can be asked of it as a whole.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_log::{Device, FileDevice, Log, LogError, MirrorDevice, Options, PrivateDevice, Way};

use super::background::Background;
use super::errors::of_log;
use super::members::{device_of, redundancy_of};
use super::shared::Shared;
use super::usual::{take_device, what_it_lacks};
use crate::api::pool::Member;
use crate::error::{ErrorKind, Result, refused};
use crate::marks::Stage;
use crate::options::{PoolOptions, Redundancy, ReplacementPolicy, RuntimeOptions, VerifyPolicy};
use crate::recovery::RecoveryReport;
use crate::sync::{AtomicBool, Ordering};

/// Durable writes by which the cost of one is measured, and how long that may take.
const MEASURED_WRITES: usize = 64;
const MEASURED_FOR: Duration = Duration::from_millis(500);
/// What such a pool survives, in plain words.
const SURVIVES: &str = "survives a power loss, as far as the disk keeps what it was told to flush, and the death of this process; it \
     does not survive the death of the disk";

/// The same of two members.
const MIRROR_SURVIVES: &str = "survives a power loss, as far as the disks keep what they were told to flush, the death of this process, and \
     that of one of the two disks";

/// An open pool.
pub(crate) struct SsdPool {
    shared: Arc<Shared>,
    uuid: [u8; 16],
    is_test: bool,
    recovery: RecoveryReport,
    opened_at: Instant,
    /// The volume table changes under it.
    table: Mutex<()>,
    /// What a durable write took when the pool was made.
    flush_cost: Option<Duration>,
    /// It is only looked at: what is written goes nowhere.
    is_private: bool,
    settings: Mutex<(VerifyPolicy, ReplacementPolicy)>,
    redundancy: Redundancy,
    /// How the members stand since one was replaced, with which the pool was closed.
    replaced: Mutex<Option<Vec<Member>>>,
    // Last, so that its thread ends before the rest goes.
    background: Option<Background>,
}

impl SsdPool {
    /// Makes a pool on a new file or on a device.
    pub(crate) fn create(options: &PoolOptions) -> Result<SsdPool> {
        options.runtime.check()?;
        check_format(options)?;
        let path = options.paths.first().ok_or_else(|| {
            ErrorKind::Options("a pool on an SSD has one member; name a file or device".into())
        })?;
        let mut made = Made::default();
        let log = made.make(options);
        if log.is_err() {
            made.remove();
        }
        let (log, flush_cost) = log?;
        let began = Instant::now();
        let mut pool = SsdPool::start(log, path, options.runtime.clone(), (began, false))?;
        pool.flush_cost = Some(flush_cost);
        Ok(pool)
    }

    pub(crate) fn open(paths: &[&Path], options: RuntimeOptions) -> Result<SsdPool> {
        options.check()?;
        let began = Instant::now();
        let trust_owner = options.region.trusts_owner();
        let open = |path: &Path| -> forebay_log::Result<Arc<dyn Device>> {
            let device = FileDevice::open_with(path, trust_owner)?;
            Ok(Arc::new(with_rings(device, &options)))
        };
        let device = device_of(paths, open, options.without_missing, Way::AtOnce)?;
        let log = forebay_log::open(device, Options::default()).map_err(of_log)?;
        SsdPool::start(log, paths[0], options, (began, false))
    }

    /// Opens a pool to look at it: recovery runs in full, and what it writes goes nowhere. `None` if it is in use.
    pub(crate) fn open_private(
        paths: &[&Path],
        options: RuntimeOptions,
    ) -> Result<Option<SsdPool>> {
        let began = Instant::now();
        let trust_owner = options.region.trusts_owner();
        let is_in_use = AtomicBool::new(false);
        let open = |path: &Path| -> forebay_log::Result<Arc<dyn Device>> {
            let device = PrivateDevice::open(path, trust_owner)?;
            let device = device.ok_or_else(|| {
                is_in_use.store(true, Ordering::Relaxed);
                LogError::InUse {
                    path: path.to_path_buf(),
                }
            })?;
            Ok(Arc::new(device))
        };
        let device = device_of(paths, open, options.without_missing, Way::InTurn);
        if is_in_use.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let log = forebay_log::open(device?, Options::default()).map_err(of_log)?;
        let options = options.background(false);
        SsdPool::start(log, paths[0], options, (began, true)).map(Some)
    }

    /// A pool over a log that is open.
    pub(crate) fn on_log(log: Log, options: RuntimeOptions) -> Result<SsdPool> {
        options.check()?;
        let path = log.device().path().to_path_buf();
        SsdPool::start(log, &path, options, (Instant::now(), false))
    }

    fn start(
        log: Log,
        path: &Path,
        options: RuntimeOptions,
        (began, is_private): (Instant, bool),
    ) -> Result<SsdPool> {
        let recovery = RecoveryReport {
            incarnation: log.incarnation().saturating_sub(1),
            checkpoint_sequence: log.last_sequence(),
            blocks: log.cached_blocks() as u64,
            dirty_blocks: log.dirty_blocks() as u64,
            took: began.elapsed(),
            ..RecoveryReport::default()
        };
        let (verify, replacement) = (options.verify, options.replacement);
        let has_background = options.has_background();
        let (uuid, is_test) = (log.uuid().to_le_bytes(), log.is_test());
        let redundancy = redundancy_of(&log);
        let mut pool = SsdPool {
            shared: Arc::new(Shared::new(log, path.to_path_buf(), options)),
            uuid,
            is_test,
            recovery,
            opened_at: Instant::now(),
            table: Mutex::new(()),
            flush_cost: None,
            is_private,
            settings: Mutex::new((verify, replacement)),
            redundancy,
            replaced: Mutex::new(None),
            background: None,
        };
        if has_background {
            pool.start_background()?;
        }
        Ok(pool)
    }

    pub(crate) fn start_background(&mut self) -> Result<()> {
        if self.background.is_none() {
            // What had to be brought in order first is by now.
            self.shared.log()?.keep_back();
            self.background = Some(Background::start(&self.shared)?);
        }
        Ok(())
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(super) fn lock_table(&self) -> MutexGuard<'_, ()> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn accepts_stale(&self) -> bool {
        self.shared.options.accept_stale
    }

    pub(super) fn flush_cost(&self) -> Option<Duration> {
        self.flush_cost
    }

    pub(crate) fn is_private(&self) -> bool {
        self.is_private
    }

    pub(super) fn opened_at(&self) -> Instant {
        self.opened_at
    }

    pub(crate) fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.shared.log().map_or(0, |log| log.incarnation())
    }

    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    pub(crate) fn is_test(&self) -> bool {
        self.is_test
    }

    pub(crate) fn recovery_report(&self) -> &RecoveryReport {
        &self.recovery
    }

    pub(crate) fn survives(&self) -> &'static str {
        match self.redundancy {
            Redundancy::Mirror => MIRROR_SURVIVES,
            _ => SURVIVES,
        }
    }

    pub(crate) fn redundancy(&self) -> Redundancy {
        self.redundancy
    }

    pub(super) fn has_background(&self) -> bool {
        self.background.is_some()
    }

    pub(super) fn member_bytes(&self) -> u64 {
        let log = self.shared.log();
        log.map_or(0, |log| {
            log.device().pages() * forebay_log::PAGE_BYTES as u64
        })
    }

    pub(super) fn lock_replaced(&self) -> MutexGuard<'_, Option<Vec<Member>>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn transaction_limit_bytes(&self) -> u64 {
        self.shared.transaction_limit_bytes
    }

    /// Everything acknowledged is durable where it is; this asks only whether that still holds.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        let log = self.shared.log()?;
        self.shared.check_writable(&log)
    }

    /// Makes the oldest segment free; how many blocks went with it.
    pub(crate) fn reclaim_once(&self) -> Result<usize> {
        let log = self.shared.log()?;
        let before = log.cached_blocks();
        log.recycle().map_err(|error| self.shared.error(error))?;
        Ok(before.saturating_sub(log.cached_blocks()))
    }

    /// Writes back what the oldest segment that is not clean holds; how many blocks that were.
    pub(crate) fn write_back_once(&self) -> Result<usize> {
        let log = self.shared.log()?;
        let before = log.dirty_blocks();
        while log
            .clean_ahead()
            .map_err(|error| self.shared.error(error))?
        {
            if log.dirty_blocks() < before {
                break;
            }
        }
        Ok(before.saturating_sub(log.dirty_blocks()))
    }

    pub(crate) fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> (u64, Vec<(u32, u64)>) {
        let Ok(log) = self.shared.log() else {
            return (0, Vec::new());
        };
        let known = self.shared.known();
        let id_of = |number: u32| {
            let known = known.iter().find(|known| known.number == number);
            known.map_or(number, |known| known.state.id)
        };
        let (good, bad) = log.check_all(progress);
        let bad = bad
            .into_iter()
            .map(|(number, block)| (id_of(number), block));
        (good, bad.collect())
    }

    pub(crate) fn verify(&self) -> VerifyPolicy {
        self.lock_settings().0
    }

    pub(crate) fn set_verify(&self, verify: VerifyPolicy) {
        self.lock_settings().0 = verify;
    }

    pub(crate) fn replacement(&self) -> ReplacementPolicy {
        self.lock_settings().1
    }

    pub(crate) fn set_replacement(&self, replacement: ReplacementPolicy) {
        self.lock_settings().1 = replacement;
    }

    fn lock_settings(&self) -> MutexGuard<'_, (VerifyPolicy, ReplacementPolicy)> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_watermarks(&self, low_per_mille: u32, high_per_mille: u32) {
        let settings = &self.shared.settings;
        settings
            .dirty_low_per_mille
            .store(low_per_mille, Ordering::Relaxed);
        settings
            .dirty_high_per_mille
            .store(high_per_mille, Ordering::Relaxed);
        self.shared.work.wake();
    }

    pub(crate) fn set_flush_rate_limit(&self, bytes_per_s: u64) {
        self.shared
            .settings
            .flush_rate
            .store(bytes_per_s, Ordering::Relaxed);
        self.shared.work.wake();
    }

    /// Calls that find no room are refused at once from here on.
    pub(crate) fn end_waits(&self) {
        self.shared.work.end_waits();
    }

    /// Ends the thread and the volumes, and closes: the next opening reads summaries alone.
    pub(crate) fn close(mut self) -> Result<()> {
        // A writer that waits for room is told that the pool is closed; from here on nobody makes any.
        self.shared.work.end_thread();
        self.background = None;
        self.shared.work.end_thread();
        let Some(log) = self.shared.take_log() else {
            // It was, to have a member replaced, if that came to an end or not.
            assert!(self.lock_replaced().is_some(), "a pool is closed once");
            return Ok(());
        };
        let ended = self.end_volumes(&log);
        let closed = log.close().map_err(|error| self.shared.error(error));
        ended.and(closed)
    }

    /// Says of every volume of which nothing is dirty that its backing is whole.
    ///
    /// # Errors
    /// The first one's; the others have ended, and this one is as after a crash.
    fn end_volumes(&self, log: &Log) -> Result<()> {
        let open = Stage::Open.number();
        let known = self.shared.known();
        let ends = known.iter().filter(|known| {
            let marked = known
                .state
                .backing
                .get()
                .and_then(|backing| backing.mark_place());
            let is_kept = marked.is_some_and(|place| !place.is_kept_for_a_boot());
            is_kept && known.row().stage == open && log.usage(known.number).1 == 0
        });
        let ends: Vec<_> = ends.collect();
        if ends.is_empty() || self.is_private || log.why_poisoned().is_some() {
            return Ok(());
        }
        let mut first = Ok(());
        let mut whole = Vec::new();
        for known in ends {
            // Nothing is dirty: this syncs, and moves the clean point past all of it.
            match log.write_back(known.number) {
                Ok(()) => whole.push(known),
                Err(error) => first = first.and(Err(self.shared.error(error))),
            }
        }
        // A backing that is whole may be changed without the pool, and blocks must not come back dirty then: so the clean
        // points are durable before any mark says `whole`.
        match log.stage_points().and_then(|points| log.wait(&points)) {
            Ok(()) => {}
            // The last segments are what recycling goes on with. The marks stay open, as after a crash: no other pool takes
            // the backings, and nothing is lost.
            Err(LogError::NoRoom { .. }) => return first,
            Err(error) => return first.and(Err(self.shared.error(error))),
        }
        for known in whole {
            let backing = known.state.backing()?;
            let mut row = known.row();
            first = first.and(self.end_mark(log, (backing, &mut row)));
        }
        first
    }
}

/// The device, which makes rings only where the process may have them.
fn with_rings(device: FileDevice, options: &RuntimeOptions) -> FileDevice {
    match options.read_rings {
        true => device,
        false => device.without_rings(),
    }
}

/// What was made for a pool, to be removed if it does not become one.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// The pool's log on new files or on devices, and what a durable write costs there.
    fn make(&mut self, options: &PoolOptions) -> Result<(Log, Duration)> {
        let mut devices: Vec<Arc<dyn Device>> = Vec::new();
        for path in &options.paths {
            devices.push(Arc::new(self.device(path, options)?));
        }
        let device: Arc<dyn Device> = match <[Arc<dyn Device>; 2]>::try_from(devices) {
            Ok(both) => Arc::new(MirrorDevice::blank(both, Way::AtOnce).map_err(of_log)?),
            Err(mut one) => one.remove(0),
        };
        let log_options = Options {
            is_test: options.format.test,
            // Not yet: with a backing that is gone, a writer waited for room past its deadline (docs/inside/ssd.md).
            has_inline: false,
            ..Options::default()
        };
        if device.pages() < 2 {
            let made = forebay_log::create(device, log_options).map_err(of_log);
            return made.map(|log| (log, Duration::ZERO));
        }
        let cost = forebay_log::durable_write_cost(&*device, MEASURED_WRITES, MEASURED_FOR);
        let cost = cost.map_err(|source| {
            of_log(LogError::Device {
                path: device.path().to_path_buf(),
                action: "measure a durable write",
                source,
            })
        })?;
        let log = forebay_log::create(device, log_options).map_err(of_log)?;
        Ok((log, cost))
    }

    fn device(&mut self, path: &Path, options: &PoolOptions) -> Result<FileDevice> {
        let trust_owner = options.runtime.region.trusts_owner();
        let is_there = path.try_exists().unwrap_or(true);
        let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
        if is_there && is_file {
            if !options.force {
                return Err(refused(
                    path,
                    "the file exists already",
                    "name another one, or overwrite it with force (on the command line --force)",
                ));
            }
            crate::api::pool::remove_unlocked(path)?;
        }
        let device = match is_there && !is_file {
            true => take_device(path, options.force, trust_owner)?,
            false => {
                let made = FileDevice::create_with(path, options.member_bytes, trust_owner);
                let made = made.map_err(of_log)?;
                self.0.push(path.to_path_buf());
                made
            }
        };
        Ok(with_rings(device, &options.runtime))
    }

    fn remove(&self) {
        for path in &self.0 {
            // The caller needs the first error, not this one.
            drop(std::fs::remove_file(path));
        }
    }
}

/// Refuses what a pool on an SSD does not have.
fn check_format(options: &PoolOptions) -> Result<()> {
    match what_it_lacks(options) {
        None => Ok(()),
        Some(what) => Err(ErrorKind::Options(format!(
            "a pool on an SSD {what}; leave that out, or make a pool in memory (on the command line --medium page)"
        ))
        .into()),
    }
}
