//! One open file description of the program: shared by its duplicates, with its position and flags.
//!
//! Invariant: while it is plain, the kernel's description is authoritative: position and flags included, but
//! for the access mode, which is wider where the program only writes. While it is buffered, it is the only
//! description of its inode anywhere.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use forebay_files::tally::Count;
use forebay_files::{BufferedFile, FileIdentity, SyncKind};

/// An open file, or room for one.
pub struct OpenFile {
    /// Read while it is used, written while it changes between plain, buffered and vacant.
    life: RwLock<Life>,
    /// Where the next read or write is, while it is buffered.
    position: Mutex<u64>,
    /// The flags that the program sees.
    status: AtomicI32,
    /// How many descriptors name it.
    descriptors: AtomicU32,
}

/// What an open file is at the moment.
#[derive(Default)]
pub struct Life {
    /// Which inode; none while it is vacant.
    pub identity: Option<FileIdentity>,
    /// Our duplicate. Closing it would drop the program's record locks, so it stays as long as the
    /// program has the file open; the lease is on it.
    pub own: Option<OwnedFd>,
    /// The buffer's side, once there is one.
    pub file: Option<Arc<BufferedFile>>,
    /// Whether reads and writes go through `file`.
    pub is_buffered: bool,
    /// The file is reached by ways that we cannot intercept: it stays plain until it is closed.
    pub is_escaped: bool,
    /// As what it is to be counted then.
    pub escape: Option<Count>,
    /// As what it is counted, plus one.
    pub counted: AtomicU8,
    /// Whether something synced is perhaps still in the pool alone.
    pub holds_data: AtomicBool,
    /// The inode has no name any more: nothing of it need outlive its closing.
    pub is_unlinked: bool,
    /// The fork whose child may still have it open.
    pub shared_with_fork: Option<u64>,
}

impl Life {
    /// The buffer's file, while reads and writes go through it.
    #[inline]
    pub fn buffered(&self) -> Option<&BufferedFile> {
        match self.is_buffered {
            true => self.file.as_deref(),
            false => None,
        }
    }
}

impl OpenFile {
    pub fn vacant() -> OpenFile {
        OpenFile {
            life: RwLock::new(Life::default()),
            position: Mutex::new(0),
            status: AtomicI32::new(0),
            descriptors: AtomicU32::new(0),
        }
    }

    pub fn read_life(&self) -> RwLockReadGuard<'_, Life> {
        self.life.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// None while a thread changes it.
    pub fn try_read_life(&self) -> Option<RwLockReadGuard<'_, Life>> {
        match self.life.try_read() {
            Ok(life) => Some(life),
            Err(TryLockError::Poisoned(life)) => Some(life.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub fn write_life(&self) -> RwLockWriteGuard<'_, Life> {
        self.life.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn lock_position(&self) -> MutexGuard<'_, u64> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn status(&self) -> i32 {
        self.status.load(Ordering::Relaxed)
    }

    pub fn set_status(&self, status: i32) {
        self.status.store(status, Ordering::Relaxed);
    }

    pub fn has(&self, flag: i32) -> bool {
        self.status() & flag == flag
    }

    /// One more descriptor.
    pub fn hold(&self) {
        self.descriptors.fetch_add(1, Ordering::AcqRel);
    }

    /// One descriptor less; true if it was the last.
    pub fn let_go(&self) -> bool {
        self.descriptors.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether a descriptor names it.
    pub fn is_held(&self) -> bool {
        self.descriptors.load(Ordering::Acquire) > 0
    }

    pub fn require_readable(&self) -> io::Result<()> {
        self.refuse_mode(libc::O_WRONLY)
    }

    pub fn require_writable(&self) -> io::Result<()> {
        self.refuse_mode(libc::O_RDONLY)
    }

    fn refuse_mode(&self, refused: i32) -> io::Result<()> {
        match self.status() & libc::O_ACCMODE == refused {
            true => Err(io::Error::from_raw_os_error(libc::EBADF)),
            false => Ok(()),
        }
    }

    /// What each write has to be followed by.
    pub fn sync_of_writes(&self) -> Option<SyncKind> {
        if self.has(libc::O_SYNC) {
            Some(SyncKind::All)
        } else if self.has(libc::O_DSYNC) {
            Some(SyncKind::Data)
        } else {
            None
        }
    }
}

/// The kernel's own sync of a descriptor.
pub fn sync_backing(fd: BorrowedFd<'_>, kind: SyncKind) -> io::Result<()> {
    match kind {
        SyncKind::All => rustix::fs::fsync(fd)?,
        SyncKind::Data => rustix::fs::fdatasync(fd)?,
    }
    Ok(())
}
