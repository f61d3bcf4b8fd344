//! Mapped regions for the cases, and the plain mapping beside them.

#![allow(
    unsafe_code,
    reason = "what a program maps is memory that no type of Rust's describes"
)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use forebay_dax::{Created, DaxPool, DaxRegion};
use memmap2::MmapMut;

use crate::scratch::{Scratch, ScratchFile};
use forebay_harness::Result;

const NAME: &str = "region";

/// One region of width 1 beside two members in memory; its files are removed when this is dropped.
pub struct RegionFiles {
    pool: DaxPool,
    _members: [ScratchFile; 2],
}

impl RegionFiles {
    /// Makes the region, sealed.
    pub fn create(scratch: &Scratch, bytes: u64) -> Result<(RegionFiles, Created)> {
        let members = [scratch.file("dax-a"), scratch.file("dax-b")];
        let paths: Vec<PathBuf> = members.iter().map(|file| file.path().to_owned()).collect();
        let files = RegionFiles {
            pool: DaxPool::new(&paths, [0x5a; 16]),
            _members: members,
        };
        let options = forebay_dax::CreateOptions::new(bytes);
        let created = DaxRegion::create(&files.pool, NAME, &options)?;
        Ok((files, created))
    }

    /// Opens it with the best tracker that the machine has, a pass each `period`.
    pub fn open(&self, period: Duration) -> Result<DaxRegion> {
        let options = forebay_dax::OpenOptions::default().period(period);
        Ok(DaxRegion::open(&self.pool, NAME, &options)?)
    }
}

impl Drop for RegionFiles {
    fn drop(&mut self) {
        for directory in self.pool.directories() {
            // The folder around goes in the end in any case.
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// A file in memory, mapped as any program would map it.
pub struct PlainMapping {
    mapped: MmapMut,
}

impl PlainMapping {
    /// Makes the file, of zeroes.
    pub fn create(path: &Path, bytes: u64) -> Result<PlainMapping> {
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(path)?;
        file.set_len(bytes)?;
        // SAFETY: nobody else has the file, which this process has just made.
        let mapped = unsafe { MmapMut::map_mut(&file)? };
        Ok(PlainMapping { mapped })
    }

    /// Its words.
    pub fn words(&self) -> &[AtomicU64] {
        let count = self.mapped.len() / size_of::<AtomicU64>();
        // SAFETY: a shared mapping, aligned to a page, good for its length while it is borrowed; any bytes are a
        // number, and threads share them as atomics only.
        unsafe { std::slice::from_raw_parts(self.mapped.as_ptr().cast::<AtomicU64>(), count) }
    }
}
