//! A file of the backing as write-back sees it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustix::fs::OFlags;

use crate::directory::FileIdentity;

/// A file that the pool may write to. Write-back and truncation of one file exclude each other, so no
/// block lands behind an end that has moved.
#[derive(Debug)]
pub(crate) struct Target {
    identity: FileIdentity,
    /// The best descriptor so far: one that may be written replaces one that only reads. Write-back
    /// holds it shared for as long as it writes, truncation holds it alone.
    descriptor: RwLock<Arc<File>>,
    /// The size that readers see: nothing is written behind it.
    size_bytes: AtomicU64,
    /// Whether it is among the files to be synced.
    pub(crate) is_touched: AtomicBool,
}

impl Target {
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Target> {
        let file = File::from(descriptor);
        Ok(Target {
            identity: FileIdentity::of(&file)?,
            size_bytes: AtomicU64::new(file.metadata()?.len()),
            descriptor: RwLock::new(Arc::new(file)),
            is_touched: AtomicBool::new(false),
        })
    }

    pub(crate) fn identity(&self) -> FileIdentity {
        self.identity
    }

    pub(crate) fn descriptor(&self) -> Arc<File> {
        let descriptor = self.descriptor.read();
        descriptor.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the pool could write what it holds.
    pub(crate) fn is_writable(&self) -> io::Result<bool> {
        let mode = rustix::fs::fcntl_getfl(self.descriptor().as_fd())? & OFlags::ACCMODE;
        Ok(mode == OFlags::RDWR)
    }

    /// Takes a descriptor that can do more than the one there.
    pub(crate) fn offer(&self, descriptor: OwnedFd) -> io::Result<()> {
        let mode = rustix::fs::fcntl_getfl(&descriptor)? & OFlags::ACCMODE;
        if mode == OFlags::RDWR && !self.is_writable()? {
            let mut place = self
                .descriptor
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            *place = Arc::new(File::from(descriptor));
        }
        Ok(())
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    /// The file is this long now. It never shrinks so: see [`Target::truncate`].
    pub(crate) fn grown_to(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    /// Sets the size of the file itself, with no write-back on its way.
    pub(crate) fn truncate(&self, size_bytes: u64) -> io::Result<()> {
        let alone = self
            .descriptor
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        alone.set_len(size_bytes)?;
        self.size_bytes.store(size_bytes, Ordering::Release);
        Ok(())
    }

    /// Writes blocks of the pool, as far as the file reaches.
    pub(crate) fn write_back(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self
            .descriptor
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let inside = self.size_bytes().saturating_sub(offset);
        let len = usize::try_from(inside).map_or(bytes.len(), |inside| inside.min(bytes.len()));
        file.write_all_at(&bytes[..len], offset)
    }

    /// Reads what the backing has; zeroes behind its end and behind the file's.
    pub(crate) fn read_through(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = self.size_bytes().saturating_sub(offset);
        let len = usize::try_from(inside).map_or(out.len(), |inside| inside.min(out.len()));
        let read = read_full(&self.descriptor(), offset, &mut out[..len])?;
        out[read..].fill(0);
        Ok(())
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        self.descriptor().sync_data()
    }
}

/// Reads as much as there is.
pub(crate) fn read_full(file: &File, offset: u64, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(more) => done += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
