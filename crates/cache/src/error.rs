//! What can go wrong, with the file it concerns, what was found and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

use forebay_pmem::PmemError;

/// The result of everything in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the cache: [`Error::kind`] says what went wrong, its text what to do about it. Bugs are
/// assertions; every error can happen to a correct program.
///
/// It is one pointer, so that a result is returned in registers. After a fence all stores wait in the CPU's
/// store buffer behind the block's non-temporal ones. A result copied through memory would be loaded wider
/// than it was stored, and would wait for all of them.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<ErrorKind>);

const _: () = assert!(size_of::<Result<()>>() == size_of::<usize>());

impl Error {
    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// What went wrong, by value.
    #[must_use]
    pub fn into_kind(self) -> ErrorKind {
        *self.0
    }
}

/// What a file holds is not what was to be there; nothing was changed.
pub(crate) fn refused(path: &Path, found: impl Into<String>, todo: impl Into<String>) -> Error {
    ErrorKind::Refused {
        path: path.to_path_buf(),
        found: found.into(),
        todo: todo.into(),
    }
    .into()
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Error {
        Error(Box::new(kind))
    }
}

impl From<PmemError> for Error {
    #[cold]
    fn from(error: PmemError) -> Error {
        ErrorKind::from(error).into()
    }
}

/// What went wrong, with the numbers and names that belong to it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The persistent memory itself failed (mapping, fence, media error).
    #[error(transparent)]
    Media(#[from] PmemError),
    /// The device of a pool on an SSD did not do what was asked.
    #[error("{}: cannot {action}: {source}; look at that disk", path.display())]
    Device {
        /// The file or device.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another process has the pool in use.
    #[error(
        "{} is open in another process; ask the daemon that serves it with forebay stat, or end it first",
        path.display()
    )]
    InUse {
        /// The file or device.
        path: PathBuf,
    },
    /// A member is no Forebay pool, is damaged, or belongs elsewhere. Nothing was changed.
    #[error("{}: {found}; {todo}", path.display())]
    Refused {
        /// The member file.
        path: PathBuf,
        /// What was found in it.
        found: String,
        /// What a person can do about it.
        todo: String,
    },
    /// The log or the entry table is damaged, so that acknowledged data may be lost.
    #[error(
        "{}: {found}; restore the pool from a copy, or accept the loss and go on with what is left (on the command \
         line forebay recover --accept-loss)",
        path.display()
    )]
    Damaged {
        /// The first member of the pool.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Options contradict each other or the space that is there.
    #[error("invalid options: {0}")]
    Options(String),
    /// A transaction grew beyond what one commit can hold.
    #[error(
        "transaction of {asked_bytes} bytes is larger than the limit of {limit_bytes} bytes (of a \
         Forebay pool the smaller of 4 MiB and 1/8 of it); split it"
    )]
    TransactionTooLarge {
        /// Bytes the transaction would hold.
        asked_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// A block or a range lies outside the volume, or a buffer has the wrong length.
    #[error("request outside volume {volume}: {what}")]
    OutOfRange {
        /// The volume's id.
        volume: u32,
        /// What was asked and what would be right.
        what: String,
    },
    /// A cached block does not match its checksum and no good copy exists.
    #[error(
        "volume {volume} block {block}: the cached copy does not match its checksum and is the \
         only one; restore this block from a backup or overwrite it"
    )]
    Corrupt {
        /// The volume's id.
        volume: u32,
        /// The block's number.
        block: u64,
    },
    /// No free slot came up before the deadline, and a backing says that it is full.
    #[error(
        "no free block within {waited_ms} ms: {dirty_blocks} dirty blocks wait for a backing that is \
         full; make room there, or enlarge the pool"
    )]
    NoSpace {
        /// How long the writer waited.
        waited_ms: u64,
        /// Dirty blocks in the pool at that time.
        dirty_blocks: u64,
    },
    /// The backing failed.
    #[error("backing {}: {source}", path.display())]
    Backing {
        /// The backing's path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The backing has newer data in another pool, or the pool is an old copy, or the backing is
    /// (`docs/inside/marks.md`). Nothing was changed.
    #[error("{}: {found}; {todo}", path.display())]
    Stale {
        /// The backing.
        path: PathBuf,
        /// What was found.
        found: String,
        /// What a person can do about it.
        todo: &'static str,
    },
    /// The mark of a backing could not be read or written.
    #[error(
        "{}: the mark that names the pool with its newest data: {source}; make it, or the folder it is \
         in, readable and writable",
        path.display()
    )]
    Mark {
        /// The backing.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A fence failed earlier, or a commit ended half-way by a panic, so that durability cannot be
    /// promised any more.
    #[error(
        "{}: the pool refuses writes since an earlier fence failed or a commit ended half-way; end the \
         process that has it, look at the medium, and open it again",
        path.display()
    )]
    Poisoned {
        /// The first member of the pool.
        path: PathBuf,
    },
    /// Every lane of the log has gone round 2^32 times since the pool was opened, which is as far as
    /// a record's header counts.
    #[error(
        "{}: the log has no positions left for writes in this incarnation of the pool; reopen it",
        path.display()
    )]
    WornOut {
        /// The first member of the pool.
        path: PathBuf,
    },
    /// A drain was stopped by its watcher. What was written stays written, the rest is dirty as
    /// before, and nothing else changed.
    #[error("{}: stopped with {dirty_blocks} dirty blocks left; the volume is as before", path.display())]
    Cancelled {
        /// The volume's backing.
        path: PathBuf,
        /// Blocks that were not written back.
        dirty_blocks: u64,
    },
    /// The pool was closed while a caller still held a volume of it.
    #[error(
        "{}: the pool was closed, and may be another process's now; open it again and attach the backing to it",
        path.display()
    )]
    Closed {
        /// The first member of the pool.
        path: PathBuf,
    },
    /// No free slot came up before the deadline: a backing fails, does not answer, or cannot keep up.
    #[error(
        "no free block within {waited_ms} ms: {dirty_blocks} dirty blocks wait for their backing \
         ({reason}); check the backing, or enlarge the pool"
    )]
    Stalled {
        /// How long the writer waited.
        waited_ms: u64,
        /// Dirty blocks in the pool at that time.
        dirty_blocks: u64,
        /// What is known of the backings.
        reason: String,
    },
    /// The system has no room for a background thread of the pool.
    #[error(
        "the thread {name} could not be started: {source}; raise the limit of threads (ulimit -u, pids.max), \
         or free memory"
    )]
    Thread {
        /// The thread's name.
        name: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The volume is not, or no longer, what the caller thinks.
    #[error("volume: {0}")]
    Volume(String),
}
