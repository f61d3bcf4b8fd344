//! The index in DRAM: key → entry number, read without locks, changed under per-stripe locks.
//!
//! A stripe is one cache line: a word (lock, "changing", version) and fourteen chain heads. A key
//! belongs to one head of one stripe, so everything that decides where a key's bytes are found
//! (chain, entry, slot) changes only while its stripe is locked and marked "changing". A reader
//! notes the version, looks, copies, and believes the copy only if the version stands (seqlock).
//! Two keys of one stripe merely wait for each other; there is no lock above the stripe.
//!
//! An entry is free or in one chain (I6). A key's entry lies in the key's home line if that had
//! room, which is where readers look before they follow the chain.

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence, held_stripes, spin_hint};

/// Chain heads that fit a cache line beside the word.
pub(crate) const HEADS: usize = 14;
const LOCKED: u64 = 1;
const CHANGING: u64 = 2;
const VERSION: u64 = 4;
/// Which bits of a key's hash its bucket keeps.
pub(crate) const HASH_BITS_SHIFT: u32 = 7;
/// Entries of one line of the table: a key's home.
pub(crate) const ENTRIES_PER_LINE: u32 = 4;
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
pub(crate) struct Bucket {
    pub(crate) stripe: u32,
    head: u8,
    /// The first of the entries, one line of the table, where the key is put if one of them is free.
    /// A reader looks there first: both that line and the stripe follow from the key alone, so
    /// neither waits for the other to arrive from memory.
    pub(crate) home: u32,
    /// Some bits of the key's hash, from which the mask of its check is made.
    pub(crate) hash_bits: u32,
}

impl Bucket {
    /// One of 64 bits that tells most places apart.
    #[inline]
    pub(crate) fn seen_bit(self) -> u64 {
        1 << (self.stripe % 64)
    }
}

/// The version a reader starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Version(u64);

impl Version {
    /// A version that no stripe ever has.
    pub(crate) const NEVER: Version = Version(LOCKED | CHANGING);

    /// A number that rises with each change.
    pub(crate) fn turn(self) -> u64 {
        self.0 / VERSION
    }
}

/// All stripes and links, and which entries are free.
pub(crate) struct Index {
    stripes: Box<[Stripe]>,
    links: Box<[AtomicU32]>,
    /// One bit for each free entry.
    free: Box<[AtomicU64]>,
    /// The word of `free` where an entry was last found away from home.
    free_hint: AtomicU32,
    lines: u32,
    /// A thread panicked while it held stripes, which stay locked.
    is_abandoned: AtomicBool,
}

