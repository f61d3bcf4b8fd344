//! Files and devices into memory: creation, locking, and finding out what they are.

#![allow(unsafe_code, reason = "mappings are the system's own interface")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::lock::{lock_exclusively, lock_shared};
use crate::ownership::{Opening, open_own};
use crate::{HUGE_PAGE_BYTES, MediaKind, PAGE_BYTES, PmemError, PmemErrorKind, RegionOptions};

const TMPFS_MAGIC: i64 = 0x0102_1994;
const RAMFS_MAGIC: i64 = 0x8584_58F6;

/// madvise(2), since Linux 6.1: huge pages for the range, now.
const MADV_COLLAPSE: i32 = 25;

/// Bytes asked for at once when a file is read ahead: the kernel cuts a request short that is longer
/// than its device's limit, which is not shorter anywhere by default.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// Bytes written at once where a file system cannot reserve space otherwise.
const ZERO_CHUNK_BYTES: usize = 1 << 20;

/// A mapping; unmapped when dropped, the file closed and so unlocked after that.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut u8,
    len: usize,
    kind: MediaKind,
    file: File,
}

// SAFETY: a mapping is memory that belongs to the process, not to a thread. All access to it is
// through the kernels, which bear races.
unsafe impl Send for Mapping {}
// SAFETY: all access to it is through the kernels, which bear races.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping; it is being dropped, so no thread uses it any more.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

impl Mapping {
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn kind(&self) -> MediaKind {
        self.kind
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Has the kernel begin to read bytes of a plain file, which it does not foresee by itself. A hint:
    /// what it leaves out is read when it is touched.
    pub(crate) fn read_ahead(&self, bytes: Range<u64>) {
        if self.kind != MediaKind::PlainFile {
            return;
        }
        let mut offset = bytes.start;
        while offset < bytes.end {
            let len = READ_AHEAD_BYTES.min(bytes.end - offset);
            // SAFETY: a plain system call on our own descriptor.
            unsafe { libc::readahead(self.file.as_raw_fd(), offset as i64, len as usize) };
            offset += len;
        }
    }

    /// Takes the faults on pages of a plain file at once, as reads or as stores; after the latter the
    /// pages count as changed. A hint: what a kernel before Linux 5.14 leaves out is faulted on when it is
    /// touched.
    pub(crate) fn populate(&self, bytes: Range<u64>, for_stores: bool) {
        if self.kind != MediaKind::PlainFile || bytes.end > self.len as u64 {
            return;
        }
        let page = PAGE_BYTES as u64;
        let (start, end) = (bytes.start / page * page, bytes.end.next_multiple_of(page));
        let advice = match for_stores {
            true => libc::MADV_POPULATE_WRITE,
            false => libc::MADV_POPULATE_READ,
        };
        // SAFETY: whole pages of our own mapping, and only advice that changes no byte.
        unsafe {
            let at = self.start.add(start as usize);
            libc::madvise(at.cast(), (end - start) as usize, advice)
        };
    }

    /// Advice for the whole mapping, before its first fault: a plain file's pages come one by one.
    /// Folios of many pages, which huge pages and the kernel's own readahead make, are dirtied and
    /// written as a whole by the first store to any of their bytes.
    fn advise_faults(&self, huge_pages: bool) {
        match self.kind {
            MediaKind::PlainFile => self.advise(libc::MADV_RANDOM),
            // Where the kernel declines, everything works, a little slower.
            _ if huge_pages => self.advise(libc::MADV_HUGEPAGE),
            _ => {}
        }
    }

    /// Puts memory of this process over all of it and unlocks the file: a thread that still holds the
    /// mapping reads zeroes, and its stores go nowhere.
    pub(crate) fn retire(&self) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: replaces all pages of our own mapping, at once for every thread, and leaves none of it
        // unmapped; what is behind it is only accessed as memory that changes under its readers anyway.
        // The descriptor is our own.
        unsafe {
            check_mapped(libc::mmap(
                self.start.cast(),
                self.len.next_multiple_of(PAGE_BYTES),
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            ))?;
            match libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        }
    }

