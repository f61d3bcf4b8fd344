//! What callers are told: of a region that was made, is open, was sealed, or lies there.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use crate::format::{Mark, PAGE_BYTES};
use crate::options::TrackerKind;

/// How a region stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RegionState {
    /// A program may store into it, or did when its process ended.
    Open,
    /// Every sum matches its page, and the parity is that of its rows.
    Sealed,
}

impl RegionState {
    /// What a line says.
    pub(crate) fn of(mark: Mark) -> RegionState {
        match mark {
            Mark::Open => RegionState::Open,
            Mark::Sealed => RegionState::Sealed,
        }
    }
}

impl fmt::Display for RegionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            RegionState::Open => "open",
            RegionState::Sealed => "sealed",
        })
    }
}

/// A region that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// Its files: the data extents in order, then the parity.
    pub paths: Vec<PathBuf>,
    /// Bytes of it that programs see.
    pub size_bytes: u64,
    /// Data extents.
    pub width: u32,
    /// What it survives, in words.
    pub survives: String,
}

/// What [`DaxRegion::verify`](crate::DaxRegion::verify) found, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// Compared with their sums.
    pub looked_at: u64,
    /// Left to the next pass, because they were stored to.
    pub skipped_as_written: u64,
    /// Put right: pages, parity pages and sums.
    pub repaired: u64,
    /// Damaged and not to be had from their rows: where each begins in the region, in bytes.
    pub damaged: Vec<u64>,
    /// Taken as they were found, or made anew, after an end without order: they may be older than what a program had made
    /// durable, or not what it stored. Their bytes in the region, in ascending ranges.
    pub unverified: Vec<Range<u64>>,
    /// Lost and made zero at a caller's word: their bytes in the region, in ascending ranges.
    pub lost: Vec<Range<u64>>,
}

impl Verified {
    /// How many pages are left in doubt.
    #[must_use]
    pub fn unverified_pages(&self) -> u64 {
        pages_in(&self.unverified)
    }

    /// How many were lost.
    #[must_use]
    pub fn lost_pages(&self) -> u64 {
        pages_in(&self.lost)
    }
}

fn pages_in(bytes: &[Range<u64>]) -> u64 {
    let lens = bytes.iter().map(|range| range.end - range.start);
    lens.sum::<u64>() / PAGE_BYTES
}

/// How long pages were not protected: from the first store, or rather from the end of the scan before it was
/// seen, to the end of the pass that covered it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// Pages that were covered.
    pub pages: u64,
    /// Half of them waited no longer, in ns (to 7 %).
    pub p50_ns: u64,
    /// 99 of 100 waited no longer, in ns (to 7 %).
    pub p99_ns: u64,
    /// None waited longer, in ns.
    pub max_ns: u64,
    /// The oldest that waits now, in ns.
    pub oldest_ns: u64,
    /// How many are known to wait now.
    pub waiting_pages: u64,
}

/// What was done since the region was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Passes that ended.
    pub passes: u64,
    /// Of these, over every page, because the tracker may have missed something.
    pub compared: u64,
    /// Pages whose sums were written.
    pub covered_pages: u64,
    /// Times that a page was stored to again while a pass had it.
    pub skipped_pages: u64,
    /// Pages whose writers were held.
    pub held_pages: u64,
    /// Pages, parity pages and sums that were put right.
    pub repaired_pages: u64,
    /// Fences of passes.
    pub fences: u64,
    /// Passes that failed.
    pub failed_passes: u64,
}

/// How an open region stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Data extents.
    pub width: u32,
    /// How it stands.
    pub state: RegionState,
    /// Rises with every change of the region's lines.
    pub generation: u64,
    /// The tracker in use.
    pub tracker: TrackerKind,
    /// Which stores that does not see, in words.
    pub misses: &'static str,
    /// How long pages were not protected.
    pub window: Window,
    /// What was done since it was opened.
    pub counts: Counts,
    /// Pages that an end without order left unverified, and that nobody has accepted since.
    pub unverified_pages: u64,
    /// Pages that were lost and made zero, and that nobody has accepted since.
    pub lost_pages: u64,
    /// Damaged pages that their rows do not give: where each begins, in bytes.
    pub damaged: Vec<u64>,
    /// What the last pass that failed said.
    pub last_failure: Option<String>,
}

/// A region that was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sealed {
    /// The generation of the seal.
    pub generation: u64,
    /// Pages that were compared with their sums.
    pub pages: u64,
    /// Of these, stored to since their last pass.
    pub written_pages: u64,
    /// Put right before: pages, parity pages and sums.
    pub repaired_pages: u64,
    /// Pages that an end without order left unverified, and that nobody has accepted since.
    pub unverified_pages: u64,
    /// Pages that were lost and made zero, and that nobody has accepted since.
    pub lost_pages: u64,
}

/// A region that lies beside a pool's members.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Bytes; 0 where no line of it can be read.
    pub size_bytes: u64,
    /// Data extents.
    pub width: u32,
    /// How its newest line says that it stands.
    pub state: RegionState,
    /// Of that line.
    pub generation: u64,
    /// Pages that an end without order left unverified, and that nobody has accepted since.
    pub unverified_pages: u64,
    /// Pages that were lost and made zero, and that nobody has accepted since.
    pub lost_pages: u64,
    /// Its extents in order, then the parity; empty where no line of it can be read.
    pub paths: Vec<PathBuf>,
    /// Whether each extent is one run of the device. None: to find out an extent has to be opened, which would take a
    /// keeper's lease, and have whoever has the region open compare every page; so nobody has looked.
    pub contiguous: Option<bool>,
    /// What is wrong with it, in words: files that are missing, lines that cannot be read.
    pub faults: Vec<String>,
}

/// A region that a [`Keeper`](crate::Keeper) looks after.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptRegion {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub state: RegionState,
    /// Whether the keeper holds the write leases on its extents.
    pub leased: bool,
    /// Passes that the keeper made while a program had it.
    pub passes: u64,
    /// Times that it was opened under the keeper's lease.
    pub lease_breaks: u64,
    /// Pages that an end without order left unverified, and that nobody has accepted since.
    pub unverified_pages: u64,
    /// What keeps it from being sealed, or what failed, in words.
    pub trouble: Option<String>,
}