impl Index {
    /// An index in which the entries that `used` names are not free (the caller links them).
    pub(crate) fn with_used(entries: u32, used: impl Fn(u32) -> bool) -> Index {
        let stripes = (entries as usize).div_ceil(HEADS).max(1);
        let free_word = |word: u32| {
            let in_word = word * 64..(word * 64 + 64).min(entries);
            in_word
                .filter(|entry| !used(*entry))
                .fold(0, |bits, entry| bits | 1 << (entry % 64))
        };
        Index {
            stripes: (0..stripes).map(|_| Stripe::new()).collect(),
            links: (0..entries).map(|_| AtomicU32::new(NIL)).collect(),
            free: (0..entries.div_ceil(64))
                .map(|word| AtomicU64::new(free_word(word)))
                .collect(),
            free_hint: AtomicU32::new(0),
            lines: (entries / ENTRIES_PER_LINE).max(1),
            is_abandoned: AtomicBool::new(false),
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> u32 {
        let mixed = hash.rotate_left(17) >> 32;
        ((mixed * u64::from(self.lines)) >> 32) as u32 * ENTRIES_PER_LINE
    }

    /// The stripe and head of a key, from its hash.
    #[inline]
    pub(crate) fn bucket(&self, hash: u64) -> Bucket {
        let stripe = ((hash >> 32) * self.stripes.len() as u64) >> 32;
        let head = ((hash & 0xFFFF) * HEADS as u64) >> 16;
        Bucket {
            stripe: stripe as u32,
            head: head as u8,
            home: self.home(hash),
            hash_bits: (hash >> HASH_BITS_SHIFT) as u32,
        }
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
    /// As `read_begin`; `None` instead of a wait.
    #[inline]
    pub(crate) fn try_read_begin(&self, stripe: u32) -> Option<Version> {
        self.stripe(stripe).try_read_begin()
    }
    /// Ends a read: whether nothing of the stripe changed since `begin`.
    #[inline]
    pub(crate) fn read_valid(&self, stripe: u32, begin: Version) -> bool {
        self.stripe(stripe).read_valid(begin)
    }

    /// A stripe's lock.
    #[inline(always)]
    pub(crate) fn stripe(&self, stripe: u32) -> StripeLock<'_> {
        StripeLock(self.word(stripe))
    }
    /// The locks of several.
    #[inline(always)]
    pub(crate) fn stripe_locks(
        &self,
        stripes: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = StripeLock<'_>> {
        let all = &*self.stripes;
        stripes.map(|stripe| StripeLock(&all[stripe as usize].word))
    }
    /// Takes the stripe's lock. Locks are taken in ascending order of stripes.
    #[inline]
    pub(crate) fn lock(&self, stripe: u32) {
        self.stripe(stripe).lock();
    }
    #[inline]
    pub(crate) fn try_lock(&self, stripe: u32) -> bool {
        self.stripe(stripe).try_lock()
    }
    /// Releases the lock without a change.
    #[inline]
    pub(crate) fn unlock(&self, stripe: u32) {
        self.stripe(stripe).unlock();
    }
    /// Returns when every thread that holds a stripe's lock now has released it, but for one that never will.
    pub(crate) fn wait_for_holders(&self) {
        for stripe in 0..self.stripes.len() as u32 {
            while !self.try_lock(stripe) {
                if self.is_abandoned.load(Ordering::Acquire) {
                    return;
                }
                spin_hint();
            }
            self.unlock(stripe);
        }
    }
    /// The caller is unwinding, and the stripes that it holds stay locked.
    #[cold]
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }
    /// The version of a stripe that the caller has locked.
    #[inline]
    pub(crate) fn locked_version(&self, stripe: u32) -> Version {
        Version(self.word(stripe).load(Ordering::Relaxed) & !(LOCKED | CHANGING))
    }
    /// Readers keep away from here on. The caller holds the lock. Idempotent.
    #[inline]
    pub(crate) fn begin_change(&self, stripe: u32) {
        self.stripe(stripe).begin_change();
    }
    /// The change is complete: a new version, which is returned, and the lock is released.
    #[inline]
    pub(crate) fn end_change_and_unlock(&self, stripe: u32) -> Version {
        self.stripe(stripe).end_change_and_unlock()
    }

    /// Prefetches the key's stripe.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn prefetch(&self, bucket: Bucket) {
        forebay_pmem::prefetch(&self.stripes[bucket.stripe as usize]);
    }

