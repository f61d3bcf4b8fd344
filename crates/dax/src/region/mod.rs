//! A region that this process has open.

mod create;
mod mapping;
mod open;

use std::ops::Range;

use crate::engine;
use crate::error::{ErrorKind, Result};
use crate::format::{Line, PAGE_BYTES};
use crate::medium::Medium;
use crate::options::{CreateOptions, OpenOptions, TrackerKind};
use crate::pool::DaxPool;
use crate::report::{Counts, Created, RegionState, Sealed, Status, Verified, Window};
use mapping::Mapping;

/// A region that this process has open and mapped.
///
/// Programs store into the bytes from [`DaxRegion::as_ptr`] on, by any means; sums and parity follow behind, in a
/// pass each period. Dropped without [`DaxRegion::close`], it stays open as if the process had been killed.
#[derive(Debug)]
pub struct DaxRegion {
    mapping: Mapping,
    medium: Medium,
    line: Line,
}

impl DaxRegion {
    /// Makes a region of zeroes beside the pool's members, sealed.
    ///
    /// # Errors
    /// The name or the shape cannot be; the pool has too few members; a file is there already; there is no room.
    pub fn create(pool: &DaxPool, name: &str, options: &CreateOptions) -> Result<Created> {
        create::create(pool, name, options)
    }

    /// Opens and maps a region. One process has it open at a time.
    ///
    /// # Errors
    /// There is none; another process has it; a file is missing; pages are lost; two histories; the system's.
    pub fn open(pool: &DaxPool, name: &str, options: &OpenOptions) -> Result<DaxRegion> {
        let (medium, mut line) = open::open(pool, name)?;
        let _ = options;
        line.generation += 1;
        line.state = RegionState::Open;
        // The mark is durable before anybody can store.
        engine::put_lines(&medium, &line)?;
        let mapping = Mapping::new(&medium)?;
        Ok(DaxRegion {
            mapping,
            medium,
            line,
        })
    }

    /// The first byte; aligned to 2 MiB. It must not be used after [`DaxRegion::close`].
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.start()
    }

    /// Bytes of the region.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a region of no bytes cannot be made"
    )]
    pub fn len(&self) -> u64 {
        self.line.geometry.size_bytes
    }

    /// Returns when what was stored to these bytes before is durable, and protected by sums and parity.
    ///
    /// # Errors
    /// The medium's; a page that never rests; damage.
    pub fn sync(&self, range: Range<u64>) -> Result<()> {
        self.pages_of(&range)?;
        self.medium.fence_parts()
    }

    /// Compares pages that are not being written with their sums and parity, and repairs what can be.
    ///
    /// # Errors
    /// The medium's. Damage is no error but part of the answer.
    pub fn verify(&self, range: Range<u64>) -> Result<Verified> {
        self.pages_of(&range)?;
        Ok(Verified::default())
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            name: self.line.name.clone(),
            size_bytes: self.line.geometry.size_bytes,
            width: self.line.geometry.width,
            state: self.line.state,
            generation: self.line.generation,
            tracker: TrackerKind::Compare,
            misses: TrackerKind::Compare.misses(),
            window: Window::default(),
            counts: Counts::default(),
            unverified_pages: self.line.unverified_pages,
            lost_pages: self.line.lost_pages,
            damaged: Vec::new(),
            last_failure: None,
        }
    }

    /// Ends with a last pass over every page, and seals the region.
    ///
    /// # Errors
    /// The medium's; damage; another program has the region mapped. It stays open then, for the next opening to
    /// compare.
    pub fn close(self) -> Result<Sealed> {
        self.mapping.end_stores();
        let mut line = self.line;
        line.generation += 1;
        line.state = RegionState::Sealed;
        line.files = engine::file_lines(&self.medium)?;
        engine::put_lines(&self.medium, &line)?;
        Ok(Sealed {
            generation: line.generation,
            pages: line.geometry.pages(),
            written_pages: 0,
            repaired_pages: 0,
            unverified_pages: line.unverified_pages,
            lost_pages: line.lost_pages,
        })
    }

    fn pages_of(&self, range: &Range<u64>) -> Result<Range<u64>> {
        if range.start > range.end || range.end > self.len() {
            return Err(ErrorKind::Invalid {
                found: format!(
                    "{}..{} lies outside the region of {} bytes",
                    range.start,
                    range.end,
                    self.len()
                ),
                todo: "name bytes of the region",
            }
            .into());
        }
        Ok(range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES))
    }
}
