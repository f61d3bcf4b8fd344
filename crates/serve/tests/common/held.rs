//! Files of which opening waits, so that a request hangs for as long as a test wants.
#![allow(unsafe_code)] // A file is held by a call that has no safe form.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

/// `fcntl(2)`: which signal tells of an opener.
const F_SETSIG: i32 = 10;

/// Holds a file so that opening it again waits, for as long as the kernel allows (45 s): the file, until it is dropped.
pub fn held(path: &Path) -> File {
    fs::write(path, b"held").unwrap();
    let file = File::open(path).unwrap();
    // What is to tell this process of the waiting opener is ignored by every process.
    // SAFETY: both act on a descriptor that is open, and take numbers.
    let results = unsafe {
        [
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG),
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
    file
}
