//! SIEVE: first in, first out, but what was hit since the hand last came by stays where it is.
//!
//! Y. Zhang et al., "SIEVE is Simpler than LRU", NSDI 2024. New entries go in front; the hand walks
//! from the oldest to the newest and starts over; it clears the mark of a marked entry and takes an
//! unmarked one. A hit only sets a mark, and only if it is not set, so hot blocks cost nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::links::{Links, NONE};
use super::replacement::{Replacement, SCAN_PER_WANTED};
use crate::sync::{AtomicU64, Ordering};

/// The list and the hand, under their lock.
struct Queue {
    links: Links,
    /// The entry the hand looks at next; [`NONE`] starts over at the oldest.
    hand: u32,
}

/// The policy: 8 bytes of links and one mark bit an entry.
pub struct Sieve {
    queue: Mutex<Queue>,
    marks: Box<[AtomicU64]>,
}

impl Sieve {
    /// An empty policy for entries `0..capacity`.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            queue: Mutex::new(Queue {
                links: Links::new(capacity),
                hand: NONE,
            }),
            marks: (0..capacity.div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A hit. A mark set on an entry that was just removed is cleared when it is inserted again.
    #[inline(always)]
    pub(super) fn mark(&self, entry: u32) {
        let (word, bit) = (&self.marks[entry as usize / 64], mark_bit(entry));
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn is_marked(&self, entry: u32) -> bool {
        self.marks[entry as usize / 64].load(Ordering::Relaxed) & mark_bit(entry) != 0
    }

    fn clear_mark(&self, entry: u32) {
        if !self.is_marked(entry) {
            return;
        }
        self.marks[entry as usize / 64].fetch_and(!mark_bit(entry), Ordering::Relaxed);
    }
}

#[inline]
fn mark_bit(entry: u32) -> u64 {
    1 << (entry % 64)
}

impl Replacement for Sieve {
    fn on_insert(&self, entry: u32) {
        let mut queue = self.lock();
        if queue.links.contains(entry) {
            drop(queue);
            self.on_hit(entry);
        } else {
            self.clear_mark(entry);
            queue.links.push_newest(entry);
        }
    }

    fn insert_all(&self, entries: &mut dyn Iterator<Item = u32>) {
        let mut queue = self.lock();
        for entry in entries {
            self.clear_mark(entry);
            queue.links.push_newest(entry);
        }
    }

    fn on_hit(&self, entry: u32) {
        self.mark(entry);
    }

    fn on_remove(&self, entry: u32) {
        let mut queue = self.lock();
        if queue.links.contains(entry) {
            if queue.hand == entry {
                queue.hand = queue.links.newer(entry);
            }
            queue.links.remove(entry);
        }
    }

    fn victims(&self, wanted: usize, eligible: &mut dyn FnMut(u32) -> bool, out: &mut Vec<u32>) {
        let mut queue = self.lock();
        let first = out.len();
        let present = queue.links.len();
        let steps_once_found = wanted.saturating_mul(SCAN_PER_WANTED);
        // Two laps at most: the first may only clear marks.
        for step in 0..2 * present {
            let found = out.len() - first;
            if found == wanted || (found > 0 && step >= steps_once_found) {
                break;
            }
            let entry = match queue.hand {
                NONE => queue.links.oldest(),
                hand => hand,
            };
            queue.hand = queue.links.newer(entry);
            if self.is_marked(entry) {
                self.clear_mark(entry);
            } else if eligible(entry) {
                // The second lap of one call could meet what the first one took.
                if step >= present && out[first..].contains(&entry) {
                    break;
                }
                out.push(entry);
            }
        }
    }

    fn len(&self) -> usize {
        self.lock().links.len()
    }

    fn dram_bytes(&self) -> u64 {
        self.lock().links.dram_bytes() + size_of_val(&*self.marks) as u64
    }
}
