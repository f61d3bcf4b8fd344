//! Which cached block goes when room is needed.
//!
//! A policy knows entries by their index in the entry table and nothing else. It proposes victims;
//! the reclaimer decides, under the block's lock, whether one really goes. The paper's LRU is here to
//! compare with; the default is [`Sieve`], which measures at least as good on every trace of
//! `forebay-bench` and does not write to shared memory when a block that was hit is hit again.

mod links;
mod lru;
mod sieve;
mod switchable;

#[cfg(any(test, feature = "unstable-internals"))]
pub use links::Links;
pub use lru::Lru;
pub use sieve::Sieve;
pub(crate) use switchable::Switchable;

use crate::options::ReplacementPolicy;

/// A replacement policy over entries `0..capacity`. All methods may be called from any thread.
pub trait Replacement: Send + Sync {
    /// `entry` now caches a block. Inserting one that is present counts as a hit.
    fn on_insert(&self, entry: u32);

    /// As `on_insert` for entries none of which is present: what recovery found.
    fn insert_all(&self, entries: &mut dyn Iterator<Item = u32>) {
        for entry in entries {
            self.on_insert(entry);
        }
    }

    /// The block of `entry` was read or overwritten. Unknown entries are ignored: a hit may race
    /// with the removal.
    fn on_hit(&self, entry: u32);

    /// `entry` no longer caches anything. Unknown entries are ignored.
    fn on_remove(&self, entry: u32);

    /// Appends up to `wanted` entries for which `eligible` holds to `out`, best victim first, each
    /// at most once a call. They stay until `on_remove`. Others (dirty, in a commit) are passed over
    /// and stay. The scan is bounded, so fewer than wanted may come back although more are eligible
    /// (calling again goes on from there), but none only where none was. `eligible` runs under the
    /// policy's lock and must not block.
    fn victims(&self, wanted: usize, eligible: &mut dyn FnMut(u32) -> bool, out: &mut Vec<u32>);

    /// Entries present.
    fn len(&self) -> usize;

    /// Whether no entry is present.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// DRAM held, in bytes.
    fn dram_bytes(&self) -> u64;
}

impl ReplacementPolicy {
    /// An empty policy for entries `0..capacity`.
    #[must_use]
    pub fn build(self, capacity: usize) -> Box<dyn Replacement> {
        match self {
            ReplacementPolicy::Sieve => Box::new(Sieve::new(capacity)),
            ReplacementPolicy::Lru => Box::new(Lru::new(capacity)),
        }
    }
}

/// Entries looked at per call of `victims` for each one wanted, once one was found: with three
/// quarters of the pool dirty or recently hit, a call still finds what it wants on average.
const SCAN_PER_WANTED: usize = 16;

#[cfg(test)]
mod tests;
