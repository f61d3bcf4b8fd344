//! The 16-byte cache entry: mapping and checksum of one block, replaced in one store.
//!
//! Key half: `volume:20 | block:36 | parity:4 | flags:4`. Slot half: `slot+1:28 | parity:4 | check:32`.
//! A parity nibble is the XOR of the other fifteen of its half, so every single flipped bit is
//! seen, and a store of one half (the clean mark) cannot tear. The `check` sits apart from the
//! data it covers, which is what catches lost and misdirected writes (TVARAK §3). The all-zero
//! entry is free; volume 0 does not exist.

/// Which block of which volume: the key half with its flags cleared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key(u64);

/// Bits of a block number.
pub(crate) const BLOCK_BITS: u32 = 36;
/// The largest slot count: slot+1 must fit 28 bits.
pub(crate) const SLOTS_MAX: u64 = (1 << 28) - 2;

/// Bits of a volume id.
pub(crate) const VOLUME_BITS: u32 = 20;

const LOW_MASK: u64 = 0xFF;
const KEY_PARITY_SHIFT: u32 = 4;
const VOLUME_SHIFT: u32 = 44;
const BLOCK_SHIFT: u32 = 8;
const KIND_DATA: u64 = 1;
const KIND_ZERO: u64 = 2;
const KIND_PACKED: u64 = 3;
const KIND_MASK: u64 = 3;
const FLAG_CLEAN: u64 = 4;
const FLAG_PARTIAL: u64 = 8;
const SLOT_SHIFT: u32 = 36;
const SLOT_PARITY_SHIFT: u32 = 32;

impl Key {
    #[inline]
    pub(crate) fn new(volume: u32, block: u64) -> Key {
        debug_assert!(volume != 0 && volume < 1 << VOLUME_BITS && block < 1 << BLOCK_BITS);
        Key(u64::from(volume) << VOLUME_SHIFT | block << BLOCK_SHIFT)
    }
    #[inline]
    pub(crate) fn volume(self) -> u32 {
        (self.0 >> VOLUME_SHIFT) as u32
    }
    #[inline]
    pub(crate) fn block(self) -> u64 {
        self.0 >> BLOCK_SHIFT & ((1 << BLOCK_BITS) - 1)
    }
    /// Whether a key half is this key's, whatever its flags. A free one never is.
    #[inline]
    pub(crate) fn is_named_by(self, key_half: u64) -> bool {
        (key_half ^ self.0) >> BLOCK_SHIFT == 0
    }
    /// A well mixed hash: stripe, chain and check mask are cut from it.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        let mut h = self.0 ^ self.0 >> 32;
        h = h.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        h ^= h >> 29;
        h = h.wrapping_mul(0xBF58_476D_1CE4_E5B9);
        h ^ h >> 32
    }
    /// What the data's CRC32C is mixed with, so that a block that strays never validates.
    #[inline]
    pub(crate) fn check_mask(self) -> u32 {
        mask_of_bits((self.hash() >> CHECK_MASK_SHIFT) as u32)
    }
}

/// Which bits of a key's hash the mask of its check is made of.
pub(crate) const CHECK_MASK_SHIFT: u32 = 7;

#[inline]
fn mask_of_bits(hash_bits: u32) -> u32 {
    hash_bits | 1
}

/// The check of a block with this CRC32C, given the bits of its key's hash from [`CHECK_MASK_SHIFT`] on.
#[inline]
pub(crate) fn check_of(hash_bits: u32, crc: u32) -> u32 {
    crc ^ mask_of_bits(hash_bits)
}

/// What an entry says about its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The slot holds the block.
    Data,
    /// The block reads as zeroes and has no slot.
    Zero,
}

/// An entry, encoded here or found sound: its parity holds, and its slot, if it has one, is on the medium.
/// The low half is the key half.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u128);

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Entry({}/{} {:?}{}{} slot {:?} check {:08x})",
            self.key().volume(),
            self.key().block(),
            self.key_half() & KIND_MASK,
            if self.is_clean() { " clean" } else { "" },
            if self.is_partial() { " partial" } else { "" },
            (self.slot_half() >> SLOT_SHIFT).checked_sub(1),
            self.check(),
        )
    }
}

