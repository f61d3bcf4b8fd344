//! Partition tables: GPT (UEFI specification, chapter 5) and MBR with its extended partitions.

use std::ops::Range;

use super::region::{READ_BYTES_MAX, Region, le32, le64};

/// Partitions of either kind that are looked at; tools make tables of 128.
const PARTITIONS_MAX: usize = 128;
/// Links of the chain of logical partitions.
const LOGICAL_MAX: usize = 64;
const SECTOR_SIZES: [u64; 2] = [512, 4096];
const GPT_MAGIC: &[u8] = b"EFI PART";
/// Bytes of a GPT header that are looked at.
const GPT_HEADER_BYTES: usize = 92;
const MBR_BYTES: usize = 512;
const MBR_ENTRIES: usize = 446;
const MBR_ENTRY_BYTES: usize = 16;
/// Type of an MBR entry: there is a GPT; the rest is not for us.
const MBR_PROTECTIVE: u8 = 0xEE;
/// Types of MBR entries that begin a chain of logical partitions.
const MBR_EXTENDED: [u8; 3] = [0x05, 0x0F, 0x85];

/// The bytes of each partition. Adds where the tables were looked for to `watched_offsets`.
pub(super) fn find(whole: &Region<'_>, watched_offsets: &mut Vec<u64>) -> Vec<Range<u64>> {
    watched_offsets.push(0);
    let mut found = Vec::new();
    for sector_bytes in SECTOR_SIZES {
        watched_offsets.push(sector_bytes);
        gpt(whole, sector_bytes, &mut found, watched_offsets);
        if found.is_empty() {
            mbr(whole, sector_bytes, &mut found, watched_offsets);
        }
        if !found.is_empty() {
            break;
        }
    }
    found.truncate(PARTITIONS_MAX);
    found
}

fn gpt(
    whole: &Region<'_>,
    sector_bytes: u64,
    found: &mut Vec<Range<u64>>,
    watched_offsets: &mut Vec<u64>,
) -> Option<()> {
    let header = whole.read(sector_bytes, GPT_HEADER_BYTES)?;
    if !header.starts_with(GPT_MAGIC) {
        return None;
    }
    let entries_at = le64(&header, 72).checked_mul(sector_bytes)?;
    let (count, entry_bytes) = (le32(&header, 80) as usize, le32(&header, 84) as usize);
    if entry_bytes < 128 || !entry_bytes.is_power_of_two() || entry_bytes > 4096 {
        return None;
    }
    let count = count.min(PARTITIONS_MAX).min(READ_BYTES_MAX / entry_bytes);
    let table = whole.read(entries_at, count * entry_bytes)?;
    watched_offsets.extend(
        (0..table.len() as u64)
            .step_by(4096)
            .map(|at| entries_at + at),
    );
    for entry in table.chunks_exact(entry_bytes) {
        let (first, last) = (le64(entry, 32), le64(entry, 40));
        let is_used = entry[..16].iter().any(|byte| *byte != 0);
        if is_used && first <= last && first > 0 {
            let end = last.saturating_add(1).saturating_mul(sector_bytes);
            found.push(first.saturating_mul(sector_bytes)..end);
        }
    }
    Some(())
}

fn mbr(
    whole: &Region<'_>,
    sector_bytes: u64,
    found: &mut Vec<Range<u64>>,
    watched_offsets: &mut Vec<u64>,
) -> Option<()> {
    for entry in entries(&whole.read(0, MBR_BYTES)?)? {
        match entry.kind {
            MBR_PROTECTIVE => {}
            kind if MBR_EXTENDED.contains(&kind) => {
                logical(whole, entry.first, sector_bytes, found, watched_offsets);
            }
            _ => found.push(entry.bytes(0, sector_bytes)),
        }
    }
    Some(())
}

/// A chain of tables, each with one partition, relative to itself, and a link, relative to the first.
fn logical(
    whole: &Region<'_>,
    first: u64,
    sector_bytes: u64,
    found: &mut Vec<Range<u64>>,
    watched_offsets: &mut Vec<u64>,
) -> Option<()> {
    let mut at = first;
    for _ in 0..LOGICAL_MAX {
        let offset = at * sector_bytes;
        let table = entries(&whole.read(offset, MBR_BYTES)?)?;
        watched_offsets.push(offset);
        let mut next = None;
        for entry in table {
            if MBR_EXTENDED.contains(&entry.kind) {
                next = Some(first + entry.first);
            } else {
                found.push(entry.bytes(at, sector_bytes));
            }
        }
        at = next?;
    }
    None
}

/// An entry in use; numbers of sectors.
struct MbrEntry {
    kind: u8,
    first: u64,
    count: u64,
}

impl MbrEntry {
    fn bytes(&self, base: u64, sector_bytes: u64) -> Range<u64> {
        // Numbers of 32 bits each.
        let start = base + self.first;
        start * sector_bytes..(start + self.count) * sector_bytes
    }
}

fn entries(raw: &[u8]) -> Option<Vec<MbrEntry>> {
    if raw[510..512] != [0x55, 0xAA] {
        return None;
    }
    let used = raw[MBR_ENTRIES..510]
        .chunks_exact(MBR_ENTRY_BYTES)
        .map(|entry| MbrEntry {
            kind: entry[4],
            first: le32(entry, 8).into(),
            count: le32(entry, 12).into(),
        })
        .filter(|entry| entry.kind != 0 && entry.count > 0 && entry.first > 0);
    Some(used.collect())
}
