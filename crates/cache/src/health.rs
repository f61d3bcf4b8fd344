//! How a volume's backing has been doing, and when it is asked again after a failure.
//!
//! All syncs of a backing go through [`Health::sync_since`]. The system tells a failed sync to one caller
//! and may drop what it could not write, so the next sync would succeed without it: whoever wrote
//! before the failure must hear of it too.
//!
//! A backing that failed makes its volume *degraded*: dirty blocks stay in the pool and are served
//! from there, and the backing is asked again after a pause that doubles from failure to failure.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backing::Backing;

/// Pause after the first failure: a path that flaps is back within milliseconds.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// Longest pause: how late at most the drain starts once a backing is back.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The health of one backing.
#[derive(Default)]
pub(crate) struct Health {
    trouble: Mutex<Option<Trouble>>,
    /// Syncs that failed since the backing was attached; changed while a sync is under way.
    failed_syncs: Mutex<u64>,
}

/// How many syncs had failed when a caller began to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncEpoch(u64);

/// What is known since the first failure after the last success.
struct Trouble {
    failures: u32,
    retry_at: Instant,
    error: String,
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be taken before the writes that [`Health::sync_since`] is to make durable.
    pub(crate) fn sync_epoch(&self) -> SyncEpoch {
        SyncEpoch(*self.lock_syncs())
    }

    fn lock_syncs(&self) -> MutexGuard<'_, u64> {
        // Held across a sync, during which a checker may switch threads.
        forebay_pmem::lock_or_yield(&self.failed_syncs)
    }

    /// Makes what was written since `epoch` durable.
    ///
    /// # Errors
    /// The backing's, also where it was another caller's sync that failed since `epoch`.
    pub(crate) fn sync_since(&self, epoch: SyncEpoch, backing: &Backing) -> io::Result<()> {
        let mut failed = self.lock_syncs();
        if let Err(error) = backing.sync() {
            *failed += 1;
            return Err(error);
        }
        if *failed != epoch.0 {
            return Err(io::Error::other(
                "another sync failed since these blocks were written",
            ));
        }
        Ok(())
    }

    /// Writes and a sync went through; true where the volume was degraded until now.
    pub(crate) fn succeeded(&self) -> bool {
        self.lock().take().is_some()
    }

    /// A write or a sync failed.
    pub(crate) fn failed(&self, error: &io::Error) {
        let mut trouble = self.lock();
        let failures = trouble
            .as_ref()
            .map_or(0, |before| before.failures)
            .saturating_add(1);
        *trouble = Some(Trouble {
            failures,
            retry_at: Instant::now() + pause(failures),
            error: error.to_string(),
        });
    }

    pub(crate) fn is_degraded(&self) -> bool {
        self.lock().is_some()
    }

    /// The error of the last failure, while degraded.
    pub(crate) fn last_error(&self) -> Option<String> {
        self.lock().as_ref().map(|trouble| trouble.error.clone())
    }

    /// How long to leave the backing alone; `None` where it is healthy.
    pub(crate) fn retry_in(&self) -> Option<Duration> {
        let trouble = self.lock();
        trouble
            .as_ref()
            .map(|trouble| trouble.retry_at.saturating_duration_since(Instant::now()))
    }
}

/// The pause after so many failures in a row.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    PAUSE_FIRST.saturating_mul(1 << doublings).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_limit() {
        assert_eq!(pause(1), PAUSE_FIRST);
        assert_eq!(pause(3), PAUSE_FIRST * 4);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }

    #[test]
    fn a_success_ends_the_trouble() {
        let health = Health::default();
        assert!(!health.succeeded() && health.retry_in().is_none());
        health.failed(&io::Error::from_raw_os_error(libc::EIO));
        assert!(health.is_degraded());
        assert!(health.retry_in().is_some_and(|wait| wait <= PAUSE_FIRST));
        assert!(
            health
                .last_error()
                .is_some_and(|error| error.contains("os error 5"))
        );
        assert!(health.succeeded());
        assert!(!health.is_degraded() && health.last_error().is_none());
    }
}
