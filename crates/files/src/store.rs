//! The store behind the pool's one volume: the files themselves.
//!
//! Writes of a segment go to the file it is mapped to, through the page cache, so that they are
//! coherent with what reads and maps the file without us; they end at the file's size. The metadata
//! segment goes to a file beside the pool. A segment that is mapped to nothing swallows writes and
//! reads as zeroes: the blocks of a file that is gone never reach the disk.
//!
//! What a store promises (see [`BackingStore`]) holds for each file: `sync` syncs every file that was
//! written since its last good sync, and a caller that syncs waits for a sync under way. Segments are the
//! store's parts: a file that cannot be written or synced fails those that are mapped to it and no others.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};

use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, FailedDomains, FaultDomain, MarkPlace,
    WriteRun,
};

use crate::cuts::Cuts;
use crate::metadata::LOG;
use crate::mutants::{Mutant, mutated};
use crate::segments::{SEGMENT_BLOCKS, SEGMENTS_MAX};
use crate::target::Target;

/// With more files than this to sync, each file system is synced once instead.
const SYNCED_ONE_BY_ONE_MAX: usize = 64;

/// The first segment.
const METADATA_DOMAIN: FaultDomain = FaultDomain(0);

/// A segment's place in a file.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) target: Arc<Target>,
    /// Where the segment begins in the file, in segments.
    pub(crate) part: u64,
}

/// See the module.
pub(crate) struct VirtualStore {
    /// What the pool is for, as its volume table is to name it.
    name: PathBuf,
    side: Backing,
    mark: Option<Box<dyn MarkPlace>>,
    pub(crate) cuts: Cuts,
    segment_bytes: u64,
    mappings: RwLock<HashMap<u32, Mapping>>,
    /// Whether recovery has mapped what there is: until then nothing can be written.
    is_ready: AtomicBool,
    /// Segments of files that are nowhere: what is written to them must not be dropped.
    kept: RwLock<HashSet<u32>>,
    /// Files written since they were last synced.
    touched: Mutex<Vec<Arc<Target>>>,
    /// Held throughout a sync: the failed syncs of the side file that were told so far.
    syncing: Mutex<u64>,
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
}

