//! Which cached block goes when room is needed.
//!
//! A policy knows entries by their index in the entry table and nothing else. It proposes victims;
//! the reclaimer decides, under the block's lock, whether one really goes. The paper's LRU is here to
//! compare with; the default is [`Sieve`], which measures at least as good on every trace of
//! `forebay-bench` and does not write to shared memory when a block that was hit is hit again.

mod links;
mod lru;
mod replacement;
mod sieve;
mod switchable;

#[cfg(any(test, feature = "unstable-internals"))]
pub use links::Links;
pub use lru::Lru;
pub use replacement::Replacement;
pub use sieve::Sieve;
pub(crate) use switchable::Switchable;

#[cfg(any(test, feature = "unstable-internals"))]
use crate::options::ReplacementPolicy;

#[cfg(any(test, feature = "unstable-internals"))]
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

#[cfg(test)]
mod tests;
