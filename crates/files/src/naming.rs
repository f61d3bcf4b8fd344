//! What the data of files needs of their names: after a crash the pool's blocks must find their way
//! back to the file they belong to.

use std::collections::HashSet;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::identity::FileIdentity;
use crate::metadata::FileId;

/// Names, seen from the data.
pub(crate) trait Naming: Send + Sync + std::fmt::Debug {
    /// The file's id, the one it has already or a new one (see [`crate::metadata::FileIds`]). When this
    /// returns, recovery can find the file by it, until [`Naming::left_pool`].
    ///
    /// # Errors
    /// The pool's; `ENOENT` if the inode has no name left.
    fn introduce(&self, descriptor: BorrowedFd<'_>, identity: FileIdentity) -> io::Result<FileId>;

    /// Whether the file was made through us since the pool was opened, so that nothing in the backing is
    /// older than what we know of it.
    fn is_new(&self, descriptor: BorrowedFd<'_>) -> bool;

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
