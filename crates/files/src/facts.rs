//! What callers ask of a file and are told of it.

use std::time::SystemTime;

/// What a sync promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncKind {
    /// `fdatasync`: the data and what is needed to read it again.
    Data,
    /// `fsync`: the name, mode, owner and times too.
    All,
}

/// What `stat` is to say of a file where the backing's own is not right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileFacts {
    /// The size that readers see.
    pub size_bytes: u64,
    /// Bytes that the backing has reserved behind the end for what may follow; its count of blocks includes
    /// them, and no caller should see them.
    pub spare_bytes: u64,
    /// The backing cannot reserve room: its count of blocks lacks those that only the pool has.
    pub lacks_room: bool,
    /// The time of modification, where the backing's is not right.
    pub modified: Option<SystemTime>,
    /// The time of the last write, where the backing's time of change may be earlier.
    pub written: Option<SystemTime>,
}
