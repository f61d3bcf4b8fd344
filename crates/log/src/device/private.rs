//! A pool that is looked at without being changed: what is written to it stays in memory, and is read from there.

use super::{Counters, Device, DeviceCounters};
use crate::error::{LogError, Result};
use crate::page::PAGE_BYTES;
use forebay_pmem::{Opening, open_own};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file or a block device that is only read, with what was written over it in memory.
pub struct PrivateDevice {
    file: File,
    path: PathBuf,
    pages: u64,
    written: Mutex<HashMap<u64, Box<[u8]>>>,
    counters: Counters,
}

impl PrivateDevice {
    /// Opens a file or a block device to be looked at; `None` if a process has it in use.
    ///
    /// # Errors
    /// It is another user's, and that is not trusted; it cannot be read.
    pub fn open(path: &Path, trust_owner: bool) -> Result<Option<PrivateDevice>> {
        let device = PrivateDevice::open_in_use(path, trust_owner)?;
        let locked = rustix::fs::flock(&device.file, FlockOperation::NonBlockingLockShared);
        match locked {
            Ok(()) => Ok(Some(device)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(LogError::of_device(path, "lock it")(error.into())),
        }
    }

    /// The same of one that may be in use: what is read of it is of different moments.
    ///
    /// # Errors
    /// As those of [`PrivateDevice::open`].
    pub fn open_in_use(path: &Path, trust_owner: bool) -> Result<PrivateDevice> {
        use std::io::Seek;
        let file = open_own(path, Opening::Read, trust_owner);
        let mut file = file.map_err(|error| LogError::Unsuitable {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let bytes = file.seek(io::SeekFrom::End(0));
        let bytes = bytes.map_err(LogError::of_device(path, "ask for its size"))?;
        Ok(PrivateDevice {
            file,
            path: path.to_owned(),
            pages: bytes / PAGE_BYTES as u64,
            written: Mutex::default(),
            counters: Counters::default(),
        })
    }

    fn written(&self) -> MutexGuard<'_, HashMap<u64, Box<[u8]>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for PrivateDevice {
    fn path(&self) -> &Path {
        &self.path
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        self.counters.note_read((out.len() / PAGE_BYTES) as u64);
        self.file.read_exact_at(out, page * PAGE_BYTES as u64)?;
        let written = self.written();
        for (number, out) in (page..).zip(out.chunks_mut(PAGE_BYTES)) {
            if let Some(bytes) = written.get(&number) {
                out.copy_from_slice(&bytes[..out.len()]);
            }
        }
        Ok(())
    }

    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.write(page, parts)
    }

    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut written = self.written();
        let pages = parts.iter().flat_map(|part| part.chunks_exact(PAGE_BYTES));
        for (number, bytes) in (page..).zip(pages) {
            written.insert(number, bytes.into());
        }
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn counters(&self) -> DeviceCounters {
        self.counters.get()
    }
}
