//! The files of one region, opened: extents, parity and sidecars, over real memory or over models of it.

#![allow(unsafe_code, reason = "std tells nothing of a borrowed descriptor")]

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use forebay_pmem::{Counters, Region};

use crate::error::{Error, Result};
use crate::format::{
    Copies, Evidence, FileLine, Geometry, LINE_BYTES, Line, NoLine, PAGE_BYTES, SUMS_AT, Sum,
    turned,
};
use crate::mutants::{Mutant, mutated};

const CACHE_LINE_BYTES: u64 = forebay_pmem::LINE_BYTES as u64;

/// A sum, and the page that it is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageSum {
    pub extent: usize,
    pub row: u64,
    pub sum: Sum,
}

/// What the sums of a region say together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The last pass that made one.
    pub pass: u64,
    pub unverified_pages: u64,
    pub lost_pages: u64,
}

impl Tally {
    /// A line that tells it.
    pub fn told_by(self, line: Line) -> Line {
        Line {
            pass: self.pass,
            unverified_pages: self.unverified_pages,
            lost_pages: self.lost_pages,
            ..line
        }
    }

    /// Counts a page's.
    pub fn note(&mut self, sum: Sum) {
        self.unverified_pages += u64::from(sum.is_unverified());
        self.lost_pages += u64::from(sum.is_lost());
    }
}

/// Refuses a file of another length than it had. To give one that was cut short its length back would put zeroes where the
/// others still have what was there.
pub(crate) fn check_size(region: &Region, path: &Path, wanted_bytes: u64) -> Result<()> {
    let found_bytes = region.len();
    match found_bytes.cmp(&wanted_bytes) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(Error::cut_short(path, found_bytes)),
        std::cmp::Ordering::Greater => {
            let found = format!("it has {found_bytes} bytes, and had {wanted_bytes}");
            Err(Error::refused(path, found, "cut it to that length"))
        }
    }
}

/// A data extent or the parity.
#[derive(Debug)]
pub(crate) struct Part {
    pub region: Region,
    pub path: PathBuf,
    /// Of a model, which has no file that could tell.
    pub model_evidence: Evidence,
}

impl Part {
    pub fn new(region: Region, path: PathBuf) -> Part {
        Part {
            region,
            path,
            model_evidence: Evidence::default(),
        }
    }

    /// Copies a page of it out, as the one in this role, and returns its check; none where the medium failed on it.
    pub fn read_page(&self, role: usize, row: u64, out: &mut [u8]) -> Option<u32> {
        let at = row * PAGE_BYTES;
        let crc = self.region.read_crc32c(at, out);
        (!self.region.has_media_error(at, out.len())).then(|| turned(crc, role, row))
    }

    /// Sends bytes on their way to the medium that were stored through another mapping, of which this one does not know;
    /// the fence of the parts makes them durable.
    pub fn flush_foreign(&self, offset: u64, len: usize) {
        self.region.flush(offset, len);
        self.region.note_foreign_stores();
    }

    /// Whether its times would tell of a store, and are those that a line has of it.
    pub fn is_as(&self, file: &FileLine) -> Result<bool> {
        Ok(self.tells_stores()? && self.evidence()? == file.evidence)
    }

    /// Whether its times tell of stores through a mapping.
    fn tells_stores(&self) -> Result<bool> {
        let Some(file) = self.region.descriptor() else {
            return Ok(true);
        };
        let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
        // SAFETY: a descriptor that is open, and room for what the call fills; all zeroes are valid, too.
        let (done, found) = unsafe {
            let done = libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr());
            (done, found.assume_init())
        };
        if done != 0 {
            let error = io::Error::last_os_error();
            return Err(Error::io("find out its file system", &self.path, error));
        }
        Ok(TELLING.contains(&found.f_type))
    }

    /// What the file system says of it, as soon as a store from now on gives it later times: these are of a clock that
    /// ticks a few hundred times a second.
    pub fn settled_evidence(&self) -> Result<Evidence> {
        for _ in 0..TICKS {
            let evidence = self.evidence()?;
            if evidence.mtime_ns.max(evidence.ctime_ns) < coarse_clock_ns() {
                return Ok(evidence);
            }
            std::thread::sleep(TICK);
        }
        // Times that are ahead tell nothing: those of no file.
        Ok(Evidence::default())
    }

    /// What the file system says of it now.
    pub fn evidence(&self) -> Result<Evidence> {
        let Some(file) = self.region.descriptor() else {
            return Ok(self.model_evidence);
        };
        let mut found = std::mem::MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: a descriptor that is open, and room for what the call fills; all zeroes are valid, too.
        let (done, found) = unsafe {
            let done = libc::fstat(file.as_raw_fd(), found.as_mut_ptr());
            (done, found.assume_init())
        };
        if done != 0 {
            let error = io::Error::last_os_error();
            return Err(Error::io("find out when it was changed", &self.path, error));
        }
        let ns = |seconds: i64, ns: i64| (seconds as u64).wrapping_mul(1_000_000_000) + ns as u64;
        Ok(Evidence {
            inode: found.st_ino,
            size_bytes: found.st_size as u64,
            mtime_ns: ns(found.st_mtime, found.st_mtime_nsec),
            ctime_ns: ns(found.st_ctime, found.st_ctime_nsec),
        })
    }
}

