//! What a program that keeps its own order of durable stores needs: flushes and fences of what it stored.

use std::ops::Range;

use super::DaxRegion;
use crate::error::Result;
use crate::format::PAGE_BYTES;

impl DaxRegion {
    /// Sends the cache lines that these bytes touch on their way to the medium; this thread's next
    /// [`DaxRegion::fence`] makes durable what it had stored to them. Sums and parity follow in a pass, as ever.
    ///
    /// # Panics
    /// If the range lies outside the region.
    pub fn flush(&self, range: Range<u64>) {
        assert!(
            range.end <= self.len(),
            "{range:?} lies outside the region of {} bytes",
            self.len()
        );
        let medium = &self.engine.medium;
        let mut at = range.start;
        while at < range.end {
            let (page, within) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let (extent, row) = medium.geometry.place(page);
            let end = range.end.min((page + 1) * PAGE_BYTES);
            let len = (end - at) as usize;
            medium.parts[extent].flush_foreign(row * PAGE_BYTES + within, len);
            at = end;
        }
    }

    /// Returns when everything that this thread has flushed before is durable; on plain files, everything that any
    /// thread has stored before.
    ///
    /// # Errors
    /// Durability cannot be promised: the medium failed, or a sync of a file did.
    pub fn fence(&self) -> Result<()> {
        self.engine.medium.fence_parts()
    }
}