/// What stands on the medium where an entry belongs: a bit may have flipped, a crash may have torn it. It
/// says which key it names, since lookups go by that; whatever else it says is asked of the [`Entry`] that
/// it turns out to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawEntry(u128);

impl std::fmt::Debug for RawEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Entry(self.0).fmt(f)
    }
}

impl PartialEq<Entry> for RawEntry {
    #[inline]
    fn eq(&self, entry: &Entry) -> bool {
        self.0 == entry.0
    }
}

/// Why bytes from the medium are no entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadEntry {
    /// One half is missing: a crash tore a store that had no record.
    Torn,
    /// A parity nibble disagrees: the media changed a bit.
    Parity,
    /// The halves are whole but say nothing that was ever stored.
    Nonsense,
}

impl Entry {
    pub(crate) const FREE: Entry = Entry(0);

    #[inline]
    fn with_parity(key_half: u64, slot_half: u64) -> Entry {
        let parity = fold(key_half, slot_half);
        let key_half = key_half | (parity & 0xF) << KEY_PARITY_SHIFT;
        let slot_half = slot_half | parity & 0xF << SLOT_PARITY_SHIFT;
        Entry(u128::from(key_half) | u128::from(slot_half) << 64)
    }
    /// A dirty block in `slot`, `crc` being the CRC32C of its bytes.
    #[inline]
    pub(crate) fn data(key: Key, slot: u32, crc: u32) -> Entry {
        Entry::masked(key, slot, crc ^ key.check_mask())
    }
    /// As the one before, given the bits of the key's hash from [`CHECK_MASK_SHIFT`] on.
    #[inline]
    pub(crate) fn hashed_data(key: Key, hash_bits: u32, slot: u32, crc: u32) -> Entry {
        Entry::masked(key, slot, check_of(hash_bits, crc))
    }
    #[inline]
    fn masked(key: Key, slot: u32, check: u32) -> Entry {
        debug_assert!(u64::from(slot) < SLOTS_MAX);
        Entry::with_parity(
            key.0 | KIND_DATA,
            (u64::from(slot) + 1) << SLOT_SHIFT | u64::from(check),
        )
    }
    /// A dirty block that is put together from `slot`, where it is packed, and the slot's base;
    /// `crc` is the CRC32C of the whole block.
    #[inline]
    pub(crate) fn packed(key: Key, slot: u32, crc: u32) -> Entry {
        let plain = Entry::data(key, slot, crc);
        Entry::with_parity(
            key.0 | KIND_PACKED,
            plain.slot_half() & !(0xF << SLOT_PARITY_SHIFT),
        )
    }
    /// A dirty block of zeroes.
    #[inline]
    pub(crate) fn zero(key: Key) -> Entry {
        Entry::with_parity(key.0 | KIND_ZERO, u64::from(key.check_mask()))
    }
    /// The entry field of a tombstone element: a key and nothing else.
    #[inline]
    pub(crate) fn tombstone(key: Key) -> Entry {
        Entry::with_parity(key.0, 0)
    }
    #[inline]
    pub(crate) fn as_clean(self) -> Entry {
        self.with_flag(FLAG_CLEAN)
    }
    #[inline]
    pub(crate) fn as_partial(self) -> Entry {
        self.with_flag(FLAG_PARTIAL)
    }
    #[inline]
    fn with_flag(self, flag: u64) -> Entry {
        let key_half = self.key_half() & !(0xF << KEY_PARITY_SHIFT) | flag;
        let key_half = key_half | (fold(key_half, 0) & 0xF) << KEY_PARITY_SHIFT;
        Entry(self.0 >> 64 << 64 | u128::from(key_half))
    }
    #[inline]
    pub(crate) fn bits(self) -> u128 {
        self.0
    }
    #[inline]
    pub(crate) fn key_half(self) -> u64 {
        self.0 as u64
    }
    #[inline]
    pub(crate) fn slot_half(self) -> u64 {
        (self.0 >> 64) as u64
    }
    #[inline]
    pub(crate) fn is_free(self) -> bool {
        self.0 == 0
    }
    #[inline]
    pub(crate) fn key(self) -> Key {
        Key(self.key_half() & !LOW_MASK)
    }
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        if self.key_half() & KIND_MASK == KIND_ZERO {
            Kind::Zero
        } else {
            Kind::Data
        }
    }
    /// Whether the slot holds the block packed.
    #[inline]
    pub(crate) fn is_packed(self) -> bool {
        self.key_half() & KIND_MASK == KIND_PACKED
    }
    /// Whether the slot holds the block as it is, all of it.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.key_half() & (KIND_MASK | FLAG_PARTIAL) == KIND_DATA
    }
    /// The slot of a data entry.
    #[inline]
    pub(crate) fn slot(self) -> Option<u32> {
        ((self.slot_half() >> SLOT_SHIFT) as u32).checked_sub(1)
    }
    #[inline]
    pub(crate) fn check(self) -> u32 {
        self.slot_half() as u32
    }
    /// The CRC32C that the slot's valid bytes must have.
    #[inline]
    pub(crate) fn crc(self) -> u32 {
        self.check() ^ self.key().check_mask()
    }
    /// As the one before, given the bits of the key's hash from [`CHECK_MASK_SHIFT`] on.
    #[inline]
    pub(crate) fn hashed_crc(self, hash_bits: u32) -> u32 {
        check_of(hash_bits, self.check())
    }
    #[inline]
    pub(crate) fn is_clean(self) -> bool {
        self.key_half() & FLAG_CLEAN != 0
    }
    #[inline]
    pub(crate) fn is_partial(self) -> bool {
        self.key_half() & FLAG_PARTIAL != 0
    }
}

