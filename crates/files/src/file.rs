//! One file: what is read, written and synced.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FallocateFlags, OFlags};

use crate::buffer::FileBuffer;
use crate::directory::FileIdentity;

/// What a sync promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncKind {
    /// `fdatasync`: the data and what is needed to read it again.
    Data,
    /// `fsync`: the name, mode, owner and times too.
    All,
}

/// One inode of the backing, shared by everyone who has it open. Offsets and open flags are the
/// callers' own.
#[derive(Debug)]
pub struct BufferedFile {
    identity: FileIdentity,
    /// The best descriptor offered so far: a writable one replaces one that only reads.
    descriptor: Mutex<Arc<File>>,
    /// Appends find the end under it.
    size_lock: Mutex<()>,
}

impl BufferedFile {
    pub(crate) fn new(
        _buffer: &Arc<FileBuffer>,
        identity: FileIdentity,
        descriptor: OwnedFd,
    ) -> io::Result<BufferedFile> {
        Ok(BufferedFile {
            identity,
            descriptor: Mutex::new(Arc::new(File::from(descriptor))),
            size_lock: Mutex::new(()),
        })
    }

    pub(crate) fn offer_descriptor(&self, descriptor: OwnedFd) -> io::Result<()> {
        let mode = |flags: OFlags| flags & OFlags::ACCMODE;
        let mut current = self.lock_descriptor();
        let has = mode(rustix::fs::fcntl_getfl(current.as_fd())?);
        let offered = mode(rustix::fs::fcntl_getfl(&descriptor)?);
        if has == OFlags::RDONLY && offered == OFlags::RDWR {
            *current = Arc::new(File::from(descriptor));
        }
        Ok(())
    }

    /// Which inode this is.
    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// The size that readers see.
    ///
    /// # Errors
    /// The backing's own.
    pub fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.backing().metadata()?.len())
    }

    /// Reads from byte `offset`; less than asked only at the end of the file.
    ///
    /// # Errors
    /// The backing failed, or the only copy is bad (`EIO`).
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            match self
                .backing()
                .read_at(&mut out[done..], offset + done as u64)
            {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes at byte `offset`, all or nothing up to the transaction limit; `durable` is a write on a
    /// descriptor with `O_SYNC` or `O_DSYNC`: it survives a crash when this returns.
    ///
    /// # Errors
    /// The backing is full, failed, or did not answer.
    pub fn write_at(&self, offset: u64, data: &[u8], durable: bool) -> io::Result<()> {
        let backing = self.backing();
        backing.write_all_at(data, offset)?;
        if durable {
            backing.sync_data()?;
        }
        Ok(())
    }

    /// Writes at the end of the file (`O_APPEND`) and returns the offset it went to.
    ///
    /// # Errors
    /// As [`BufferedFile::write_at`].
    pub fn append(&self, data: &[u8], durable: bool) -> io::Result<u64> {
        let _alone = self
            .size_lock
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let offset = self.size_bytes()?;
        self.write_at(offset, data, durable)?;
        Ok(offset)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// As [`BufferedFile::write_at`]; an earlier write-back that failed is reported once.
    pub fn sync(&self, kind: SyncKind) -> io::Result<()> {
        match kind {
            SyncKind::Data => self.backing().sync_data(),
            SyncKind::All => self.backing().sync_all(),
        }
    }

    /// Sets the size; what is gained reads as zeroes.
    ///
    /// # Errors
    /// The backing's own.
    pub fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.backing().set_len(size_bytes)
    }

    /// As `fallocate`.
    ///
    /// # Errors
    /// The backing's own, `EOPNOTSUPP` where it cannot.
    pub fn allocate(&self, mode: FallocateFlags, offset: u64, len_bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(
            &*self.backing(),
            mode,
            offset,
            len_bytes,
        )?)
    }

    /// As `lseek` with `SEEK_DATA` (`data`) or `SEEK_HOLE`: the offset found, `ENXIO` if there is none.
    ///
    /// # Errors
    /// The backing's own.
    pub fn seek(&self, offset: u64, data: bool) -> io::Result<u64> {
        let from = match data {
            true => rustix::fs::SeekFrom::Data(offset),
            false => rustix::fs::SeekFrom::Hole(offset),
        };
        Ok(rustix::fs::seek(&*self.backing(), from)?)
    }

    /// Brings the backing file up to date and makes it durable there: from now until the next write
    /// others may read it without us.
    ///
    /// # Errors
    /// The backing's own; what could not be written is still in the pool.
    pub fn drain(&self) -> io::Result<()> {
        self.backing().sync_data()
    }

    /// Drains, and passes every call straight through from now on, sync included: others may change
    /// the file too (a mapping, another process, a child). `resume` ends it.
    ///
    /// # Errors
    /// As [`BufferedFile::drain`]; nothing has changed then.
    pub fn suspend(&self) -> io::Result<()> {
        self.drain()
    }

    /// Buffers again; nobody else may use the file any more.
    pub fn resume(&self) {}

    /// The inode has no name any more: what is written need not survive, and is forgotten on close.
    pub fn unlinked(&self) {}

    /// The descriptor behind it, for what is asked of the backing itself (locks, attributes).
    pub fn backing(&self) -> Arc<File> {
        self.lock_descriptor().clone()
    }

    fn lock_descriptor(&self) -> std::sync::MutexGuard<'_, Arc<File>> {
        self.descriptor
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
