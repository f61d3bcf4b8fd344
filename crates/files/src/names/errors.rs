//! What is wrong with the log, in words.

use std::io;

/// It has no room for what is to be recorded.
pub(super) fn no_room() -> io::Error {
    io::Error::new(
        io::ErrorKind::StorageFull,
        "the namespace log is too small for what is buffered; make the pool larger",
    )
}

/// Whether an error is [`no_room`]'s, not the file system's own.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StorageFull && error.raw_os_error().is_none()
}

/// Why an operation cannot be begun.
pub(super) enum NotBegun {
    /// The backing could not be synced, which the kernel tells once: a caller has to hear of it.
    Unsynced(io::Error),
    Other(io::Error),
}

impl From<io::Error> for NotBegun {
    fn from(error: io::Error) -> NotBegun {
        NotBegun::Other(error)
    }
}

impl From<NotBegun> for io::Error {
    fn from(not_begun: NotBegun) -> io::Error {
        match not_begun {
            NotBegun::Unsynced(error) | NotBegun::Other(error) => error,
        }
    }
}

/// It would say what cannot be.
pub(super) fn refused(found: &str) -> io::Error {
    let text = format!(
        "names cannot be changed like this: the namespace log would contradict itself ({found}); nothing was recorded: \
         sync the file system, recover the pool, and report this"
    );
    io::Error::other(text)
}

/// It says what cannot be.
pub(super) fn damaged(found: &str) -> io::Error {
    let text = format!(
        "the namespace log contradicts itself: {found}; the medium lost data: check the pool with \
         `forebay check`"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}