impl RawEntry {
    #[inline]
    pub(crate) fn from_bits(bits: u128) -> RawEntry {
        RawEntry(bits)
    }
    #[inline]
    pub(crate) fn bits(self) -> u128 {
        self.0
    }
    #[inline]
    pub(crate) fn from_halves(key_half: u64, slot_half: u64) -> RawEntry {
        RawEntry(u128::from(key_half) | u128::from(slot_half) << 64)
    }
    #[inline]
    fn key_half(self) -> u64 {
        self.0 as u64
    }
    #[inline]
    pub(crate) fn slot_half(self) -> u64 {
        (self.0 >> 64) as u64
    }
    #[inline]
    pub(crate) fn is_free(self) -> bool {
        self.0 == 0
    }
    /// The key that it names.
    #[inline]
    pub(crate) fn key(self) -> Key {
        Entry(self.0).key()
    }
    /// Whether both parity nibbles fit; true for the free entry.
    #[inline]
    pub(crate) fn parity_holds(self) -> bool {
        fold(self.key_half(), self.slot_half()) & (0xF | 0xF << SLOT_PARITY_SHIFT) == 0
    }
    /// The entry, if it may be followed on a medium of `slots` slots: a flipped bit is seen by its parity,
    /// several could name a slot beyond the end.
    #[inline]
    pub(crate) fn sound(self, slots: u32) -> Option<Entry> {
        let entry = Entry(self.0);
        let is_sound = self.parity_holds() && entry.slot().is_none_or(|slot| slot < slots);
        is_sound.then_some(entry)
    }
    /// Slot and check, if it may be followed on a medium of so many slots to a block that its slot holds as
    /// it is.
    #[inline(always)]
    pub(crate) fn sound_plain(self, slots: u32) -> Option<(u32, u32)> {
        let entry = Entry(self.0);
        // Without a slot it wraps to a number beyond the end.
        let slot = ((self.slot_half() >> SLOT_SHIFT) as u32).wrapping_sub(1);
        let is_sound = self.parity_holds() && slot < slots && entry.is_plain();
        is_sound.then_some((slot, entry.check()))
    }
    /// The slot that it names on a medium of so many, sound or not.
    #[inline]
    pub(crate) fn named_slot(self, slots: u32) -> Option<u32> {
        Entry(self.0).slot().filter(|slot| *slot < slots)
    }
    /// The entry, if it is one that the running pool stores; a free one is `Ok(None)`.
    pub(crate) fn validate(self, slots: u32) -> Result<Option<Entry>, BadEntry> {
        if self.is_free() {
            return Ok(None);
        }
        if self.key_half() == 0 || self.slot_half() == 0 {
            return Err(BadEntry::Torn);
        }
        if !self.parity_holds() {
            return Err(BadEntry::Parity);
        }
        let entry = self.sound(slots).ok_or(BadEntry::Nonsense)?;
        let makes_sense = match self.key_half() & KIND_MASK {
            KIND_DATA => entry.slot().is_some(),
            KIND_PACKED => entry.slot().is_some() && !entry.is_partial(),
            KIND_ZERO => {
                entry.slot().is_none()
                    && !entry.is_partial()
                    && entry.check() == entry.key().check_mask()
            }
            _ => false,
        };
        makes_sense.then_some(Some(entry)).ok_or(BadEntry::Nonsense)
    }
}

