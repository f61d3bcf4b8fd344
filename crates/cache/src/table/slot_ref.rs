//! A slot as a mapping names it.

use crate::media::entry::{Entry, Key};

/// A slot that a mapping leads to, and whether it is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotRef(u32);

/// Slots have 28 bits.
const SLOT_REF_PACKED: u32 = 1 << 31;

impl SlotRef {
    /// A slot that holds a block as it is, or that nothing was put into.
    pub(crate) fn plain(slot: u32) -> SlotRef {
        SlotRef(slot)
    }
    /// The slot of an entry.
    #[inline]
    pub(crate) fn of(entry: Entry) -> Option<SlotRef> {
        let packed = u32::from(entry.is_packed()) * SLOT_REF_PACKED;
        entry.slot().map(|slot| SlotRef(slot | packed))
    }
    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 & !SLOT_REF_PACKED
    }
    #[inline]
    pub(crate) fn is_packed(self) -> bool {
        self.0 & SLOT_REF_PACKED != 0
    }
    /// The entry of a key that is mapped to it.
    pub(crate) fn entry(self, key: Key, crc: u32) -> Entry {
        if self.is_packed() {
            Entry::packed(key, self.slot(), crc)
        } else {
            Entry::data(key, self.slot(), crc)
        }
    }
}
