//! What an inode looks like to one that looks.

use super::proof::Proof;

/// The bits of a mode that tell the kind of the inode.
pub(crate) const KIND_BITS: u32 = libc::S_IFMT;

/// The bits of a file's mode by which it runs with its owner's or group's rights.
pub(super) const PRIVILEGE_BITS: u32 = libc::S_ISUID | libc::S_ISGID;

/// A moment, as inodes have it: nanoseconds since 1970.
pub(crate) type Moment = i128;

/// Which inode, beyond the reuse of inode numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct Identity {
    /// The file system, as this boot numbers it.
    pub device: u64,
    /// The inode's number.
    pub inode: u64,
    /// What tells it from others that had the number.
    pub proof: Proof,
}

/// An inode, seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub identity: Identity,
    /// Kind and permissions.
    pub mode: u32,
    pub links: u64,
    pub user: u32,
    pub group: u32,
    /// What a device node stands for.
    pub node_device: u64,
    /// When it was made or, where that is not known, last changed: nanoseconds since 1970.
    pub made_ns: i128,
    /// When anything of it last changed.
    pub changed_ns: Moment,
}

impl Seen {
    pub(crate) fn is_directory(&self) -> bool {
        is_directory(self.mode)
    }

    pub(crate) fn is_file(&self) -> bool {
        self.mode & KIND_BITS == libc::S_IFREG
    }
}

/// Whether a mode is a directory's.
pub(crate) fn is_directory(mode: u32) -> bool {
    mode & KIND_BITS == libc::S_IFDIR
}