/// File systems that are known to move a file's times at the first store through a mapping after a page was written back:
/// ext2 to ext4, XFS, Btrfs. Those of memory (tmpfs) do not.
const TELLING: [libc::__fsword_t; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// A part of the time between two ticks of the clock that files' times are of, and how many are waited for.
const TICK: Duration = Duration::from_millis(1);
const TICKS: u32 = 100;

/// The time that a file which is changed now gets, in ns since 1970.
fn coarse_clock_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for what the call fills; of a clock that every system has it does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64
}

/// A sidecar: two lines in turn, then sums.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub region: Region,
    pub path: PathBuf,
    /// Where the next line goes: never over the newest valid one.
    next_slot: AtomicUsize,
    /// Whether that one is known to be durable: a killed process may have left it where only a cache has it.
    is_settled: AtomicBool,
}

impl Sidecar {
    pub fn new(region: Region, path: PathBuf) -> Sidecar {
        Sidecar {
            region,
            path,
            next_slot: AtomicUsize::new(0),
            is_settled: AtomicBool::new(false),
        }
    }

    /// Both lines, as the medium has them.
    pub fn lines(&self) -> [Result<(Line, usize), NoLine>; 2] {
        if self.region.len() < SUMS_AT {
            // It was cut short, and an opening refuses it by its size.
            return [Err(NoLine::Damaged), Err(NoLine::Damaged)];
        }
        let lines = [0, 1].map(|slot| {
            let at = slot * PAGE_BYTES;
            let mut bytes = [0; LINE_BYTES];
            self.region.evict(at, LINE_BYTES);
            self.region.read(at, &mut bytes);
            match self.region.has_media_error(at, LINE_BYTES) {
                true => Err(NoLine::Damaged),
                false => Line::decode(&bytes),
            }
        });
        let generation = |slot: usize| lines[slot].as_ref().ok().map(|(line, _)| line.generation);
        let newest = usize::from(generation(1) > generation(0));
        self.next_slot.store(1 - newest, Ordering::Relaxed);
        lines
    }

    /// Sends the newest line on its way, unless it is known to be durable; whether that needs a fence.
    pub fn settle_line(&self) -> bool {
        if self.is_settled.load(Ordering::Relaxed) || mutated(Mutant::LineBeforeNotSettled) {
            return false;
        }
        let newest = 1 - self.next_slot.load(Ordering::Relaxed) as u64;
        self.region.flush_found(newest * PAGE_BYTES, LINE_BYTES);
        true
    }

    /// Streams a line, over the one that is not the newest. Until [`Sidecar::keep_line`] the next goes over it: the other
    /// one may be the only one that is durable.
    pub fn put_line(&self, line: &Line, role: usize) {
        let slot = self.next_slot.load(Ordering::Relaxed) as u64;
        self.region.stream(slot * PAGE_BYTES, &line.encode(role));
    }

    /// The line that was put last is durable.
    pub fn keep_line(&self) {
        self.next_slot.fetch_xor(1, Ordering::Relaxed);
        self.is_settled.store(true, Ordering::Relaxed);
    }
}

/// All files of a region. Of each the number is its role: the data extents in order, then the parity.
#[derive(Debug)]
pub(crate) struct Medium {
    pub geometry: Geometry,
    pub parts: Vec<Part>,
    pub sidecars: Vec<Sidecar>,
}

impl Medium {
    /// Fences of all files so far.
    #[cfg(test)]
    pub fn fences(&self) -> u64 {
        let parts = self.parts.iter().map(|part| &part.region);
        let sidecars = self.sidecars.iter().map(|sidecar| &sidecar.region);
        parts
            .chain(sidecars)
            .map(|region| region.counters().fences)
            .sum()
    }

