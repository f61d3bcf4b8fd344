//! A reader without locks beside a writer: chain, entry and slot are read as `Volume::read` does.

use loom::sync::Arc;

use crate::models::{beside, turn, variant};
use crate::sync::{AtomicU64, Mutant, Ordering, mutated};
use crate::table::index::{Bucket, Index, Version};

/// An index with its table and slots: an entry is `key << 32 | slot`, a slot two halves.
pub(crate) struct Store {
    pub(crate) index: Index,
    pub(crate) entries: Vec<AtomicU64>,
    pub(crate) slots: Vec<[AtomicU64; 2]>,
}

impl Store {
    /// `keys` keys, each in the entry and slot of its number, holding its number in both halves.
    pub(crate) fn new(entries: u32, keys: u32, slots: u64) -> Arc<Store> {
        let store = Store {
            index: Index::with_used(entries, |entry| entry < keys),
            entries: (0..u64::from(entries))
                .map(|number| {
                    AtomicU64::new(if number < u64::from(keys) {
                        entry(number, number)
                    } else {
                        0
                    })
                })
                .collect(),
            slots: (0..slots)
                .map(|slot| [AtomicU64::new(slot), AtomicU64::new(slot)])
                .collect(),
        };
        for key in 0..keys {
            let bucket = store.bucket(u64::from(key));
            store.index.lock(bucket.stripe);
            store.index.begin_change(bucket.stripe);
            store.index.link(bucket, key);
            store.index.end_change_and_unlock(bucket.stripe);
        }
        Arc::new(store)
    }

    /// Even keys belong to the first stripe (if there are two), odd ones to the last; all to one chain of it.
    pub(crate) fn bucket(&self, key: u64) -> Bucket {
        self.index.bucket(if key.is_multiple_of(2) {
            0
        } else {
            u64::from(u32::MAX) << 32
        })
    }

    pub(crate) fn find(&self, key: u64) -> Option<u32> {
        let matches =
            |number: u32| self.entries[number as usize].load(Ordering::Relaxed) >> 32 == key + 1;
        self.index.find(self.bucket(key), matches)
    }

    /// One look: the version it was read at and the halves, or nothing if the look does not count.
    pub(crate) fn try_read(&self, key: u64) -> Option<(Version, Option<[u64; 2]>)> {
        let stripe = self.bucket(key).stripe;
        let version = self.index.read_begin(stripe);
        let halves = self.find(key).map(|number| {
            let slot = self.entries[number as usize].load(Ordering::Relaxed) as u32 as usize;
            [0, 1].map(|half| self.slots[slot % self.slots.len()][half].load(Ordering::Relaxed))
        });
        self.index
            .read_valid(stripe, version)
            .then_some((version, halves))
    }

    /// Makes a change under the stripe's lock, as the mutants would have it.
    pub(crate) fn change(&self, stripe: u32, change: impl FnOnce()) {
        self.index.lock(stripe);
        if mutated(Mutant::VersionNotBumped) || mutated(Mutant::ChangingMarkMissing) {
            change();
            if mutated(Mutant::ChangingMarkMissing) {
                self.index.begin_change(stripe);
            } else {
                return self.index.unlock(stripe);
            }
        } else {
            self.index.begin_change(stripe);
            change();
        }
        self.index.end_change_and_unlock(stripe);
    }

    pub(crate) fn fill_slot(&self, slot: usize, value: u64) {
        for half in &self.slots[slot] {
            half.store(value, Ordering::Relaxed);
        }
    }
}

/// An entry's word; zero is free.
pub(crate) fn entry(key: u64, slot: u64) -> u64 {
    (key + 1) << 32 | slot
}

/// The chain changes under a reader: a key is unlinked, its entry goes to another key. The reader finds its key's block or nothing.
pub(crate) fn lookup_finds_its_key() {
    let store = Store::new(4, 2, 3);
    let (written, read) = (store.clone(), store.clone());
    let writer = move || {
        let (bucket, other) = (written.bucket(0), written.bucket(2));
        written.change(bucket.stripe, || {
            written.index.unlink(bucket, 0);
            written.entries[0].store(0, Ordering::Relaxed);
            written.index.push_free(0);
        });
        written.change(other.stripe, || {
            let number = written.index.pop_free(0).expect("one is free");
            written.entries[number as usize].store(entry(2, 2), Ordering::Relaxed);
            written.index.link(other, number);
        });
    };
    let reader = move || {
        turn(1);
        let key = if variant(2) { 2 } else { 0 };
        if let Some((_, Some(halves))) = read.try_read(key) {
            assert_eq!(halves, [key; 2], "key {key} reads another block");
        }
    };
    beside(reader, writer);
    assert_eq!(store.try_read(0).expect("nobody writes").1, None);
    assert_eq!(store.try_read(2).expect("nobody writes").1, Some([2; 2]));
}

/// The key moves to another slot and its old one is filled anew while a reader copies it.
pub(crate) fn copy_notices_reuse() {
    let read = Store::new(1, 1, 2);
    let written = read.clone();
    let writer = move || {
        written.fill_slot(1, 7);
        if mutated(Mutant::SlotReusedBeforeUnlink) {
            written.fill_slot(0, 9);
        }
        written.change(0, || {
            written.entries[0].store(entry(0, 1), Ordering::Relaxed)
        });
        written.fill_slot(0, 9);
    };
    let reader = move || {
        turn(1);
        if let Some((_, halves)) = read.try_read(0) {
            let halves = halves.expect("the key is always there");
            assert!(halves == [0; 2] || halves == [7; 2], "copied {halves:?}");
        }
    };
    beside(reader, writer);
}

/// Deltas change the block in place while a reader copies it.
pub(crate) fn copy_is_never_torn() {
    let read = Store::new(1, 1, 1);
    let written = read.clone();
    let writer = move || {
        for value in [5, 6] {
            written.change(0, || written.fill_slot(0, value));
        }
    };
    let reader = move || {
        turn(1);
        if let Some((_, Some(halves))) = read.try_read(0) {
            assert_eq!(halves[0], halves[1], "torn");
        }
    };
    beside(reader, writer);
}
