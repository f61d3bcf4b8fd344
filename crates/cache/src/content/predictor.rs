//! When it pays to look: comparing costs reads, so work that never has anything to find must not pay
//! for it.
//!
//! A find earns its thread credit for the blocks to come; each look in vain costs some. Without
//! credit, one block in so many is looked at all the same, in case the work has changed.

use forebay_pmem::{THREAD_SHARDS, thread_shard};

use crate::sync::{AtomicU32, Ordering};

/// Looks that a find pays for.
const CREDIT: u32 = 256;
/// Without credit every so many blocks one is looked at.
const SAMPLE_PERIOD: u32 = 128;

/// One thread's luck. Threads that share a shard may lose a count; it is a guess anyway.
#[repr(align(128))]
#[derive(Default)]
struct Shard {
    credit: AtomicU32,
    turn: AtomicU32,
}

/// Each thread's luck.
pub(crate) struct Predictor {
    shards: Box<[Shard]>,
    /// Always look: what the crash checker runs must not depend on luck.
    always: bool,
}

impl Predictor {
    pub(crate) fn new(always: bool) -> Predictor {
        Predictor {
            shards: (0..THREAD_SHARDS).map(|_| Shard::default()).collect(),
            always,
        }
    }

    fn mine(&self) -> &Shard {
        &self.shards[thread_shard().0]
    }

    /// Whether to look at the next block.
    #[inline]
    pub(crate) fn says_look(&self) -> bool {
        let shard = self.mine();
        if self.always || shard.credit.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let turn = shard.turn.load(Ordering::Relaxed);
        shard.turn.store(turn.wrapping_add(1), Ordering::Relaxed);
        turn.is_multiple_of(SAMPLE_PERIOD)
    }

    /// A look found something.
    pub(crate) fn found(&self) {
        self.mine().credit.store(CREDIT, Ordering::Relaxed);
    }

    /// A look found nothing.
    pub(crate) fn found_nothing(&self) {
        let credit = &self.mine().credit;
        let left = credit.load(Ordering::Relaxed).saturating_sub(1);
        credit.store(left, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_rare_until_one_pays() {
        let predictor = Predictor::new(false);
        let look = || {
            let looks = predictor.says_look();
            if looks {
                predictor.found_nothing();
            }
            looks
        };
        assert_eq!((0..12800).filter(|_| look()).count(), 100);
        predictor.found();
        assert_eq!((0..256).filter(|_| look()).count(), 256);
        assert_eq!((0..12800).filter(|_| look()).count(), 100);
    }
}