    /// Lines and fences of all files.
    pub fn counters(&self) -> Counters {
        let parts = self.parts.iter().map(|part| part.region.counters());
        let sidecars = self.sidecars.iter();
        parts
            .chain(sidecars.map(|sidecar| sidecar.region.counters()))
            .sum()
    }

    /// The two copies of a page's sum: beside the page, and beside the parity.
    pub fn sums(&self, extent: usize, row: u64) -> [Sum; 2] {
        let places = self.geometry.places_of_sum(extent, row);
        places.map(|(role, at)| Sum(self.sidecars[role].region.load_u64(at)))
    }

    /// Those that count.
    pub fn sum(&self, extent: usize, row: u64) -> Copies {
        let [one, other] = self.sums(extent, row);
        Copies::two(one, other)
    }

    /// What all sums say together; `known` is a pass that ended before.
    pub fn tally(&self, known: u64) -> Tally {
        let mut tally = Tally {
            pass: known,
            ..Tally::default()
        };
        for extent in 0..self.geometry.extents() {
            for row in 0..self.geometry.rows() {
                let [one, other] = self.sums(extent, row);
                for sum in [one, other] {
                    tally.pass = tally.pass.max(known + sum.passes_after(known));
                }
                tally.note(Copies::two(one, other).newest());
            }
        }
        tally
    }

    /// Stores sums, each to both sidecars, and sends each of their lines on its way once; the fence of the sidecars makes
    /// them durable.
    pub fn put_sums(&self, sums: &[PageSum]) {
        let mut lines = Vec::new();
        for PageSum { extent, row, sum } in sums {
            for (role, at) in self.geometry.places_of_sum(*extent, *row) {
                self.sidecars[role].region.store_u64(at, sum.0);
                lines.push((role, at / CACHE_LINE_BYTES));
            }
        }
        lines.sort_unstable();
        lines.dedup();
        for (role, line) in lines {
            let at = line * CACHE_LINE_BYTES;
            self.sidecars[role]
                .region
                .flush(at, CACHE_LINE_BYTES as usize);
        }
    }

    /// Copies a page of a part out, and returns its check; none where the medium failed on it.
    pub fn read_page(&self, extent: usize, row: u64, out: &mut [u8]) -> Option<u32> {
        self.parts[extent].read_page(extent, row, out)
    }

    /// As [`Medium::read_page`], of what the medium has, not of what a cache does.
    pub fn read_page_anew(&self, extent: usize, row: u64, out: &mut [u8]) -> Option<u32> {
        let at = row * PAGE_BYTES;
        self.parts[extent].region.evict(at, out.len());
        self.read_page(extent, row, out)
    }

    /// Sends what programs have stored to a page on its way to the medium; the fence of the parts makes it durable.
    pub fn flush_page(&self, extent: usize, row: u64) {
        if mutated(Mutant::PagesNotFlushed) {
            return;
        }
        self.parts[extent].flush_foreign(row * PAGE_BYTES, PAGE_BYTES as usize);
    }

    /// The same of a page that was found and matches no sum: after a sync that failed the system may take a plain file's page
    /// for written, though the disk lacks it.
    pub fn flush_found_page(&self, extent: usize, row: u64) {
        let region = &self.parts[extent].region;
        region.flush_found(row * PAGE_BYTES, PAGE_BYTES as usize);
    }

    /// Writes a page of a part; the fence of the parts makes it durable.
    pub fn stream_page(&self, part: usize, row: u64, page: &[u8]) {
        self.parts[part].region.stream(row * PAGE_BYTES, page);
    }

    /// Sends every sum, as it is seen, on its way to the medium: a killed process may have left some that are not there.
    pub fn flush_sums(&self) {
        for sidecar in &self.sidecars {
            let (region, first) = (&sidecar.region, self.geometry.sum_at(0));
            region.flush_found(first, (region.len() - first) as usize);
        }
    }

    /// Makes durable what this thread has streamed or flushed to the extents and the parity.
    pub fn fence_parts(&self) -> Result<()> {
        fence(self.parts.iter().map(|part| &part.region))
    }

    /// The same of the sidecars.
    pub fn fence_sidecars(&self) -> Result<()> {
        fence(self.sidecars.iter().map(|sidecar| &sidecar.region))
    }
}

/// Makes durable what this thread has streamed or flushed to these files: one fence.
pub(crate) fn fence<'r>(regions: impl Iterator<Item = &'r Region>) -> Result<()> {
    let regions: Vec<&Region> = regions.collect();
    for fenced in Region::fence_all(&regions) {
        fenced?;
    }
    Ok(())
}
