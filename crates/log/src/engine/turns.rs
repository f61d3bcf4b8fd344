//! Turns to maintain the log: one thread at a time, in the order in which they came. A long write-back passes its turn on
//! between its steps, and who waited is then before it, however soon it comes again.

use super::maintained::Maintained;
use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What the thread whose turn it is works with, and the others that wait.
#[derive(Default)]
pub(crate) struct Turns {
    line: Mutex<Line>,
    ended: Condvar,
    /// Locked by the thread whose turn it is, so nobody waits here.
    maintained: Mutex<Maintained>,
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

    /// Waits until all that came before have ended their turns.
    pub(crate) fn take(&self) -> Turn<'_> {
        let mut line = self.line();
        let mine = line.next;
        line.next += 1;
        let waited = self.ended.wait_while(line, |line| line.served != mine);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        let place = Place(self);
        let maintained = self.maintained.lock();
        Turn {
            maintained: maintained.unwrap_or_else(PoisonError::into_inner),
            place,
        }
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
