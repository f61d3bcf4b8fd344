//! A file or a block device: direct, locked, and durable by the request.

use super::ring::Rings;
use super::{Came, Counters, Device, DeviceCounters, PageRead, read_each};
use crate::error::{LogError, Result};
use crate::page::{PAGE_BYTES, Pages};
use forebay_pmem::{Opening, lock_exclusively, open_own};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::ReadWriteFlags;
use std::fs::File;
use std::io::{self, IoSlice};
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

/// File systems that lie in memory: nothing of them is durable, whatever they say.
const MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58F6, "ramfs")];

/// A file or a block device. The lock is held by the open file that does the I/O: requests of a killed process that
/// are still under way hold it, so the next process cannot read before they have landed.
pub struct FileDevice {
    file: File,
    path: PathBuf,
    pages: u64,
    counters: Counters,
    rings: Rings,
}

impl FileDevice {
    /// Makes a file of `bytes`, which must not be there, with room for all of it, and writes it once: a write into an
    /// extent that was only reserved costs twice as much.
    ///
    /// # Errors
    /// The file system has no room for it, does not write in place or not directly, or the file is there.
    pub fn create(path: &Path, bytes: u64) -> Result<FileDevice> {
        FileDevice::create_with(path, bytes, false)
    }

    /// As [`FileDevice::create`]; with `trust_owner` in a directory that another user may write.
    ///
    /// # Errors
    /// As those of [`FileDevice::create`].
    pub fn create_with(path: &Path, bytes: u64, trust_owner: bool) -> Result<FileDevice> {
        let file = open_own(path, Opening::Make, trust_owner);
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
        FileDevice::open_with(path, false)
    }

    /// As [`FileDevice::open`]; with `trust_owner` also another user's.
    ///
    /// # Errors
    /// As those of [`FileDevice::open`].
    pub fn open_with(path: &Path, trust_owner: bool) -> Result<FileDevice> {
        let file = open_own(path, Opening::Write, trust_owner);
        let file = file.map_err(|error| unsuitable(path, error.to_string()))?;
        FileDevice::prepare(file, path)?.sized()
    }

    /// The same device, of which several reads are made one after the other: no descriptor is opened later.
    #[must_use]
    pub fn without_rings(mut self) -> FileDevice {
        self.rings = Rings::none();
        self
    }

