//! A file's place in the pool: its row of the size table, its segments, its blocks.

use crate::block_map::BlockMap;
use crate::metadata::{FileId, SEGMENT_BLOCKS_SHIFT};
use crate::segments::SEGMENT_BLOCKS;

/// See the module.
#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) id: FileId,
    pub(super) row: u32,
    /// The size that the row says.
    pub(super) size_bytes: u64,
    /// Part of the file and segment; few.
    pub(super) segments: Vec<(u64, u32)>,
    /// Those of them that the table does not tell of yet: the next transaction says so.
    pub(super) unsaid_segments: Vec<(u64, u32)>,
    /// Blocks of the file, by their numbers in the file.
    pub(super) blocks: BlockMap,
    /// Some of them may lie behind the end: a cut has not let go of them yet.
    pub(super) has_blocks_behind: bool,
}

impl Pooled {
    /// The volume's block that stands for a block of the file, if its segment is there.
    #[inline]
    pub(super) fn place(&self, block: u64) -> Option<u64> {
        let part = block >> SEGMENT_BLOCKS_SHIFT;
        let known = self.segments.iter().find(|(known, _)| *known == part);
        known.map(|(_, segment)| {
            (u64::from(*segment) << SEGMENT_BLOCKS_SHIFT) + block % SEGMENT_BLOCKS
        })
    }

    /// The volume's blocks that stand for these of the file.
    pub(super) fn places<'a>(&'a self, blocks: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
        blocks.iter().filter_map(|block| self.place(*block))
    }
}
