//! Bytes of a volume that cannot be trusted, read within bounds.

use std::cell::Cell;
use std::ops::Range;

/// Bytes that one search reads: indirect blocks of 1 KiB that map a journal of 1 GiB are 4 MiB.
const SEARCH_BYTES_MAX: u64 = 16 << 20;
/// What a read costs beside its bytes.
const READ_COST_BYTES: u64 = 512;
/// The longest piece read at once: the largest block of any of the file systems.
pub(super) const READ_BYTES_MAX: usize = 64 << 10;

/// The bytes that are searched.
pub trait Content {
    /// How many there are.
    fn size_bytes(&self) -> u64;
    /// Fills `out` from `offset` on; false where it cannot.
    fn read(&self, offset: u64, out: &mut [u8]) -> bool;
}

impl Content for &[u8] {
    fn size_bytes(&self) -> u64 {
        self.len() as u64
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let found = usize::try_from(offset)
            .ok()
            .and_then(|at| self.get(at..at.checked_add(out.len())?));
        found.map(|bytes| out.copy_from_slice(bytes)).is_some()
    }
}

/// How much one search may still read.
pub(super) struct Budget(Cell<u64>);

impl Default for Budget {
    fn default() -> Self {
        Budget(Cell::new(SEARCH_BYTES_MAX))
    }
}

/// A part of a volume: all of it, or a partition.
pub(super) struct Region<'a> {
    content: &'a dyn Content,
    budget: &'a Budget,
    bytes: Range<u64>,
}

impl<'a> Region<'a> {
    pub(super) fn whole(content: &'a dyn Content, budget: &'a Budget) -> Region<'a> {
        Region {
            content,
            budget,
            bytes: 0..content.size_bytes(),
        }
    }

    /// The part of it that lies in `bytes`.
    pub(super) fn part(&self, bytes: Range<u64>) -> Region<'a> {
        let start = self.bytes.start.saturating_add(bytes.start);
        let end = self.bytes.start.saturating_add(bytes.end);
        let end = end.min(self.bytes.end);
        Region {
            content: self.content,
            budget: self.budget,
            bytes: start.min(end)..end,
        }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// Bytes of the whole volume.
    pub(super) fn volume_bytes(&self) -> u64 {
        self.content.size_bytes()
    }

    /// Where a byte of the region lies on the volume, if the volume can have such a byte.
    pub(super) fn on_volume(&self, offset: u64) -> Option<u64> {
        self.bytes.start.checked_add(offset)
    }

    /// Bytes of the region, if all of them are in it and can be read.
    pub(super) fn read(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        let end = offset.checked_add(len as u64)?;
        if end > self.size_bytes() || len > READ_BYTES_MAX {
            return None;
        }
        let cost = len as u64 + READ_COST_BYTES;
        self.budget.0.set(self.budget.0.get().checked_sub(cost)?);
        let mut out = vec![0; len];
        let read = self.content.read(self.bytes.start + offset, &mut out);
        read.then_some(out)
    }
}

pub(super) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
pub(super) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from(le16(bytes, at)) | u32::from(le16(bytes, at + 2)) << 16
}
pub(super) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from(le32(bytes, at)) | u64::from(le32(bytes, at + 4)) << 32
}
pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    le32(bytes, at).swap_bytes()
}
pub(super) fn be64(bytes: &[u8], at: usize) -> u64 {
    le64(bytes, at).swap_bytes()
}