impl std::fmt::Debug for VirtualStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualStore")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl VirtualStore {
    /// A store without files. `side` holds the metadata, `mark` is where the files' mark lies.
    ///
    /// # Errors
    /// The side file's.
    pub(crate) fn new(
        name: PathBuf,
        side: Backing,
        mark: Option<Box<dyn MarkPlace>>,
        block_bytes: usize,
    ) -> io::Result<VirtualStore> {
        Ok(VirtualStore {
            name,
            cuts: Cuts::open(&side)?,
            side,
            mark,
            segment_bytes: SEGMENT_BLOCKS * block_bytes as u64,
            mappings: RwLock::default(),
            is_ready: AtomicBool::new(false),
            kept: RwLock::default(),
            touched: Mutex::default(),
            syncing: Mutex::new(0),
            reads: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        })
    }

    /// All segments are mapped.
    pub(crate) fn ready(&self) {
        self.is_ready.store(true, Ordering::Release);
    }

    /// The segment is of a file that is nowhere: writes to it fail, so that the pool keeps them.
    pub(crate) fn keep(&self, segment: u32) {
        let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        kept.insert(segment);
    }

    fn is_kept(&self, segment: u64) -> bool {
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        u32::try_from(segment).is_ok_and(|segment| kept.contains(&segment))
    }

    /// From now on the segment stands for a part of that file.
    pub(crate) fn map(&self, segment: u32, mapping: Mapping) {
        let before = self.write_mappings().insert(segment, mapping);
        assert!(before.is_none(), "segment {segment} was given back before");
    }

    /// The segment stands for a part of another file now.
    pub(crate) fn remap(&self, segment: u32, mapping: Mapping) {
        let before = self.write_mappings().insert(segment, mapping);
        assert!(before.is_some(), "segment {segment} stood for nothing");
    }

    /// The segment stands for nothing any more; what is written to it is dropped.
    pub(crate) fn unmap(&self, segment: u32) {
        self.write_mappings().remove(&segment);
    }

    fn write_mappings(&self) -> RwLockWriteGuard<'_, HashMap<u32, Mapping>> {
        self.mappings
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn mapping(&self, segment: u64) -> Option<Mapping> {
        let mappings = self.mappings.read().unwrap_or_else(PoisonError::into_inner);
        mappings.get(&u32::try_from(segment).ok()?).cloned()
    }

    /// Calls `visit` with the parts of a range: the segment, the offset in it, and the part's place in
    /// the range.
    fn parts(
        &self,
        offset: u64,
        len: usize,
        mut visit: impl FnMut(u64, u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (segment, within) = (at / self.segment_bytes, at % self.segment_bytes);
            let rest = self.segment_bytes - within;
            let part = usize::try_from(rest).map_or(len - done, |rest| rest.min(len - done));
            visit(segment, within, done..done + part)?;
            done += part;
        }
        Ok(())
    }

    fn write_run(&self, run: &WriteRun<'_>) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let len = run.bytes.len();
        self.bytes_written.fetch_add(len as u64, Ordering::Relaxed);
        self.parts(run.offset, len, |segment, within, part| {
            let bytes = &run.bytes[part];
            if segment == 0 {
                return self.write_side(within, bytes);
            }
            if !self.is_ready.load(Ordering::Acquire) {
                // The owners of the blocks are not known yet: they would be dropped.
                return Err(io::ErrorKind::NotConnected.into());
            }
            let Some(Mapping { target, part }) = self.mapping(segment) else {
                return match self.is_kept(segment) {
                    true => Err(io::ErrorKind::NotFound.into()),
                    false => Ok(()),
                };
            };
            while !target.write_back(part * self.segment_bytes + within, bytes)? {
                self.make_cut_durable(&target)?;
            }
            self.touch(&target);
            Ok(())
        })
    }

    /// Makes the file's cut durable, and known to be: from then on recovery does not cut it again.
    pub(crate) fn make_cut_durable(&self, target: &Target) -> io::Result<()> {
        let Some(cut) = target.cut() else {
            return Ok(());
        };
        if !mutated(Mutant::FilesCutUnsettled) {
            target.sync_data()?;
        }
        self.cuts.done(cut.row, cut.epoch)?;
        target.forget_cut(cut);
        Ok(())
    }

    fn write_side(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        assert!(
            offset + bytes.len() as u64 <= LOG.end,
            "the metadata ends there"
        );
        let run = WriteRun { offset, bytes };
        self.side.write_runs(&[run]).into_iter().collect()
    }

    /// After the write and before it is reported: a sync that begins later covers it.
    fn touch(&self, target: &Arc<Target>) {
        if target.touch() {
            self.lock_touched().push(target.clone());
        }
    }

    fn lock_touched(&self) -> MutexGuard<'_, Vec<Arc<Target>>> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs what was touched; what fails is touched still, and returned.
    fn sync_files(&self) -> Vec<(Arc<Target>, io::Error)> {
        let files = std::mem::take(&mut *self.lock_touched());
        let failed: Vec<u64> = files.iter().map(|target| target.untouch()).collect();
        for target in &files {
            // A time that cannot be put back is no reason to keep the data from the disk.
            drop(target.times.restore(&target.descriptor()));
        }
        // Where that fails, each file's own sync tells whether it is meant.
        let is_done = files.len() > SYNCED_ONE_BY_ONE_MAX && sync_file_systems(&files).is_ok();
        let sync = |(target, failed): (Arc<Target>, u64)| {
            let mut result = match is_done {
                true => Ok(()),
                false => target.sync_data(),
            };
            if result.is_ok() && target.failed_syncs() != failed {
                // Another sync was told of a page that may have been ours, so this one was not.
                result = Err(io::Error::from_raw_os_error(libc::EIO));
            }
            let error = result.err()?;
            self.touch(&target);
            Some((target, error))
        };
        files.into_iter().zip(failed).filter_map(sync).collect()
    }

    /// The segments that are mapped to these files.
    fn parts_of(&self, files: Vec<(Arc<Target>, io::Error)>) -> FailedDomains {
        if files.is_empty() {
            return FailedDomains::new();
        }
        let mappings = self.mappings.read().unwrap_or_else(PoisonError::into_inner);
        let failed = mappings.iter().filter_map(|(segment, mapping)| {
            let is_mapped = |(target, _): &&(_, _)| Arc::ptr_eq(target, &mapping.target);
            let (_, error) = files.iter().find(is_mapped)?;
            let again = error.raw_os_error().map(io::Error::from_raw_os_error);
            let error = again.unwrap_or_else(|| error.kind().into());
            Some((FaultDomain(u64::from(*segment)), error))
        });
        failed.collect()
    }
}

