//! A file of the backing as write-back sees it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustix::fs::{FallocateFlags, OFlags};

use crate::caller::as_caller;
use crate::identity::FileIdentity;
use crate::mutants::{Mutant, mutated};
use crate::observe;
use crate::times::{self, Times};

/// Runs that are worth being started on their way to the disk at once: the sync then waits for less.
const STARTED_BYTES_MIN: usize = 64 << 10;

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
    /// The size that is committed: behind it may only be zeroes yet, which are no data.
    committed_bytes: AtomicU64,
    /// Up to here the page cache has what the pool has, and perhaps what others made of it since:
    /// write-back keeps away. Changes while write-back is excluded.
    handed_over_bytes: AtomicU64,
    /// Syncs that failed. The kernel tells of each failure once, to the first caller that asks.
    failed_syncs: AtomicU64,
    /// The same when the file was touched since its last good sync.
    failed_when_touched: AtomicU64,
    /// The same when it was handed over. The page cache may have dropped what a failed sync was about, so
    /// from then on nothing that was handed over counts as durable: it goes from the pool again.
    failed_when_handed_over: AtomicU64,
    /// Row and epoch of a cut that is not known to be durable in the backing.
    cut: Mutex<Option<Cut>>,
    has_cut: AtomicBool,
    /// When it was modified, where the backing cannot tell.
    pub(crate) times: Times,
    /// Whether it is among the files to be synced.
    is_touched: AtomicBool,
}

/// A cut of the file: which row says so, and which cut it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub(crate) row: u32,
    pub(crate) epoch: u64,
    pub(crate) size_bytes: u64,
}