    /// Walks the key's chain; `matches` looks at an entry. Under the lock the answer is exact,
    /// otherwise it counts only if `read_valid` says so afterwards. The walk always ends.
    #[inline]
    pub(crate) fn find(&self, bucket: Bucket, mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut link = self.stripes[bucket.stripe as usize].heads[bucket.head as usize]
            .load(Ordering::Acquire);
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
    pub(crate) fn link(&self, bucket: Bucket, entry: u32) {
        let head = &self.stripes[bucket.stripe as usize].heads[bucket.head as usize];
        self.links[entry as usize].store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(entry + 1, Ordering::Release);
    }

    /// Takes an entry out of its chain. The caller holds the lock, marked "changing".
    pub(crate) fn unlink(&self, bucket: Bucket, entry: u32) {
        let next = self.links[entry as usize].load(Ordering::Relaxed);
        let mut link = &self.stripes[bucket.stripe as usize].heads[bucket.head as usize];
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

    /// Takes a free entry: one of the line at `home` if there is one, else any.
    pub(crate) fn pop_free(&self, home: u32) -> Option<u32> {
        let at_home = ((1u64 << ENTRIES_PER_LINE) - 1) << (home % 64);
        if let Some(entry) = self.pop_free_of(home / 64, at_home) {
            return Some(entry);
        }
        let words = self.free.len() as u32;
        let start = self.free_hint.load(Ordering::Relaxed);
        let entry = (0..words).find_map(|turn| {
            let word = (start + turn) % words;
            self.pop_free_of(word, u64::MAX)
        })?;
        self.free_hint.store(entry / 64, Ordering::Relaxed);
        Some(entry)
    }

    fn pop_free_of(&self, word: u32, mask: u64) -> Option<u32> {
        let bits = &self.free[word as usize];
        let mut seen = bits.load(Ordering::Relaxed);
        loop {
            let found = seen & mask;
            if found == 0 {
                return None;
            }
            let bit = found & found.wrapping_neg();
            // Acquire: the thread that freed the entry was done with it.
            match bits.compare_exchange_weak(
                seen,
                seen & !bit,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(word * 64 + bit.trailing_zeros()),
                Err(now) => seen = now,
            }
        }
    }

    /// Gives an entry back. It is in no chain, and readers of its last chain were told.
    pub(crate) fn push_free(&self, entry: u32) {
        let bit = 1 << (entry % 64);
        let before = self.free[entry as usize / 64].fetch_or(bit, Ordering::Release);
        assert_eq!(before & bit, 0, "entry {entry} is freed once");
    }

    /// Bytes of DRAM.
    pub(crate) fn dram_bytes(&self) -> u64 {
        (self.stripes.len() * size_of::<Stripe>() + self.links.len() * 4 + self.free.len() * 8)
            as u64
    }
}

/// A stripe's word, found once for all that a change does to it.
#[derive(Clone, Copy)]
pub(crate) struct StripeLock<'i>(&'i AtomicU64);

impl StripeLock<'_> {
    /// As the index's.
    #[inline(always)]
    pub(crate) fn try_read_begin(self) -> Option<Version> {
        let word = self.0.load(Ordering::Acquire);
        (word & CHANGING == 0).then_some(Version(word & !LOCKED))
    }
    /// As the index's.
    #[inline(always)]
    pub(crate) fn read_valid(self, begin: Version) -> bool {
        // Orders the reader's loads before the second look at the word.
        fence(Ordering::Acquire);
        self.0.load(Ordering::Relaxed) & !LOCKED == begin.0
    }
    #[inline(always)]
    pub(crate) fn lock(self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }
    #[cold]
    fn lock_contended(self) {
        loop {
            spin_hint();
            if self.try_lock() {
                return;
            }
        }
    }
    #[inline(always)]
    fn try_lock(self) -> bool {
        let seen = self.0.load(Ordering::Relaxed);
        let locked = seen | LOCKED;
        let is_ours = seen & LOCKED == 0
            && self
                .0
                .compare_exchange(seen, locked, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if is_ours {
            held_stripes::lock();
        }
        is_ours
    }
    #[inline(always)]
    pub(crate) fn unlock(self) {
        let seen = self.0.load(Ordering::Relaxed);
        debug_assert!(seen & LOCKED != 0 && seen & CHANGING == 0);
        held_stripes::unlock();
        self.0.store(seen & !LOCKED, Ordering::Release);
    }
    #[inline(always)]
    pub(crate) fn begin_change(self) {
        let seen = self.0.load(Ordering::Relaxed);
        debug_assert!(seen & LOCKED != 0);
        self.0.store(seen | CHANGING, Ordering::Relaxed);
        // Orders the mark before the stores of the change.
        fence(Ordering::Release);
    }
    #[inline(always)]
    pub(crate) fn end_change_and_unlock(self) -> Version {
        let seen = self.0.load(Ordering::Relaxed);
        debug_assert!(seen & LOCKED != 0 && seen & CHANGING != 0);
        let version = (seen & !(LOCKED | CHANGING)).wrapping_add(VERSION);
        held_stripes::unlock();
        self.0.store(version, Ordering::Release);
        Version(version)
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
        let taken: Vec<u32> = std::iter::from_fn(|| index.pop_free(4)).collect();
        assert_eq!(taken, [4, 5, 0, 1, 2, 3]);
        let bucket = index.bucket(42);
        index.lock(bucket.stripe);
        index.begin_change(bucket.stripe);
        for entry in [3, 5, 6] {
            index.link(bucket, entry);
        }
        index.unlink(bucket, 5);
        index.end_change_and_unlock(bucket.stripe);
        let mut seen = Vec::new();
        assert_eq!(
            index.find(bucket, |entry| {
                seen.push(entry);
                false
            }),
            None
        );
        assert_eq!(seen, [6, 3]);
        index.push_free(5);
        assert_eq!(index.pop_free(0), Some(5));
    }

    #[test]
    fn a_change_invalidates_readers_and_a_lock_does_not() {
        let index = Index::with_used(4, |_| false);
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
