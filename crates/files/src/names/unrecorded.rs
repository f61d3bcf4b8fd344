//! Inodes whose attributes were changed past the log. What it tells of them may be older than what their next
//! sync makes durable in the backing, and must not be put over that: the sync *settles* them, and then the log tells
//! only what was recorded since that sync began.

use std::collections::BTreeMap;

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
    stamp: u64,
    is_of_times: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Unrecorded(BTreeMap<FileId, Change>);

impl Unrecorded {
    /// An inode that the log tells of was changed past it.
    pub(super) fn note(&mut self, id: FileId, stamp: u64, changed: Changed) {
        let is_of_times = changed == Changed::Times || self.has_times(id);
        self.0.insert(id, Change { stamp, is_of_times });
    }

    /// Whether it was.
    pub(super) fn has(&self, id: FileId) -> bool {
        self.0.contains_key(&id)
    }

    /// Whether the time that the log tells may be older than the inode's own.
    pub(super) fn has_times(&self, id: FileId) -> bool {
        self.0.get(&id).is_some_and(|change| change.is_of_times)
    }

    /// Keeps those that the log still tells of.
    pub(super) fn retain(&mut self, is_told_of: impl Fn(FileId) -> bool) {
        self.0.retain(|id, _| is_told_of(*id));
    }

    /// What was changed before this stamp is durable, and the log says so.
    pub(super) fn settled(&mut self, id: FileId, before: u64) {
        if self.0.get(&id).is_some_and(|change| change.stamp < before) {
            self.0.remove(&id);
        }
    }
}
