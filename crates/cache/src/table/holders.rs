//! Which entry names each column of a row: what leads from a block to the others of its row.
//!
//! A column is of one entry only, since blocks in rows are not shared. What stands here of a column that none names any more
//! is that of before: the entry itself says whether it still does.

use crate::media::geometry::Geometry;
use crate::sync::{AtomicU32, Ordering};

/// See the module.
pub(super) struct Holders {
    /// For each column the number of an entry.
    entries: Box<[AtomicU32]>,
    first: u32,
}

impl Holders {
    pub(super) fn new(geometry: &Geometry) -> Holders {
        let first = geometry.pairs();
        let columns = geometry.slots() - first;
        Holders {
            entries: (0..columns).map(|_| AtomicU32::new(0)).collect(),
            first,
        }
    }
    /// Notes an entry that names a slot, if that is a column. The caller holds its key's lock.
    #[inline]
    pub(super) fn note(&self, slot: u32, entry: u32) {
        if let Some(column) = slot.checked_sub(self.first)
            && let Some(holder) = self.entries.get(column as usize)
        {
            holder.store(entry, Ordering::Relaxed);
        }
    }
    /// The entry that named a column last.
    pub(super) fn get(&self, slot: u32) -> u32 {
        self.entries[(slot - self.first) as usize].load(Ordering::Relaxed)
    }
    pub(super) fn dram_bytes(&self) -> u64 {
        size_of_val(&*self.entries) as u64
    }
}
