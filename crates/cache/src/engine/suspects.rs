//! Blocks of a mirror that wait for a repair.

use std::sync::{Mutex, PoisonError};

use crate::media::entry::Entry;
use crate::sync::{AtomicUsize, Ordering};

/// Blocks that wait for a repair at most. The rest is found again, by a read or a scrub.
const SUSPECTS_MAX: usize = 64;
/// Blocks of which a half was found wrong by a thread that could not repair it at once.
#[derive(Default)]
pub(crate) struct Suspects {
    count: AtomicUsize,
    seen: Mutex<Vec<Entry>>,
}

impl Suspects {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a block, by its entry when it was looked at.
    pub(super) fn push(&self, entry: Entry) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = seen.iter().any(|known| known.key() == entry.key());
        if !is_known && seen.len() < SUSPECTS_MAX {
            seen.push(entry);
        }
        self.count.store(seen.len(), Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> Vec<Entry> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut seen)
    }
}
