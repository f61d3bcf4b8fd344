//! Changes of attributes: applied, and recorded where a record alone makes them safe. All else is as it was without the log: the
//! change is made in the backing, and the next sync of the inode makes it durable there.
//!
//! * The changes of one inode are one at a time, so records are in the order of the changes. The names are not locked while
//!   the backing is at work.
//! * Where the log tells of attributes that were changed past it, by others or by a change that it cannot tell, they are *loose*:
//!   nothing is recorded of the inode until a sync of it is done in the backing, and a record says that the log tells of them
//!   no more. What the log still tells was in the backing before that sync began.

use std::io;

use super::Names;
use super::attributes::{
    ACCESS_LIST, AttributeChange, CAPABILITY, Moment, Outcome, VALUE_BYTES_MAX, is_plain,
};
use super::errors::NotBegun;
use super::introduce::{Locked, Stop};
use super::record::Record;
use super::space::{NameSpace, PRIVILEGE_BITS, Seen};
use crate::metadata::{Durable, FileId};
use crate::mutants::{Mutant, mutated};

impl<S: NameSpace> Names<S> {
    /// Changes attributes of an inode, and records what came of it. False if it is not recorded: what must not lose it
    /// syncs the inode in the backing, by [`Names::settle`].
    ///
    /// # Errors
    /// The backing's.
    pub(crate) fn change(
        &self,
        subject: &S::Handle,
        change: &AttributeChange<'_>,
    ) -> io::Result<bool> {
        let identity = self.space.seen(subject)?.identity;
        let number = (identity.device, identity.inode);
        let _one = self.changing.lock(number);
        let before = self.space.seen(subject)?;
        let may = self.may_record(subject, &before, change).unwrap_or(false);
        self.space.change(subject, change)?;
        // It is made, whatever the log says to it. Even where the inode had all that is asked for, others may have made it so,
        // and not durably.
        if may {
            match self.record(subject, &before, change) {
                Ok(true) => return Ok(true),
                // The next sync of the inode is to wait for the backing, so it tells that.
                Err(NotBegun::Unsynced(error)) => self.tell_later(error),
                Ok(false) | Err(NotBegun::Other(_)) => {}
            }
        }
        self.lock().loosen(number);
        Ok(false)
    }

    /// Whether a record alone makes the change safe.
    fn may_record(
        &self,
        subject: &S::Handle,
        before: &Seen,
        change: &AttributeChange<'_>,
    ) -> io::Result<bool> {
        let is_known_kind = before.is_file() || before.is_directory();
        if !is_known_kind || !self.space.finds(&before.identity) || before.links == 0 {
            return Ok(false);
        }
        let has =
            |name: &str| Ok::<_, io::Error>(self.space.value(subject, name.as_ref())?.is_some());
        let is_plain_change = match change {
            AttributeChange::Mode(mode) => {
                let is_privileged = before.is_file() && mode & PRIVILEGE_BITS != 0;
                !is_privileged && !has(ACCESS_LIST)?
            }
            // It takes a capability and set-id bits even where user and group stay the same.
            AttributeChange::Owner { .. } => {
                let is_privileged =
                    before.is_file() && (before.mode & PRIVILEGE_BITS != 0 || has(CAPABILITY)?);
                !is_privileged && !has(ACCESS_LIST)?
            }
            AttributeChange::Set { name, value, .. } => {
                is_plain(name) && value.len() <= VALUE_BYTES_MAX
            }
            AttributeChange::Remove(name) => is_plain(name),
        };
        Ok(is_plain_change && self.is_as_told(subject, before)?)
    }

