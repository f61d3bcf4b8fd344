//! Waiting for a group: each committer by itself, so that its leader wakes those of its group and nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};

const WAITING: u8 = 0;
const DURABLE: u8 = 1;
const FAILED: u8 = 2;
const WRITTEN: u8 = 3;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable and published.
    Durable,
    /// It is written and published: readers see it, a kill of the process leaves it, and [`Log::sync`](super::Log::sync) makes it
    /// durable.
    Written,
    /// The pool is poisoned. It is not published; after a crash it is there whole or not at all.
    Failed,
}

/// A committer that waits.
pub(crate) struct Waiter {
    outcome: AtomicU8,
    thread: Thread,
}

impl Waiter {
    /// For the calling thread.
    pub(crate) fn new() -> Arc<Waiter> {
        Arc::new(Waiter {
            outcome: AtomicU8::new(WAITING),
            thread: thread::current(),
        })
    }

    /// Tells it. What was published before is seen by what it does next.
    pub(crate) fn tell(&self, outcome: Outcome) {
        let value = match outcome {
            Outcome::Durable => DURABLE,
            Outcome::Written => WRITTEN,
            Outcome::Failed => FAILED,
        };
        self.outcome.store(value, Ordering::Release);
    }

    /// Wakes it, to look what it was told or to lead.
    pub(crate) fn wake(&self) {
        self.thread.unpark();
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match self.outcome.load(Ordering::Acquire) {
            WAITING => None,
            DURABLE => Some(Outcome::Durable),
            WRITTEN => Some(Outcome::Written),
            _ => Some(Outcome::Failed),
        }
    }
}

/// A transaction that has joined a group.
pub struct Ticket(pub(crate) Arc<Waiter>);

impl Ticket {
    /// What became of it; none as long as that is open.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.0.outcome()
    }
}
