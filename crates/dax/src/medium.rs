//! The files of one region, opened: extents, parity and sidecars, over real memory or over models of it.

#![allow(unsafe_code, reason = "std tells nothing of a borrowed descriptor")]

use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_pmem::Region;

use crate::error::{Error, Result};
use crate::format::{Evidence, Geometry, LINE_BYTES, Line, NoLine, PAGE_BYTES};

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

/// A sidecar: two lines in turn, then sums.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub region: Region,
    pub path: PathBuf,
    /// Where the next line goes: never over the newest valid one.
    next_slot: AtomicUsize,
}

impl Sidecar {
    pub fn new(region: Region, path: PathBuf) -> Sidecar {
        Sidecar {
            region,
            path,
            next_slot: AtomicUsize::new(0),
        }
    }

    /// Both lines, as the medium has them.
    pub fn lines(&self) -> [Result<(Line, usize), NoLine>; 2] {
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
        let generation = |slot: usize| lines[slot].as_ref().map_or(0, |(line, _)| line.generation);
        let newest = usize::from(generation(1) > generation(0));
        self.next_slot.store(1 - newest, Ordering::Relaxed);
        lines
    }

    /// Streams a line; the region's next fence by this thread makes it durable.
    pub fn put_line(&self, line: &Line, role: usize) {
        let slot = self.next_slot.fetch_xor(1, Ordering::Relaxed) as u64;
        self.region.stream(slot * PAGE_BYTES, &line.encode(role));
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
    pub fn parity(&self) -> &Part {
        &self.parts[self.geometry.parity_role()]
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

fn fence<'r>(regions: impl Iterator<Item = &'r Region>) -> Result<()> {
    let regions: Vec<&Region> = regions.collect();
    for fenced in Region::fence_all(&regions) {
        fenced?;
    }
    Ok(())
}
