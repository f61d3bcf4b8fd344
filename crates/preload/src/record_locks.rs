//! Record locks of the program (`fcntl`, `lockf`). The kernel drops all that a process has on a file
//! when the process closes any descriptor of it, ours too: so ours wait with their closing until the
//! program closes one of its own.

use std::collections::{HashMap, HashSet};
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_files::FileIdentity;
use rustix::fs::OFlags;

use crate::locking::lock;

/// Whether there ever was a lock: most programs have none.
static USED: AtomicBool = AtomicBool::new(false);

/// The locked files of a process.
#[derive(Default)]
pub struct RecordLocks {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    locked: HashSet<FileIdentity>,
    parked: HashMap<FileIdentity, Vec<RawFd>>,
}

impl RecordLocks {
    /// The program has a lock on the file of this descriptor.
    pub fn note(&self, fd: BorrowedFd<'_>) {
        if let Ok(identity) = FileIdentity::of(fd) {
            USED.store(true, Ordering::Release);
            lock(&self.state).locked.insert(identity);
        }
    }

    /// One of our descriptors is to be closed: true if it has to wait, and is kept here.
    pub fn park(&self, fd: BorrowedFd<'_>) -> bool {
        use std::os::fd::AsRawFd;
        if !USED.load(Ordering::Acquire) {
            return false;
        }
        let Ok(identity) = FileIdentity::of(fd) else {
            return false;
        };
        let mut state = lock(&self.state);
        if !state.locked.contains(&identity) || opens_nothing(fd) {
            return false;
        }
        state
            .parked
            .entry(identity)
            .or_default()
            .push(fd.as_raw_fd());
        true
    }

    /// The program closes a descriptor of the file, and so drops its locks: returns ours to be closed.
    pub fn dropped(&self, identity: FileIdentity) -> Vec<RawFd> {
        if !USED.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut state = lock(&self.state);
        state.locked.remove(&identity);
        state.parked.remove(&identity).unwrap_or_default()
    }
}

/// Closing a descriptor that stands for a path only drops no lock.
fn opens_nothing(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::PATH))
}
