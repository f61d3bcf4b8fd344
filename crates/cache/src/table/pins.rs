//! Blocks that stay where they are while a thread reads around them with no lock held.
//!
//! A reader that finds no quiet moment looks up under the locks which blocks are not cached, reads
//! those from the backing without a lock, and looks again. What is not cached then was not cached in
//! between, since nothing pinned leaves the pool: so no thread wrote it, and the bytes are right.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::media::entry::Key;
use crate::sync::{AtomicUsize, Ordering};

struct Pin {
    number: u64,
    volume: u32,
    blocks: Range<u64>,
    is_disturbed: bool,
}

#[derive(Default)]
struct List {
    begun: u64,
    pins: Vec<Pin>,
}

/// All pins of a pool; hardly ever any.
#[derive(Default)]
pub(crate) struct Pins {
    count: AtomicUsize,
    list: Mutex<List>,
}

/// One reader's blocks.
pub(crate) struct Pinned<'a> {
    pins: &'a Pins,
    number: u64,
}

impl Pins {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the next time on that these blocks' stripes are locked nothing of them leaves the pool.
    pub(crate) fn pin(&self, volume: u32, blocks: Range<u64>) -> Pinned<'_> {
        let mut list = self.lock();
        list.begun += 1;
        let number = list.begun;
        list.pins.push(Pin {
            number,
            volume,
            blocks,
            is_disturbed: false,
        });
        self.count.store(list.pins.len(), Ordering::SeqCst);
        Pinned { pins: self, number }
    }

    /// Whether the key's block has to stay. Relaxed: the stripe's lock, which the caller holds and the
    /// reader has taken since, orders it.
    #[inline]
    pub(crate) fn holds(&self, key: Key) -> bool {
        self.count.load(Ordering::Relaxed) != 0 && self.is_listed(key)
    }

    #[cold]
    fn is_listed(&self, key: Key) -> bool {
        let holds = |pin: &Pin| pin.volume == key.volume() && pin.blocks.contains(&key.block());
        self.lock().pins.iter().any(holds)
    }

    /// What the backing has of these blocks is about to change behind the cache: their readers read again.
    pub(crate) fn disturb(&self, volume: u32, blocks: &Range<u64>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let is_met = |pin: &&mut Pin| {
            pin.volume == volume && pin.blocks.start < blocks.end && blocks.start < pin.blocks.end
        };
        for pin in self.lock().pins.iter_mut().filter(is_met) {
            pin.is_disturbed = true;
        }
    }
}

impl Pinned<'_> {
    /// Whether [`Pins::disturb`] met these blocks since they were pinned.
    pub(crate) fn is_disturbed(&self) -> bool {
        let is_own = |pin: &&Pin| pin.number == self.number;
        let list = self.pins.lock();
        list.pins
            .iter()
            .find(is_own)
            .is_none_or(|pin| pin.is_disturbed)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        let mut list = self.pins.lock();
        list.pins.retain(|pin| pin.number != self.number);
        self.pins.count.store(list.pins.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_hold_their_blocks_until_they_are_dropped_and_hear_of_what_meets_them() {
        let pins = Pins::default();
        let key = |block| Key::new(1, block);
        assert!(!pins.holds(key(3)));
        let pinned = pins.pin(1, 2..4);
        assert!(pins.holds(key(2)) && pins.holds(key(3)));
        assert!(!pins.holds(key(4)) && !pins.holds(Key::new(2, 3)));
        pins.disturb(1, &(4..9));
        pins.disturb(2, &(0..9));
        assert!(!pinned.is_disturbed());
        pins.disturb(1, &(3..9));
        assert!(pinned.is_disturbed());
        assert!(!pins.pin(1, 2..4).is_disturbed());
        drop(pinned);
        assert!(!pins.holds(key(2)));
    }
}
