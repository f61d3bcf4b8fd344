//! The index in DRAM: key → entry number, read without locks, changed under per-stripe locks.
//!
//! A stripe is one cache line: a word (lock, "changing", version) and fourteen chain heads. A key
//! belongs to one head of one stripe, so everything that decides where a key's bytes are found
//! (chain, entry, slot) changes only while its stripe is locked and marked "changing". A reader
//! notes the version, looks, copies, and believes the copy only if the version stands (seqlock).
//! Two keys of one stripe merely wait for each other; there is no lock above the stripe.
//!
//! The chain links also hold the list of free entries: an entry is free or in one chain (I6).

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, spin_hint};

/// Chain heads that fit a cache line beside the word.
pub(crate) const HEADS: usize = 14;
const LOCKED: u64 = 1;
const CHANGING: u64 = 2;
const VERSION: u64 = 4;
/// End of a chain; entry numbers are stored plus one, so that zeroed memory is empty.
const NIL: u32 = 0;

/// One cache line of the index.
#[repr(align(64))]
struct Stripe {
    word: AtomicU64,
    heads: [AtomicU32; HEADS],
}

/// Where a key belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place {
    pub(crate) stripe: u32,
    head: u8,
}

/// The version a reader starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version(u64);

impl Version {
    /// A version that no stripe ever has.
    pub(crate) const NEVER: Version = Version(LOCKED | CHANGING);
}

/// All stripes and links.
pub(crate) struct Index {
    stripes: Box<[Stripe]>,
    links: Box<[AtomicU32]>,
    /// Free entries: top in the low half, a tag against ABA in the high half.
    free_top: AtomicU64,
}

impl Index {
    /// An empty index over `entries` entries, all of them free, lowest number first.
    pub(crate) fn new(entries: u32) -> Index {
        Index::with_used(entries, |_| false)
    }

    /// An index in which the entries that `used` names are not free (the caller links them).
    pub(crate) fn with_used(entries: u32, used: impl Fn(u32) -> bool) -> Index {
        let stripes = (entries as usize).div_ceil(HEADS).max(1);
        let links: Box<[AtomicU32]> = (0..entries).map(|_| AtomicU32::new(NIL)).collect();
        let mut top = NIL;
        for entry in (0..entries).rev().filter(|entry| !used(*entry)) {
            links[entry as usize].store(top, Ordering::Relaxed);
            top = entry + 1;
        }
        Index {
            stripes: (0..stripes).map(|_| Stripe::new()).collect(),
            links,
            free_top: AtomicU64::new(u64::from(top)),
        }
    }

    /// The stripe and head of a key, from its hash.
    #[inline]
    pub(crate) fn place(&self, hash: u64) -> Place {
        let stripe = ((hash >> 32) * self.stripes.len() as u64) >> 32;
        let head = ((hash & 0xFFFF) * HEADS as u64) >> 16;
        Place {
            stripe: stripe as u32,
            head: head as u8,
        }
    }

    pub(crate) fn stripe_count(&self) -> u32 {
        self.stripes.len() as u32
    }

    #[inline]
    fn word(&self, stripe: u32) -> &AtomicU64 {
        &self.stripes[stripe as usize].word
    }

    /// Starts a read: waits until no change is under way (changes are a few stores long).
    #[inline]
    pub(crate) fn read_begin(&self, stripe: u32) -> Version {
        loop {
            let word = self.word(stripe).load(Ordering::Acquire);
            if word & CHANGING == 0 {
                return Version(word & !LOCKED);
            }
            spin_hint();
        }
    }
    /// Ends a read: whether nothing of the stripe changed since `begin`.
    #[inline]
    pub(crate) fn read_valid(&self, stripe: u32, begin: Version) -> bool {
        // Orders the reader's loads before the second look at the word.
        fence(Ordering::Acquire);
        self.word(stripe).load(Ordering::Relaxed) & !LOCKED == begin.0
    }

