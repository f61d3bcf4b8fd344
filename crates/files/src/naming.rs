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

    /// Attributes of a file or directory were changed in the backing, past the log.
    fn changed_without_record(&self, identity: FileIdentity);

    /// Has `sync` make a file or directory durable in the backing, with attributes that were changed past the log,
    /// which then does not say otherwise.
    ///
    /// # Errors
    /// The backing's or the pool's: it still may.
    fn settle(&self, identity: FileIdentity, sync: &dyn Fn() -> io::Result<()>) -> io::Result<()>;

    /// Whether the log says durably that the file has no name any more, so that recovery drops what the pool has of it.
    fn is_removed(&self, id: FileId) -> bool;

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

/// Files that recovery does not give their data.
#[derive(Debug, Default)]
pub(crate) struct WithoutData {
    /// The pool keeps it; the error of the recovery says so.
    pub(crate) kept: HashSet<FileId>,
    /// It is in a file beside the pool now.
    pub(crate) saved: HashSet<FileId>,
}

/// Names after a crash, in the order of calls: `recover` first, `open` for each file with data, `restore` when they have
/// it, and `finish` when all of it is durable in the backing, or `rest` where something remains to be done.
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

    /// All files have their data but those `without`: they get their attributes, and so do all others.
    ///
    /// # Errors
    /// What failed and may be tried again, in words, unless the caller `gives_up` what fails; all else is done.
    fn restore(&mut self, without: &WithoutData, gives_up: bool) -> io::Result<()>;

    /// Recovery ends here, and is to be begun again.
    ///
    /// # Errors
    /// The pool's.
    fn rest(&mut self) -> io::Result<()>;

    /// Every file's data is durable and forgotten, the backing is synced: the log may begin anew.
    ///
    /// # Errors
    /// The pool's.
    fn finish(&mut self) -> io::Result<()>;
}
