//! How long what nobody syncs may stay in the device's cache alone.

use std::time::{Duration, Instant};

use forebay_log::Log;

use super::shared::Shared;
use crate::sync::Ordering;

/// What is not durable for so long is made so, by one flush.
pub(super) const SYNCED_AFTER: Duration = Duration::from_secs(5);

/// Until when what is not durable may stay so.
#[derive(Default)]
pub(super) struct Settling(Option<Instant>);

impl Shared {
    /// A caller has committed without a sync: the thread is woken if it does not look again by itself.
    pub(super) fn note_unsynced(&self) {
        // Comes after the commit, and the thread's own swap before its look: so one of the two sees the other.
        if !self.is_settling.swap(true, Ordering::AcqRel) {
            self.work.wake();
        }
    }

    /// Syncs what is not durable, so long after the first of it was seen, whatever was synced meanwhile; when to look again, or none while
    /// everything is durable.
    pub(super) fn settle(
        &self,
        log: &Log,
        settling: &mut Settling,
        now: Instant,
    ) -> Option<Duration> {
        if let Some(until) = settling.0 {
            let left = until.saturating_duration_since(now);
            if !left.is_zero() {
                return Some(left);
            }
            // A failure is told to everyone that commits or syncs from now on.
            drop(log.sync());
        }
        settling.0 = None;
        self.is_settling.swap(false, Ordering::AcqRel);
        if !log.has_unsynced() {
            return None;
        }
        self.is_settling.store(true, Ordering::Release);
        settling.0 = Some(now + SYNCED_AFTER);
        Some(SYNCED_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use forebay_log::shadow::{Fault, Image, ShadowDevice, ShadowState};
    use forebay_log::{Device, Options, PAGE_BYTES, Transaction, create};

    use super::*;
    use crate::options::RuntimeOptions;

    fn pool() -> (Arc<ShadowDevice>, Shared) {
        let state = ShadowState::new(Image::zeroed(32 * 13), PAGE_BYTES);
        let device = Arc::new(ShadowDevice::new(state));
        let options = Options {
            gathers: false,
            segment_pages: Some(32),
            ..Options::default()
        };
        let log = create(device.clone(), options).unwrap();
        let shared = Shared::new(log, PathBuf::from("pool"), RuntimeOptions::default());
        (device, shared)
    }

    fn commit(shared: &Shared, log: &Log) {
        let mut transaction = Transaction::new();
        transaction.write(1, 1, &[1; PAGE_BYTES]).unwrap();
        log.commit_unsynced(transaction).unwrap();
        shared.note_unsynced();
    }

    #[test]
    fn what_nobody_syncs_is_synced_once_and_a_pool_at_rest_wakes_nothing() {
        let (device, shared) = pool();
        let log = shared.log().unwrap();
        let (mut settling, begin) = (Settling::default(), Instant::now());
        let flushes = || device.counters().flushes;
        let before = flushes();
        let mut look = |after_s| {
            let now = begin + Duration::from_secs(after_s);
            shared.settle(&log, &mut settling, now)
        };
        assert_eq!(look(0), None);
        let seen = shared.work.wait_wanted(0, Some(Duration::ZERO));
        assert_eq!(seen, Some(0), "nothing woke it");
        commit(&shared, &log);
        commit(&shared, &log);
        assert_eq!(shared.work.wait_wanted(0, None), Some(1), "one wakes it");
        assert_eq!(look(1), Some(SYNCED_AFTER));
        commit(&shared, &log);
        assert_eq!(look(4), Some(Duration::from_secs(2)));
        assert_eq!((flushes() - before, log.is_synced()), (0, false));
        assert_eq!(look(6), None);
        assert_eq!((flushes() - before, log.is_synced()), (1, true));
        // What came after a caller's sync waits no longer than what came before it would have.
        commit(&shared, &log);
        assert_eq!(look(10), Some(SYNCED_AFTER));
        log.sync().unwrap();
        commit(&shared, &log);
        assert_eq!(flushes() - before, 2);
        assert_eq!(look(15), None);
        assert_eq!((flushes() - before, log.is_synced()), (3, true));
        // What a caller has synced is not synced again.
        commit(&shared, &log);
        assert_eq!(look(20), Some(SYNCED_AFTER));
        log.sync().unwrap();
        assert_eq!(look(25), None);
        assert_eq!(flushes() - before, 4);
    }

    #[test]
    fn a_flush_that_fails_is_tried_once() {
        let (device, shared) = pool();
        let log = shared.log().unwrap();
        let (mut settling, begin) = (Settling::default(), Instant::now());
        commit(&shared, &log);
        assert!(shared.settle(&log, &mut settling, begin).is_some());
        device.fail(0, Fault::Error);
        let later = begin + SYNCED_AFTER;
        assert_eq!(shared.settle(&log, &mut settling, later), None);
        assert!(log.sync().is_err(), "a caller is told");
    }
}
