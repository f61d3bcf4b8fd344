//! Which part of the volume stands for which part of which file.
//!
//! The volume's blocks are cut into segments of 2^18. The first holds the metadata; any other stands for
//! such a part of one file, or for nothing. The table of it is on the media, so that recovery knows
//! whose the blocks are; a segment changes hands only when the pool holds none of its blocks.

/// A segment has so many blocks, as a power of two: 1 GiB of blocks of 4 KiB.
pub(crate) const SEGMENT_BLOCKS_SHIFT: u32 = 18;
/// Blocks of a segment.
pub(crate) const SEGMENT_BLOCKS: u64 = 1 << SEGMENT_BLOCKS_SHIFT;
/// Segments of the volume: blocks have numbers of 36 bits.
pub(crate) const SEGMENTS_MAX: u32 = 1 << (36 - SEGMENT_BLOCKS_SHIFT);
