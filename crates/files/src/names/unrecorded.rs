//! Inodes whose attributes were changed past the log. What it tells of them may be older than what their next
//! sync makes durable in the backing, and must not be put over that: the sync *settles* them, and then the log tells
//! only what was recorded since that sync began.

use std::collections::BTreeMap;

use super::attributes::Outcome;
use super::media::Record;
use crate::metadata::FileId;

/// What of an inode was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Changed {
    /// Its times.
    Times,
    /// Others, or not by us: what the log has of a file's times is what write-back puts there.
    Others,
}

/// The last such change of an inode.
#[derive(Clone, Copy, Debug)]
struct Change {
    number: u64,
    is_of_times: bool,
}

/// A sync of an inode that is under way.
#[derive(Debug)]
struct Settling {
    token: u64,
    id: FileId,
    /// The last change that the sync makes durable.
    change: u64,
    /// What was recorded since it began.
    since: Vec<Outcome>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    changes: BTreeMap<FileId, Change>,
    settling: Vec<Settling>,
    drawn: u64,
}

impl Unrecorded {
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// An inode that the log tells of was changed past it.
    pub(super) fn note(&mut self, id: FileId, changed: Changed) {
        let number = self.draw();
        let before = self.changes.get(&id);
        let is_of_times =
            changed == Changed::Times || before.is_some_and(|change| change.is_of_times);
        let change = Change {
            number,
            is_of_times,
        };
        self.changes.insert(id, change);
    }

    /// Whether the time that the log tells may be older than the inode's own.
    pub(super) fn has_times(&self, id: FileId) -> bool {
        self.changes
            .get(&id)
            .is_some_and(|change| change.is_of_times)
    }

    /// Keeps those that the log still tells of.
    pub(super) fn retain(&mut self, is_told_of: impl Fn(FileId) -> bool) {
        self.changes.retain(|id, _| is_told_of(*id));
    }

    /// A sync of the inode begins. None if the log has nothing that is older.
    pub(super) fn begin(&mut self, id: FileId) -> Option<u64> {
        let change = self.changes.get(&id)?.number;
        let token = self.draw();
        self.settling.push(Settling {
            token,
            id,
            change,
            since: Vec::new(),
        });
        Some(token)
    }

    /// The sync has ended. What it settled, and what was recorded since it began; none if the log has
    /// nothing any more that is older than the sync.
    pub(super) fn end(&mut self, token: u64) -> Option<Settled> {
        let at = self.settling.iter().position(|one| one.token == token)?;
        let Settling {
            id, change, since, ..
        } = self.settling.swap_remove(at);
        self.changes
            .contains_key(&id)
            .then_some(Settled { id, change, since })
    }

    /// The log says that it is settled.
    pub(super) fn settled(&mut self, settled: &Settled) {
        let is_last = |change: &Change| change.number == settled.change;
        if self.changes.get(&settled.id).is_some_and(is_last) {
            self.changes.remove(&settled.id);
        }
    }

    /// What is recorded while syncs are under way stays.
    pub(super) fn follow(&mut self, records: &[Record]) {
        if self.settling.is_empty() {
            return;
        }
        for record in records {
            for Settling { id, since, .. } in &mut self.settling {
                if record.changed_directories().contains(&Some(*id)) {
                    // A name in the directory ends a time that was chosen.
                    since.retain(|outcome| !matches!(outcome, Outcome::Modified(_)));
                }
                if let Record::Attribute { id: of, outcome } = record
                    && of == id
                {
                    since.retain(|earlier| !outcome.replaces(earlier));
                    since.push(outcome.clone());
                }
            }
        }
    }
}

/// What a sync has settled.
pub(super) struct Settled {
    pub(super) id: FileId,
    change: u64,
    pub(super) since: Vec<Outcome>,
}