    /// The same file once more, for reads of any bytes, whatever its path leads to by now.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_for_bytes(&self) -> Result<File> {
        let same = File::open(magic_link(&self.file));
        same.map_err(self.failed("open it to look what is on it"))
    }

    /// Why no pool can be made at `path`, in words, as `probe` shows it, an empty file of the same directory; none if one can.
    ///
    /// A durable write is tried: some file systems take direct I/O as a setting and then refuse it.
    ///
    /// # Errors
    /// Something that another moment may not have: no room, a limit, an error of the disk.
    pub fn obstacle(probe: File, path: &Path) -> Result<Option<String>> {
        let tried = FileDevice::prepare(probe, path).and_then(|device| {
            device.reserve(PAGE_BYTES as u64)?;
            let written = device.write_durable(0, &[&Pages::zeroed(1)]);
            written.map_err(device.failed("try a durable write beside it"))
        });
        match tried {
            Ok(()) => Ok(None),
            Err(LogError::Unsuitable { reason, .. }) => Ok(Some(reason)),
            Err(LogError::Device { source, .. }) if is_lacking(&source) => Ok(Some(format!(
                "its file system has no direct, durable writes into room that is reserved ({source})"
            ))),
            Err(error) => Err(error),
        }
    }

    fn prepare(file: File, path: &Path) -> Result<FileDevice> {
        let device = FileDevice {
            file: exclusive(file, path)?,
            path: path.to_owned(),
            pages: 0,
            counters: Counters::default(),
            rings: Rings::default(),
        };
        device.lock()?;
        device.refuse_file_system()?;
        device.make_direct()?;
        device.refuse_large_sectors()?;
        Ok(device)
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> LogError {
        LogError::of_device(&self.path, action)
    }

    fn lock(&self) -> Result<()> {
        lock_exclusively(&self.file).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => LogError::InUse {
                path: self.path.clone(),
            },
            _ => self.failed("lock it")(error),
        })
    }

    fn refuse_file_system(&self) -> Result<()> {
        if self.is_block_device()? {
            return Ok(());
        }
        let found = rustix::fs::fstatfs(&self.file).map_err(io::Error::from);
        let found = found.map_err(self.failed("ask for its file system"))?;
        let number = found.f_type as i64 & 0xFFFF_FFFF;
        let is_it = |(magic, _): &&(i64, &str)| *magic == number;
        if let Some((_, name)) = MEMORY.iter().find(is_it) {
            return Err(unsuitable(
                &self.path,
                format!(
                    "{name} is memory, of which a power loss leaves nothing; put the pool on a disk, or make one that is mapped \
                     (on the command line --medium page)"
                ),
            ));
        }
        match COPY_ON_WRITE.iter().find(is_it) {
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
        let flags = rustix::fs::fcntl_getfl(&self.file);
        let set =
            flags.and_then(|flags| rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT));
        set.map_err(|_| {
            unsuitable(
                &self.path,
                "its file system has no direct I/O, without which a failed write cannot be known; choose another one",
            )
        })
    }

    fn refuse_large_sectors(&self) -> Result<()> {
        if !self.is_block_device()? {
            return Ok(());
        }
        let bytes = rustix::fs::ioctl_blksszget(&self.file).map_err(io::Error::from);
        let bytes = bytes.map_err(self.failed("ask for its logical block size"))?;
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
        if i64::try_from(bytes).is_err() {
            return Err(unsuitable(&self.path, "no file is so large"));
        }
        let reserved = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, bytes);
        let reserved = reserved.map_err(io::Error::from);
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
            let written = self.transfer(
                page,
                &[&zeroes[..pages * PAGE_BYTES]],
                ReadWriteFlags::empty(),
            );
            written.map_err(self.failed("write it for the first time"))?;
        }
        let synced = self.file.sync_all();
        synced.map_err(self.failed("sync it"))
    }

    /// One call, all of it or an error.
    fn transfer(&self, page: u64, parts: &[&[u8]], flags: ReadWriteFlags) -> io::Result<()> {
        assert!(parts.len() <= PARTS_MAX, "one call takes {PARTS_MAX} parts");
        let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let offset = page * PAGE_BYTES as u64;
        // Where a signal comes first, nothing was begun.
        let written =
            rustix::io::retry_on_intr(|| rustix::io::pwritev2(&self.file, &slices, offset, flags))?;
        match written == len {
            true => Ok(()),
            // The rest may or may not be written; asking again could hide an error.
            false => Err(io::Error::new(
                io::ErrorKind::WriteZero,
                format!("{written} of {len} bytes were written"),
            )),
        }
    }
}

/// Whether a file system says by this that it has no such thing.
fn is_lacking(error: &io::Error) -> bool {
    let lacking = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EINVAL, libc::ENOTTY];
    let number = error.raw_os_error();
    number.is_some_and(|number| lacking.contains(&number))
}

/// The same device, opened so that nothing is mounted from it meanwhile; a file as it is.
fn exclusive(file: File, path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let failed = || LogError::of_device(path, "open it for this process alone");
    let metadata = file.metadata().map_err(failed())?;
    if !metadata.file_type().is_block_device() {
        return Ok(file);
    }
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_EXCL);
    options
        .open(magic_link(&file))
        .map_err(|error| match error.kind() {
            // Mounted, or another process of this kind has it.
            io::ErrorKind::ResourceBusy => LogError::InUse {
                path: path.to_owned(),
            },
            _ => failed()(error),
        })
}

fn magic_link(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
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

    fn read_many(&self, reads: &mut [PageRead<'_>], came: &mut Came<'_>) {
        let is_aligned = |read: &PageRead<'_>| read.out.as_ptr().addr().is_multiple_of(PAGE_BYTES);
        assert!(reads.iter().all(is_aligned), "direct reads are aligned");
        // One alone costs less without a ring.
        if reads.len() > 1
            && let Some(calls) = self.rings.read(&self.file, reads, came)
        {
            let bytes: usize = reads.iter().map(|read| read.out.len()).sum();
            let pages = (bytes / PAGE_BYTES) as u64;
            self.counters.note_reads(reads.len() as u64, pages, calls);
            return;
        }
        read_each(&mut |page, out| self.read(page, out), reads, came);
    }

    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.counters.note_write(pages_of(parts), true);
        self.transfer(page, parts, ReadWriteFlags::DSYNC)
    }

    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.counters.note_write(pages_of(parts), false);
        self.transfer(page, parts, ReadWriteFlags::empty())
    }

    fn flush(&self) -> io::Result<()> {
        self.counters.note_flush();
        self.file.sync_data()
    }

    fn counters(&self) -> DeviceCounters {
        self.counters.get()
    }
}
