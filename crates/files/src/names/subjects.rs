//! Inodes of which the log tells attributes that recovery has to look to: after a power cut, not after a mere kill, when the
//! kernel has them all.

use std::cmp::Reverse;
use std::io;
use std::path::PathBuf;

use super::attributes::{ACCESS_LIST, Attributes, Owner, Rights, Theirs};
use super::locate::Located;
use super::outcomes::made_with;
use super::reconcile::Reconciled;
use super::space::{KIND_BITS, NameSpace, Seen};
use super::table::Node;
use crate::metadata::FileId;

/// What an inode's attributes are to be. One that was made anew has the rights that it was made with, and so has one of which
/// an access list is told that it was made with: that comes with these.
pub(super) fn wanted(node: &Node) -> Attributes {
    let mut wanted = node.attributes.clone();
    let has_list = wanted.told_of(ACCESS_LIST.as_ref()).is_some();
    if (node.is_remade || has_list)
        && let Some(rights) = node.creation.as_ref().and_then(made_with)
    {
        wanted.had_rights(rights);
    }
    wanted
}

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
            let wanted = wanted(node);
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

/// What becomes of an inode whose attributes are to be restored.
pub(super) enum Held<H> {
    It(H),
    /// It has no name.
    Nothing,
    /// Another one has its name now, or none has.
    Another,
}

/// Holds the very inode that was found or made, if it is there still: others may be at work.
pub(super) fn hold_same<S: NameSpace>(
    space: &S,
    now: &Located<S::Handle>,
    id: FileId,
) -> io::Result<Held<S::Handle>> {
    let held = match now.handles.get(&id) {
        Some(directory) => Some(directory.clone()),
        None => match now.hold(space, id) {
            Err(error) if is_missing(&error) => return Ok(Held::Another),
            held => held?,
        },
    };
    let (Some(handle), Some(known)) = (held, now.seen.get(&id)) else {
        return Ok(Held::Nothing);
    };
    Ok(match space.seen(&handle)?.identity == known.identity {
        true => Held::It(handle),
        false => Held::Another,
    })
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || matches!(error.raw_os_error(), Some(libc::ENOTDIR | libc::ESTALE))
}