/// Syncs each file system that has one of the files.
fn sync_file_systems(files: &[Arc<Target>]) -> io::Result<()> {
    let mut seen = Vec::new();
    for target in files {
        let device = target.identity().device;
        if !seen.contains(&device) {
            seen.push(device);
            target.sync_file_system()?;
        }
    }
    Ok(())
}

impl BackingStore for VirtualStore {
    fn size_bytes(&self) -> u64 {
        u64::from(SEGMENTS_MAX) * self.segment_bytes
    }

    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            path: self.name.clone(),
            inode: 0,
            size_bytes: self.size_bytes(),
        }
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes_read
            .fetch_add(out.len() as u64, Ordering::Relaxed);
        self.parts(offset, out.len(), |segment, within, part| {
            let out = &mut out[part];
            if segment == 0 {
                return self.side.read_at(within, out);
            }
            match self.mapping(segment) {
                Some(Mapping { target, part }) => {
                    target.read_through(part * self.segment_bytes + within, out)
                }
                None => {
                    out.fill(0);
                    Ok(())
                }
            }
        })
    }

    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        runs.iter().map(|run| self.write_run(run)).collect()
    }

    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let zeroes = vec![0; len_bytes.min(1 << 20) as usize];
        let mut done = 0;
        while done < len_bytes {
            let len = (zeroes.len() as u64).min(len_bytes - done);
            self.write_run(&WriteRun {
                offset: offset + done,
                bytes: &zeroes[..len as usize],
            })?;
            done += len;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_domains().into_values().next().map_or(Ok(()), Err)
    }

    fn domain_at(&self, offset: u64) -> FaultDomain {
        FaultDomain(offset / self.segment_bytes)
    }

    fn sync_domains(&self) -> FailedDomains {
        // A caller that comes during another's sync waits for it: what that took is synced then.
        let mut told = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        // Files first: the tables may say that a file's blocks are gone from the pool. One that fails now
        // is none of these; it was synced before they went.
        let mut failed = self.parts_of(self.sync_files());
        if let Err(error) = self.cuts.syncs.sync(&mut told) {
            failed.insert(METADATA_DOMAIN, error);
        }
        failed
    }

    fn domain_name(&self, domain: FaultDomain) -> Option<String> {
        let target = self.mapping(domain.0)?.target;
        let link = format!("/proc/self/fd/{}", target.descriptor().as_raw_fd());
        let path = std::fs::read_link(link).ok()?;
        Some(path.display().to_string())
    }

    fn prefers_long_rounds(&self) -> bool {
        true
    }

    fn counters(&self) -> BackingCounters {
        let bytes_written = self.bytes_written.load(Ordering::Relaxed);
        let mut counters = BackingCounters::default();
        counters.reads = self.reads.load(Ordering::Relaxed);
        counters.bytes_read = self.bytes_read.load(Ordering::Relaxed);
        counters.writes = self.writes.load(Ordering::Relaxed);
        counters.bytes_written = bytes_written;
        counters.blocks_written = bytes_written / forebay::BACKING_BLOCK_BYTES;
        counters.syncs = self.syncs.load(Ordering::Relaxed);
        counters
    }

    fn transport(&self) -> String {
        "files, page cache".into()
    }

    fn mark_place(&self) -> Option<&dyn MarkPlace> {
        self.mark
            .as_deref()
            .filter(|_| !mutated(Mutant::FilesMarkUnknown))
    }
}
