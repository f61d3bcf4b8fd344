//! Changes of attributes: applied, and recorded.
//!
//! What cannot be recorded is not lost: a sync of the inode syncs the backing then. But what the log says
//! of its attributes may be older than what that sync makes durable, and must not be put over it: see
//! [`super::unrecorded`].

use std::ffi::OsStr;
use std::io;

use super::attributes::{AttributeChange, CAPABILITY, Moment, Outcome};
use super::media::Record;
use super::outcomes::outcomes;
use super::proof::Proof;
use super::space::{NameSpace, Seen};
use super::unrecorded::{Changed, Settled};
use super::{Inner, Names};
use crate::metadata::FileId;
use crate::mutants::{Mutant, mutated};

/// What became of a change.
#[derive(Debug)]
pub(crate) struct Applied {
    /// The backing's answer; on an error nothing has changed.
    pub(crate) result: io::Result<()>,
    /// Else what is to be durable has to be synced in the backing, and settled (see [`Names::settle`]).
    pub(crate) is_recorded: bool,
}

impl<S: NameSpace> Names<S> {
    /// Changes attributes of an inode, and records what came of it.
    pub(crate) fn change(&self, subject: &S::Handle, change: &AttributeChange<'_>) -> Applied {
        let mut inner = self.lock();
        let refused = |error| Applied {
            result: Err(error),
            is_recorded: true,
        };
        let before = match self.space.seen(subject) {
            Ok(before) => before,
            Err(error) => return refused(error),
        };
        let result = self.space.change(subject, change);
        let is_recorded = match (&result, change) {
            (Ok(()), _) => self.record_change(&mut inner, subject, change, &before),
            // What the log has of it was lost in the backing meanwhile.
            (Err(error), AttributeChange::Remove(name)) if is_absent(error) => {
                self.record_absence(&mut inner, subject, &before, name)
            }
            _ => Ok(true),
        };
        // An error of the log's is none of the caller's, whose change is made.
        let is_recorded = is_recorded.unwrap_or(false);
        if !is_recorded {
            let changed = match change {
                AttributeChange::Times(_) => Changed::Times,
                _ => Changed::Others,
            };
            inner.not_recorded(&before, changed);
        }
        Applied {
            result,
            is_recorded,
        }
    }

    fn record_change(
        &self,
        inner: &mut Inner,
        subject: &S::Handle,
        change: &AttributeChange<'_>,
        before: &Seen,
    ) -> io::Result<bool> {
        let after = self.space.seen(subject)?;
        match outcomes(change, before, &after) {
            Some(outcomes) => self.record(inner, subject, &after, outcomes),
            None => Ok(false),
        }
    }

    fn record_absence(
        &self,
        inner: &mut Inner,
        subject: &S::Handle,
        seen: &Seen,
        name: &OsStr,
    ) -> io::Result<bool> {
        let id = inner.table.find(&seen.identity);
        let node = id.and_then(|id| inner.table.node(id));
        if !node.is_some_and(|node| node.attributes.has_value(name)) {
            return Ok(true);
        }
        let outcome = Outcome::Extended {
            name: name.to_os_string(),
            value: None,
        };
        self.record(inner, subject, seen, vec![outcome])
    }

    /// The content of an inode is about to change: a time of modification that the log tells of, and a capability, do
    /// not count any more. False if that could not be recorded, as in [`Applied`].
    ///
    /// # Errors
    /// The pool's, of a capability: a crash would give it to other bytes than it was given to.
    pub(crate) fn is_modified(&self, subject: &S::Handle) -> io::Result<bool> {
        let mut inner = self.lock();
        let seen = self.space.seen(subject)?;
        let id = inner.table.find(&seen.identity);
        let Some(node) = id.and_then(|id| inner.table.node(id)) else {
            return Ok(true);
        };
        let ended = node
            .attributes
            .ended_by_change(Moment::of_ns(self.space.now_ns()));
        if ended.is_empty() {
            return Ok(true);
        }
        let has_capability = node.attributes.has_value(CAPABILITY.as_ref());
        match self.record(&mut inner, subject, &seen, ended) {
            Err(error) if has_capability => Err(error),
            Err(_) => {
                inner.not_recorded(&seen, Changed::Times);
                Ok(false)
            }
            recorded => recorded,
        }
    }

