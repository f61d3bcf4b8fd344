//! One file: what is read, written and synced.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::FallocateFlags;

use crate::content::{Content, Suspender};
use crate::facts::{FileFacts, SyncKind};
use crate::identity::FileIdentity;

/// What is told when no caller has a file open any more.
pub(crate) trait Closing: Send + Sync + std::fmt::Debug {
    /// The last handle of this file is gone.
    fn closed(&self, identity: FileIdentity);
}

/// One inode of the backing, shared by all callers that have it open. Offsets and open flags are the
/// callers' own.
#[derive(Debug)]
pub struct BufferedFile {
    content: Arc<Content>,
    registry: Arc<dyn Closing>,
}

impl BufferedFile {
    pub(crate) fn new(content: Arc<Content>, registry: Arc<dyn Closing>) -> BufferedFile {
        BufferedFile { content, registry }
    }

    pub(crate) fn offer_descriptor(&self, descriptor: OwnedFd) -> io::Result<()> {
        self.content.target.offer(descriptor)
    }

    /// Which inode this is.
    pub fn identity(&self) -> FileIdentity {
        self.content.target.identity()
    }

    /// The size that readers see.
    ///
    /// # Errors
    /// The backing's own.
    pub fn size_bytes(&self) -> io::Result<u64> {
        self.content.size_bytes()
    }

    /// As [`FileBuffer::facts`](crate::FileBuffer::facts).
    ///
    /// # Errors
    /// The backing's own.
    pub fn facts(&self) -> io::Result<FileFacts> {
        self.content.facts()
    }

    /// Reads from byte `offset`; less than asked only at the end of the file.
    ///
    /// # Errors
    /// The backing failed, or the only copy is bad (`EIO`).
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        self.content.read_at(offset, out)
    }

    /// Writes at byte `offset`; `durable` is a write on a descriptor with `O_SYNC` or `O_DSYNC`: it
    /// survives a crash when this returns, and is all or nothing then, up to the transaction limit.
    ///
    /// # Errors
    /// The backing is full, failed, or did not answer.
    pub fn write_at(&self, offset: u64, data: &[u8], durable: bool) -> io::Result<()> {
        self.content.write_at(offset, data, durable)
    }

    /// Writes at the end of the file (`O_APPEND`) and returns the offset it went to.
    ///
    /// # Errors
    /// As [`BufferedFile::write_at`].
    pub fn append(&self, data: &[u8], durable: bool) -> io::Result<u64> {
        self.content.append(data, durable)
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// As [`BufferedFile::write_at`]; an earlier write-back that failed is reported once.
    pub fn sync(&self, kind: SyncKind) -> io::Result<()> {
        self.content.sync(kind)
    }

    /// As a sync of the data, but for what the pool has of it: a sync of the pool that follows makes all of it durable.
    pub(crate) fn sync_past_pool(&self) -> io::Result<()> {
        self.content.sync_past_pool(SyncKind::Data)
    }

    /// Sets the size; what is gained reads as zeroes.
    ///
    /// # Errors
    /// The backing's own.
    pub fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        self.content.truncate(size_bytes)
    }

    /// As `fallocate`.
    ///
    /// # Errors
    /// The backing's own, `EOPNOTSUPP` where it cannot.
    pub fn allocate(&self, mode: FallocateFlags, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.content.allocate(mode, offset, len_bytes)
    }

    /// As `lseek` with `SEEK_DATA` (`data`) or `SEEK_HOLE`: the offset found, `ENXIO` if there is none.
    ///
    /// # Errors
    /// The backing's own.
    pub fn seek(&self, offset: u64, data: bool) -> io::Result<u64> {
        self.content.seek(offset, data)
    }

    /// Mode, owner, times or extended attributes were changed in the backing: the next
    /// [`SyncKind::All`] makes that durable there.
    pub fn attributes_changed(&self) {
        self.content.attributes_changed();
    }

    /// The time of modification was set in the backing, to what it is to be. Beside
    /// [`BufferedFile::attributes_changed`].
    ///
    /// # Errors
    /// The backing's own.
    pub fn modified_chosen(&self) -> io::Result<()> {
        self.content.target.times.chosen(&self.backing())
    }

    /// Brings the backing file up to date and makes it durable there: from now until the next write
    /// others may read it without us.
    ///
    /// # Errors
    /// The backing's own; what could not be written is still in the pool.
    pub fn drain(&self) -> io::Result<()> {
        self.content.drain()
    }

    /// Drains, and passes every call straight through from now on, sync included: others may change
    /// the file too (a mapping, another process, a child). `resume` ends it.
    ///
    /// # Errors
    /// As [`BufferedFile::drain`]; nothing has changed then.
    pub fn suspend(&self) -> io::Result<()> {
        self.content.suspend(Suspender::Caller)
    }

    /// Suspends the file until what this returns is dropped.
    pub(crate) fn suspend_meanwhile(self: &Arc<Self>) -> io::Result<Suspension> {
        self.content.suspend(Suspender::Operation)?;
        Ok(Suspension(self.clone()))
    }

    /// Buffers again; no other process may use the file any more. Where the backing does not tell the file's
    /// size, it stays suspended.
    pub fn resume(&self) {
        // An error means just that: still suspended, which is always right.
        drop(self.content.resume(Suspender::Caller));
    }

    /// A name of the inode was removed. If it has none left, what is written need not survive, and is
    /// forgotten on close.
    pub fn unlinked(&self) {
        self.content.unlinked();
    }

    /// The descriptor behind it, for what is asked of the backing itself (locks, attributes).
    pub fn backing(&self) -> Arc<File> {
        self.content.target.descriptor()
    }
}

/// A file is suspended.
#[derive(Debug)]
pub(crate) struct Suspension(Arc<BufferedFile>);

impl Drop for Suspension {
    fn drop(&mut self) {
        // As in `BufferedFile::resume`.
        drop(self.0.content.resume(Suspender::Operation));
    }
}

impl Drop for BufferedFile {
    fn drop(&mut self) {
        self.registry.closed(self.content.target.identity());
    }
}
