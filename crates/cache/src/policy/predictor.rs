//! When it pays to probe a block: comparing costs reads, so work that never has anything to find must not
//! pay for it.
//!
//! A find earns its thread credit for the blocks to come; each probe in vain costs some. Without
//! credit, one block in so many is probed all the same, in case the work has changed.

use forebay_pmem::{THREAD_SHARDS, thread_shard};

use crate::sync::{AtomicU32, Ordering};

/// Probes that a find pays for.
const CREDIT: u32 = 256;
/// Without credit, one block in this many is probed.
const SAMPLE_PERIOD: u32 = 256;

/// What may be found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sought {
    /// Blocks like others: duplicates, and blocks of a journal.
    Duplicates,
    /// Blocks that differ little from what is cached of them.
    Changes,
}

/// What to look for in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Probe {
    pub(crate) duplicates: bool,
    pub(crate) changes: bool,
}

/// One thread's credit. Threads that share a shard may lose a count; it is a guess anyway.
#[repr(align(128))]
#[derive(Default)]
struct Shard {
    turn: AtomicU32,
    /// By what is sought.
    credit: [AtomicU32; 2],
}

/// Each thread's credit.
pub(crate) struct Predictor {
    shards: Box<[Shard]>,
    /// Always probe: what the crash checker runs must not depend on credit.
    always: bool,
}

impl Predictor {
    pub(crate) fn new(always: bool) -> Predictor {
        Predictor {
            shards: (0..THREAD_SHARDS).map(|_| Shard::default()).collect(),
            always,
        }
    }

    #[inline]
    fn mine(&self) -> &Shard {
        &self.shards[thread_shard().0]
    }

    /// What to look for in the next block.
    #[inline]
    pub(crate) fn probe(&self) -> Probe {
        let shard = self.mine();
        let turn = shard.turn.load(Ordering::Relaxed);
        shard.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        let sampled = self.always || turn.is_multiple_of(SAMPLE_PERIOD);
        let looks = |sought| sampled || shard.credit(sought).load(Ordering::Relaxed) > 0;
        Probe {
            duplicates: looks(Sought::Duplicates),
            changes: looks(Sought::Changes),
        }
    }

    /// Whether probes have paid lately.
    #[inline]
    pub(crate) fn has_credit(&self, sought: Sought) -> bool {
        self.always || self.mine().credit(sought).load(Ordering::Relaxed) > 0
    }

    /// A probe found something.
    pub(crate) fn found(&self, sought: Sought) {
        self.mine().credit(sought).store(CREDIT, Ordering::Relaxed);
    }

    /// A probe found nothing.
    pub(crate) fn found_nothing(&self, sought: Sought) {
        let credit = self.mine().credit(sought);
        let left = credit.load(Ordering::Relaxed).saturating_sub(1);
        credit.store(left, Ordering::Relaxed);
    }
}

impl Shard {
    #[inline]
    fn credit(&self, sought: Sought) -> &AtomicU32 {
        &self.credit[sought as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_rare_until_one_pays() {
        let predictor = Predictor::new(false);
        let look = || {
            let probe = predictor.probe();
            if probe.changes {
                predictor.found_nothing(Sought::Changes);
            }
            probe
        };
        assert_eq!((0..25600).filter(|_| look().changes).count(), 100);
        predictor.found(Sought::Changes);
        assert!(predictor.has_credit(Sought::Changes));
        assert_eq!((0..256).filter(|_| look().changes).count(), 256);
        assert_eq!((0..25600).filter(|_| look().changes).count(), 100);
        assert!(!predictor.has_credit(Sought::Duplicates));
    }
}
