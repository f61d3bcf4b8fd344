//! Changes of attributes: applied, and recorded.
//!
//! What cannot be recorded is not lost: a sync of the inode syncs the backing then. But what the log says
//! of attributes may be older than what that sync made durable, and must not be put over it. So such a
//! sync also begins a new log, which says nothing of attributes that the backing has.

use std::io;

use super::attributes::{AttributeChange, Modified, Moment, Outcome};
use super::media::Record;
use super::outcomes::outcomes;
use super::space::{NameSpace, Seen};
use super::{Inner, Names};
use crate::mutants::{Mutant, mutated};

impl<S: NameSpace> Names<S> {
    /// Changes attributes of an inode, and records what came of it. False if that could not be
    /// recorded: what is to be durable has to be synced in the backing, and then [`Names::settle`] called.
    ///
    /// # Errors
    /// The backing's; nothing has changed then.
    pub(crate) fn change(
        &self,
        subject: &S::Handle,
        change: &AttributeChange<'_>,
    ) -> io::Result<bool> {
        let mut inner = self.lock();
        let before = self.space.seen(subject)?;
        self.space.change(subject, change)?;
        let recorded =
            self.space
                .seen(subject)
                .and_then(|after| match outcomes(change, &before, &after) {
                    Some(outcomes) => self.record(&mut inner, subject, &after, outcomes),
                    None => Ok(false),
                });
        // An error of the log's is none of the caller's, whose change is made.
        let is_recorded = recorded.unwrap_or(false);
        if !is_recorded {
            inner.told.not_recorded();
        }
        Ok(is_recorded)
    }

    /// The content of an inode is about to change: a time of modification that the log tells of does not
    /// count any more. False if that could not be recorded, as in [`Names::change`].
    pub(crate) fn is_modified(&self, subject: &S::Handle) -> bool {
        let mut inner = self.lock();
        let recorded = self.space.seen(subject).and_then(|seen| {
            let node = inner.table.find(&seen.identity);
            let node = node.and_then(|id| inner.table.node(id));
            if node.is_none_or(|node| node.attributes.chosen_time().is_none()) {
                return Ok(true);
            }
            let now = Moment::of_ns(self.space.now_ns());
            let outcome = Outcome::Modified(Modified::NotBefore(now));
            self.record(&mut inner, subject, &seen, vec![outcome])
        });
        let is_recorded = recorded.unwrap_or(false);
        if !is_recorded {
            inner.told.not_recorded();
        }
        is_recorded
    }

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
        inner.check()?;
        if outcomes.is_empty() {
            return Ok(true);
        }
        self.make_room(inner)?;
        let sync = || self.space.sync_inode(subject);
        let Some(id) = self.introduced(inner, subject, seen, &sync)? else {
            // Without a name it need not survive, and if it gets one it is recorded as it is then.
            return Ok(false);
        };
        let record = |outcome| Record::Attribute { id, outcome };
        inner.commit(outcomes.into_iter().map(record).collect())?;
        Ok(true)
    }

    /// Attributes were changed without a record.
    pub(crate) fn changed_without_record(&self) {
        self.lock().told.not_recorded();
    }

    /// To be called when attributes that were changed without a record are durable in the backing: from
    /// then on the log tells of none that are older.
    ///
    /// # Errors
    /// The backing's or the pool's: a crash may bring older attributes back.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let mut inner = self.lock();
        if !inner.told.is_old() || inner.is_over || mutated(Mutant::FilesOlderAttributeReplayed) {
            return Ok(());
        }
        // One that is being made already may tell of some as well.
        inner.prepare_next_log();
        self.renew(&mut inner)
    }
}
