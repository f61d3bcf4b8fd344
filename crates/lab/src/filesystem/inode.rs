//! The bytes of an inode that file operations change, at the places where ext4 has them.

/// `i_mode`, then the owner.
pub(super) const MODE: usize = 0;
/// `i_size_lo`.
pub(super) const SIZE: usize = 4;
/// `i_atime`.
pub(super) const ACCESSED: usize = 8;
/// `i_ctime`.
pub(super) const CHANGED: usize = 12;
/// `i_mtime`.
pub(super) const MODIFIED: usize = 16;
/// `i_dtime`.
pub(super) const DELETED: usize = 20;
/// `i_links_count`.
pub(super) const LINKS: usize = 26;
/// `i_blocks_lo`, in units of 512 bytes.
pub(super) const BLOCKS: usize = 28;
/// `i_version` of the disk.
pub(super) const VERSION: usize = 36;
/// `i_block`: the root of the extent tree, a header and four extents of 12 bytes each.
pub(super) const EXTENTS: usize = 40;
/// Extents that fit into the inode.
pub(super) const EXTENTS_MAX: usize = 4;
/// Bytes of an extent or of the header above them.
pub(super) const EXTENT_BYTES: usize = 12;
/// `i_checksum_lo`, 2 bytes.
pub(super) const CHECKSUM_LOW: usize = 124;
/// `i_checksum_hi`, 2 bytes.
pub(super) const CHECKSUM_HIGH: usize = 130;
/// `i_ctime_extra`: nanoseconds.
pub(super) const CHANGED_EXTRA: usize = 132;
/// `i_mtime_extra`.
pub(super) const MODIFIED_EXTRA: usize = 136;
/// `i_atime_extra`.
pub(super) const ACCESSED_EXTRA: usize = 140;
/// `i_crtime` and `i_crtime_extra`.
pub(super) const CREATED: usize = 144;

/// The header of an extent tree's node: magic, entries, most entries, depth, generation.
pub(super) fn extent_header(entries: u16, entries_max: u16, depth: u16) -> [u8; EXTENT_BYTES] {
    let mut header = [0; EXTENT_BYTES];
    for (place, half) in [0xf30a, entries, entries_max, depth]
        .into_iter()
        .enumerate()
    {
        header[place * 2..place * 2 + 2].copy_from_slice(&half.to_le_bytes());
    }
    header
}

/// An extent: first block of the file, how many, and where.
pub(super) fn extent(logical: u32, len: u16, block: u64) -> [u8; EXTENT_BYTES] {
    let mut bytes = [0; EXTENT_BYTES];
    bytes[..4].copy_from_slice(&logical.to_le_bytes());
    bytes[4..6].copy_from_slice(&len.to_le_bytes());
    bytes[6..8].copy_from_slice(&((block >> 32) as u16).to_le_bytes());
    bytes[8..].copy_from_slice(&(block as u32).to_le_bytes());
    bytes
}
