//! Which part of the volume stands for which part of which file.
//!
//! The volume's blocks are cut into segments of 2^18. The first holds the metadata; any other stands for
//! such a part of one file, or for nothing. The table of it is on the media, so that recovery knows
//! which file the blocks are of; a segment changes hands only when the pool holds none of its blocks.

use std::io;
use std::sync::{Mutex, PoisonError};

use forebay::{Transaction, Volume};

use crate::errors::from_pool;
use crate::metadata::{FileId, MetadataArea, SEGMENT_BLOCKS_SHIFT, SEGMENTS};

/// Blocks of a segment.
pub(crate) const SEGMENT_BLOCKS: u64 = 1 << SEGMENT_BLOCKS_SHIFT;
/// Segments of the volume: blocks have numbers of 36 bits.
pub(crate) const SEGMENTS_MAX: u32 = 1 << (36 - SEGMENT_BLOCKS_SHIFT);
const ENTRY_BYTES: u64 = 16;
/// Bytes of the table that are read at once.
const READ_BYTES: u64 = 256 << 10;

const _: () = assert!(SEGMENTS.end - SEGMENTS.start == ENTRY_BYTES * SEGMENTS_MAX as u64);

/// What a segment stands for: the part of the file, counted in segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    pub(crate) id: FileId,
    pub(crate) part: u64,
}

/// The table and the free segments.
#[derive(Debug)]
pub(crate) struct SegmentTable {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Segments from here on have no owner, but for those that recovery found.
    next: u32,
    returned: Vec<u32>,
}

impl SegmentTable {
    /// Reads the table; returns the segments that have an owner.
    ///
    /// # Errors
    /// The pool's.
    pub(crate) fn open(volume: &Volume) -> io::Result<(SegmentTable, Vec<(u32, Owner)>)> {
        let area = MetadataArea::new(volume, SEGMENTS);
        let mut raw = vec![0; READ_BYTES as usize];
        let mut owned = Vec::new();
        for start in (0..area.len()).step_by(READ_BYTES as usize) {
            area.read(start, &mut raw)?;
            let numbers = (start / ENTRY_BYTES) as u32..;
            for (number, entry) in numbers.zip(raw.chunks_exact(ENTRY_BYTES as usize)) {
                let word = |at: usize| {
                    u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes"))
                };
                if word(0) != 0 {
                    let (id, part) = (FileId(word(0)), word(8));
                    owned.push((number, Owner { id, part }));
                }
            }
        }
        let next = owned.iter().map(|(number, _)| number + 1).max();
        let free = Free {
            next: next.unwrap_or(1),
            returned: Vec::new(),
        };
        let table = SegmentTable {
            free: Mutex::new(free),
        };
        Ok((table, owned))
    }

    /// A segment that stands for nothing and has no blocks in the pool.
    pub(crate) fn take(&self) -> Option<u32> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = free.returned.pop() {
            return Some(number);
        }
        if free.next == SEGMENTS_MAX {
            return None;
        }
        free.next += 1;
        Some(free.next - 1)
    }

    /// The table says that it has no owner, durably, and the pool has none of its blocks.
    pub(crate) fn give(&self, number: u32) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.returned.push(number);
    }
}

/// Adds the segment's owner to the transaction.
pub(crate) fn write_owner(
    transaction: &mut Transaction<'_>,
    number: u32,
    owner: Option<Owner>,
) -> io::Result<()> {
    let mut raw = [0; ENTRY_BYTES as usize];
    if let Some(Owner { id, part }) = owner {
        raw[..8].copy_from_slice(&id.0.to_le_bytes());
        raw[8..].copy_from_slice(&part.to_le_bytes());
    }
    let offset = SEGMENTS.start + u64::from(number) * ENTRY_BYTES;
    transaction.write_at(offset, &raw).map_err(from_pool)
}
