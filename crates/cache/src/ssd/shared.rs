//! What a pool on an SSD, its volumes and its thread share.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

use forebay_log::{Log, LogError, PAGE_BYTES};

use super::errors::of_log;
use super::fill_queue::Fills;
use super::known::{Known, identity_of};
use super::work::Work;
use crate::background::volume_state::VolumeState;
use crate::error::{Error, ErrorKind, Result};
use crate::options::RuntimeOptions;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::tallies::Tallies;

/// What can be set while the pool is open.
pub(super) struct Settings {
    pub(super) dirty_low_per_mille: AtomicU32,
    pub(super) dirty_high_per_mille: AtomicU32,
    /// Bytes a second; 0 is no limit.
    pub(super) flush_rate: AtomicU64,
}

/// See the module.
pub(crate) struct Shared {
    /// None once the pool is closed.
    log: Mutex<Option<Arc<Log>>>,
    /// Told when a call ends while the pool is being closed.
    ended: Condvar,
    pub(super) path: PathBuf,
    /// The most bytes one transaction can hold.
    pub(super) transaction_limit_bytes: u64,
    pub(super) volumes: RwLock<BTreeMap<u32, Arc<Known>>>,
    pub(super) options: RuntimeOptions,
    pub(super) settings: Settings,
    pub(super) tallies: Arc<Tallies>,
    pub(super) work: Work,
    pub(super) fills: Fills,
    /// The thread looks by itself, once what is not durable has been so for long.
    pub(super) is_settling: AtomicBool,
}

/// The log, which stays open for as long as this is held. A call may have several.
pub(super) struct OpenLog<'s> {
    /// None only while this is dropped.
    log: Option<Arc<Log>>,
    shared: &'s Shared,
}

impl Deref for OpenLog<'_> {
    type Target = Log;

    fn deref(&self) -> &Log {
        self.log.as_ref().expect("it is held until this is dropped")
    }
}

impl Drop for OpenLog<'_> {
    fn drop(&mut self) {
        self.log = None;
        if self.shared.lock_log().is_none() {
            self.shared.ended.notify_all();
        }
    }
}

impl Shared {
    pub(super) fn new(log: Log, path: PathBuf, options: RuntimeOptions) -> Shared {
        let (low, high) = options.watermarks_per_mille();
        let attached = log.volumes().into_iter().filter(|row| row.is_attached);
        let volumes = attached.map(|row| {
            let state = Arc::new(VolumeState::new(row.id, &identity_of(&row)));
            (row.number, Known::new(row, state))
        });
        let transaction_limit_bytes = (log.transaction_blocks_max() * PAGE_BYTES) as u64;
        Shared {
            transaction_limit_bytes,
            volumes: RwLock::new(volumes.collect()),
            log: Mutex::new(Some(Arc::new(log))),
            ended: Condvar::new(),
            path,
            settings: Settings {
                dirty_low_per_mille: AtomicU32::new(low),
                dirty_high_per_mille: AtomicU32::new(high),
                flush_rate: AtomicU64::new(0),
            },
            options,
            tallies: Arc::default(),
            work: Work::default(),
            fills: Fills::default(),
            is_settling: AtomicBool::new(false),
        }
    }

    fn lock_log(&self) -> MutexGuard<'_, Option<Arc<Log>>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log.
    ///
    /// # Errors
    /// The pool was closed.
    pub(super) fn log(&self) -> Result<OpenLog<'_>> {
        let log = self.lock_log().clone();
        match log.is_some() {
            true => Ok(OpenLog { log, shared: self }),
            false => Err(self.closed()),
        }
    }

    /// Takes the log from all that use the pool, once every call that is under way has ended.
    pub(super) fn take_log(&self) -> Option<Log> {
        let mut held = self.lock_log();
        let mut log = held.take()?;
        loop {
            match Arc::try_unwrap(log) {
                Ok(log) => return Some(log),
                Err(shared) => log = shared,
            }
            // A call lets go of the log before it takes the lock to tell, so none is missed.
            held = self
                .ended
                .wait(held)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn closed(&self) -> Error {
        ErrorKind::Closed {
            path: self.path.clone(),
        }
        .into()
    }

    /// Refuses if a write of the log has failed.
    pub(super) fn check_writable(&self, log: &Log) -> Result<()> {
        match log.why_poisoned() {
            None => Ok(()),
            Some(_) => Err(ErrorKind::Poisoned {
                path: self.path.clone(),
            }
            .into()),
        }
    }

    /// The volumes, by their numbers.
    pub(super) fn known(&self) -> Vec<Arc<Known>> {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        volumes.values().cloned().collect()
    }

    pub(super) fn set_known(&self, number: u32, known: Option<Arc<Known>>) {
        let mut volumes = self.volumes.write().unwrap_or_else(PoisonError::into_inner);
        match known {
            Some(known) => drop(volumes.insert(number, known)),
            None => drop(volumes.remove(&number)),
        }
    }

    fn of_number(&self, number: u32) -> Option<Arc<Known>> {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        volumes.get(&number).cloned()
    }

    /// What the log says went wrong, with the names that its volumes have here.
    pub(super) fn error(&self, error: LogError) -> Error {
        let of = |volume: u32| self.of_number(volume);
        match error {
            LogError::Corrupt { volume, block, .. } => {
                self.tallies.mine().corrupt(1);
                let volume = of(volume).map_or(volume, |known| known.state.id);
                ErrorKind::Corrupt { volume, block }.into()
            }
            LogError::Backing { volume, source, .. } => match of(volume) {
                Some(known) => known.state.backing_error(source),
                None => ErrorKind::Volume(format!("volume {volume}: {source}")).into(),
            },
            error => of_log(error),
        }
    }

    /// Bytes a second that write-back may write beside the callers; 0 is no limit.
    pub(super) fn flush_rate(&self) -> u64 {
        self.settings.flush_rate.load(Ordering::Relaxed)
    }
}
