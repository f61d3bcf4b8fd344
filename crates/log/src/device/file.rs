//! A file or a block device: direct, locked, and durable by the request.

#![allow(
    unsafe_code,
    reason = "std has neither pwritev2 nor flock nor fallocate"
)]

use super::{Counters, Device, DeviceCounters};
use crate::error::{LogError, Result};
use crate::page::{PAGE_BYTES, Pages};
use forebay_pmem::{Opening, open_own};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

/// Pages of a write of zeroes, when a file is made.
const ZEROED_PAGES: usize = 256;
/// As many parts as one call takes.
const PARTS_MAX: usize = libc::UIO_MAXIOV as usize;

/// File systems that never write a page in its own place, by the number that `statfs` has for them.
const COPY_ON_WRITE: [(i64, &str); 3] = [
    (0x9123_683E, "btrfs"),
    (0xCA45_1A4E, "bcachefs"),
    (0x2FC1_2FC1, "ZFS"),
];

/// A file or a block device. The lock is held by the open file that does the I/O: requests of a killed process that
/// are still under way hold it, so the next process cannot read before they have landed.
pub struct FileDevice {
    file: File,
    path: PathBuf,
    pages: u64,
    counters: Counters,
}

fn call(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl FileDevice {
    /// Makes a file of `bytes`, which must not be there, with room for all of it, and writes it once: a write into an
    /// extent that was only reserved costs twice as much.
    ///
    /// # Errors
    /// The file system has no room for it, does not write in place or not directly, or the file is there.
    pub fn create(path: &Path, bytes: u64) -> Result<FileDevice> {
        let file = open_own(path, Opening::Make, false);
        let file = file.map_err(|error| unsuitable(path, error.to_string()))?;
        let made = FileDevice::prepare(file, path).and_then(|device| {
            device.reserve(bytes)?;
            device.sized()
        });
        let made = made.and_then(|device| {
            device.prefill()?;
            Ok(device)
        });
        // What cannot be used is not left behind; that it cannot be removed either changes nothing.
        made.inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    /// Opens a file or a block device that is there.
    ///
    /// # Errors
    /// Another process has it; it is another user's; it cannot be written directly.
    pub fn open(path: &Path) -> Result<FileDevice> {
        let file = open_own(path, Opening::Write, false);
        let file = file.map_err(|error| unsuitable(path, error.to_string()))?;
        FileDevice::prepare(file, path)?.sized()
    }

    fn prepare(file: File, path: &Path) -> Result<FileDevice> {
        let device = FileDevice {
            file: exclusive(file, path)?,
            path: path.to_owned(),
            pages: 0,
            counters: Counters::default(),
        };
        device.lock()?;
        device.refuse_copy_on_write()?;
        device.make_direct()?;
        device.refuse_large_sectors()?;
        Ok(device)
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> LogError {
        let path = self.path.clone();
        move |source| LogError::Device {
            path,
            action,
            source,
        }
    }

    fn lock(&self) -> Result<()> {
        // SAFETY: a plain call on an open file.
        let locked =
            call(unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) });
        locked.map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => unsuitable(
                &self.path,
                "another process has it open; close that one first",
            ),
            _ => self.failed("lock it")(error),
        })
    }

    fn refuse_copy_on_write(&self) -> Result<()> {
        if self.is_block_device()? {
            return Ok(());
        }
        // SAFETY: all zeroes is a value of this struct of numbers.
        let mut found: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the struct is ours, and the file is open.
        let asked = call(unsafe { libc::fstatfs(self.file.as_raw_fd(), &raw mut found) });
        asked.map_err(self.failed("ask for its file system"))?;
        let number = found.f_type as i64 & 0xFFFF_FFFF;
        match COPY_ON_WRITE.iter().find(|(magic, _)| *magic == number) {
            Some((_, name)) => Err(unsuitable(
                &self.path,
                format!(
                    "{name} writes no page in its own place; put the pool on ext4, XFS or a block device"
                ),
            )),
            None => Ok(()),
        }
    }

    fn is_block_device(&self) -> Result<bool> {
        let metadata = self.file.metadata().map_err(self.failed("look at it"))?;
        Ok(metadata.file_type().is_block_device())
    }

    fn make_direct(&self) -> Result<()> {
        // SAFETY: plain calls on an open file.
        let flags = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETFL) };
        // SAFETY: as above.
        let set =
            unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_SETFL, flags | libc::O_DIRECT) };
        match flags >= 0 && set == 0 {
            true => Ok(()),
            false => Err(unsuitable(
                &self.path,
                "its file system has no direct I/O, without which a failed write cannot be known; choose another one",
            )),
        }
    }

    fn refuse_large_sectors(&self) -> Result<()> {
        if !self.is_block_device()? {
            return Ok(());
        }
        let mut bytes: libc::c_int = 0;
        const BLKSSZGET: libc::c_ulong = 0x1268;
        // SAFETY: the call stores one integer, which is ours.
        let asked =
            call(unsafe { libc::ioctl(self.file.as_raw_fd(), BLKSSZGET as _, &raw mut bytes) });
        asked.map_err(self.failed("ask for its logical block size"))?;
        match bytes as usize <= PAGE_BYTES {
            true => Ok(()),
            false => Err(unsuitable(
                &self.path,
                format!(
                    "its logical blocks have {bytes} bytes, and a pool writes 4096; choose another device"
                ),
            )),
        }
    }

    /// All room at once: no write of a group ever lacks any.
    fn reserve(&self, bytes: u64) -> Result<()> {
        let bytes = libc::off_t::try_from(bytes)
            .map_err(|_| unsuitable(&self.path, "no file is so large"))?;
        // SAFETY: a plain call on an open file.
        let reserved = call(unsafe { libc::fallocate(self.file.as_raw_fd(), 0, 0, bytes) });
        reserved.map_err(self.failed("reserve room for it"))
    }

    fn sized(mut self) -> Result<FileDevice> {
        use std::io::Seek;
        let bytes = self.file.seek(io::SeekFrom::End(0));
        let bytes = bytes.map_err(self.failed("ask for its size"))?;
        self.pages = bytes / PAGE_BYTES as u64;
        Ok(self)
    }

    fn prefill(&self) -> Result<()> {
        let zeroes = Pages::zeroed(ZEROED_PAGES);
        for page in (0..self.pages).step_by(ZEROED_PAGES) {
            let pages = (self.pages - page).min(ZEROED_PAGES as u64) as usize;
            let written = self.transfer(page, &[&zeroes[..pages * PAGE_BYTES]], 0);
            written.map_err(self.failed("write it for the first time"))?;
        }
        let synced = self.file.sync_all();
        synced.map_err(self.failed("sync it"))
    }

    /// One call, all of it or an error.
    fn transfer(&self, page: u64, parts: &[&[u8]], flags: libc::c_int) -> io::Result<()> {
        assert!(parts.len() <= PARTS_MAX, "one call takes {PARTS_MAX} parts");
        let vectors: Vec<libc::iovec> = parts
            .iter()
            .map(|part| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            })
            .collect();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let offset = (page * PAGE_BYTES as u64) as libc::off_t;
        loop {
            // SAFETY: each vector names a borrowed slice, which the call only reads.
            let written = unsafe {
                libc::pwritev2(
                    self.file.as_raw_fd(),
                    vectors.as_ptr(),
                    vectors.len() as libc::c_int,
                    offset,
                    flags,
                )
            };
            return match written {
                -1 => {
                    let error = io::Error::last_os_error();
                    match error.kind() {
                        // Nothing was begun.
                        io::ErrorKind::Interrupted => continue,
                        _ => Err(error),
                    }
                }
                written if written as usize == len => Ok(()),
                // The rest may or may not be written; asking again could hide an error.
                written => Err(io::Error::new(
                    io::ErrorKind::WriteZero,
                    format!("{written} of {len} bytes were written"),
                )),
            };
        }
    }
}

