//! Changes of attributes: applied, and recorded.
//!
//! What cannot be recorded is not lost: a sync of the inode syncs the backing then. But what the log says
//! of its attributes may be older than what that sync makes durable, and must not be put over it: see
//! [`super::unrecorded`].

use std::ffi::OsStr;
use std::io;
use std::sync::atomic::Ordering;

use super::attributes::{AttributeChange, Attributes, CAPABILITY, Modified, Moment, Outcome, Told};
use super::introduce::{Locked, Stop};
use super::outcomes::outcomes;
use super::proof::Proof;
use super::record::Record;
use super::space::{NameSpace, Seen};
use super::unrecorded::Changed;
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

/// How a change of an inode is to be made durable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recording {
    /// By records of this inode.
    As(FileId),
    /// It need not be: the inode has no name, and if it gets one it is made durable then.
    NeedNot,
    /// By a sync of the backing.
    Cannot,
}

impl<S: NameSpace> Names<S> {
    /// Changes attributes of an inode, and records what came of it. It is introduced before: the log tells of no inode that the
    /// backing may lose.
    pub(crate) fn change(&self, subject: &S::Handle, change: &AttributeChange<'_>) -> Applied {
        let begun = self.begin_operation(None, |inner| {
            let before = self.space.seen(subject)?;
            let recording = self.recording(inner, subject, &before)?;
            Ok((before, recording))
        });
        let (mut inner, before, recording) = match begun {
            Ok((inner, (before, recording))) => (inner, before, recording),
            // An error of the log's is none of the caller's.
            Err(_) => match self.space.seen(subject) {
                Ok(before) => (self.lock(), before, Recording::Cannot),
                Err(error) => {
                    return Applied {
                        result: Err(error),
                        is_recorded: true,
                    };
                }
            },
        };
        let result = self.space.change(subject, change);
        let is_recorded = match (&result, change) {
            (Ok(()), _) => {
                let after = self.space.seen(subject);
                after.and_then(|after| match outcomes(change, &before, &after) {
                    Some(told) => self.record(&mut inner, recording, [&before, &after], told),
                    None => Ok(recording == Recording::NeedNot),
                })
            }
            // What the log has of it was lost in the backing meanwhile.
            (Err(error), AttributeChange::Remove(name)) if is_absent(error) => {
                self.record_absence(&mut inner, recording, &before, name)
            }
            _ => Ok(true),
        };
        // The change is made, whatever the log says to it.
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

    /// How changes of an inode are made durable, which is introduced if that is by records.
    fn recording(
        &self,
        inner: &mut Locked<'_>,
        subject: &S::Handle,
        seen: &Seen,
    ) -> Result<Recording, Stop<S::Handle>> {
        if inner.is_over {
            return Ok(Recording::Cannot);
        }
        if seen.links == 0 {
            return Ok(Recording::NeedNot);
        }
        // Without a proof recovery could take another inode for it.
        if seen.identity.proof == Proof::NOTHING || inner.check().is_err() {
            return Ok(Recording::Cannot);
        }
        let found = match self.introduced(inner, subject, seen) {
            Err(Stop::Error(_)) => {
                // One that the log knows may be where others have put it, out of its reach.
                let known = inner.table.find(&seen.identity);
                known.filter(|id| inner.introduced.contains(id))
            }
            found => found?,
        };
        Ok(found.map_or(Recording::Cannot, Recording::As))
    }

    fn record_absence(
        &self,
        inner: &mut Inner,
        recording: Recording,
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
        self.record(inner, recording, [seen, seen], vec![outcome])
    }

    /// The content of an inode is about to change: a time of modification that the log tells of, and a capability, do
    /// not count any more. False if that could not be recorded, as in [`Applied`].
    ///
    /// # Errors
    /// The pool's, of a capability: a crash would give it to other bytes than it was given to.
    pub(crate) fn is_modified(
        &self,
        (device, inode): (u64, u64),
        subject: &dyn Fn() -> io::Result<S::Handle>,
    ) -> io::Result<bool> {
        let has_capability = {
            let inner = self.lock();
            let id = inner.table.numbered(device, inode);
            match id.and_then(|id| inner.ends(id)) {
                Some(told) => told.has_value(CAPABILITY.as_ref()),
                None => return Ok(true),
            }
        };
        match self.record_modified(subject) {
            Ok(true) => Ok(true),
            Err(error) if has_capability => Err(error),
            Ok(false) if has_capability => Err(cannot_be_told()),
            _ => {
                let mut inner = self.lock();
                if let Some(id) = inner.table.numbered(device, inode) {
                    inner.note_unrecorded(id, Changed::Times);
                }
                Ok(false)
            }
        }
    }

    fn record_modified(&self, subject: &dyn Fn() -> io::Result<S::Handle>) -> io::Result<bool> {
        let subject = subject()?;
        let (mut inner, (seen, recording)) = self.begin_operation(None, |inner| {
            let seen = self.space.seen(&subject)?;
            let recording = self.recording(inner, &subject, &seen)?;
            Ok((seen, recording))
        })?;
        let now = Moment::of_ns(self.space.now_ns());
        let id = inner.table.find(&seen.identity);
        let Some(told) = id.and_then(|id| inner.ends(id)) else {
            return Ok(true);
        };
        let ended = told.ended_by_change(now);
        self.record(&mut inner, recording, [&seen, &seen], ended)
    }

    /// The time of modification that a caller chose before is to last, whatever write-back makes of it: the log may have
    /// forgotten it when the backing had it.
    ///
    /// # Errors
    /// The backing's or the pool's; it cannot be recorded.
    pub(crate) fn keep_time(&self, subject: &S::Handle, chosen: Moment) -> io::Result<()> {
        let (mut inner, (seen, recording)) = self.begin_operation(None, |inner| {
            let seen = self.space.seen(subject)?;
            let recording = self.recording(inner, subject, &seen)?;
            Ok((seen, recording))
        })?;
        let outcome = Outcome::Modified(Modified::Chosen(chosen));
        match self.record(&mut inner, recording, [&seen, &seen], vec![outcome])? {
            true => Ok(()),
            false => Err(cannot_be_told()),
        }
    }

    /// Records outcomes of a change of what was seen before and after it. False if they cannot be.
    fn record(
        &self,
        inner: &mut Inner,
        recording: Recording,
        seen: [&Seen; 2],
        outcomes: Vec<Outcome>,
    ) -> io::Result<bool> {
        let id = match recording {
            _ if inner.is_over => return Ok(false),
            Recording::NeedNot => return Ok(true),
            Recording::Cannot => return Ok(false),
            Recording::As(_) if outcomes.is_empty() => return Ok(true),
            Recording::As(id) => id,
        };
        // Where the clock went back in between, the earlier time is the later one.
        let changed_ns = seen.map(|seen| seen.changed_ns);
        let changed = Moment::of_ns(changed_ns[0].max(changed_ns[1]));
        let stamp = inner.draw_stamp();
        let told = Told { stamp, changed };
        let records = outcomes
            .into_iter()
            .map(|outcome| Record::Attribute { id, told, outcome });
        inner.tell(records.collect())?;
        if inner.ends(id).is_some() {
            self.endings.fetch_add(1, Ordering::AcqRel);
        }
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
        let begun = {
            let mut inner = self.lock();
            let id = inner.table.numbered(device, inode);
            let id = id.filter(|id| inner.unrecorded.has(*id));
            id.map(|id| (id, inner.draw_stamp()))
        };
        sync()?;
        let Some((id, before)) = begun else {
            return Ok(());
        };
        if mutated(Mutant::FilesOlderAttributeReplayed) {
            return Ok(());
        }
        let mut inner = self.lock_with_room()?;
        // A new log may have begun meanwhile, which tells nothing of it.
        if !inner.is_over && inner.unrecorded.has(id) && inner.table.has_attributes(id) {
            let mut records = vec![Record::Settled { id, before }];
            if let Some(Record::Attribute { told, outcome, .. }) = inner.time_that_lasts(id)
                && told.stamp < before
            {
                // Write-back moves it, and puts it back later.
                let stamp = inner.draw_stamp();
                let told = Told { stamp, ..told };
                records.push(Record::Attribute { id, told, outcome });
            }
            inner.tell(records)?;
        }
        inner.unrecorded.settled(id, before);
        Ok(())
    }
}

impl Inner {
    fn not_recorded(&mut self, seen: &Seen, changed: Changed) {
        if let Some(id) = self.table.find(&seen.identity) {
            self.note_unrecorded(id, changed);
        }
    }

    fn note_unrecorded(&mut self, id: FileId, changed: Changed) {
        if self.table.has_attributes(id) {
            let stamp = self.draw_stamp();
            self.unrecorded.note(id, stamp, changed);
        }
    }

    fn draw_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// What is told of an inode, if a change of its content ends something of that.
    fn ends(&self, id: FileId) -> Option<&Attributes> {
        let attributes = &self.table.node(id)?.attributes;
        let ended = attributes.ended_by_change(Moment::default());
        (!ended.is_empty()).then_some(attributes)
    }

    /// The time that write-back of what the pool has moves, and puts back later: the log has to tell it all the
    /// while.
    pub(super) fn time_that_lasts(&self, id: FileId) -> Option<Record> {
        let node = self.table.node(id).filter(|_| self.held.contains(&id))?;
        let (told, outcome) = node.attributes.chosen_time()?;
        (!self.unrecorded.has_times(id)).then_some(Record::Attribute { id, told, outcome })
    }
}

fn cannot_be_told() -> io::Error {
    io::Error::other("the pool cannot record what becomes of a file's attributes; recover the pool")
}

/// Whether there is no such extended attribute, or none at all.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EOPNOTSUPP))
}