impl Target {
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Target> {
        let file = File::from(descriptor);
        let size_bytes = file.metadata()?.len();
        Ok(Target {
            identity: FileIdentity::of(&file)?,
            size_bytes: AtomicU64::new(size_bytes),
            committed_bytes: AtomicU64::new(size_bytes),
            handed_over_bytes: AtomicU64::new(0),
            failed_syncs: AtomicU64::new(0),
            failed_when_touched: AtomicU64::new(0),
            failed_when_handed_over: AtomicU64::new(0),
            descriptor: RwLock::new(Arc::new(file)),
            cut: Mutex::new(None),
            has_cut: AtomicBool::new(false),
            times: Times::new(),
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

    /// The file is this long now, for good or until it is cut: see [`Target::truncate`].
    pub(crate) fn grown_to(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
        self.committed_bytes.store(size_bytes, Ordering::Release);
    }

    /// The file is about to be this long: write-back must not stop before, but not lengthen it either.
    pub(crate) fn growing_to(&self, size_bytes: u64) {
        self.size_bytes.store(size_bytes, Ordering::Release);
    }

    /// Sets the size of the file itself, with no write-back on its way. With a cut, nothing is written
    /// to the file from now on before that is durable.
    pub(crate) fn truncate(&self, size_bytes: u64, cut: Option<Cut>) -> io::Result<()> {
        let alone = self
            .descriptor
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(cut) = cut {
            // While one is not durable nothing is written to the file, so the shorter one counts.
            let pending = self.cut().map_or(u64::MAX, |pending| pending.size_bytes);
            self.set_cut(Cut {
                size_bytes: cut.size_bytes.min(pending),
                ..cut
            });
        }
        self.grown_to(size_bytes);
        if cut.is_some() && mutated(Mutant::FilesBackingNotCut) {
            return Ok(());
        }
        alone.set_len(size_bytes)
    }

    /// Asks the backing whether it lets the file be cut (an append-only file may not be), by giving it the
    /// length that it has.
    pub(crate) fn check_cuttable(&self) -> io::Result<()> {
        // No write-back between the two: what it adds would be cut off.
        let alone = self
            .descriptor
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        alone.set_len(alone.metadata()?.len())
    }

    /// Remembers a cut that the file's row tells of.
    pub(crate) fn set_cut(&self, cut: Cut) {
        *self.lock_cut() = Some(cut);
        self.has_cut.store(true, Ordering::Release);
    }

    /// The cut that is not known to be durable.
    pub(crate) fn cut(&self) -> Option<Cut> {
        match self.has_cut.load(Ordering::Acquire) {
            true => *self.lock_cut(),
            false => None,
        }
    }

    /// This very cut is durable, or the row that tells of it is gone.
    pub(crate) fn forget_cut(&self, durable: Cut) {
        let mut cut = self.lock_cut();
        if *cut == Some(durable) {
            *cut = None;
            self.has_cut.store(false, Ordering::Release);
        }
    }

    fn lock_cut(&self) -> std::sync::MutexGuard<'_, Option<Cut>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes blocks of the pool, as far as the file reaches. False if a cut must be made durable first.
    pub(crate) fn write_back(&self, offset: u64, bytes: &[u8]) -> io::Result<bool> {
        let file = self
            .descriptor
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if self.cut().is_some() {
            return Ok(false);
        }
        observe::before_write_back(self.identity)?;
        let handed_over = self.handed_over_bytes.load(Ordering::Acquire);
        self.check_handed_over()?;
        let skipped = handed_over.saturating_sub(offset).min(bytes.len() as u64);
        let (offset, bytes) = (offset + skipped, &bytes[skipped as usize..]);
        let inside = self.size_bytes().saturating_sub(offset);
        let len = usize::try_from(inside).map_or(bytes.len(), |inside| inside.min(bytes.len()));
        // What is not zero behind the committed size can only come from a commit.
        let committed = self.committed_bytes.load(Ordering::Acquire);
        let committed = (committed.saturating_sub(offset) as usize).min(len);
        let last = bytes[committed..len].iter().rposition(|byte| *byte != 0);
        let len = last.map_or(committed, |last| committed + last + 1);
        file.write_all_at(&bytes[..len], offset)?;
        if len >= STARTED_BYTES_MIN {
            start_writing(&file, offset, len);
        }
        Ok(true)
    }

    /// Writes what the pool holds at `offset`, the next of ascending ones. Write-back that had read an
    /// older version comes too late from then on.
    pub(crate) fn hand_over(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let alone = self
            .descriptor
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let before = self.handed_over_bytes.load(Ordering::Acquire);
        assert!(before <= offset, "what was handed over may be others' now");
        alone.write_all_at(bytes, offset)?;
        self.set_handed_over(offset + bytes.len() as u64);
        Ok(())
    }

    /// All before here was handed over; nothing, if it is 0.
    pub(crate) fn handed_over_to(&self, end: u64) {
        let _alone = self
            .descriptor
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.set_handed_over(end);
    }

    /// Whether anything of it was handed over.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over_bytes.load(Ordering::Acquire) > 0
    }

    /// It is the pool's again.
    pub(crate) fn taken_back(&self) {
        if self.has_failed_since_handed_over() {
            // Rounds under way that kept away from the file must not take its next sync for theirs.
            self.failed_syncs.fetch_add(1, Ordering::AcqRel);
        }
        self.handed_over_to(0);
    }

    /// The caller excludes write-back.
    fn set_handed_over(&self, end: u64) {
        if self.handed_over_bytes.load(Ordering::Acquire) == 0 {
            let failed = self.failed_syncs();
            self.failed_when_handed_over
                .store(failed, Ordering::Release);
        }
        self.handed_over_bytes.store(end, Ordering::Release);
    }

    /// The file is durable as far as its syncs tell: none has failed since it was handed over.
    pub(crate) fn check_handed_over(&self) -> io::Result<()> {
        match self.has_failed_since_handed_over() {
            true => Err(io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        }
    }

    /// Whether the page cache may have dropped what was handed over.
    fn has_failed_since_handed_over(&self) -> bool {
        self.handed_over_bytes.load(Ordering::Acquire) > 0
            && self.failed_syncs() != self.failed_when_handed_over.load(Ordering::Acquire)
    }

    /// Writes past the pool, with the caller's right to room.
    pub(crate) fn write_all_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        as_caller(|| self.descriptor().write_all_at(bytes, offset))
    }

    /// Sets the size of the backing's file, which may be suspended or shorter than ours, and nothing
    /// else.
    pub(crate) fn set_backing_size(&self, size_bytes: u64) -> io::Result<()> {
        self.descriptor().set_len(size_bytes)
    }

    /// The size of the backing's file.
    pub(crate) fn backing_size(&self) -> io::Result<u64> {
        Ok(self.descriptor().metadata()?.len())
    }

    /// Bytes that the backing has given the file, behind its end too.
    pub(crate) fn backing_room(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&*self.descriptor())?.st_blocks as u64 * 512)
    }

