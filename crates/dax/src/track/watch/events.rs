//! What is done with one file, as inotify(7) tells.
#![allow(unsafe_code, reason = "inotify is the system's own interface")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// Fields of an event before its name (`struct inotify_event`).
const EVENT_BYTES: usize = 16;

/// Some events were not told.
pub(super) const LOST: u32 = libc::IN_Q_OVERFLOW | libc::IN_IGNORED;

/// Events of one file, which so need no name. They do not say whose they are, and two alike that follow each other are
/// one.
#[derive(Debug)]
pub(super) struct Events(File);

impl Events {
    /// Those of these kinds from here on.
    pub(super) fn new(file: BorrowedFd<'_>, kinds: u32) -> io::Result<Events> {
        // SAFETY: a plain system call.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let inotify = unsafe { File::from_raw_fd(descriptor) };
        // By the descriptor, for a path may lead to another file by now.
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        // SAFETY: the path ends with a zero byte and lives across the call.
        let watch = unsafe { libc::inotify_add_watch(descriptor, path.as_ptr().cast(), kinds) };
        if watch < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Events(inotify))
    }

    /// The kinds of those since the last call.
    pub(super) fn take(&mut self) -> io::Result<u32> {
        let mut kinds = 0;
        let mut events = [0_u8; 4096];
        loop {
            let len = match self.0.read(&mut events) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(kinds),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // The watched file itself has no name in its events: each is of the same length.
            for event in events[..len].chunks_exact(EVENT_BYTES) {
                kinds |= u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
            }
        }
    }
}
