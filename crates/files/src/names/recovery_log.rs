//! The log as recovery appends to it: some room is recovery's alone, and what it can do without is not recorded where room ends.

use std::io;

use super::attributes::Moment;
use super::errors::no_room;
use super::log::Log;
use super::record::Record;
use super::space::NameSpace;

/// Whether the log says that this recovery is at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// Nothing has been changed yet.
    NotBegun,
    /// It does.
    Recorded,
    /// It has no room for that, so it must not say that it ended either.
    WithoutRecord,
}

/// See the module.
pub(super) struct RecoveryLog<'a> {
    pub(super) log: &'a mut Log,
    /// Whether it says that this recovery is at work.
    pub(super) attempt: &'a mut Attempt,
}

impl RecoveryLog<'_> {
    /// What recovery cannot do without is recorded when this returns.
    ///
    /// # Errors
    /// The pool's; there is no room.
    pub(super) fn must(&mut self, record: Record) -> io::Result<()> {
        match self.log.append_in_recovery(&[record])? {
            true => Ok(()),
            false => Err(no_room()),
        }
    }

    /// From now on recovery changes inodes: it records that, and before it `first`, if there is room for all of it. Where there
    /// is none, a recovery after a crash of this one takes what this one did for others'.
    ///
    /// # Errors
    /// The pool's.
    pub(super) fn begin_attempt<S: NameSpace>(
        &mut self,
        space: &S,
        first: impl Iterator<Item = Record>,
    ) -> io::Result<()> {
        for record in first {
            if !self.log.append_dispensable(&[record])? && *self.attempt == Attempt::NotBegun {
                *self.attempt = Attempt::WithoutRecord;
            }
        }
        if *self.attempt == Attempt::NotBegun {
            let begins = attempt(space, false);
            *self.attempt = match self.log.append_dispensable(&[begins])? {
                true => Attempt::Recorded,
                false => Attempt::WithoutRecord,
            };
        }
        Ok(())
    }

    /// Recovery ends, and is to be begun again: what others change from now on is theirs.
    ///
    /// # Errors
    /// The pool's.
    pub(super) fn end_attempt<S: NameSpace>(&mut self, space: &S) -> io::Result<()> {
        if *self.attempt == Attempt::Recorded {
            self.log.append_dispensable(&[attempt(space, true)])?;
        }
        *self.attempt = Attempt::NotBegun;
        Ok(())
    }
}

/// The clock that times of change are taken from ticks so seldom at most, and what was done last may be ahead of what it says.
const TICK_NS: i128 = 10_000_000;

/// What says when recovery is at work.
fn attempt<S: NameSpace>(space: &S, ends: bool) -> Record {
    let ahead_ns = match ends {
        true => TICK_NS,
        false => 0,
    };
    let at: Moment = space.change_clock_ns() + ahead_ns;
    Record::Recovering {
        boot: space.boot(),
        at,
        ends,
    }
}
