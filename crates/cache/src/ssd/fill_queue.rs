//! Blocks that were read from their backings and are to be brought in, and which were missed lately.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::known::Known;

/// Blocks that wait, at most.
const WAITING_MAX: usize = 256;
/// Places of the memory of misses.
const SEEN_PLACES: usize = 1 << 14;

/// A block that was read from its backing.
pub(super) struct Fill {
    pub(super) known: Arc<Known>,
    pub(super) block: u64,
    /// Of the block when it was seen to be missing.
    pub(super) version: u32,
    pub(super) bytes: Box<[u8]>,
}

/// The blocks that wait, and which were missed lately.
pub(crate) struct Fills {
    waiting: Mutex<VecDeque<Fill>>,
    seen: Box<[AtomicU32]>,
}

impl Default for Fills {
    fn default() -> Fills {
        Fills {
            waiting: Mutex::default(),
            seen: (0..SEEN_PLACES).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Fills {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Fill>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a miss; whether there was one of this block lately. A wrong answer costs a page or a miss.
    pub(super) fn was_missed(&self, number: u32, block: u64) -> bool {
        let hash = (block ^ u64::from(number) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (place, tag) = (
            hash as usize >> 3 & (SEEN_PLACES - 1),
            (hash >> 32) as u32 | 1,
        );
        self.seen[place].swap(tag, Ordering::Relaxed) == tag
    }

    pub(super) fn take_some(&self) -> Vec<Fill> {
        let mut waiting = self.lock();
        let count = waiting.len().min(WAITING_MAX / 4);
        waiting.drain(..count).collect()
    }

    /// Hands a block over; false if too many wait.
    pub(super) fn add(&self, fill: Fill) -> bool {
        let mut waiting = self.lock();
        let has_room = waiting.len() < WAITING_MAX;
        if has_room {
            waiting.push_back(fill);
        }
        has_room
    }

    /// Lets go of those of a volume.
    pub(super) fn forget(&self, known: &Arc<Known>) {
        self.lock().retain(|fill| !Arc::ptr_eq(&fill.known, known));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }
}
