//! Inodes of which the log tells attributes that recovery has to look to: after a power cut, not after a mere kill, when the
//! kernel has them all.

use std::cmp::Reverse;
use std::path::PathBuf;

use super::attributes::{Attributes, Owner, Rights, Theirs};
use super::reconcile::Reconciled;
use super::space::{NameSpace, Seen, is_directory};
use crate::metadata::FileId;

/// An inode of which the log says something.
pub(super) struct Subject {
    pub id: FileId,
    pub path: PathBuf,
    is_directory: bool,
    /// The log tells its rights, not only those that it was made with.
    pub has_told_rights: bool,
    pub wanted: Attributes,
    /// What others have changed of it after all that.
    pub theirs: Theirs,
}

impl Subject {
    pub fn is_directory(&self) -> bool {
        self.is_directory
    }

    /// The owner that it is to have. What others have changed never gets the owner that is told, which they may have taken it
    /// from. It keeps the one that is found, or is root's where that may be one from before the log's last word.
    pub fn owner(&self, seen: &Seen) -> Owner {
        let found = Rights::of(seen).owner();
        match self.wanted.rights {
            Some(rights) if !self.theirs.rights => rights.owner(),
            Some(rights) if self.theirs.restarted && rights.owner() != found => (0, 0),
            _ => found,
        }
    }
}

/// Files and others first, then directories, the deepest first.
pub(super) fn subjects<S: NameSpace>(found: &Reconciled<S>) -> Vec<Subject> {
    let mut subjects: Vec<Subject> = found
        .table
        .nodes()
        .filter(|(_, node)| !found.now.is_unbroken(node))
        .filter_map(|(id, node)| {
            let wanted = node.wanted();
            (!wanted.is_empty()).then(|| Subject {
                id,
                path: found.path(id),
                is_directory: is_directory(node.mode),
                has_told_rights: node.attributes.rights.is_some(),
                wanted,
                theirs: found.others.get(&id).copied().unwrap_or_default(),
            })
        })
        .collect();
    let depth = |subject: &Subject| match subject.is_directory() {
        true => subject.path.components().count(),
        false => usize::MAX,
    };
    subjects.sort_by_key(|subject| Reverse(depth(subject)));
    subjects
}
