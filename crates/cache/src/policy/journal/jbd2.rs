//! The journal of ext3 and ext4, big-endian (Linux, `Documentation/filesystems/ext4/journal.rst`).

use super::region::be32;

const MAGIC: u32 = 0xC03B_3998;
const COMMIT_BLOCK: u32 = 2;
const SUPERBLOCK_V1: u32 = 3;
const SUPERBLOCK_V2: u32 = 4;
const REVOKE_BLOCK: u32 = 5;
const INCOMPAT_FAST_COMMIT: u32 = 0x20;
/// Fast-commit blocks where the superblock has a 0 for their number.
const FAST_COMMIT_BLOCKS_DEFAULT: u32 = 256;
/// No journal is smaller; fast-commit blocks leave at least that many.
const BLOCKS_MIN: u32 = 1024;
/// Bytes of the superblock that are looked at.
pub(super) const SUPERBLOCK_BYTES: usize = 1024;
/// Bytes at the beginning of a block that tell its age.
pub(crate) const HEADER_BYTES: usize = 12;

/// What the journal's superblock says; numbers of journal blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) block_bytes: u64,
    /// The ring.
    pub(super) first: u64,
    /// Its end; fast-commit blocks lie between it and `blocks`.
    pub(super) end: u64,
    pub(super) blocks: u64,
    /// Where the part begins that is still needed.
    pub(super) start: Option<u64>,
}

impl Superblock {
    /// `None` where these bytes are none, or not one of a journal with such blocks.
    pub(super) fn parse(raw: &[u8], block_bytes: u64) -> Option<Superblock> {
        let version = be32(raw, 4);
        if be32(raw, 0) != MAGIC || ![SUPERBLOCK_V1, SUPERBLOCK_V2].contains(&version) {
            return None;
        }
        let (blocks, first) = (be32(raw, 16), be32(raw, 20));
        if u64::from(be32(raw, 12)) != block_bytes || blocks < BLOCKS_MIN || first >= blocks {
            return None;
        }
        let has_fast = version == SUPERBLOCK_V2 && be32(raw, 0x28) & INCOMPAT_FAST_COMMIT != 0;
        let fast = match (has_fast, be32(raw, 0x54)) {
            (false, _) => 0,
            (true, 0) => FAST_COMMIT_BLOCKS_DEFAULT,
            (true, blocks) => blocks,
        };
        let end = blocks
            .checked_sub(fast)
            .filter(|end| *end >= BLOCKS_MIN && *end > first)
            .unwrap_or(blocks);
        let start = be32(raw, 28);
        Some(Superblock {
            block_bytes,
            first: first.into(),
            end: end.into(),
            blocks: blocks.into(),
            start: (first..end).contains(&start).then_some(start.into()),
        })
    }
}

/// How new a block is that begins with these bytes: the transaction it belongs to, and whether it is
/// that transaction's last block. `None` for blocks that carry no header; data never looks like one, it is
/// escaped.
pub(crate) fn age(header: &[u8; HEADER_BYTES]) -> Option<(u32, bool)> {
    let kind = be32(header, 4);
    let is_header = be32(header, 0) == MAGIC
        && (1..=REVOKE_BLOCK).contains(&kind)
        && ![SUPERBLOCK_V1, SUPERBLOCK_V2].contains(&kind);
    is_header.then(|| (be32(header, 8), kind == COMMIT_BLOCK))
}

/// Whether transaction `one` is newer than `other`; numbers wrap.
pub(crate) fn is_newer(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(fields: &[(usize, u32)]) -> Vec<u8> {
        let mut raw = vec![0; SUPERBLOCK_BYTES];
        for (at, value) in fields {
            raw[*at..*at + 4].copy_from_slice(&value.to_be_bytes());
        }
        raw
    }

    #[test]
    fn a_superblock_says_what_the_ring_is() {
        let mut fields = vec![
            (0, MAGIC),
            (4, 4),
            (12, 4096),
            (16, 2048),
            (20, 1),
            (28, 77),
        ];
        let found = Superblock::parse(&raw(&fields), 4096).unwrap();
        assert_eq!((found.first, found.end, found.blocks), (1, 2048, 2048));
        assert_eq!(found.start, Some(77));
        assert_eq!(Superblock::parse(&raw(&fields), 1024), None);
        fields.extend([(0x28, INCOMPAT_FAST_COMMIT), (0x54, 48), (28, 0)]);
        let found = Superblock::parse(&raw(&fields), 4096).unwrap();
        assert_eq!((found.end, found.blocks, found.start), (2000, 2048, None));
        fields.push((0x54, u32::MAX));
        let found = Superblock::parse(&raw(&fields), 4096).unwrap();
        assert_eq!(found.end, 2048);
        fields.push((20, 2048));
        assert_eq!(Superblock::parse(&raw(&fields), 4096), None);
    }

    #[test]
    fn headers_tell_their_age_and_numbers_wrap() {
        let header = |kind: u32, sequence: u32| {
            let mut raw = [0; HEADER_BYTES];
            for (at, value) in [(0, MAGIC), (4, kind), (8, sequence)] {
                raw[at..at + 4].copy_from_slice(&value.to_be_bytes());
            }
            raw
        };
        assert_eq!(age(&header(1, 7)), Some((7, false)));
        assert_eq!(age(&header(2, 7)), Some((7, true)));
        assert_eq!(age(&header(4, 7)), None);
        assert_eq!(age(&[0; HEADER_BYTES]), None);
        assert!(is_newer(8, 7) && !is_newer(7, 7) && is_newer(3, u32::MAX));
    }
}
