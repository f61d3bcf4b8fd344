//! How the disk has been doing, as the cache keeps it of a backing: a failure is counted and told, threads leave the disk alone
//! for a while that doubles from failure to failure, and a client that asks is not refused for that.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay::Error;
use forebay::unstable::plan;

/// Whether a round may ask a disk that failed lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// The caller decides when to try again, and its call is the decision.
    Always,
    /// When the pause after the last failure is over.
    WhenDue,
}

/// See the [module](self). Of the whole disk: a round's writes and its sync.
#[derive(Default)]
pub(super) struct Health(Mutex<Known>);

#[derive(Default)]
struct Known {
    errors: u64,
    /// Since the first failure after the last success.
    trouble: Option<Trouble>,
}

struct Trouble {
    failures: u32,
    retry_at: Instant,
    error: String,
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // Plain values, right whatever a panicking holder did.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write or a sync of a round failed.
    pub(super) fn failed(&self, error: &Error, now: Instant) {
        let mut known = self.lock();
        known.errors += 1;
        let before = known.trouble.as_ref().map_or(0, |before| before.failures);
        let failures = before.saturating_add(1);
        known.trouble = Some(Trouble {
            failures,
            retry_at: now + plan::retry_pause(failures),
            error: error.to_string(),
        });
    }

    /// The disk took a round's writes and synced them.
    pub(super) fn succeeded(&self) {
        self.lock().trouble = None;
    }

    /// Whether the disk may be asked.
    pub(super) fn may_ask(&self, asking: Asking, now: Instant) -> bool {
        asking == Asking::Always || self.retry_in(now).is_none_or(|wait| wait.is_zero())
    }

    /// How long the threads leave the disk alone; none where it is well.
    pub(super) fn retry_in(&self, now: Instant) -> Option<Duration> {
        let known = self.lock();
        let trouble = known.trouble.as_ref()?;
        Some(trouble.retry_at.saturating_duration_since(now))
    }

    /// Rounds that failed so far.
    pub(super) fn errors(&self) -> u64 {
        self.lock().errors
    }

    /// The last failure, while nothing went through since.
    pub(super) fn last_error(&self) -> Option<String> {
        let known = self.lock();
        known.trouble.as_ref().map(|trouble| trouble.error.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::ErrorKind;

    #[test]
    fn threads_leave_a_failing_disk_alone_for_longer_and_longer_and_clients_do_not() {
        let (health, now) = (Health::default(), Instant::now());
        assert!(health.may_ask(Asking::WhenDue, now) && health.last_error().is_none());
        let error = Error::from(ErrorKind::Options("no".into()));
        for failures in 1..=3 {
            health.failed(&error, now);
            let pause = plan::retry_pause(failures);
            assert_eq!(health.retry_in(now), Some(pause));
            assert!(health.may_ask(Asking::Always, now));
            assert!(!health.may_ask(Asking::WhenDue, now + pause / 2));
            assert!(health.may_ask(Asking::WhenDue, now + pause));
        }
        assert_eq!(health.last_error(), Some(error.to_string()));
        health.succeeded();
        assert!(health.may_ask(Asking::WhenDue, now) && health.last_error().is_none());
        assert_eq!(health.errors(), 3);
    }
}
