//! How far the log is durable. A group that was written and not flushed is published all the same: readers see it, a kill of the
//! process leaves it, and it is *settled*, durable, when a flush that began after its write has returned.
//!
//! Groups settle in the order of their numbers, so those that are not settled are the last ones, and a power cut leaves a prefix of them.

/// What a flush that begins now settles: everything that is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flushed {
    next: u64,
    tail: u64,
}

impl Flushed {
    /// Groups below are durable when it has returned.
    pub(crate) fn below(&self) -> u64 {
        self.next
    }
}

/// Which groups are published, and which of these are durable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled {
    /// Groups below are durable.
    below: u64,
    /// The next one to be published.
    next: u64,
    /// The tail that those which are published say.
    tail: u64,
    /// The tail that a durable one says: only segments below are written over.
    tail_durable: u64,
}

impl Settled {
    /// All that was found when the pool was opened is durable.
    pub(crate) fn new(next: u64, tail: u64) -> Settled {
        Settled {
            below: next,
            next,
            tail,
            tail_durable: tail,
        }
    }

    /// Groups below this one are durable.
    pub(crate) fn below(&self) -> u64 {
        self.below
    }

    /// The tail that a durable record says.
    pub(crate) fn tail_durable(&self) -> u64 {
        self.tail_durable
    }

    /// Whether everything that readers see is durable.
    pub(crate) fn is_all(&self) -> bool {
        self.below == self.next
    }

    /// A group is published, which says that the segments below `tail` are gone.
    pub(crate) fn publish(&mut self, group: u64, tail: u64) {
        self.next = self.next.max(group + 1);
        self.tail = self.tail.max(tail);
    }

    /// What a flush that begins now will have made durable.
    pub(crate) fn begin_flush(&self) -> Flushed {
        Flushed {
            next: self.next,
            tail: self.tail,
        }
    }

    /// A flush has returned.
    pub(crate) fn settle(&mut self, flushed: Flushed) {
        assert!(flushed.next <= self.next, "what settles is published");
        self.below = self.below.max(flushed.next);
        self.tail_durable = self.tail_durable.max(flushed.tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_settles_what_was_published_when_it_began() {
        let mut settled = Settled::new(7, 2);
        assert!(settled.is_all());
        settled.publish(7, 3);
        let first = settled.begin_flush();
        settled.publish(8, 4);
        let second = settled.begin_flush();
        assert_eq!((settled.below(), settled.tail_durable()), (7, 2));
        settled.settle(first);
        assert_eq!((settled.below(), settled.tail_durable()), (8, 3));
        assert!(!settled.is_all());
        settled.settle(second);
        settled.settle(first);
        assert_eq!((settled.below(), settled.tail_durable()), (9, 4));
        assert!(settled.is_all());
    }
}