/// The same device, opened so that nothing is mounted from it meanwhile; a file as it is.
fn exclusive(file: File, path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let failed = |source| LogError::Device {
        path: path.to_owned(),
        action: "open it for this process alone",
        source,
    };
    if !file
        .metadata()
        .map_err(failed)?
        .file_type()
        .is_block_device()
    {
        return Ok(file);
    }
    let same = format!("/proc/self/fd/{}", file.as_raw_fd());
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_EXCL);
    options.open(same).map_err(failed)
}

fn unsuitable(path: &Path, reason: impl Into<String>) -> LogError {
    LogError::Unsuitable {
        path: path.to_owned(),
        reason: reason.into(),
    }
}

fn pages_of(parts: &[&[u8]]) -> u64 {
    (parts.iter().map(|part| part.len()).sum::<usize>() / PAGE_BYTES) as u64
}

impl Device for FileDevice {
    fn path(&self) -> &Path {
        &self.path
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()> {
        self.counters.note_read((out.len() / PAGE_BYTES) as u64);
        let offset = page * PAGE_BYTES as u64;
        if out.as_ptr().addr().is_multiple_of(PAGE_BYTES) {
            return self.file.read_exact_at(out, offset);
        }
        let mut aligned = Pages::zeroed(out.len().div_ceil(PAGE_BYTES));
        self.file.read_exact_at(&mut aligned, offset)?;
        out.copy_from_slice(&aligned[..out.len()]);
        Ok(())
    }

    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.counters.note_write(pages_of(parts), true);
        self.transfer(page, parts, libc::RWF_DSYNC)
    }

    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.counters.note_write(pages_of(parts), false);
        self.transfer(page, parts, 0)
    }

    fn flush(&self) -> io::Result<()> {
        self.counters.note_flush();
        self.file.sync_data()
    }

    fn counters(&self) -> DeviceCounters {
        self.counters.get()
    }
}
