//! The calls of which programs are made.

use forebay_files::SyncKind;
use forebay_harness::files::Id;
use std::ffi::OsString;
use std::path::PathBuf;

/// One call.
#[derive(Clone, Debug)]
pub enum Step {
    /// A new file, opened.
    Create(PathBuf),
    /// The same with set-id bits.
    CreateProgram(PathBuf),
    MakeDirectory(PathBuf),
    MakeLink(PathBuf, OsString),
    Link(PathBuf, PathBuf),
    Unlink(PathBuf),
    RemoveDirectory(PathBuf),
    /// With whether the names change places.
    Rename(PathBuf, PathBuf, bool),
    Open(PathBuf),
    Close(Id),
    /// With whether it is on a descriptor that syncs.
    Write(Id, usize, Vec<u8>, bool),
    Append(Id, Vec<u8>, bool),
    Truncate(Id, usize),
    /// Room: the offset in bytes, and how many bytes.
    Allocate(Id, Space, usize, usize),
    /// Another mode, not by way of the buffer.
    SetMode(PathBuf, u32),
    /// Another mode, not by way of the buffer, which is not told; the backing is synced then, as by others.
    OthersMode(PathBuf, u32),
    /// Another mode, durable when it returns, but for set-id bits.
    ChangeMode(PathBuf, u32),
    /// Another owner, durable when it returns.
    ChangeOwner(PathBuf, u32),
    /// A capability.
    GiveCapability(PathBuf),
    /// A value of the extended attribute; none removes it.
    SetExtended(PathBuf, Option<Vec<u8>>),
    Sync(Id, SyncKind),
    /// Others sync a file that is theirs meanwhile: the buffer hears nothing of it.
    OthersSync(Id),
    SyncDirectory(PathBuf),
    Drain(Id),
    /// Others use the file from now on, until `Resume`.
    Suspend(Id),
    Resume(Id),
    SyncBacking,
    /// A new log of names and attributes begins.
    NewLog,
    /// The same, and a file is synced while it is being made.
    NewLogBeside(Id),
    /// What background threads would do.
    Work,
    /// The same, and the first sync of the file beside the pool fails.
    WorkFailing,
    /// The last one: everything is closed in order, and DATA has everything.
    End,
}

/// What becomes of room in a file.
#[derive(Clone, Copy, Debug)]
pub enum Space {
    /// The file is so long at least.
    Grown,
    /// It is kept for later.
    Kept,
    /// It is given back.
    Punched,
}
