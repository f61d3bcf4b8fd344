//! Least recently used, exactly, as the paper has it.
//!
//! Every hit takes the lock and moves the entry to the front, which is what the default avoids.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Replacement;
use super::links::Links;

/// The list under its lock.
pub struct Lru {
    links: Mutex<Links>,
}

impl Lru {
    /// An empty list for entries `0..capacity`.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            links: Mutex::new(Links::new(capacity)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replacement for Lru {
    fn on_insert(&self, entry: u32) {
        self.lock().touch(entry);
    }

    fn on_hit(&self, entry: u32) {
        let mut links = self.lock();
        if links.contains(entry) {
            links.touch(entry);
        }
    }

    fn on_remove(&self, entry: u32) {
        self.lock().remove(entry);
    }

    fn victims(&self, wanted: usize, eligible: &mut dyn FnMut(u32) -> bool, out: &mut Vec<u32>) {
        let links = self.lock();
        // Every call starts at the oldest, so one lap is the bound: a shorter scan would find the
        // same ineligible ones for ever.
        let found = links.oldest_first().filter(|&entry| eligible(entry));
        out.extend(found.take(wanted));
    }

    fn len(&self) -> usize {
        self.lock().len()
    }

    fn dram_bytes(&self) -> u64 {
        self.lock().dram_bytes()
    }
}