    /// Gives back what the backing has reserved behind the file's end, which is here. That is no
    /// modification; and what cannot be given back is merely kept.
    pub(crate) fn give_room_back(&self, size_bytes: u64) {
        let file = self.descriptor();
        let Ok(before) = rustix::fs::fstat(&*file) else {
            return;
        };
        // A file that becomes longer loses nothing; one that is given its own length does.
        let is_short = (before.st_size as u64) < size_bytes;
        let lengthened = !is_short || file.set_len(size_bytes).is_ok();
        if lengthened && file.set_len(size_bytes).is_ok() {
            drop(times::set_modified(&file, &before));
        }
    }

    /// As `fallocate`, with the caller's right to room.
    pub(crate) fn allocate(
        &self,
        mode: FallocateFlags,
        offset: u64,
        len_bytes: u64,
    ) -> rustix::io::Result<()> {
        as_caller(|| rustix::fs::fallocate(&*self.descriptor(), mode, offset, len_bytes))
    }

    /// Where the first hole of the backing's file is from `offset` on; its end counts as one.
    pub(crate) fn first_hole(&self, offset: u64) -> rustix::io::Result<u64> {
        rustix::fs::seek(&*self.descriptor(), rustix::fs::SeekFrom::Hole(offset))
    }

    /// Reads what the backing has; zeroes behind its end and behind the file's.
    pub(crate) fn read_through(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inside = self.size_bytes().saturating_sub(offset);
        let len = usize::try_from(inside).map_or(out.len(), |inside| inside.min(out.len()));
        let read = read_full(&self.descriptor(), offset, &mut out[..len])?;
        out[read..].fill(0);
        Ok(())
    }

    /// How many syncs of the file have failed.
    pub(crate) fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Ordering::Acquire)
    }

    /// Notes that the pool has written to the file; whether that is new since it was last synced.
    pub(crate) fn touch(&self) -> bool {
        let is_new = !self.is_touched.swap(true, Ordering::AcqRel);
        if is_new {
            let failed = self.failed_syncs();
            self.failed_when_touched.store(failed, Ordering::Release);
        }
        is_new
    }

    /// It is about to be synced. Returns how many syncs had failed when it was touched, or handed over.
    pub(crate) fn untouch(&self) -> u64 {
        let mut failed = self.failed_when_touched.load(Ordering::Acquire);
        if self.has_failed_since_handed_over() {
            failed = failed.min(self.failed_when_handed_over.load(Ordering::Acquire));
        }
        self.is_touched.store(false, Ordering::Release);
        failed
    }

    pub(crate) fn sync_all(&self) -> io::Result<()> {
        self.count_failure(observe::sync_all(&*self.descriptor()))
    }

    /// `syncfs` of the file's file system. That it failed says nothing of this file, which is still told by
    /// its own next sync.
    pub(crate) fn sync_file_system(&self) -> io::Result<()> {
        observe::sync_file_system(&*self.descriptor())
    }

    pub(crate) fn sync_data(&self) -> io::Result<()> {
        self.count_failure(observe::sync_data(&*self.descriptor()))
    }

    fn count_failure(&self, synced: io::Result<()>) -> io::Result<()> {
        if synced.is_err() {
            self.failed_syncs.fetch_add(1, Ordering::AcqRel);
        }
        synced
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

/// Has the kernel begin to write these bytes to the disk. Nothing is promised, so nothing can fail.
#[allow(unsafe_code, reason = "rustix has no sync_file_range")]
fn start_writing(file: &File, offset: u64, len: usize) {
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the call takes numbers only, and the descriptor is open.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset as i64, len as i64, flags) };
}
