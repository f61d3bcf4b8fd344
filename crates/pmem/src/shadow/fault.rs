//! What a medium does wrong below the stores and fences, when it is told to.

use std::ops::Range;

use super::model::{ShadowModel, WORD_BYTES};

/// Something that the medium does wrong. Offsets and lengths are in bytes; a unit is a line or a sector,
/// [`ShadowModel::unit_bytes`].
///
/// Processors and page caches hide what is wrong below them: loads go on seeing what was stored until
/// [`Shadow::evict`](super::Shadow::evict). Later stores to a unit do not heal the rest of it, as if it had been evicted in between.
///
/// A write here is what one fence makes durable of a range. It counts as struck, and the fault as over, once
/// the medium holds anything else than it should. What a power cut keeps without a fence meets no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A bit is turned over, now. Loads see it at once, but where stores to the unit are pending.
    BitFlip {
        /// Of the byte.
        offset: u64,
        /// 0 to 7, the lowest first.
        bit: u8,
    },
    /// The next write to units that the range touches does not happen.
    LostWrite {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// The next write to the range, which is whole units, arrives in another one, as whole units; its own
    /// place stays as it is.
    MisdirectedWrite {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// First byte of the other range.
        target: u64,
    },
    /// Of the next write to a unit only some words arrive.
    TornWrite {
        /// Of any byte of the unit.
        offset: u64,
        /// The words of the unit that do, the first one in the lowest bit.
        words: u64,
    },
    /// The range, which is whole units, is read from another one. Loads go to the view and are no events of
    /// their own, so the other bytes are put there: now, or where stores are pending when the unit is next
    /// evicted. Stores and fences reach the right place.
    MisdirectedRead {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// First byte of the other range.
        source: u64,
        /// The first eviction of any of it after the other bytes were seen brings back the right ones.
        /// Otherwise each eviction brings the other ones again.
        is_once: bool,
    },
}

impl Fault {
    /// The bytes that it is about.
    fn range(self) -> Range<u64> {
        let (offset, len) = match self {
            Fault::BitFlip { offset, .. } | Fault::TornWrite { offset, .. } => (offset, 1),
            Fault::LostWrite { offset, len }
            | Fault::MisdirectedWrite { offset, len, .. }
            | Fault::MisdirectedRead { offset, len, .. } => (offset, len),
        };
        offset..offset.saturating_add(len)
    }

    /// Where the range is written to or read from instead.
    fn elsewhere(self) -> Option<Range<u64>> {
        let (Fault::MisdirectedWrite {
            len, target: start, ..
        }
        | Fault::MisdirectedRead {
            len, source: start, ..
        }) = self
        else {
            return None;
        };
        Some(start..start.saturating_add(len))
    }

    /// # Panics
    /// It is about bytes that a medium of `len` bytes lacks, or about parts of units that cannot be moved.
    pub(super) fn check(self, len: u64, model: ShadowModel) {
        let unit = model.unit_bytes() as u64;
        for range in [Some(self.range()), self.elsewhere()].into_iter().flatten() {
            assert!(range.end <= len, "{self:?} is beyond {len} bytes");
            let is_whole = range.start.is_multiple_of(unit) && range.end.is_multiple_of(unit);
            assert!(
                is_whole || self.elsewhere().is_none(),
                "{self:?} is not of whole units of {unit} bytes"
            );
        }
        if let Fault::BitFlip { bit, .. } = self {
            assert!(bit < 8, "a byte has no bit {bit}");
        }
    }

    pub(super) fn touches(self, bytes: &Range<usize>) -> bool {
        let range = self.range();
        range.start < bytes.end as u64 && range.end > bytes.start as u64
    }

    /// What becomes of a write of `new` to the unit at `own`: where something arrives, and what. Nothing where
    /// the medium then holds what it should.
    pub(super) fn of_write(
        self,
        medium: &[u8],
        own: &Range<usize>,
        new: &[u8],
    ) -> Option<(Range<usize>, Vec<u8>)> {
        if !self.touches(own) {
            return None;
        }
        let old = &medium[own.clone()];
        let arrived = match self {
            Fault::LostWrite { .. } => old.to_vec(),
            Fault::TornWrite { words, .. } => torn(old, new, words),
            Fault::MisdirectedWrite { offset, target, .. } => {
                let place = moved(own, offset, target);
                let is_felt = old != new || medium[place.clone()] != *new;
                return is_felt.then(|| (place, new.to_vec()));
            }
            Fault::BitFlip { .. } | Fault::MisdirectedRead { .. } => return None,
        };
        (arrived != new).then(|| (own.clone(), arrived))
    }

    /// Where the unit at `own` is read from instead.
    pub(super) fn of_read(self, own: &Range<usize>) -> Option<Range<usize>> {
        match self {
            Fault::MisdirectedRead { offset, source, .. } if self.touches(own) => {
                Some(moved(own, offset, source))
            }
            _ => None,
        }
    }
}

/// The new words of those in the mask, and the old ones.
fn torn(old: &[u8], new: &[u8], words: u64) -> Vec<u8> {
    let pairs = old.chunks(WORD_BYTES).zip(new.chunks(WORD_BYTES));
    pairs
        .enumerate()
        .flat_map(|(at, (old, new))| if words >> at & 1 == 1 { new } else { old })
        .copied()
        .collect()
}

/// The unit of the range at `to` that stands where `own` does in the range at `from`.
fn moved(own: &Range<usize>, from: u64, to: u64) -> Range<usize> {
    let start = (to + own.start as u64 - from) as usize;
    start..start + own.len()
}

/// A fault that was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// What it is.
    pub fault: Fault,
    /// Whether the medium, or what loads see of it, has been wrong because of it.
    pub has_struck: bool,
    pub(super) is_over: bool,
}