    /// Has every access to the page at this offset raise SIGBUS, and takes what the file has there away.
    pub(crate) fn fail_page(&self, offset: u64) -> io::Result<()> {
        // SAFETY: a plain system call with a name that lives through it.
        let nothing = unsafe { libc::memfd_create(c"forebay-drill".as_ptr(), libc::MFD_CLOEXEC) };
        if nothing < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        let nothing = unsafe { File::from_raw_fd(nothing) };
        // SAFETY: replaces one whole page of our own mapping, at once for every thread, by one that lies beyond the end of
        // its file. Accesses raise the signal whose handler knows this mapping.
        unsafe {
            check_mapped(libc::mmap(
                self.start.add(offset as usize).cast(),
                PAGE_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                nothing.as_raw_fd(),
                0,
            ))?;
        }
        // Only now: a thread that read these zeroes before would not hear that they are a loss.
        let len = (self.len - offset as usize).min(PAGE_BYTES);
        self.file.write_all_at(&[0; PAGE_BYTES][..len], offset)
    }

    /// Gives a new memory file huge pages: reserving gives it small ones, and most systems grant huge ones only on an
    /// explicit request, which they refuse where there is no page at all. So there is one in each; of all that the file
    /// has, the rest would only be copied. The pages stay with the file, also when it is opened again.
    fn make_pages_huge(&self) {
        for start in (0..self.len).step_by(HUGE_PAGE_BYTES) {
            let len = (self.len - start).min(PAGE_BYTES);
            // SAFETY: a plain system call on our own descriptor. If it fails, so does what reserves the whole file.
            unsafe { libc::fallocate(self.file.as_raw_fd(), 0, start as i64, len as i64) };
        }
        self.advise(MADV_COLLAPSE);
    }

    fn advise(&self, advice: i32) {
        // SAFETY: our own mapping, and only advice that changes no byte.
        unsafe { libc::madvise(self.start.cast(), self.len, advice) };
    }
}

/// A new file of `len` bytes, all of them reserved; removed again when that fails.
pub(crate) fn create(path: &Path, len: u64, options: &RegionOptions) -> Result<Mapping, PmemError> {
    let needed = PAGE_BYTES as u64;
    if len < needed {
        return Err(PmemError::new(
            PmemErrorKind::TooSmall { found: len, needed },
            path,
        ));
    }
    let file = open_own(path, Opening::Make, options.trust_owner)?;
    let mapping = fill_and_map(file, len, options.huge_pages, path);
    if mapping.is_err() {
        // The caller needs the first error, not this one.
        let _ = std::fs::remove_file(path);
    }
    mapping
}

fn fill_and_map(file: File, len: u64, huge_pages: bool, path: &Path) -> Result<Mapping, PmemError> {
    lock(&file, path)?;
    file.set_len(len)
        .map_err(|error| PmemError::with_source(PmemErrorKind::NoSpace { len }, path, error))?;
    let has_huge_pages = huge_pages && identify(&file, path)?.0 == MediaKind::Shm;
    if !has_huge_pages || len > free_bytes(&file) {
        reserve(&file, len, path)?;
    }
    let mapping = map_shared(file, huge_pages, path)?;
    if has_huge_pages {
        mapping.make_pages_huge();
        reserve(mapping.file(), len, path)?;
    }
    sync_creation(mapping.file(), path)?;
    Ok(mapping)
}

/// A file or device that exists, locked against every other process.
pub(crate) fn open(path: &Path, options: &RegionOptions) -> Result<Mapping, PmemError> {
    let file = open_own(path, Opening::Write, options.trust_owner)?;
    lock(&file, path)?;
    let metadata = metadata(&file, path)?;
    // A copy made by cp may have holes, whose first store could meet a full disk (SIGBUS).
    if metadata.is_file() && metadata.blocks() * 512 < metadata.len() {
        reserve_holes(&file, metadata.len(), path)?;
    }
    map_shared(file, options.huge_pages, path)
}

/// A private view: stores stay in this process. Also says whether no other process has the file open.
pub(crate) fn open_private(path: &Path, trust_owner: bool) -> Result<(Mapping, bool), PmemError> {
    let file = open_own(path, Opening::Read, trust_owner)?;
    let is_quiet = lock_shared(&file).is_ok();
    let (kind, len) = identify(&file, path)?;
    if kind == MediaKind::DevDax {
        return Err(PmemError::new(
            PmemErrorKind::Unsupported(
                "a DAX device has no private view; copy it to a file and look at that",
            ),
            path,
        ));
    }
    let len = checked_len(len, path)?;
    let start = map(&file, len, libc::MAP_PRIVATE | libc::MAP_NORESERVE)
        .map_err(|error| PmemError::io("map it", path, error))?;
    let mapping = Mapping {
        start,
        len,
        kind,
        file,
    };
    // A process that later maps the file to serve it finds the folios made here.
    mapping.advise_faults(false);
    Ok((mapping, is_quiet))
}

