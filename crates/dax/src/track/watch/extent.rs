//! One file whose changes by others than the mapping's threads are watched.
#![allow(unsafe_code, reason = "leases are the system's own interface")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;

use super::events::{Events, LOST};
use crate::track::maps::FileId;

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
    events: Events,
    times: Times,
}

impl Extent {
    /// Watches from here on. The file must have been opened once, and not be opened again by this process: events
    /// do not say whose they are, and two alike that follow each other are one.
    pub(super) fn new(file: &File) -> io::Result<Extent> {
        let file = file.try_clone()?;
        let events = Events::new(file.as_fd(), libc::IN_OPEN | libc::IN_MODIFY)?;
        let times = times_of(&file)?;
        Ok(Extent {
            file,
            events,
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
        let kinds = self.events.take()?;
        changes.is_opened = kinds & (libc::IN_OPEN | LOST) != 0;
        changes.is_modified = kinds & libc::IN_MODIFY != 0;
        Ok(changes)
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