    /// Records outcomes. False if they cannot be.
    fn record(
        &self,
        inner: &mut Inner,
        subject: &S::Handle,
        seen: &Seen,
        outcomes: Vec<Outcome>,
    ) -> io::Result<bool> {
        if inner.is_over {
            return Ok(false);
        }
        // Without a name it need not survive, and if it gets one it is made durable then.
        if seen.links == 0 || outcomes.is_empty() {
            return Ok(true);
        }
        if seen.identity.proof == Proof::NOTHING {
            // Recovery could take another inode for it.
            return Ok(false);
        }
        inner.check()?;
        self.make_room(inner)?;
        let introduced = self.introduced(inner, subject, seen, None);
        let known = inner.table.find(&seen.identity);
        let known = known.filter(|id| inner.introduced.contains(id));
        // One that the log knows may be where others have put it, out of its reach.
        let Some(id) = introduced.or_else(|error| known.map(Some).ok_or(error))? else {
            return Ok(false);
        };
        let record = |outcome| Record::Attribute { id, outcome };
        inner.tell(outcomes.into_iter().map(record).collect())?;
        let now_ns = self.space.now_ns();
        inner.attributes_since_ns.get_or_insert(now_ns);
        Ok(true)
    }

    /// Attributes of the inode of this number were changed without a record.
    pub(crate) fn changed_without_record(&self, device: u64, inode: u64) {
        let mut inner = self.lock();
        if let Some(id) = inner.table.numbered(device, inode) {
            inner.note_unrecorded(id, Changed::Others);
        }
    }

    /// Has `sync` make the inode of this number durable in the backing. From then on the log tells of no
    /// attributes of it that are older: those that were changed without a record are not put back.
    ///
    /// # Errors
    /// `sync`'s, or the pool's: a crash may bring older attributes back.
    pub(crate) fn settle(
        &self,
        (device, inode): (u64, u64),
        sync: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let token = {
            let mut inner = self.lock();
            let id = inner.table.numbered(device, inode);
            id.and_then(|id| inner.unrecorded.begin(id))
        };
        let synced = sync();
        let Some(token) = token else { return synced };
        let mut inner = self.lock();
        let ended = inner.unrecorded.end(token);
        synced?;
        if ended.is_none() || inner.is_over || mutated(Mutant::FilesOlderAttributeReplayed) {
            return Ok(());
        }
        self.make_room(&mut inner)?;
        match ended {
            Some(settled) if inner.table.has_attributes(settled.id) => {
                self.record_settled(&mut inner, &settled)
            }
            // A new log has begun meanwhile, which tells nothing of it.
            _ => Ok(()),
        }
    }

    fn record_settled(&self, inner: &mut Inner, settled: &Settled) -> io::Result<()> {
        let id = settled.id;
        let since = settled.since.iter();
        if since.map(Outcome::value_bytes).sum::<usize>() > SETTLED_BYTES_MAX {
            // Too much for one transaction: a new log tells none of it.
            let number = inner.prepare_next_log();
            let synced_ns = self.space.now_ns();
            let synced = self.sync_for_trim();
            return inner.switch_log(number, synced, synced_ns);
        }
        let mut records = vec![Record::Settled { id }];
        let lasting = inner.time_that_lasts(id).into_iter();
        let outcomes = lasting.chain(settled.since.iter().cloned());
        records.extend(outcomes.map(|outcome| Record::Attribute { id, outcome }));
        inner.tell(records)?;
        inner.unrecorded.settled(settled);
        Ok(())
    }
}

/// What was recorded while a file was synced, at most, to be recorded again.
const SETTLED_BYTES_MAX: usize = 16 << 10;

impl Inner {
    fn not_recorded(&mut self, seen: &Seen, changed: Changed) {
        if let Some(id) = self.table.find(&seen.identity) {
            self.note_unrecorded(id, changed);
        }
    }

    fn note_unrecorded(&mut self, id: FileId, changed: Changed) {
        if self.table.has_attributes(id) {
            self.unrecorded.note(id, changed);
        }
    }

    /// The time that write-back of what the pool has moves, and puts back later: the log has to tell it all the
    /// while.
    pub(super) fn time_that_lasts(&self, id: FileId) -> Option<Outcome> {
        let node = self.table.node(id).filter(|_| self.held.contains(&id))?;
        let time = node.attributes.chosen_time();
        time.filter(|_| !self.unrecorded.has_times(id))
    }
}

/// Whether there is no such extended attribute, or none at all.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP))
}
