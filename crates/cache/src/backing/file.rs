//! A regular file or a block device as a backing.
//!
//! Aligned transfers go by `O_DIRECT` where the file system takes it: the cache keeps these bytes
//! already, so the page cache would only hold them twice. What is not aligned, above all the tail of
//! a file whose size is no multiple of a page, goes through a second, buffered descriptor; the two
//! never touch the same page in one request, and the kernel keeps them coherent between requests.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::aligned::{AlignedBuffer, DIRECT_ALIGNMENT_BYTES, is_direct_aligned, is_range_aligned};
use super::counters::LiveCounters;
use super::store::clipped_len;
use super::uring::{Ring, RingWrite};
use super::{
    BackingCounters, BackingError, BackingIdentity, BackingRun, BackingStore, MarkFiles, MarkPlace,
    WriteRun, holes, page_cache, queued,
};
use crate::signature::{MAGIC, begins_as_pool};

/// Longest single request: what devices split anyway, and short enough for several to be in flight.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// From so many bytes on a read into memory that `O_DIRECT` would refuse goes through a buffer that is kept.
const KEPT_READ_BYTES_MIN: usize = 64 << 10;

/// Such buffers of all backings of the process: a disk that is not read any more keeps none for itself.
const KEPT_BUFFERS_MAX: usize = 4;
static KEPT_BUFFERS: Mutex<Vec<AlignedBuffer>> = Mutex::new(Vec::new());

pub(super) fn kept_buffers() -> MutexGuard<'static, Vec<AlignedBuffer>> {
    KEPT_BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a file backing may use; everything by default. Restricting it serves tests and diagnosis.
#[derive(Clone, Copy, Debug)]
pub struct FileBackingOptions {
    pub(super) direct: bool,
    pub(super) io_uring: bool,
}

impl Default for FileBackingOptions {
    fn default() -> Self {
        Self {
            direct: true,
            io_uring: true,
        }
    }
}

impl FileBackingOptions {
    /// Bypasses the page cache where the file system allows it. On by default.
    #[must_use]
    pub fn direct(mut self, direct: bool) -> Self {
        self.direct = direct;
        self
    }
    /// Uses io_uring where the kernel allows it. On by default.
    #[must_use]
    pub fn io_uring(mut self, io_uring: bool) -> Self {
        self.io_uring = io_uring;
        self
    }
}

/// An open file or block device, locked against other processes.
pub struct FileStore {
    /// As it was when it was opened.
    identity: BackingIdentity,
    size_bytes: AtomicU64,
    /// Whether the file had a name when it was opened, as any but one made to be nameless has.
    is_linked: bool,
    buffered: File,
    direct: Option<File>,
    /// Whether a direct read can wait in the kernel without the thread that asked for it.
    queues_reads: bool,
    ring: Option<Mutex<Ring>>,
    /// Why there is no ring although one was wanted.
    ring_error: Option<io::Error>,
    counters: LiveCounters,
    mark: MarkFiles,
    front_mark: MarkFiles,
    holds_pool: bool,
}