    /// Takes the stripe's lock. Locks are taken in ascending order of stripes.
    #[inline]
    pub(crate) fn lock(&self, stripe: u32) {
        while !self.try_lock(stripe) {
            spin_hint();
        }
    }
    #[inline]
    pub(crate) fn try_lock(&self, stripe: u32) -> bool {
        let word = self.word(stripe);
        let seen = word.load(Ordering::Relaxed);
        seen & LOCKED == 0
            && word
                .compare_exchange(seen, seen | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }
    /// Releases the lock without a change.
    #[inline]
    pub(crate) fn unlock(&self, stripe: u32) {
        let word = self.word(stripe);
        let seen = word.load(Ordering::Relaxed);
        debug_assert!(seen & LOCKED != 0 && seen & CHANGING == 0);
        word.store(seen & !LOCKED, Ordering::Release);
    }
    /// The version of a stripe that the caller has locked.
    #[inline]
    pub(crate) fn locked_version(&self, stripe: u32) -> Version {
        Version(self.word(stripe).load(Ordering::Relaxed) & !(LOCKED | CHANGING))
    }
    /// Readers keep away from here on. The caller holds the lock. Idempotent.
    #[inline]
    pub(crate) fn begin_change(&self, stripe: u32) {
        let word = self.word(stripe);
        let seen = word.load(Ordering::Relaxed);
        debug_assert!(seen & LOCKED != 0);
        word.store(seen | CHANGING, Ordering::Relaxed);
        // Orders the mark before the stores of the change.
        fence(Ordering::Release);
    }
    /// The change is complete: a new version, and the lock is released.
    #[inline]
    pub(crate) fn end_change_and_unlock(&self, stripe: u32) {
        let word = self.word(stripe);
        let seen = word.load(Ordering::Relaxed);
        debug_assert!(seen & LOCKED != 0 && seen & CHANGING != 0);
        word.store(
            (seen & !(LOCKED | CHANGING)).wrapping_add(VERSION),
            Ordering::Release,
        );
    }

    /// The first entry of the key's chain, as a hint.
    #[inline]
    pub(crate) fn first(&self, place: Place) -> Option<u32> {
        let head = &self.stripes[place.stripe as usize].heads[place.head as usize];
        head.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Brings the key's stripe near.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn prefetch(&self, place: Place) {
        forebay_pmem::prefetch(&self.stripes[place.stripe as usize]);
    }

    /// Walks the key's chain; `matches` looks at an entry. Under the lock the answer is exact,
    /// otherwise it counts only if `read_valid` says so afterwards. The walk always ends.
    #[inline]
    pub(crate) fn find(&self, place: Place, mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut link =
            self.stripes[place.stripe as usize].heads[place.head as usize].load(Ordering::Acquire);
        // A racing reader may stray into other chains; no chain is longer than all entries.
        for _ in 0..=self.links.len() {
            let entry = link.checked_sub(1)?;
            if matches(entry) {
                return Some(entry);
            }
            link = self.links[entry as usize].load(Ordering::Acquire);
        }
        None
    }

    /// Puts an entry at the front of a chain. The caller holds the lock, marked "changing".
    #[inline]
    pub(crate) fn link(&self, place: Place, entry: u32) {
        let head = &self.stripes[place.stripe as usize].heads[place.head as usize];
        self.links[entry as usize].store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(entry + 1, Ordering::Release);
    }

    /// Takes an entry out of its chain. The caller holds the lock, marked "changing".
    pub(crate) fn unlink(&self, place: Place, entry: u32) {
        let next = self.links[entry as usize].load(Ordering::Relaxed);
        let mut link = &self.stripes[place.stripe as usize].heads[place.head as usize];
        for _ in 0..=self.links.len() {
            let seen = link.load(Ordering::Relaxed);
            assert_ne!(seen, NIL, "entry {entry} is in the chain of its key");
            if seen == entry + 1 {
                link.store(next, Ordering::Release);
                return;
            }
            link = &self.links[seen as usize - 1];
        }
        panic!("a chain runs in a circle");
    }

    /// Takes a free entry, if there is one.
    pub(crate) fn pop_free(&self) -> Option<u32> {
        let mut seen = self.free_top.load(Ordering::Acquire);
        loop {
            let entry = (seen as u32).checked_sub(1)?;
            // May be stale if another thread took this entry meanwhile: then the tag differs.
            let next = self.links[entry as usize].load(Ordering::Relaxed);
            let tag = (seen >> 32).wrapping_add(1) << 32;
            match self.free_top.compare_exchange_weak(
                seen,
                tag | u64::from(next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(entry),
                Err(now) => seen = now,
            }
        }
    }

    /// Gives an entry back. It is in no chain, and readers of its last chain were told.
    pub(crate) fn push_free(&self, entry: u32) {
        let mut seen = self.free_top.load(Ordering::Relaxed);
        loop {
            self.links[entry as usize].store(seen as u32, Ordering::Relaxed);
            let tag = (seen >> 32).wrapping_add(1) << 32;
            match self.free_top.compare_exchange_weak(
                seen,
                tag | u64::from(entry + 1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        (self.stripes.len() * size_of::<Stripe>() + self.links.len() * 4) as u64
    }
}

impl Stripe {
    fn new() -> Stripe {
        Stripe {
            word: AtomicU64::new(0),
            heads: std::array::from_fn(|_| AtomicU32::new(NIL)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn chains_and_free_list() {
        let index = Index::with_used(8, |entry| entry >= 6);
        let taken: Vec<u32> = std::iter::from_fn(|| index.pop_free()).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
        let place = index.place(42);
        index.lock(place.stripe);
        index.begin_change(place.stripe);
        for entry in [3, 5, 6] {
            index.link(place, entry);
        }
        index.unlink(place, 5);
        index.end_change_and_unlock(place.stripe);
        let mut seen = Vec::new();
        assert_eq!(
            index.find(place, |entry| {
                seen.push(entry);
                false
            }),
            None
        );
        assert_eq!(seen, [6, 3]);
        index.push_free(5);
        assert_eq!(index.pop_free(), Some(5));
    }

    #[test]
    fn a_change_invalidates_readers_and_a_lock_does_not() {
        let index = Index::new(4);
        let begin = index.read_begin(0);
        index.lock(0);
        assert!(index.read_valid(0, begin));
        assert!(!index.try_lock(0));
        index.begin_change(0);
        assert!(!index.read_valid(0, begin));
        index.end_change_and_unlock(0);
        assert!(!index.read_valid(0, begin));
        assert_ne!(index.read_begin(0), begin);
    }
}
