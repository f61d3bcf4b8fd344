//! The policy of a running pool, which can be exchanged while all threads use it.
//!
//! Blocks come and go under the lock of their stripe. So the new policy is first told of these changes;
//! once every stripe's lock has been taken after that, every thread at work tells it. Then it
//! is told of what is there already, and only then asked for victims.

use std::sync::OnceLock;

use super::{Lru, Replacement, Sieve};
use crate::options::ReplacementPolicy;
use crate::sync::{AtomicU8, Ordering};

/// All policies there are; those that were never used hold nothing.
pub(crate) struct Switchable {
    capacity: usize,
    sieve: OnceLock<Sieve>,
    lru: OnceLock<Lru>,
    /// The policy that is asked for victims and told of hits.
    current: AtomicU8,
    /// A bit for each policy that is told of what comes and goes.
    told: AtomicU8,
}

/// Where hits go.
#[derive(Clone, Copy)]
pub(crate) enum Hits<'p> {
    Sieve(&'p Sieve),
    Lru(&'p Lru),
}

impl Hits<'_> {
    /// See [`Replacement::on_hit`].
    #[inline(always)]
    pub(crate) fn on_hit(self, entry: u32) {
        match self {
            Hits::Sieve(sieve) => sieve.mark(entry),
            Hits::Lru(lru) => lru.on_hit(entry),
        }
    }
}

const SIEVE: u8 = ReplacementPolicy::Sieve as u8;

fn bit(policy: ReplacementPolicy) -> u8 {
    1 << policy as u8
}

impl Switchable {
    /// Uses `policy`, empty, for entries `0..capacity`.
    pub(crate) fn new(policy: ReplacementPolicy, capacity: usize) -> Switchable {
        let new = Switchable {
            capacity,
            sieve: OnceLock::new(),
            lru: OnceLock::new(),
            current: AtomicU8::new(policy as u8),
            told: AtomicU8::new(0),
        };
        new.begin_telling(policy);
        new
    }

    /// The policy in use.
    pub(crate) fn policy(&self) -> ReplacementPolicy {
        match self.current.load(Ordering::Relaxed) {
            SIEVE => ReplacementPolicy::Sieve,
            _ => ReplacementPolicy::Lru,
        }
    }

    #[inline]
    fn sieve(&self) -> &Sieve {
        self.sieve.get_or_init(|| Sieve::new(self.capacity))
    }

    #[inline]
    fn lru(&self) -> &Lru {
        self.lru.get_or_init(|| Lru::new(self.capacity))
    }

    fn get(&self, policy: ReplacementPolicy) -> &dyn Replacement {
        match policy {
            ReplacementPolicy::Sieve => self.sieve(),
            ReplacementPolicy::Lru => self.lru(),
        }
    }

    /// From now on `policy`, which is empty, is told of what comes and goes. Relaxed, here and where it
    /// is asked: the stripes' locks order it.
    pub(crate) fn begin_telling(&self, policy: ReplacementPolicy) {
        self.get(policy);
        self.told.fetch_or(bit(policy), Ordering::Relaxed);
    }

    /// Tells `policy` of an entry that is there. The caller holds the lock of its stripe.
    pub(crate) fn tell(&self, policy: ReplacementPolicy, entry: u32) {
        self.get(policy).on_insert(entry);
    }

    /// Asks `policy` from now on, and no longer tells `before` anything.
    pub(crate) fn switch(&self, before: ReplacementPolicy, policy: ReplacementPolicy) {
        self.current.store(policy as u8, Ordering::Relaxed);
        self.told.fetch_and(!bit(before), Ordering::Relaxed);
    }

    /// Empties a policy that is no longer told anything, so that it can be used again.
    pub(crate) fn empty(&self, policy: ReplacementPolicy) {
        let policy = self.get(policy);
        (0..self.capacity as u32).for_each(|entry| policy.on_remove(entry));
    }

    /// See [`Replacement::on_insert`]. The caller holds the lock of the entry's stripe.
    #[inline]
    pub(crate) fn on_insert(&self, entry: u32) {
        self.each_told(|policy| policy.on_insert(entry));
    }

    /// See [`Replacement::on_remove`]. The caller holds the lock of the entry's stripe.
    #[inline]
    pub(crate) fn on_remove(&self, entry: u32) {
        self.each_told(|policy| policy.on_remove(entry));
    }

    #[inline]
    fn each_told(&self, tell: impl Fn(&dyn Replacement)) {
        let told = self.told.load(Ordering::Relaxed);
        if told & bit(ReplacementPolicy::Sieve) != 0 {
            tell(self.sieve());
        }
        if told & bit(ReplacementPolicy::Lru) != 0 {
            tell(self.lru());
        }
    }

    /// See [`Replacement::on_hit`].
    #[inline(always)]
    pub(crate) fn on_hit(&self, entry: u32) {
        match (self.current.load(Ordering::Relaxed), self.sieve.get()) {
            (SIEVE, Some(sieve)) => sieve.mark(entry),
            _ => self.lru().on_hit(entry),
        }
    }

    /// The policy that is told of hits now, for several of them.
    #[inline(always)]
    pub(crate) fn hits(&self) -> Hits<'_> {
        match (self.current.load(Ordering::Relaxed), self.sieve.get()) {
            (SIEVE, Some(sieve)) => Hits::Sieve(sieve),
            _ => Hits::Lru(self.lru()),
        }
    }

    /// See [`Replacement::insert_all`].
    pub(crate) fn insert_all(&self, entries: &mut dyn Iterator<Item = u32>) {
        self.get(self.policy()).insert_all(entries);
    }

    /// See [`Replacement::victims`].
    pub(crate) fn victims(
        &self,
        wanted: usize,
        eligible: &mut dyn FnMut(u32) -> bool,
        out: &mut Vec<u32>,
    ) {
        self.get(self.policy()).victims(wanted, eligible, out);
    }

    /// Entries present.
    pub(crate) fn len(&self) -> usize {
        self.get(self.policy()).len()
    }

    /// DRAM held, in bytes.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.sieve.get().map_or(0, Sieve::dram_bytes) + self.lru.get().map_or(0, Lru::dram_bytes)
    }
}