    /// Whether the inode's attributes are those that the log tells of it. If not, others have changed them: a record of
    /// the next change would say that this was before.
    fn is_as_told(&self, subject: &S::Handle, seen: &Seen) -> io::Result<bool> {
        let told = {
            let inner = self.lock();
            let Some(id) = inner.table.find(&seen.identity) else {
                return Ok(true);
            };
            if inner.loose.contains_key(&id) {
                return Ok(false);
            }
            let node = inner.table.node(id).expect("it was found");
            let told = &node.attributes;
            if mutated(Mutant::FilesOthersChangeIgnored) || told.is_empty() {
                return Ok(true);
            }
            if told.has_other_rights(seen) {
                return Ok(false);
            }
            if told
                .changed
                .is_some_and(|changed| seen.changed_ns <= changed)
            {
                return Ok(true);
            }
            told.values.clone()
        };
        for (name, value) in &told {
            if self.space.value(subject, name)? != *value {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Records what came of a change. False if that cannot be.
    fn record(
        &self,
        subject: &S::Handle,
        before: &Seen,
        change: &AttributeChange<'_>,
    ) -> Result<bool, NotBegun> {
        let after = self.space.seen(subject)?;
        let changed: Moment = after.changed_ns;
        if before.changed_ns > changed {
            // The clock went back in between: others' changes could not be told from what was before ours.
            return Ok(false);
        }
        let (mut inner, id) =
            self.begin_operation(None, |inner| self.recorded_as(inner, subject, &after))?;
        let Some(id) = id.filter(|id| *id != FileId::ROOT) else {
            return Ok(false);
        };
        let outcome = Outcome::of(change, &after);
        let record = Record::Attribute {
            id,
            changed,
            outcome,
        };
        inner.tell(vec![record], Durable::AtOnce)?;
        let now_ns = self.space.now_ns();
        inner.attributes_since_ns.get_or_insert(now_ns);
        Ok(true)
    }

    /// The inode, introduced; none if the log cannot tell of it.
    fn recorded_as(
        &self,
        inner: &mut Locked<'_>,
        subject: &S::Handle,
        seen: &Seen,
    ) -> Result<Option<FileId>, Stop<S::Handle>> {
        inner.check()?;
        if inner.is_over || seen.links == 0 {
            return Ok(None);
        }
        match self.introduced(inner, subject, seen) {
            Err(Stop::Error(_)) => {
                // One that the log knows may be where others have put it, out of its reach.
                let known = inner.table.find(&seen.identity);
                Ok(known.filter(|id| inner.introduced.contains(id)))
            }
            found => found,
        }
    }

    /// Attributes of the inode of this number were changed past the log.
    pub(crate) fn changed_without_record(&self, number: (u64, u64)) {
        let _one = self.changing.lock(number);
        self.lock().loosen(number);
    }

    /// Has `sync` make the inode of this number durable in the backing. From then on the log tells of no
    /// attributes of it if they were changed past it.
    ///
    /// # Errors
    /// `sync`'s, or the pool's: a crash may bring older attributes back. Also that a sync of the whole backing failed before this
    /// one, where no caller heard of that.
    pub(crate) fn settle(
        &self,
        number: (u64, u64),
        sync: &dyn Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let loose = {
            let inner = self.lock();
            let id = inner.table.numbered(number);
            id.and_then(|id| Some((id, *inner.loose.get(&id)?)))
        };
        sync()?;
        self.tell()?;
        let Some((id, loosening)) = loose.filter(|_| !mutated(Mutant::FilesOlderAttributeReplayed))
        else {
            return Ok(());
        };
        let mut inner = match self.lock_with_room() {
            Ok(inner) => inner,
            Err(NotBegun::Unsynced(error)) => return Err(error),
            // One record may fit even where an operation has no room.
            Err(NotBegun::Other(_)) => self.lock(),
        };
        // Another sync may have settled it, or a new log have begun that tells nothing of it: what is told now was changed after
        // that, and perhaps after the sync above.
        if inner.loose.get(&id) != Some(&loosening) {
            return Ok(());
        }
        if inner.table.has_attributes(id) {
            if inner.is_over {
                return Err(io::Error::other(
                    "the pool is being closed and cannot say that these attributes count: sync again",
                ));
            }
            inner.tell(vec![Record::Settled { id }], Durable::AtOnce)?;
        }
        inner.loose.remove(&id);
        Ok(())
    }
}
