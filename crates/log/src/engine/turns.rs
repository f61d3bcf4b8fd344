//! Turns to maintain the log: one thread at a time, in the order in which they came. A long write-back passes its turn on
//! between its steps, and who waited is then before it, however soon it comes again.
//!
//! A thread that has a turn waits neither for another turn nor for the lock of a volume, whose holders may wait for a turn: the
//! first is asserted here, the second by those who lock volumes.

use super::maintained::Maintained;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that had a turn so far.
static THREADS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's number, which is not 0.
    static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed) + 1;
}

/// What the thread whose turn it is works with, and the others that wait.
#[derive(Default)]
pub(crate) struct Turns {
    line: Mutex<Line>,
    ended: Condvar,
    /// Locked by the thread whose turn it is, so nobody waits here.
    maintained: Mutex<Maintained>,
    /// The number of that thread. Only whether it is its own a thread asks, so no order is needed.
    holder: AtomicU64,
}

/// Places are numbered in the order in which threads come.
#[derive(Default)]
struct Line {
    /// Whose turn it is.
    served: u64,
    /// The next thread's.
    next: u64,
}

/// A turn, until this is dropped.
pub(crate) struct Turn<'l> {
    // Before the place, so that the next thread finds it unlocked.
    maintained: MutexGuard<'l, Maintained>,
    place: Place<'l>,
}

/// A place in the line that has come to its front.
struct Place<'l>(&'l Turns);

impl Turns {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is this thread's turn.
    pub(crate) fn is_mine(&self) -> bool {
        THREAD.with(|thread| self.holder.load(Ordering::Relaxed) == *thread)
    }

    /// Waits until all that came before have ended their turns.
    ///
    /// # Panics
    /// It is this thread's turn already: it would wait for itself.
    pub(crate) fn take(&self) -> Turn<'_> {
        assert!(!self.is_mine(), "a thread has one turn at a time");
        let mut line = self.line();
        let mine = line.next;
        line.next += 1;
        let waited = self.ended.wait_while(line, |line| line.served != mine);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        self.begin()
    }

    /// This thread's place has come to the front.
    fn begin(&self) -> Turn<'_> {
        let place = Place(self);
        THREAD.with(|thread| self.holder.store(*thread, Ordering::Relaxed));
        let maintained = self.maintained.lock();
        Turn {
            maintained: maintained.unwrap_or_else(PoisonError::into_inner),
            place,
        }
    }

    /// A turn, if no thread has one or waits for one. It may be this thread's already.
    pub(crate) fn try_take(&self) -> Option<Turn<'_>> {
        let mut line = self.line();
        if line.next != line.served {
            return None;
        }
        line.next += 1;
        drop(line);
        Some(self.begin())
    }

    /// How many turns have ended.
    #[cfg(test)]
    pub(crate) fn served(&self) -> u64 {
        self.line().served
    }

    /// Whether a thread waits for its turn.
    pub(crate) fn is_wanted(&self) -> bool {
        let line = self.line();
        line.next > line.served + 1
    }
}

impl<'l> Turn<'l> {
    /// Lets all that wait have theirs, and takes another.
    pub(crate) fn pass(self) -> Turn<'l> {
        let turns = self.place.0;
        drop(self);
        turns.take()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.holder.store(0, Ordering::Relaxed);
        self.0.line().served += 1;
        self.0.ended.notify_all();
    }
}

impl Deref for Turn<'_> {
    type Target = Maintained;

    fn deref(&self) -> &Maintained {
        &self.maintained
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Maintained {
        &mut self.maintained
    }
}