impl From<Entry> for RawEntry {
    #[inline]
    fn from(entry: Entry) -> RawEntry {
        RawEntry(entry.0)
    }
}

/// XOR of the sixteen nibbles of each half: the key half's in the lowest nibble, the slot half's where its
/// parity stands. What else is in the word means nothing.
#[inline(always)]
fn fold(key_half: u64, slot_half: u64) -> u64 {
    const _: () = assert!(SLOT_PARITY_SHIFT == 32);
    let low = (key_half ^ key_half >> 32) & 0xFFFF_FFFF;
    let high = (slot_half ^ slot_half << 32) >> 32 << 32;
    let mut x = low | high;
    x ^= x >> 16;
    x ^= x >> 8;
    x ^ x >> 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let key = Key::new(0xA_CDEF, 0xF_1234_5678);
        let entry = Entry::data(key, 77, 0xDEAD_BEEF);
        assert_eq!(
            (entry.key(), entry.slot(), entry.crc()),
            (key, Some(77), 0xDEAD_BEEF)
        );
        for entry in [entry, entry.as_clean(), entry.as_partial()] {
            assert_eq!(RawEntry::from(entry).validate(78), Ok(Some(entry)));
            assert_eq!(RawEntry::from(entry).sound(78), Some(entry));
            assert_eq!(RawEntry::from(entry).validate(77), Err(BadEntry::Nonsense));
            assert_eq!(RawEntry::from(entry).sound(77), None);
        }
        assert!(entry.as_clean().is_clean() && entry.as_partial().is_partial());
        let zero = Entry::zero(key);
        assert_eq!(RawEntry::from(zero).validate(1), Ok(Some(zero)));
        assert_eq!(RawEntry::from(Entry::FREE).validate(1), Ok(None));
        assert_eq!((key.volume(), key.block()), (0xA_CDEF, 0xF_1234_5678));
    }

    #[test]
    fn every_single_bit_flip_is_seen() {
        for entry in [
            Entry::data(Key::new(1, 5), 9, 0x1234_5678).as_clean(),
            Entry::zero(Key::new(3, 0)),
        ] {
            for bit in 0..128 {
                let flipped = RawEntry::from_bits(entry.bits() ^ 1 << bit);
                assert!(flipped.validate(100).is_err(), "bit {bit} of {entry:?}");
                assert!(flipped.sound(100).is_none(), "bit {bit} of {entry:?}");
            }
        }
    }

    #[test]
    fn torn_halves_are_refused() {
        let entry = Entry::data(Key::new(1, 5), 9, 0x1234_5678);
        let key_only = RawEntry::from_bits(entry.bits() & u128::from(u64::MAX));
        let slot_only = RawEntry::from_bits(entry.bits() >> 64 << 64);
        assert_eq!(key_only.validate(100), Err(BadEntry::Torn));
        assert_eq!(slot_only.validate(100), Err(BadEntry::Torn));
    }
}
