//! The cache's errors as the numbers that system calls give.

use std::io;

/// What a system call answers when the pool says so.
pub(crate) fn from_pool(error: forebay::Error) -> io::Error {
    let number = match error.kind() {
        forebay::ErrorKind::Backing { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        // Only where the file system behind says so.
        forebay::ErrorKind::NoSpace { .. } => libc::ENOSPC,
        forebay::ErrorKind::OutOfRange { .. } => libc::EFBIG,
        forebay::ErrorKind::TransactionTooLarge { .. } => libc::EINVAL,
        _ => libc::EIO,
    };
    io::Error::from_raw_os_error(number)
}

/// The same for people: what opening a pool answers.
pub(crate) fn told(error: forebay::Error) -> io::Error {
    io::Error::other(error)
}
