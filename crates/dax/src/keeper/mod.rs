//! What a daemon runs, so that unmodified programs can use regions.

mod regions;

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::list::names;
use crate::pool::DaxPool;
use crate::report::KeptRegion;
use regions::Regions;

/// From one look at the leases to the next: what a program's `open` waits for.
const LOOK: Duration = Duration::from_millis(10);

/// Keeps a pool's regions while programs that know nothing of it open and map them: a write lease on each sealed
/// extent, the mark `open` before the lease goes, passes while a program has it, a seal when the lease can be had again.
///
/// A program's `open` of a sealed extent waits until the mark is durable; one that must not wait fails with EWOULDBLOCK
/// and is to be tried again.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    status: Mutex<Vec<KeptRegion>>,
    is_stopped: Mutex<bool>,
    changed: Condvar,
}

impl Shared {
    /// Waits a little; whether to go on.
    fn wait(&self, time: Duration) -> bool {
        let stopped = self
            .is_stopped
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .changed
            .wait_timeout_while(stopped, time, |stopped| !*stopped);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Keeper {
    /// Takes the regions that lie there, and those that are made later, into keeping; a pass or a try to seal each
    /// `period`. When it returns every region that could be sealed is under lease.
    ///
    /// # Errors
    /// A directory cannot be read; no thread can be had.
    pub fn start(pool: DaxPool, period: Duration) -> Result<Keeper> {
        // Errors that stay are said at once.
        names(&pool)?;
        let path = pool.members().first().cloned().unwrap_or_default();
        let shared = Arc::new(Shared::default());
        let mut regions = Regions::new(pool);
        regions.keep();
        regions.report(&shared.status);
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("forebay-keeper".into());
        let thread = thread.spawn(move || {
            let looks =
                u32::try_from(period.as_nanos().div_ceil(LOOK.as_nanos())).unwrap_or(u32::MAX);
            let mut look = 0;
            while own.wait(LOOK) {
                look += 1;
                let mut has_changed = regions.give_way();
                if look >= looks.max(1) {
                    look = 0;
                    regions.keep();
                    has_changed = true;
                }
                if has_changed {
                    regions.report(&own.status);
                }
            }
        });
        let thread =
            thread.map_err(|error| Error::io("start the keeper's thread", &path, error))?;
        Ok(Keeper {
            shared,
            thread: Some(thread),
        })
    }

    /// How each region stands.
    #[must_use]
    pub fn status(&self) -> Vec<KeptRegion> {
        let status = self.shared.status.lock();
        status.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it: what is sealed stays sealed, what is open stays open, the leases go.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let stopped = self.shared.is_stopped.lock();
        *stopped.unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been said already; the leases went with the thread.
            let _ = thread.join();
        }
    }
}