impl FileStore {
    /// Opens and locks `path`.
    ///
    /// # Errors
    /// See [`super::Backing::file`].
    pub fn open(path: &Path, options: FileBackingOptions) -> Result<Self, BackingError> {
        let refuse = |found: String, advice, source| BackingError {
            path: path.to_owned(),
            found,
            advice,
            source,
        };
        let metadata = std::fs::metadata(path).map_err(|error| {
            refuse(
                format!("cannot be looked up ({error})"),
                "create it first, for example with `truncate -s 10G PATH`",
                Some(error),
            )
        })?;
        let is_device = metadata.file_type().is_block_device();
        if !is_device && !metadata.is_file() {
            return Err(refuse(
                "is neither a regular file nor a block device".to_owned(),
                "name a disk, a partition or an image file",
                None,
            ));
        }
        let mut buffered = open_descriptor(path, if is_device { libc::O_EXCL } else { 0 })
            .map_err(|error| {
                refuse(
                    format!("cannot be opened for reading and writing ({error})"),
                    "unmount it, stop what uses it, and check its permissions",
                    Some(error),
                )
            })?;
        buffered.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => refuse(
                "is already the backing of a running pool".to_owned(),
                "detach it there, or stop that process (`fuser PATH` names it)",
                None,
            ),
            TryLockError::Error(error) => refuse(
                format!("cannot be locked ({error})"),
                "use a file system with flock, so that two pools cannot share it",
                Some(error),
            ),
        })?;
        let size_bytes = buffered.seek(SeekFrom::End(0)).map_err(|error| {
            refuse(
                format!("has no size ({error})"),
                "check the device",
                Some(error),
            )
        })?;
        if size_bytes == 0 {
            return Err(refuse(
                "is empty".to_owned(),
                "give it a size, for example with `truncate -s 10G PATH`",
                None,
            ));
        }
        let mut first = [0; MAGIC.len()];
        let holds_pool = buffered.read_exact_at(&mut first, 0).is_ok() && begins_as_pool(&first);
        let identity = BackingIdentity {
            path: std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            inode: if is_device { 0 } else { metadata.ino() },
            size_bytes,
        };
        let mark = if is_device {
            MarkFiles::of_device(&identity.path)
        } else {
            let file = buffered.try_clone().map_err(|error| {
                refuse(
                    format!("cannot be opened once more ({error})"),
                    "raise the limit of open files",
                    Some(error),
                )
            })?;
            MarkFiles::of_image(file, &identity.path)
        };
        let front_mark = mark.in_front();
        let direct = if options.direct {
            open_direct(&identity)
        } else {
            None
        };
        let queues_reads = is_device || queued::is_asynchronous(&buffered);
        let (ring, ring_error) = match options.io_uring.then(Ring::new) {
            Some(Ok(ring)) => (Some(Mutex::new(ring)), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        Ok(Self {
            is_linked: metadata.nlink() > 0,
            size_bytes: AtomicU64::new(size_bytes),
            identity,
            buffered,
            direct,
            queues_reads,
            ring,
            ring_error,
            counters: LiveCounters::default(),
            mark,
            front_mark,
            holds_pool,
        })
    }

    /// Refuses to write to what is not what was attached. A file that was removed takes every write
    /// and is gone with the process; one that was cut short would grow again, with a hole of zeroes.
    ///
    /// # Errors
    /// With what happened and what to do about it.
    fn check_presence(&self) -> io::Result<()> {
        let is_device = self.identity.inode == 0;
        let (links, len) = if is_device {
            (1, (&self.buffered).seek(SeekFrom::End(0))?)
        } else {
            let metadata = self.buffered.metadata()?;
            (metadata.nlink(), metadata.len())
        };
        if len < self.size_bytes() {
            return Err(io::Error::other(shrunk_message(&self.identity.path)));
        }
        if links == 0 && self.is_linked {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                removed_message(&self.identity.path),
            ));
        }
        Ok(())
    }

    /// Where the part that may go direct ends, of `len` bytes at `offset`, both within the file.
    fn direct_len(&self, offset: u64, len: usize) -> usize {
        if self.direct.is_some() && is_range_aligned(offset, 0) {
            len - len % DIRECT_ALIGNMENT_BYTES
        } else {
            0
        }
    }

    /// Reads by `O_DIRECT`; offset and length are aligned, the memory need not be.
    fn read_direct(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if is_direct_aligned(offset, out) {
            return file.read_exact_at(out, offset);
        }
        let mut bounce = match out.len() < KEPT_READ_BYTES_MIN {
            true => AlignedBuffer::new(out.len()),
            // Fresh memory of that size costs as much as the copy.
            false => kept_buffers()
                .pop()
                .unwrap_or_else(|| AlignedBuffer::new(REQUEST_BYTES_MAX)),
        };
        let mut at = offset;
        let read = out.chunks_mut(REQUEST_BYTES_MAX).try_for_each(|chunk| {
            file.read_exact_at(&mut bounce[..chunk.len()], at)?;
            chunk.copy_from_slice(&bounce[..chunk.len()]);
            at += chunk.len() as u64;
            Ok(())
        });
        let mut kept = kept_buffers();
        if bounce.len() == REQUEST_BYTES_MAX && kept.len() < KEPT_BUFFERS_MAX {
            kept.push(bounce);
        }
        read
    }

    fn read_inside(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (direct_part, buffered_part) = out.split_at_mut(self.direct_len(offset, out.len()));
        if let Some(file) = &self.direct
            && !direct_part.is_empty()
        {
            Self::read_direct(file, offset, direct_part)?;
        }
        let at = offset + direct_part.len() as u64;
        self.buffered.read_exact_at(buffered_part, at)
    }

    /// Issues the requests over the ring, or one by one where there is none.
    fn issue(&self, requests: &[RingWrite<'_>]) -> Vec<io::Result<()>> {
        if let Some(ring) = &self.ring {
            let mut ring = ring.lock().unwrap_or_else(PoisonError::into_inner);
            if !ring.is_broken() {
                return ring.write_all(requests);
            }
        }
        requests
            .iter()
            .map(|request| request.file.write_all_at(request.bytes, request.offset))
            .collect()
    }

    /// An aligned copy of the direct part of a write whose memory `O_DIRECT` would refuse.
    fn bounce(&self, offset: u64, bytes: &[u8]) -> Option<AlignedBuffer> {
        let direct = &bytes[..self.direct_len(offset, bytes.len())];
        if direct.is_empty() || is_direct_aligned(offset, direct) {
            return None;
        }
        let mut copy = AlignedBuffer::new(direct.len());
        copy.copy_from_slice(direct);
        Some(copy)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeroes = AlignedBuffer::new(REQUEST_BYTES_MAX);
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let step =
                usize::try_from(end - at).map_or(zeroes.len(), |left| left.min(zeroes.len()));
            let run = WriteRun {
                offset: at,
                bytes: &zeroes[..step],
            };
            self.write_runs(&[run]).remove(0)?;
            at += step as u64;
        }
        Ok(())
    }
}