fn lock(file: &File, path: &Path) -> Result<(), PmemError> {
    lock_exclusively(file).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => PmemError::new(PmemErrorKind::Locked, path),
        _ => PmemError::io("lock it", path, error),
    })
}

fn metadata(file: &File, path: &Path) -> Result<std::fs::Metadata, PmemError> {
    file.metadata()
        .map_err(|error| PmemError::io("find out what it is", path, error))
}

/// What its file system has room for; 0 if it does not say.
fn free_bytes(file: &File) -> u64 {
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a plain system call on our own descriptor, which fills what it is given; all zeroes are valid, too.
    let found = unsafe {
        libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr());
        found.assume_init()
    };
    found.f_bavail.saturating_mul(found.f_frsize)
}

/// Gives the file `len` bytes backed by blocks, so that a full disk is an error now.
fn reserve(file: &File, len: u64, path: &Path) -> Result<(), PmemError> {
    reserve_from(file, 0, len, path)
}

/// Reserves the bytes from `start` on, up to the end at `len`.
fn reserve_from(file: &File, start: u64, len: u64, path: &Path) -> Result<(), PmemError> {
    let no_space = |error| PmemError::with_source(PmemErrorKind::NoSpace { len }, path, error);
    let Ok(signed_len) = i64::try_from(len) else {
        return Err(PmemError::new(PmemErrorKind::NoSpace { len }, path));
    };
    let from = start as i64;
    loop {
        // SAFETY: a plain system call on our own descriptor.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, from, signed_len - from) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EINTR) => continue,
            Some(libc::ENOSPC | libc::EFBIG | libc::EDQUOT | libc::ENOMEM) => Err(no_space(error)),
            Some(libc::EOPNOTSUPP) => write_zeroes(file, start, len).map_err(no_space),
            _ => Err(PmemError::io("reserve its space", path, error)),
        };
    }
}

/// Reserves what an existing file lacks; its bytes stay. File systems that cannot do it are
/// left alone: there is nothing to be done short of rewriting the file.
fn reserve_holes(file: &File, len: u64, path: &Path) -> Result<(), PmemError> {
    // SAFETY: a plain system call on our own descriptor.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len as i64) };
    let error = io::Error::last_os_error();
    if result == 0 || error.raw_os_error() == Some(libc::EOPNOTSUPP) {
        return Ok(());
    }
    Err(match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => {
            PmemError::with_source(PmemErrorKind::NoSpace { len }, path, error)
        }
        _ => PmemError::io("reserve space for its holes", path, error),
    })
}

/// Gives a file that no process has open at least `len` bytes, the new ones zero and reserved. A device
/// keeps its size.
///
/// # Errors
/// It is not there, locked by another process, or has no room; the file is as before.
pub fn extend(path: &Path, len: u64) -> Result<(), PmemError> {
    let file = open_own(path, Opening::Write, false)?;
    lock(&file, path)?;
    let metadata = metadata(&file, path)?;
    let before = metadata.len();
    if !metadata.is_file() || before >= len {
        return Ok(());
    }
    let no_space = |error| PmemError::with_source(PmemErrorKind::NoSpace { len }, path, error);
    let extended = file
        .set_len(len)
        .map_err(no_space)
        .and_then(|()| reserve_from(&file, before, len, path))
        .and_then(|()| sync_creation(&file, path));
    if extended.is_err() {
        // The caller needs the first error, not this one.
        let _ = file.set_len(before);
    }
    extended
}

fn write_zeroes(file: &File, start: u64, len: u64) -> io::Result<()> {
    let zeroes = vec![0; ZERO_CHUNK_BYTES];
    let mut offset = start;
    while offset < len {
        let chunk = (len - offset).min(ZERO_CHUNK_BYTES as u64);
        file.write_all_at(&zeroes[..chunk as usize], offset)?;
        offset += chunk;
    }
    Ok(())
}

/// The file's name and size outlive a power cut before anything in it is promised to.
fn sync_creation(file: &File, path: &Path) -> Result<(), PmemError> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    file.sync_all()
        .and_then(|()| File::open(parent)?.sync_all())
        .map_err(|error| PmemError::io("make its creation durable", path, error))
}

