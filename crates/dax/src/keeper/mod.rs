//! What a daemon runs, so that unmodified programs can use regions.

mod regions;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::list::names;
use crate::pool::DaxPool;
use crate::repeating::Repeating;
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
    status: Arc<Mutex<Vec<KeptRegion>>>,
    _thread: Repeating,
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
        let status = Arc::default();
        let mut regions = Regions::new(pool);
        regions.keep();
        regions.report(&status);
        let own = Arc::clone(&status);
        let what = "start the keeper's thread";
        let thread = Repeating::start("forebay-keeper", what, &path, move |stop| {
            let mut since = Duration::ZERO;
            loop {
                // Without a lease nobody waits for this thread, which then wakes for passes alone.
                let rest = if regions.have_leases() { LOOK } else { period };
                if !stop.wait(rest) {
                    return;
                }
                since += rest;
                let mut has_changed = regions.give_way();
                if since >= period {
                    since = Duration::ZERO;
                    regions.keep();
                    has_changed = true;
                }
                if has_changed {
                    regions.report(&own);
                }
            }
        })?;
        Ok(Keeper {
            status,
            _thread: thread,
        })
    }

    /// How each region stands.
    #[must_use]
    pub fn status(&self) -> Vec<KeptRegion> {
        let status = self.status.lock();
        status.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends it: what is sealed stays sealed, what is open stays open, the leases go.
    pub fn stop(self) {
        drop(self);
    }
}
