//! What a backing has been asked and has not answered yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request that a backing has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackingWait {
    /// What it was asked: `read`, `write`, `zeroing` or `sync`.
    pub request: &'static str,
    /// For how long.
    pub elapsed: Duration,
}

#[derive(Default)]
struct Asked {
    count: u64,
    waiting: BTreeMap<u64, (&'static str, Instant)>,
}

/// All requests under way.
#[derive(Default)]
pub(super) struct Waits(Arc<Mutex<Asked>>);

/// One of them, until this is dropped.
pub(crate) struct Waiting {
    asked: Arc<Mutex<Asked>>,
    number: u64,
}

fn locked(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waits {
    /// To be held while the backing is asked.
    pub(super) fn begin(&self, request: &'static str) -> Waiting {
        let mut asked = locked(&self.0);
        asked.count += 1;
        let number = asked.count;
        asked.waiting.insert(number, (request, Instant::now()));
        Waiting {
            asked: Arc::clone(&self.0),
            number,
        }
    }

    /// The one that has been waited for longest.
    pub(super) fn longest(&self) -> Option<BackingWait> {
        let asked = locked(&self.0);
        let (request, begun) = asked.waiting.first_key_value()?.1;
        Some(BackingWait {
            request,
            elapsed: begun.elapsed(),
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        locked(&self.asked).waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_request_without_an_answer_is_the_one_that_is_told() {
        let waits = Waits::default();
        assert!(waits.longest().is_none());
        let write = waits.begin("write");
        let sync = waits.begin("sync");
        assert_eq!(waits.longest().map(|wait| wait.request), Some("write"));
        drop(write);
        assert_eq!(waits.longest().map(|wait| wait.request), Some("sync"));
        drop(sync);
        assert!(waits.longest().is_none());
    }
}