fn map_shared(file: File, huge_pages: bool, path: &Path) -> Result<Mapping, PmemError> {
    let (mut kind, len) = identify(&file, path)?;
    let len = checked_len(len, path)?;
    let synchronous = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
    let mut mapped = Err(io::Error::from(io::ErrorKind::Unsupported));
    if kind == MediaKind::PlainFile {
        mapped = map(&file, len, synchronous);
        if mapped.is_ok() {
            kind = MediaKind::FsDax;
        }
    }
    let start = mapped
        .or_else(|_| map(&file, len, libc::MAP_SHARED))
        .map_err(|error| PmemError::io("map it", path, error))?;
    let mapping = Mapping {
        start,
        len,
        kind,
        file,
    };
    mapping.advise_faults(huge_pages);
    Ok(mapping)
}

/// Maps at an address that huge pages fit: the kernel does not see to that for every file.
fn map(file: &File, len: usize, flags: i32) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let reserved_len = len
        .checked_next_multiple_of(PAGE_BYTES)
        .and_then(|len| len.checked_add(HUGE_PAGE_BYTES))
        .ok_or(io::ErrorKind::OutOfMemory)?;
    let reserve_flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: first a reservation at an address the kernel chooses, then the file over the part
    // of it that is aligned; the rest is given back. On failure all of it is.
    unsafe {
        let reserved = check_mapped(libc::mmap(
            std::ptr::null_mut(),
            reserved_len,
            libc::PROT_NONE,
            reserve_flags,
            -1,
            0,
        ))?;
        let before = reserved.align_offset(HUGE_PAGE_BYTES);
        let aligned = reserved.add(before);
        let mapped = check_mapped(libc::mmap(
            aligned.cast(),
            len,
            protection,
            flags | libc::MAP_FIXED,
            file.as_raw_fd(),
            0,
        ));
        if mapped.is_err() {
            libc::munmap(reserved.cast(), reserved_len);
            return mapped;
        }
        let end = before + len.next_multiple_of(PAGE_BYTES);
        if before > 0 {
            libc::munmap(reserved.cast(), before);
        }
        libc::munmap(reserved.add(end).cast(), reserved_len - end);
        mapped
    }
}

fn check_mapped(start: *mut libc::c_void) -> io::Result<*mut u8> {
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(start.cast())
}

fn checked_len(len: u64, path: &Path) -> Result<usize, PmemError> {
    let needed = PAGE_BYTES as u64;
    match usize::try_from(len) {
        Ok(bytes) if len >= needed => Ok(bytes),
        _ => Err(PmemError::new(
            PmemErrorKind::TooSmall { found: len, needed },
            path,
        )),
    }
}

/// What the file is (DAX files look like plain ones until they are mapped), and its length.
fn identify(file: &File, path: &Path) -> Result<(MediaKind, u64), PmemError> {
    let metadata = metadata(file, path)?;
    if metadata.is_file() {
        return Ok((kind_of_file(file, path)?, metadata.len()));
    }
    if metadata.file_type().is_char_device() {
        return Ok((MediaKind::DevDax, dax_device_len(metadata.rdev(), path)?));
    }
    Err(PmemError::new(
        PmemErrorKind::Unsupported("neither a file nor a DAX device; name one of these"),
        path,
    ))
}

pub(crate) fn kind_of_file(file: &File, path: &Path) -> Result<MediaKind, PmemError> {
    // SAFETY: an all-zero statfs is valid, and is filled by the call.
    let (result, status) = unsafe {
        let mut status: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &mut status), status)
    };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(PmemError::io("find its file system", path, error));
    }
    Ok(match status.f_type {
        TMPFS_MAGIC | RAMFS_MAGIC => MediaKind::Shm,
        _ => MediaKind::PlainFile,
    })
}

/// A DAX device has no length of its own; sysfs tells it.
fn dax_device_len(device: u64, path: &Path) -> Result<u64, PmemError> {
    let directory = PathBuf::from(format!(
        "/sys/dev/char/{}:{}",
        libc::major(device),
        libc::minor(device)
    ));
    let is_dax = std::fs::read_link(directory.join("subsystem"))
        .is_ok_and(|subsystem| subsystem.file_name().is_some_and(|name| name == "dax"));
    if !is_dax {
        return Err(PmemError::new(
            PmemErrorKind::Unsupported("a character device, but not a DAX device; name one"),
            path,
        ));
    }
    std::fs::read_to_string(directory.join("size"))
        .and_then(|size| size.trim().parse().map_err(io::Error::other))
        .map_err(|error| PmemError::io("find the DAX device's size", path, error))
}
