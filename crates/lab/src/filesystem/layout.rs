//! Where the parts of the modelled file system lie on the disk.
//!
//! As ext4 with `flex_bg`, whose groups keep their bitmaps and inode tables together: block 0 is the
//! superblock, then group descriptors of 64 bytes, block bitmaps, inode bitmaps, the inode table, and
//! everything else.

use crate::action::BLOCK_BYTES;

/// Bytes of an inode; the papers' and ext4's.
pub(super) const INODE_BYTES: usize = 256;
/// Inodes in a block.
pub(super) const INODES_PER_BLOCK: u64 = (BLOCK_BYTES / INODE_BYTES) as u64;
/// Blocks that one bitmap block covers: a group.
pub(super) const GROUP_BLOCKS: u64 = BLOCK_BYTES as u64 * 8;
/// Bytes of a group descriptor.
pub(super) const DESCRIPTOR_BYTES: usize = 64;
const DESCRIPTORS_PER_BLOCK: u64 = (BLOCK_BYTES / DESCRIPTOR_BYTES) as u64;

/// A place in a metadata block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) block: u64,
    pub(super) offset: usize,
}

impl Place {
    /// The place some bytes further on in the same block.
    pub(super) fn plus(self, bytes: usize) -> Place {
        Place {
            block: self.block,
            offset: self.offset + bytes,
        }
    }
}

/// The parts, in blocks from the start of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) blocks: u64,
    pub(super) inodes: u64,
    block_bitmaps_at: u64,
    inode_bitmaps_at: u64,
    inode_table_at: u64,
    pub(super) data_at: u64,
}

impl Layout {
    pub(super) fn new(blocks: u64, inodes: u64) -> Layout {
        let groups = blocks.div_ceil(GROUP_BLOCKS);
        let block_bitmaps_at = 1 + groups.div_ceil(DESCRIPTORS_PER_BLOCK);
        let inode_bitmaps_at = block_bitmaps_at + groups;
        let inode_table_at = inode_bitmaps_at + inodes.div_ceil(GROUP_BLOCKS);
        let data_at = inode_table_at + inodes.div_ceil(INODES_PER_BLOCK);
        assert!(
            data_at < blocks,
            "{blocks} blocks are too few for {inodes} inodes"
        );
        Layout {
            blocks,
            inodes,
            block_bitmaps_at,
            inode_bitmaps_at,
            inode_table_at,
            data_at,
        }
    }

    /// The 256 bytes of an inode.
    pub(super) fn inode(&self, inode: u64) -> Place {
        Place {
            block: self.inode_table_at + inode / INODES_PER_BLOCK,
            offset: (inode % INODES_PER_BLOCK) as usize * INODE_BYTES,
        }
    }

    /// The byte of the block bitmap that holds the block's bit.
    pub(super) fn block_bit(&self, block: u64) -> Place {
        Place {
            block: self.block_bitmaps_at + block / GROUP_BLOCKS,
            offset: (block % GROUP_BLOCKS / 8) as usize,
        }
    }

    /// The byte of the inode bitmap that holds the inode's bit.
    pub(super) fn inode_bit(&self, inode: u64) -> Place {
        Place {
            block: self.inode_bitmaps_at + inode / GROUP_BLOCKS,
            offset: (inode % GROUP_BLOCKS / 8) as usize,
        }
    }

    /// The descriptor of the group that a block belongs to. Inodes are counted in the first one.
    pub(super) fn descriptor(&self, block: u64) -> Place {
        let group = block / GROUP_BLOCKS;
        Place {
            block: 1 + group / DESCRIPTORS_PER_BLOCK,
            offset: (group % DESCRIPTORS_PER_BLOCK) as usize * DESCRIPTOR_BYTES,
        }
    }
}