impl BackingStore for FileStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }

    fn refresh_size(&self) -> io::Result<u64> {
        // Everything else names its offset, so moving the descriptor's own disturbs nothing.
        let found = (&self.buffered).seek(SeekFrom::End(0))?;
        self.size_bytes.fetch_max(found, Ordering::Relaxed);
        Ok(found)
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            size_bytes: self.size_bytes(),
            ..self.identity.clone()
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = clipped_len(self.size_bytes(), offset, out.len());
        self.counters.count_read(inside);
        let (head, past_end) = out.split_at_mut(inside);
        past_end.fill(0);
        self.read_inside(offset, head).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                io::Error::new(error.kind(), shrunk_message(&self.identity.path))
            } else {
                error
            }
        })
    }

    fn direct_file(&self) -> Option<&File> {
        self.direct.as_ref().filter(|_| self.queues_reads)
    }

    fn count_queued_read(&self, len_bytes: usize) {
        self.counters.count_read(len_bytes);
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        if self.check_presence().is_err() {
            return runs.iter().map(|_| self.check_presence()).collect();
        }
        let inside: Vec<&[u8]> = runs
            .iter()
            .map(|run| &run.bytes[..clipped_len(self.size_bytes(), run.offset, run.bytes.len())])
            .collect();
        let bounced: Vec<Option<AlignedBuffer>> = runs
            .iter()
            .zip(&inside)
            .map(|(run, bytes)| self.bounce(run.offset, bytes))
            .collect();
        let mut requests = Vec::with_capacity(runs.len());
        let mut run_of_request = Vec::with_capacity(runs.len());
        for (index, run) in runs.iter().enumerate() {
            let bytes = inside[index];
            self.counters.count_write(run.offset, bytes.len());
            let (direct, rest) = bytes.split_at(self.direct_len(run.offset, bytes.len()));
            let direct = bounced[index].as_deref().unwrap_or(direct);
            let direct_file = self.direct.as_ref().unwrap_or(&self.buffered);
            let mut offset = run.offset;
            for (file, part) in [(direct_file, direct), (&self.buffered, rest)] {
                for bytes in part.chunks(REQUEST_BYTES_MAX) {
                    requests.push(RingWrite {
                        file,
                        offset,
                        bytes,
                    });
                    run_of_request.push(index);
                    offset += bytes.len() as u64;
                }
            }
        }
        let mut results: Vec<io::Result<()>> = runs.iter().map(|_| Ok(())).collect();
        for (run, result) in run_of_request.into_iter().zip(self.issue(&requests)) {
            if result.is_err() && results[run].is_ok() {
                results[run] = result;
            }
        }
        results
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.counters.count_zeroing();
        let len = len_bytes.min(self.size_bytes().saturating_sub(offset));
        if len == 0 {
            return Ok(());
        }
        self.check_presence()?;
        for mode in [libc::FALLOC_FL_PUNCH_HOLE, libc::FALLOC_FL_ZERO_RANGE] {
            if let Ok(()) = fallocate(
                &self.buffered,
                mode | libc::FALLOC_FL_KEEP_SIZE,
                offset,
                len,
            ) {
                return Ok(());
            }
        }
        // Not supported, or the range is no multiple of the device's sector; a real device error
        // shows itself again here.
        self.write_zeroes(offset, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.counters.count_sync();
        self.buffered.sync_data()?;
        // Only what is still there afterwards has what was written before.
        self.check_presence()
    }

    fn forget_cached(&self) -> Vec<Range<u64>> {
        page_cache::forget(&self.buffered, self.size_bytes())
    }

    fn run_at(&self, offset: u64, len_bytes: u64) -> BackingRun {
        holes::run_at(&self.buffered, offset, len_bytes)
    }

    fn counters(&self) -> BackingCounters {
        self.counters.read()
    }

    fn holds_pool(&self) -> bool {
        self.holds_pool
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(&self.mark)
    }

    fn front_mark_place(&self) -> Option<&dyn MarkPlace> {
        Some(&self.front_mark)
    }

    fn transport(&self) -> String {
        let ring_works = self.ring.as_ref().is_some_and(|ring| {
            !ring
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_broken()
        });
        let engine = match &self.ring_error {
            _ if ring_works => "io_uring".to_owned(),
            Some(error) => format!("pwrite (no io_uring: {error})"),
            None => "pwrite".to_owned(),
        };
        let caching = if self.direct.is_some() {
            "O_DIRECT"
        } else {
            "page cache"
        };
        format!("{engine}, {caching}")
    }
}

fn open_descriptor(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
}

/// A descriptor with `O_DIRECT`, or none where the file system refuses it, at open or at first use.
fn open_direct(identity: &BackingIdentity) -> Option<File> {
    let file = open_descriptor(&identity.path, libc::O_DIRECT).ok()?;
    let mut probe = AlignedBuffer::new(DIRECT_ALIGNMENT_BYTES);
    match file.read_at(&mut probe, 0) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
        _ => Some(file),
    }
}

fn shrunk_message(path: &Path) -> String {
    format!(
        "{} is shorter than when it was attached; restore its size before using it",
        path.display()
    )
}

fn removed_message(path: &Path) -> String {
    format!(
        "{} was removed, so nothing is written to it any more, and it is gone when this process ends; \
         copy the volume itself, which is whole, to a new image before that",
        path.display()
    )
}

#[allow(unsafe_code)] // std has no fallocate.
fn fallocate(file: &File, mode: i32, offset: u64, len: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (
        libc::off64_t::try_from(offset),
        libc::off64_t::try_from(len),
    ) else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    // SAFETY: the call takes no pointers, and `file` keeps the descriptor open throughout.
    if unsafe { libc::fallocate64(file.as_raw_fd(), mode, offset, len) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
