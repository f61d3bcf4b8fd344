//! What the data of files needs of their names: after a crash the pool's blocks must find their way
//! back to the file they belong to.

use std::collections::HashSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::identity::FileIdentity;
use crate::metadata::FileId;

/// What was done to a file through us, as far as the log tells.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct History {
    /// It was made since the pool was opened, so that nothing in the backing is older than what we know of it.
    pub is_made: bool,
    /// A caller chose its time of modification, or set its capability, and nothing was written since.
    pub is_ended_by_change: bool,
}

/// Names, seen from the data.
pub(crate) trait Naming: Send + Sync + std::fmt::Debug {
    /// The file's id, the one it has already or a new one (see [`crate::metadata::FileIds`]). When this
    /// returns, recovery can find the file by it, until [`Naming::left_pool`].
    ///
    /// # Errors
    /// The pool's; `ENOENT` if the inode has no name left.
    fn introduce(&self, descriptor: BorrowedFd<'_>, identity: FileIdentity) -> io::Result<FileId>;

    /// What was done to the file through us.
    fn history(&self, descriptor: BorrowedFd<'_>) -> History;

    /// The file's content is about to change: no time of modification that was chosen before may be put over
    /// that, and no capability. False if this could not be recorded, and a sync has to see to it:
    /// [`Naming::settle`].
    ///
    /// # Errors
    /// The pool's: the content must not change.
    fn modified(&self, descriptor: BorrowedFd<'_>) -> io::Result<bool>;

    /// Attributes of a file or directory were changed in the backing, past the log.
    fn changed_without_record(&self, identity: FileIdentity);

    /// Has `sync` make a file or directory durable in the backing, with attributes that were changed past the log,
    /// which then does not say otherwise.
    ///
    /// # Errors
    /// The backing's or the pool's: it still may.
    fn settle(&self, identity: FileIdentity, sync: &dyn Fn() -> io::Result<()>) -> io::Result<()>;

    /// The pool has nothing of this file any more: neither data nor a size.
    fn left_pool(&self, id: FileId);
}

/// What recovery of the names tells of a file that has data in the pool.
#[derive(Debug)]
pub(crate) enum Found {
    /// Open for reading and writing, under its acknowledged name or one that another program gave it since.
    Open(OwnedFd),
    /// It was removed; its data goes too.
    Removed,
    /// It is nowhere although it was not removed: in words, with its last name. Its data is kept until
    /// told otherwise.
    Missing(String),
}

/// Names after a crash, in the order of calls: `recover` first, `open` for each file with data, and
/// `finish` when all of it is durable in the backing.
pub(crate) trait NamesRecovery {
    /// Brings all names to the acknowledged state, and finds the files `with_data`. Idempotent.
    ///
    /// # Errors
    /// The backing's or the pool's; what cannot be brought there, in words.
    fn recover(&mut self, with_data: &HashSet<FileId>) -> io::Result<()>;

    /// The file with this id.
    ///
    /// # Errors
    /// The backing's own.
    fn open(&mut self, id: FileId) -> io::Result<Found>;

    /// What the file with this id is called, for people; names are recovered.
    fn name(&self, id: FileId) -> String;

    /// Every file's data is durable and forgotten, the backing is synced: the log may begin anew.
    ///
    /// # Errors
    /// The pool's.
    fn finish(&mut self) -> io::Result<()>;
}
