//! What is known of files and directories besides the bytes of their inodes.

use super::layout::Place;

/// Which file: its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub(super) u64);

/// A run of a file's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) logical: u64,
    pub(super) block: u64,
    pub(super) len: u64,
}

/// What is known of a file besides its inode's bytes.
pub(super) struct File {
    pub(super) directory: DirectoryId,
    pub(super) entry: Place,
    pub(super) extents: Vec<Extent>,
    pub(super) blocks: u64,
    pub(super) version: u32,
    /// The block of further extents, where the inode has no room for all.
    pub(super) leaf: Option<u64>,
}

/// Which directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectoryId(pub(super) usize);

/// Its blocks and which of their entries are taken.
pub(super) struct Directory {
    pub(super) inode: u64,
    pub(super) blocks: Vec<u64>,
    pub(super) taken: Vec<u128>,
}
