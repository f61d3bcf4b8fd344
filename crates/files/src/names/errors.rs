//! What is wrong with the log, in words.

use std::io;

/// It has no room for what is to be recorded.
pub(super) fn no_room() -> io::Error {
    io::Error::new(
        io::ErrorKind::StorageFull,
        "the namespace log is too small for what is buffered; make the pool larger",
    )
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
