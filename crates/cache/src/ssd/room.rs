//! Waiting for room: a writer wakes the pool's thread, holds no lock of the log, and tries again. It gives up when nothing has gone on
//! for as long as it may wait: a backing that is slow and takes what it is given is waited for.

use std::time::{Duration, Instant};

use forebay_log::{Log, LogError};

use super::shared::Shared;
use crate::background::volume_state::VolumeState;
use crate::error::{Error, ErrorKind, Result};

/// A writer without a thread beside it asks a backing that failed again after so long.
const RETRY: Duration = Duration::from_millis(20);

/// A wait for room.
struct Wait {
    began: Instant,
    /// What the log said of its progress last, and since when.
    progress: u64,
    since: Instant,
}

impl Wait {
    fn begin(log: &Log) -> Wait {
        let now = Instant::now();
        Wait {
            began: now,
            progress: log.progress(),
            since: now,
        }
    }

    /// Whether nothing has gone on for so long.
    fn is_over(&mut self, log: &Log, deadline: Duration) -> bool {
        let progress = log.progress();
        if progress != self.progress {
            (self.progress, self.since) = (progress, Instant::now());
        }
        self.since.elapsed() > deadline
    }
}

impl Shared {
    /// Does what needs room in the log, and waits for that as long as a writer may.
    ///
    /// # Errors
    /// As `attempt`; there was no room, and nothing that makes some for as long as the deadline says.
    pub(super) fn with_room<T>(
        &self,
        log: &Log,
        mut attempt: impl FnMut() -> Result<T, LogError>,
    ) -> Result<T> {
        let mut wait = None;
        loop {
            let made = self.work.made();
            match attempt() {
                Err(LogError::NoRoom { .. }) => {
                    let wait = wait.get_or_insert_with(|| {
                        self.tallies.mine().throttled(1);
                        Wait::begin(log)
                    });
                    self.wait_for_room(log, made, wait)?;
                }
                Err(error) => return Err(self.error(error)),
                Ok(done) => {
                    self.look_at_room(log);
                    return Ok(done);
                }
            }
        }
    }

    fn wait_for_room(&self, log: &Log, made: u64, wait: &mut Wait) -> Result<()> {
        let waited = wait.began.elapsed();
        if wait.is_over(log, self.options.throttle_deadline) {
            return Err(self.no_room(log, waited));
        }
        if self.work.refuses_waits() {
            return Err(self.closed());
        }
        if self.work.has_thread() {
            self.work.wake();
            self.work.wait_made(made);
            return Ok(());
        }
        match log.recycle() {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.no_room(log, waited)),
            // A backing that fails may come back.
            Err(LogError::Backing { .. } | LogError::Transaction(_) | LogError::NoRoom { .. }) => {
                std::thread::sleep(RETRY);
                Ok(())
            }
            Err(error) => Err(self.error(error)),
        }
    }

    /// Why a writer got no room: full is only what a backing calls so.
    fn no_room(&self, log: &Log, waited: Duration) -> Error {
        let waited_ms = waited.as_millis() as u64;
        let dirty_blocks = log.dirty_blocks() as u64;
        let volumes = self.known();
        if volumes.iter().any(|known| known.state.health.is_full()) {
            return ErrorKind::NoSpace {
                waited_ms,
                dirty_blocks,
            }
            .into();
        }
        let trouble = |state: &VolumeState| {
            let told = match state.backing.get() {
                Some(_) => state.trouble(Duration::ZERO)?,
                None => String::from("it is not attached"),
            };
            Some(format!("{}: {told}", state.path.display()))
        };
        let reason = volumes.iter().find_map(|known| trouble(&known.state));
        ErrorKind::Stalled {
            waited_ms,
            dirty_blocks,
            reason: reason.unwrap_or_else(|| "it does not keep up".into()),
        }
        .into()
    }
}
