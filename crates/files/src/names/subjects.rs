//! Inodes of which the log tells attributes that recovery has to look to: after a power cut, not after a mere kill, when the
//! kernel has them all.

use std::cmp::Reverse;
use std::path::PathBuf;

use super::attributes::{Attributes, Owner, Rights, Theirs};
use super::reconcile::Reconciled;
use super::space::{KIND_BITS, NameSpace, Seen};
use crate::metadata::FileId;

/// An inode of which the log says something.
pub(super) struct Subject {
    pub id: FileId,
    pub path: PathBuf,
    /// Bits of its kind.
    kind: u32,
    pub wanted: Attributes,
    /// What others have changed of it after all that.
    pub theirs: Theirs,
}

impl Subject {
    pub fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }

    pub fn is_file(&self) -> bool {
        self.kind == libc::S_IFREG
    }

    /// Whether it has permissions of its own.
    pub fn has_mode(&self) -> bool {
        self.kind != libc::S_IFLNK
    }

    /// The owner that it is to have. Where others have changed it, an owner that the log knows from before is one that it should
    /// not have any more; one that the log does not know is theirs.
    pub fn owner(&self, seen: &Seen) -> Owner {
        let found = Rights::of(seen).owner();
        match self.wanted.rights() {
            Some(rights) if !self.theirs.rights || self.wanted.had_owner(found) => rights.owner(),
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
                kind: node.mode & KIND_BITS,
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
