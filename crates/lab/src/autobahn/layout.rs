//! What lies where in the region.
//!
//! ```text
//! 0       header: magic, block bytes, inode bytes, volumes, blocks, check; a line
//! 4096    volumes, 512 bytes each (Table 2)
//!           0   file_size u64           16  CRC-32C of the path u32, its length u32
//!           8   number of the inode u64 24  flags u64: 1 in use, 2 partial
//!                                       64  fullpath, at most 448 bytes
//! ..      inodes, one for each block (Table 2)
//!           0   volume u64, counted from 1; 0 is NULL
//!           8   lbn u64
//!           16  block u32, and above it the bytes of the block that counted when it was switched
//!           24  state u64: 0 free, 1 dirty, 2 clean
//! ..      blocks, at a multiple of 4096
//! ```
//!
//! An inode lies in one line. Its words are stored in an order in which any prefix of them is believed rightly: the
//! state that makes it count comes last when it is new.

use forebay_pmem::LINE_BYTES;

use super::options::AutoBahnOptions;

/// "FBYAUTO" and the version of this format.
pub(super) const MAGIC: u64 = 0x4642_5941_5554_4f01;
pub(super) const HEADER_WORDS: usize = 6;
const VOLUMES_AT: u64 = 4096;
pub(super) const VOLUME_BYTES: u64 = 512;
/// Where a volume's words begin.
pub(super) const SIZE_AT: u64 = 0;
pub(super) const NUMBER_AT: u64 = 8;
pub(super) const PATH_WORD_AT: u64 = 16;
pub(super) const FLAGS_AT: u64 = 24;
pub(super) const PATH_AT: u64 = LINE_BYTES as u64;
pub(super) const PATH_BYTES_MAX: usize = (VOLUME_BYTES - PATH_AT) as usize;
/// Flags of a volume.
pub(super) const IN_USE: u64 = 1;
pub(super) const PARTIAL: u64 = 2;
/// Where an inode's words begin.
pub(super) const OWNER_AT: u64 = 0;
pub(super) const LBN_AT: u64 = 8;
pub(super) const BLOCK_AT: u64 = 16;
pub(super) const STATE_AT: u64 = 24;
pub(super) const INODE_BYTES_MIN: u64 = 32;

const _: () = assert!(
    FLAGS_AT + 8 <= PATH_AT,
    "the words of a volume are one line"
);
const _: () = assert!(VOLUME_BYTES.is_multiple_of(LINE_BYTES as u64));
const _: () = assert!(STATE_AT + 8 == INODE_BYTES_MIN, "an inode is four words");
const _: () = assert!((LINE_BYTES as u64).is_multiple_of(INODE_BYTES_MIN));

/// How a region is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) block_bytes: u64,
    pub(super) inode_bytes: u64,
    pub(super) volumes: u64,
    pub(super) blocks: u64,
}

impl Layout {
    /// As many blocks as fit; none if there is no room for four.
    pub(super) fn new(region_bytes: u64, options: &AutoBahnOptions) -> Option<Layout> {
        let mut layout = Layout {
            block_bytes: options.block_bytes,
            inode_bytes: options.inode_bytes,
            volumes: options.volumes,
            blocks: 0,
        };
        let room = region_bytes.checked_sub(layout.inodes_at())?;
        layout.blocks = room / (layout.block_bytes + layout.inode_bytes);
        while layout.blocks > 0 && layout.end() > region_bytes {
            layout.blocks -= 1;
        }
        layout.is_sound(region_bytes).then_some(layout)
    }

    /// Whether it is one that [`Layout::new`] could have made of so many bytes.
    pub(super) fn is_sound(&self, region_bytes: u64) -> bool {
        let is_line = |bytes: u64| bytes > 0 && bytes.is_multiple_of(LINE_BYTES as u64);
        is_line(self.block_bytes)
            && self.block_bytes <= 1 << 24
            && self.inode_bytes.is_power_of_two()
            && (INODE_BYTES_MIN..=1 << 16).contains(&self.inode_bytes)
            && (1..=1 << 20).contains(&self.volumes)
            && (4..=1 << 31).contains(&self.blocks)
            && self.end() <= region_bytes
    }

    fn inodes_at(&self) -> u64 {
        VOLUMES_AT + self.volumes * VOLUME_BYTES
    }

    fn blocks_at(&self) -> u64 {
        (self.inodes_at() + self.blocks * self.inode_bytes).next_multiple_of(4096)
    }

    fn end(&self) -> u64 {
        self.blocks_at() + self.blocks * self.block_bytes
    }

    pub(super) fn volume(&self, volume: u32) -> u64 {
        VOLUMES_AT + u64::from(volume) * VOLUME_BYTES
    }

    pub(super) fn inode(&self, inode: u32) -> u64 {
        self.inodes_at() + u64::from(inode) * self.inode_bytes
    }

    pub(super) fn block(&self, block: u32) -> u64 {
        self.blocks_at() + u64::from(block) * self.block_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_small_regions_are_refused() {
        let options = AutoBahnOptions::default();
        let layout = Layout::new(4 << 20, &options).expect("room");
        assert_eq!(layout.blocks, 253);
        assert!(layout.volume(63) + VOLUME_BYTES <= layout.inode(0));
        assert!(layout.inode(252) + 32 <= layout.block(0));
        assert!(layout.end() <= 4 << 20);
        assert_eq!(Layout::new(64 << 10, &options), None);
        assert_eq!(Layout::new(1024, &options), None);
    }
}
