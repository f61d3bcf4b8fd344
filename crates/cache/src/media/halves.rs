//! The two halves of a slot of a mirror: which of them is right, and making the other one the same.

use forebay_pmem::Region;

use crate::media::Media;
use crate::media::mirror::Halves;
use crate::media::packed::Packing;
use crate::mutants::{Mutant, mutated};

/// The halves that a packed block was put together from: its own, and its base with the half of that.
type Sources<'m> = (&'m Region, Option<(u32, &'m Region)>);

impl<'m> Halves<'m> {
    fn all(self) -> impl Iterator<Item = &'m Region> {
        std::iter::once(self.one).chain(self.other)
    }
}

impl Media {
    /// Whether some half of the slot has this CRC32C of its first `len` bytes. If only one has, the other is made the
    /// same, durably with the next fence.
    pub(crate) fn settle_halves(&self, slot: u32, len: usize, crc: u32) -> bool {
        let (halves, offset) = self.slot_halves(slot);
        let is_right = |region: &&Region| region.crc32c(offset, len) == crc;
        if !self.has_checksums() {
            return true;
        }
        let Some(right) = halves.all().find(is_right) else {
            return false;
        };
        self.restore_others(slot, right);
        true
    }

    /// The same for a slot that holds a packed block, in whichever halves of it and of its base make one with this
    /// CRC.
    pub(crate) fn settle_packed(&self, slot: u32, crc: u32) -> bool {
        let mut block = vec![0; self.block_bytes()];
        if !self.is_mirrored() {
            return self.read_packed(slot, &mut block) && self.crc(&block) == crc;
        }
        for own in self.slot_halves(slot).0.all() {
            let base = self
                .packing_on(slot, Some(own))
                .and_then(|found| found.base);
            // What a block that the backing lacks rests on is in both halves, as the block is.
            base.inspect(|base| self.found_copied(*base));
        }
        let Some((own, base)) = self.read_packed_anywhere(slot, crc, &mut block) else {
            return false;
        };
        self.restore_others(slot, own);
        if let Some((base, on)) = base {
            self.restore_others(base, on);
        }
        true
    }

    /// Puts a packed block together from whichever halves give this CRC, and says which.
    fn read_packed_anywhere(&self, slot: u32, crc: u32, out: &mut [u8]) -> Option<Sources<'_>> {
        self.slot_halves(slot).0.all().find_map(|own| {
            let mut is_it = |on: Option<&Region>| {
                self.read_packed_on(slot, Some(own), on, out) && self.crc(out) == crc
            };
            let Some(base) = self.packing_on(slot, Some(own))?.base else {
                return is_it(None).then_some((own, None));
            };
            let mut bases = self.slot_halves(base).0.all();
            let on = bases.find(|on| is_it(Some(on)))?;
            Some((own, Some((base, on))))
        })
    }

    /// Makes the other half of a slot the same as the one on this member, which is right.
    fn restore_others(&self, slot: u32, right: &Region) {
        let (halves, offset) = self.slot_halves(slot);
        if halves.other.is_none() || mutated(Mutant::TestedHalfNotRestored) {
            return;
        }
        let mut bytes = vec![0; self.block_bytes()];
        let mut found = bytes.clone();
        right.read(offset, &mut bytes);
        for region in halves.all().filter(|region| !std::ptr::eq(*region, right)) {
            region.read(offset, &mut found);
            if found != bytes {
                region.stream(offset, &bytes);
            }
        }
    }

    /// How a slot is packed, by whichever half tells.
    #[cold]
    pub(super) fn packing_elsewhere(&self, slot: u32) -> Option<Packing> {
        let mut halves = self.slot_halves(slot).0.all();
        halves.find_map(|own| self.packing_on(slot, Some(own)))
    }

    /// Copies a part of a whole block out, of which this is the CRC32C. Where its halves differ there, from the one that
    /// is right; false if neither is.
    #[inline]
    pub(crate) fn read_settled(&self, slot: u32, offset: usize, out: &mut [u8], crc: u32) -> bool {
        self.read_slot(slot, offset, out);
        !self.is_mirrored() || self.is_settled(slot, offset, out, crc)
    }

    #[cold]
    fn is_settled(&self, slot: u32, offset: usize, out: &mut [u8], crc: u32) -> bool {
        let (halves, base) = self.slot_halves(slot);
        let at = base + offset as u64;
        let is_whole = |region: &Region| !region.has_media_error(at, out.len());
        let mut found = vec![0; out.len()];
        let are_equal = halves.all().all(|region| {
            region.read(at, &mut found);
            found == *out && is_whole(region)
        });
        if are_equal {
            return true;
        }
        let len = self.block_bytes();
        let is_right = |region: &&Region| {
            region.crc32c(base, len) == crc && !region.has_media_error(base, len)
        };
        let right = halves.all().find(is_right);
        right.inspect(|region| region.read(at, out)).is_some()
    }

    /// As `read_slot` from the second half, if the block is there, too. False if it is not.
    pub(crate) fn read_other_half(&self, slot: u32, out: &mut [u8]) -> bool {
        let (halves, offset) = self.slot_halves(slot);
        let Some(other) = halves.other else {
            return false;
        };
        other.read(offset, out);
        !other.has_media_error(offset, out.len())
    }

    /// Puts a packed block together from whichever halves of it and of its base give this CRC; false if none do.
    pub(crate) fn read_packed_elsewhere(&self, slot: u32, crc: u32, out: &mut [u8]) -> bool {
        self.is_mirrored() && self.read_packed_anywhere(slot, crc, out).is_some()
    }
}
