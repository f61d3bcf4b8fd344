//! One file whose changes by others than the mapping's threads are watched.
#![allow(
    unsafe_code,
    reason = "inotify and leases are the system's own interface"
)]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;

use crate::track::maps::FileId;

/// Fields of an event before its name (`struct inotify_event`, inotify(7)).
const EVENT_BYTES: usize = 16;

/// `F_SETSIG` of asm-generic/fcntl.h: which signal the system sends about a lease.
const F_SETSIG: i32 = 10;

/// What moves when a file is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    size: u64,
    mtime: (i64, i64),
}

/// What happened to it since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Somebody opened it.
    pub(super) is_opened: bool,
    /// A system call changed its bytes or its size.
    pub(super) is_modified: bool,
    /// Its size or its time moved. On some file systems a store through a mapping does that.
    pub(super) has_moved: bool,
}

/// A file under watch.
#[derive(Debug)]
pub(super) struct Extent {
    /// The caller's own opening of it: a second one would be taken for somebody else's.
    file: File,
    /// It tells of one file only, so that an event needs no name.
    inotify: File,
    times: Times,
}

impl Extent {
    /// Watches from here on. The file must have been opened once, and not be opened again by this process: events
    /// do not say whose they are, and two alike that follow each other are one.
    pub(super) fn new(file: &File) -> io::Result<Extent> {
        let file = file.try_clone()?;
        // SAFETY: a plain system call.
        let descriptor = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let inotify = unsafe { File::from_raw_fd(descriptor) };
        // By the descriptor, for a path may lead to another file by now.
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        let events = libc::IN_OPEN | libc::IN_MODIFY;
        // SAFETY: the path ends with a zero byte and lives across the call.
        let watch = unsafe { libc::inotify_add_watch(descriptor, path.as_ptr().cast(), events) };
        if watch < 0 {
            return Err(io::Error::last_os_error());
        }
        let times = times_of(&file)?;
        Ok(Extent {
            file,
            inotify,
            times,
        })
    }

    pub(super) fn id(&self) -> io::Result<FileId> {
        FileId::of(&self.file)
    }

    /// What moved its size and times until now was the caller's.
    pub(super) fn note_times(&mut self) -> io::Result<()> {
        self.times = times_of(&self.file)?;
        Ok(())
    }

    /// What happened since the last look.
    pub(super) fn look(&mut self) -> io::Result<Changes> {
        let mut changes = Changes::default();
        let times = times_of(&self.file)?;
        changes.has_moved = times != self.times;
        self.times = times;
        let mut events = [0_u8; 4096];
        loop {
            let len = match self.inotify.read(&mut events) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(changes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            // The watched file itself has no name in its events: each is of the same length.
            for event in events[..len].chunks_exact(EVENT_BYTES) {
                let mask = u32::from_ne_bytes([event[4], event[5], event[6], event[7]]);
                let is_lost = mask & (libc::IN_Q_OVERFLOW | libc::IN_IGNORED) != 0;
                changes.is_opened |= is_lost || mask & libc::IN_OPEN != 0;
                changes.is_modified |= mask & libc::IN_MODIFY != 0;
            }
        }
    }

    /// Whether nobody else has it open, or mapped from an opening of its own: the system gives a write lease only
    /// then (fcntl(2)). The lease is given back at once.
    pub(super) fn is_ours_alone(&self) -> bool {
        let descriptor = self.file.as_raw_fd();
        // A thread that opens the file while the lease is had makes the system send a signal, which by default would
        // be SIGIO and end the process; SIGURG does nothing by default.
        // SAFETY: plain system calls on a descriptor of ours.
        unsafe {
            if libc::fcntl(descriptor, F_SETSIG, libc::SIGURG) != 0 {
                return false;
            }
            let is_had = libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_WRLCK) == 0;
            let is_given_back =
                !is_had || libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_UNLCK) == 0;
            assert!(is_given_back, "a lease that was had can be given back");
            libc::fcntl(descriptor, F_SETSIG, 0);
            is_had
        }
    }
}

fn times_of(file: &File) -> io::Result<Times> {
    let metadata = file.metadata()?;
    Ok(Times {
        size: metadata.len(),
        mtime: (metadata.mtime(), metadata.mtime_nsec()),
    })
}
