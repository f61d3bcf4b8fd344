//! Blocks that stay where they are while a thread reads around them with no lock held, and blocks of which a thread hears that they
//! left.
//!
//! A reader that finds no quiet moment looks up under the locks which blocks are not cached, reads
//! those from the backing without a lock, and looks again. What is not cached then was not cached in
//! between, since nothing pinned leaves the pool: so no thread wrote it, and the bytes are right.
//!
//! What is read ahead must not keep anything from leaving, so it is watched instead: what is not cached after the backing gave it, and of
//! which nothing left the pool since before that, was not cached in between either.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::media::entry::Key;
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicBool, AtomicUsize, Ordering, fence};

struct Pin {
    number: u64,
    volume: u32,
    blocks: Range<u64>,
    is_disturbed: bool,
}

/// Blocks that are watched until one of them leaves the pool or the backing changes there, or the watcher is gone.
struct Watched {
    volume: u32,
    blocks: Range<u64>,
    is_stale: Weak<AtomicBool>,
}

#[derive(Default)]
struct List {
    begun: u64,
    pins: Vec<Pin>,
    watched: Vec<Watched>,
}

impl List {
    /// Tells those that watch one of the blocks, once.
    fn tell(&mut self, volume: u32, blocks: &Range<u64>) {
        self.watched.retain(|watched| {
            let Some(is_stale) = watched.is_stale.upgrade() else {
                return false;
            };
            let is_met = watched.volume == volume && meet(&watched.blocks, blocks);
            if is_met {
                // Released with the stripe's lock, which the caller holds, or before the backing changes: the watcher's look comes after either.
                is_stale.store(true, Ordering::Release);
            }
            !is_met
        });
    }
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// All pins and watches of a pool; hardly ever any.
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

/// One watcher's blocks.
pub(crate) struct Watch {
    is_stale: Arc<AtomicBool>,
}

impl Watch {
    /// Whether one of the blocks left the pool since they are watched, or the backing changed there behind the cache.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale.load(Ordering::Acquire)
    }
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
        self.set_count(&list);
        Pinned { pins: self, number }
    }

    /// The watcher hears of each block that leaves the pool after it was looked at from now on.
    pub(crate) fn watch(&self, volume: u32, blocks: Range<u64>) -> Watch {
        let is_stale = Arc::new(AtomicBool::new(false));
        let mut list = self.lock();
        list.watched.retain(|one| one.is_stale.strong_count() > 0);
        list.watched.push(Watched {
            volume,
            blocks,
            is_stale: Arc::downgrade(&is_stale),
        });
        self.set_count(&list);
        // Before the watcher's looks at the stripes; see `keeps`.
        fence(Ordering::SeqCst);
        Watch { is_stale }
    }

    fn set_count(&self, list: &List) {
        let count = list.pins.len() + list.watched.len();
        self.count.store(count, Ordering::SeqCst);
    }

    /// Whether the key's block, which is about to leave the pool, has to stay. If it need not, those that watch it hear
    /// of it. Relaxed: of pins the stripe's lock, which the caller holds and the reader has taken since, orders it.
    #[inline]
    pub(crate) fn keeps(&self, key: Key) -> bool {
        // Of watches this does, with that of `watch`: a watcher that looked at the stripe, without its lock, before the caller locked it
        // was counted before that.
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) != 0 && self.keeps_listed(key)
    }

    #[cold]
    fn keeps_listed(&self, key: Key) -> bool {
        let holds = |pin: &Pin| pin.volume == key.volume() && pin.blocks.contains(&key.block());
        let mut list = self.lock();
        let is_held = list.pins.iter().any(holds);
        if !is_held && !mutated(Mutant::LeftUnseenByWatchers) {
            list.tell(key.volume(), &(key.block()..key.block() + 1));
            self.set_count(&list);
        }
        is_held
    }

    /// What the backing has of these blocks is about to change behind the cache: their readers read again.
    pub(crate) fn disturb(&self, volume: u32, blocks: &Range<u64>) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let is_met = |pin: &&mut Pin| pin.volume == volume && meet(&pin.blocks, blocks);
        let mut list = self.lock();
        for pin in list.pins.iter_mut().filter(is_met) {
            pin.is_disturbed = true;
        }
        if !mutated(Mutant::ZeroedUnseenByWatchers) {
            list.tell(volume, blocks);
        }
        self.set_count(&list);
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
        self.pins.set_count(&list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_hold_their_blocks_until_they_are_dropped_and_hear_of_what_meets_them() {
        let pins = Pins::default();
        let key = |block| Key::new(1, block);
        assert!(!pins.keeps(key(3)));
        let pinned = pins.pin(1, 2..4);
        assert!(pins.keeps(key(2)) && pins.keeps(key(3)));
        assert!(!pins.keeps(key(4)) && !pins.keeps(Key::new(2, 3)));
        pins.disturb(1, &(4..9));
        pins.disturb(2, &(0..9));
        assert!(!pinned.is_disturbed());
        pins.disturb(1, &(3..9));
        assert!(pinned.is_disturbed());
        assert!(!pins.pin(1, 2..4).is_disturbed());
        drop(pinned);
        assert!(!pins.keeps(key(2)));
    }

    #[test]
    fn a_watcher_hears_once_of_what_leaves_and_holds_nothing() {
        let pins = Pins::default();
        let key = |block| Key::new(1, block);
        let (watch, other) = (pins.watch(1, 2..4), pins.watch(1, 4..6));
        assert!(!pins.keeps(key(1)) && !pins.keeps(Key::new(2, 3)));
        assert!(!watch.is_stale());
        assert!(!pins.keeps(key(3)), "it may leave");
        assert!(watch.is_stale() && !other.is_stale());
        pins.disturb(1, &(5..9));
        assert!(other.is_stale());
        assert_eq!(pins.count.load(Ordering::Relaxed), 0);
        // A block that stays has not left; a watcher that is gone is not told.
        let watch = pins.watch(1, 2..4);
        let pinned = pins.pin(1, 3..4);
        assert!(pins.keeps(key(3)) && !watch.is_stale());
        drop((pinned, watch));
        assert!(!pins.keeps(key(3)));
        assert_eq!(pins.count.load(Ordering::Relaxed), 0);
    }
}
