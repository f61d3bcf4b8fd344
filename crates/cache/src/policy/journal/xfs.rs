//! The log of xfs, big-endian (XFS Algorithms & Data Structures, "Superblocks", "Journaling Log").

use super::region::{Region, be32, be64};
use super::{Journal, JournalKind, JournalRun, Located};

const MAGIC: &[u8] = b"XFSB";
const SUPERBLOCK_BYTES: usize = 256;
const RECORD_MAGIC: u32 = 0xFEED_BABE;

/// Adds the internal log of an xfs in `region`.
pub(super) fn find(region: &Region<'_>, located: &mut Located) {
    located.watched_offsets.extend(region.on_volume(0));
    if let Some(raw) = region.read(0, SUPERBLOCK_BYTES)
        && let Some(journal) = log_of(region, &raw)
    {
        located.add(journal, region.volume_bytes());
    }
}

fn log_of(region: &Region<'_>, raw: &[u8]) -> Option<Journal> {
    if !raw.starts_with(MAGIC) {
        return None;
    }
    let block_bytes = u64::from(be32(raw, 4));
    let (start, blocks) = (be64(raw, 48), u64::from(be32(raw, 96)));
    let (group_blocks, group_bits) = (u64::from(be32(raw, 84)), u32::from(raw[124]));
    let is_sane = block_bytes.is_power_of_two()
        && (512..=65536).contains(&block_bytes)
        && start != 0
        && group_bits < 32;
    if !is_sane {
        return None;
    }
    // A block number is that of the allocation group and, below it, that within the group.
    let (group, within) = (start >> group_bits, start & ((1 << group_bits) - 1));
    let block = group.checked_mul(group_blocks)?.checked_add(within)?;
    let offset = block.checked_mul(block_bytes)?;
    let left = region.size_bytes().checked_sub(offset)?;
    let bytes = (blocks * block_bytes).min(left);
    if bytes == 0 {
        return None;
    }
    Some(Journal {
        kind: JournalKind::Xfs,
        runs: vec![JournalRun {
            journal_offset: 0,
            disk_offset: region.on_volume(offset)?,
            bytes,
        }],
        ring: 0..bytes,
        live_from: None,
    })
}

/// The lap in which a block of the log was written that begins with these bytes.
pub(crate) fn lap(header: &[u8; 8]) -> u32 {
    match be32(header, 0) {
        RECORD_MAGIC => be32(header, 4),
        lap => lap,
    }
}
