//! What recovery may do that the rights of its user on its own files forbid: it gives itself the right, and the last thing that
//! it does to an inode takes it away. The log tells the rights before they are changed, so a crash on the way changes nothing.

use std::collections::BTreeMap;
use std::io;

use super::attributes::{AttributeChange, Moment, Outcome, Rights, Told};
use super::record::Record;
use super::recovery_log::{Attempt, RecoveryLog};
use super::space::{KIND_BITS, NameSpace};
use super::table::Table;
use crate::metadata::FileId;

/// The log of a recovery, and what the log did not tell before.
pub(super) struct Permits<'a> {
    pub(super) log: RecoveryLog<'a>,
    /// Rights of inodes, as they were and are to be.
    told: BTreeMap<FileId, (Told, Outcome)>,
}

impl<'a> Permits<'a> {
    pub(super) fn new(log: RecoveryLog<'a>) -> Permits<'a> {
        Permits {
            log,
            told: BTreeMap::new(),
        }
    }

    /// From now on recovery changes inodes: it records that, and before it `first`, if there is room for all of it.
    ///
    /// # Errors
    /// The pool's.
    pub(super) fn begin_attempt<S: NameSpace>(
        &mut self,
        space: &S,
        first: impl Iterator<Item = Record>,
    ) -> io::Result<()> {
        for record in first {
            if !self.log.may(&[record])? && *self.log.attempt == Attempt::NotBegun {
                *self.log.attempt = Attempt::WithoutRecord;
            }
        }
        if *self.log.attempt == Attempt::NotBegun {
            *self.log.attempt = match self.log.may(&[attempt(space, false)])? {
                true => Attempt::Recorded,
                false => Attempt::WithoutRecord,
            };
        }
        Ok(())
    }

    /// Does it, and again with the right to, where this user owns the inode and may not.
    ///
    /// # Errors
    /// `act`'s, the pool's.
    pub(super) fn with<S: NameSpace, T>(
        &mut self,
        space: &S,
        table: &Table,
        (id, handle): (FileId, &S::Handle),
        act: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        match act() {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                match self.permit(space, table, id, handle)? {
                    true => act(),
                    false => Err(error),
                }
            }
            done => done,
        }
    }

    /// Gives the owner all rights on its inode. False if they are not what is missing, or not ours to give.
    fn permit<S: NameSpace>(
        &mut self,
        space: &S,
        table: &Table,
        id: FileId,
        handle: &S::Handle,
    ) -> io::Result<bool> {
        let Ok(seen) = space.seen(handle) else {
            return Ok(false);
        };
        let mode = seen.mode & !KIND_BITS;
        let bits = match seen.is_directory() {
            true => libc::S_IRWXU,
            false => libc::S_IRUSR | libc::S_IWUSR,
        };
        let is_given = mode & bits == bits;
        if is_given || seen.user != space.user() || id == FileId::ROOT {
            return Ok(false);
        }
        let node = table.node(id);
        let is_told = node.is_some_and(|node| node.wanted().rights().is_some());
        if !is_told && !self.told.contains_key(&id) {
            let changed = node.and_then(|node| node.attributes.changed());
            let told = Told {
                stamp: 0,
                changed: changed.unwrap_or(Moment::of_ns(seen.changed_ns)),
            };
            let rights = Rights::of(&seen);
            let outcome = Outcome::Rights(rights, rights.owner());
            self.begin_attempt(space, std::iter::empty())?;
            let record = Record::Attribute {
                id,
                told,
                outcome: outcome.clone(),
            };
            if !self.log.may(&[record])? {
                return Ok(false);
            }
            self.told.insert(id, (told, outcome));
        }
        self.begin_attempt(space, std::iter::empty())?;
        let change = AttributeChange::Mode(mode | bits);
        Ok(space.change(handle, &change).is_ok())
    }

    /// The rights of an inode that the log was told, if it was.
    pub(super) fn rights_told(&self, id: FileId) -> Option<Rights> {
        match self.told.get(&id)? {
            (_, Outcome::Rights(rights, _)) => Some(*rights),
            _ => None,
        }
    }

    /// The table tells what the log was told.
    pub(super) fn tell(&mut self, table: &mut Table) {
        for (id, (told, outcome)) in std::mem::take(&mut self.told) {
            if let Some(attributes) = table.attributes_mut(id) {
                attributes.apply(told, &outcome);
            }
        }
    }
}

/// The clock that times of change are taken from ticks so seldom at most, and what was done last may be ahead of what it says.
const TICK_NS: i128 = 10_000_000;

/// What says when recovery is at work.
pub(super) fn attempt<S: NameSpace>(space: &S, ends: bool) -> Record {
    let ahead_ns = match ends {
        true => TICK_NS,
        false => 0,
    };
    Record::Recovering {
        boot: space.boot(),
        at: Moment::of_ns(space.change_clock_ns() + ahead_ns),
        ends,
    }
}
