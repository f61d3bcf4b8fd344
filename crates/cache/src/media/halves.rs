//! The two halves of a slot of a mirror: which of them is right, and making the other one the same.

use crate::media::entry::Entry;
use crate::media::layout::LINE_BYTES;
use crate::media::packed::{Packing, packed_bytes, piece_bytes};
use crate::media::row_places::Column;
use crate::media::view::Half;
use crate::media::{Media, partial_len_of};
use crate::mutants::{Mutant, mutated};

/// The halves that a packed block was put together from: its own, and its base with the half of that.
type Sources<'m> = (Half<'m>, Option<(u32, Half<'m>)>);

/// What the halves of a block are worth, by the check of its entry.
pub(crate) enum Examined<'m> {
    /// Each that there is matches.
    Right,
    /// Not each does. The block was copied out.
    Differ(Wrong<'m>),
    /// None does.
    Lost,
}

/// The halves of a block that do not match its check, and which of their bytes the check covers.
pub(crate) struct Wrong<'m> {
    entry: Entry,
    own: Option<Half<'m>>,
    /// A packed block's base.
    base: Option<(u32, Half<'m>)>,
    packing: Option<Packing>,
    /// How many bytes of the block count.
    valid: usize,
}

/// What a look at a part of a block said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    /// The halves are the same there.
    Same,
    /// They differ, and one of them is right.
    Differ,
    /// They differ, and none is right.
    Lost,
}

impl<'m> Wrong<'m> {
    /// Where they are, with the slot of each.
    pub(super) fn halves(&self) -> impl Iterator<Item = (Half<'m>, u32)> + use<'m> {
        let own = self.own.zip(self.entry.slot());
        own.into_iter()
            .chain(self.base.map(|(slot, half)| (half, slot)))
    }
}

impl Half<'_> {
    /// CRC-32C of its first `len` bytes.
    fn crc32c(self, len: usize) -> u32 {
        self.region.crc32c(self.offset, len)
    }
    /// Whether the medium has so many bytes from `at` on.
    fn is_whole(self, at: usize, len: usize) -> bool {
        !self.region.has_media_error(self.offset + at as u64, len)
    }
    fn read(self, at: usize, out: &mut [u8]) {
        self.region.read(self.offset + at as u64, out);
    }
    fn stream(self, at: usize, lines: &[u8]) {
        self.region.stream(self.offset + at as u64, lines);
    }
}

impl Media {
    /// Notes of a slot that recovery found a block in that the backing lacks: both halves hold it.
    pub(crate) fn found_copied(&self, slot: u32) {
        if let Some(mirror) = &self.mirror
            && self.geometry.column_of(slot).is_none()
        {
            mirror.note_both(slot, self.pair(slot));
        }
    }

    /// Whether some half of the slot has this CRC32C of its first `len` bytes. If only one has, the other is made the
    /// same, durably with the next fence.
    pub(crate) fn settle_halves(&self, slot: u32, len: usize, crc: u32) -> bool {
        let is_right = |half: &Half<'_>| half.crc32c(len) == crc;
        if !self.has_checksums() {
            return true;
        }
        if let Some(column) = self.column_of(slot) {
            return len == self.block_bytes() && self.settle_column(column, crc);
        }
        let Some(right) = self.slot_halves(slot).all().find(is_right) else {
            return false;
        };
        self.restore_others(slot, right);
        true
    }

    /// The same of a column of a row, by itself or by the others.
    #[cold]
    fn settle_column(&self, column: Column, crc: u32) -> bool {
        let own = self.column_place(column);
        if own.is_some_and(|own| own.crc32c(self.block_bytes()) == crc) {
            return true;
        }
        let mut block = vec![0; self.block_bytes()];
        if !self.read_column_of_others(column, &mut block) || self.crc(&block) != crc {
            return false;
        }
        let own = own.filter(|_| !mutated(Mutant::TestedHalfNotRestored));
        own.inspect(|own| own.stream(0, &block));
        true
    }

    /// The same for a slot that holds a packed block, in whichever halves of it and of its base make one with this
    /// CRC.
    pub(crate) fn settle_packed(&self, slot: u32, crc: u32) -> bool {
        let mut block = vec![0; self.block_bytes()];
        if !self.is_mirrored() {
            return self.read_packed(slot, &mut block) && self.crc(&block) == crc;
        }
        for own in self.slot_halves(slot).all() {
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
        if let (Some((base, on)), Some(packing)) = (base, self.packing_on(slot, Some(own))) {
            self.restore_base(base, on, packing, &block);
        }
        true
    }

    /// Puts a packed block together from whichever halves give this CRC, and says which.
    fn read_packed_anywhere(&self, slot: u32, crc: u32, out: &mut [u8]) -> Option<Sources<'_>> {
        self.slot_halves(slot).all().find_map(|own| {
            let mut is_it = |on: Option<Half<'_>>| {
                self.read_packed_on(slot, Some(own), on, out) && self.crc(out) == crc
            };
            let Some(base) = self.packing_on(slot, Some(own))?.base else {
                return is_it(None).then_some((own, None));
            };
            let mut bases = self.slot_halves(base).all();
            let on = bases.find(|on| is_it(Some(*on)))?;
            Some((own, Some((base, on))))
        })
    }

    /// Makes the other half of a slot the same as the one on this member, which is right.
    fn restore_others(&self, slot: u32, right: Half<'_>) {
        let halves = self.slot_halves(slot);
        if halves.other.is_none() || mutated(Mutant::TestedHalfNotRestored) {
            return;
        }
        let mut bytes = vec![0; self.block_bytes()];
        let mut found = bytes.clone();
        right.read(0, &mut bytes);
        for half in halves.all().filter(|half| !half.is(right)) {
            half.read(0, &mut found);
            if found != bytes {
                half.stream(0, &bytes);
            }
        }
    }

    /// Makes the other half of a base the same where a packed block rests on it. What else the base has, nothing has
    /// vouched for: it may be right in the other half alone.
    fn restore_base(&self, base: u32, right: Half<'_>, packing: Packing, block: &[u8]) {
        let halves = self.slot_halves(base);
        if mutated(Mutant::TestedHalfNotRestored) {
            return;
        }
        let mut found = vec![0; piece_bytes(block.len())];
        for half in halves.all().filter(|half| !half.is(right)) {
            for (at, piece) in packing.pieces_of_base(block) {
                half.read(at, &mut found);
                if found != piece {
                    half.stream(at, piece);
                }
            }
        }
    }

    /// Compares each half of a block with its entry's check. If not all are right, the block is copied out from one
    /// that is.
    pub(crate) fn examine(&self, entry: Entry, out: &mut [u8]) -> Examined<'_> {
        let Some(slot) = entry.slot() else {
            return Examined::Right;
        };
        if let Some(column) = self.column_of(slot) {
            return self.examine_column(column, entry, out);
        }
        if entry.is_packed() {
            return self.examine_packed(slot, entry, out);
        }
        let halves = self.slot_halves(slot);
        let len = out.len();
        let matches = |half: Half<'_>| {
            (!self.has_checksums() || half.crc32c(len) == entry.crc()) && half.is_whole(0, len)
        };
        if entry.is_plain() && halves.all().all(matches) {
            return Examined::Right;
        }
        let mut found = vec![0; len];
        let (mut right, mut wrong) = (None, None);
        for half in halves.all() {
            half.read(0, &mut found);
            let valid = match entry.is_partial() {
                true => partial_len_of(&found),
                false => Some(len),
            };
            let is_right =
                |valid: &usize| self.crc(&found[..*valid]) == entry.crc() && half.is_whole(0, len);
            match valid.filter(is_right) {
                None => wrong = Some(half),
                Some(valid) if right.is_none() => {
                    out.copy_from_slice(&found);
                    right = Some(valid);
                }
                Some(_) => {}
            }
        }
        match (right, wrong) {
            (None, _) => Examined::Lost,
            (Some(_), None) => Examined::Right,
            (Some(valid), own) => Examined::Differ(Wrong {
                entry,
                own,
                base: None,
                packing: None,
                valid,
            }),
        }
    }

    /// The same of a block in a row, which the others of the row give, too.
    #[cold]
    fn examine_column(&self, column: Column, entry: Entry, out: &mut [u8]) -> Examined<'_> {
        let (own, len) = (self.column_place(column), out.len());
        if !entry.is_plain() {
            return Examined::Lost;
        }
        if let Some(own) = own {
            own.read(0, out);
            if self.crc(out) == entry.crc() && own.is_whole(0, len) {
                return Examined::Right;
            }
        }
        let is_right = self.read_column_of_others(column, out) && self.crc(out) == entry.crc();
        match (is_right, own) {
            (false, _) => Examined::Lost,
            (true, None) => Examined::Right,
            (true, own) => Examined::Differ(Wrong {
                entry,
                own,
                base: None,
                packing: None,
                valid: len,
            }),
        }
    }

    /// Whether a block in a row is right where it is, or does not count there.
    pub(crate) fn is_column_right(&self, entry: Entry) -> bool {
        let column = entry.slot().and_then(|slot| self.column_of(slot));
        let own = column.and_then(|column| self.column_place(column));
        own.is_none_or(|own| own.crc32c(self.block_bytes()) == entry.crc())
    }

    /// The same of a packed block: a half is right that makes the block together with another that is.
    fn examine_packed(&self, slot: u32, entry: Entry, out: &mut [u8]) -> Examined<'_> {
        let found = self.read_packed_anywhere(slot, entry.crc(), out);
        let packed =
            found.and_then(|(own, base)| Some((own, base, self.packing_on(slot, Some(own))?)));
        let Some((right, base, packing)) = packed else {
            return Examined::Lost;
        };
        let mut block = vec![0; out.len()];
        let mut is_right = |own: Half<'_>, on: Option<Half<'_>>| {
            self.read_packed_on(slot, Some(own), on, &mut block) && self.crc(&block) == entry.crc()
        };
        let on = base.map(|(_, on)| on);
        let mut halves = self.slot_halves(slot).all();
        let own = halves.find(|own| !own.is(right) && !is_right(*own, on));
        let base = base.and_then(|(base, on)| {
            let mut halves = self.slot_halves(base).all();
            let wrong = halves.find(|one| !one.is(on) && !is_right(right, Some(*one)));
            wrong.map(|wrong| (base, wrong))
        });
        match (own, base) {
            (None, None) => Examined::Right,
            _ => Examined::Differ(Wrong {
                entry,
                own,
                base,
                packing: Some(packing),
                valid: out.len(),
            }),
        }
    }

    /// Streams a block that was copied out over the halves that do not match: those bytes that its check covers, and no
    /// others. Durable, as far as its fences tell, when it returns; and what is loaded next comes from the medium.
    pub(crate) fn restore(&self, wrong: &Wrong<'_>, block: &[u8]) {
        assert!(
            self.crc(&block[..wrong.valid]) == wrong.entry.crc(),
            "a half is repaired from what matches its entry's check"
        );
        let line = LINE_BYTES as usize;
        if let Some(half) = wrong.own {
            match wrong.packing {
                Some(packing) => half.stream(0, &packed_bytes(block, packing)),
                None if wrong.entry.is_partial() => {
                    let trailer = self.trailer_offset() / line * line;
                    let end = wrong.valid.next_multiple_of(line).min(trailer);
                    half.stream(0, &block[..end]);
                    half.stream(trailer, &block[trailer..]);
                }
                None => half.stream(0, block),
            }
            self.end_restore(half);
        }
        if let (Some((_, half)), Some(packing)) = (wrong.base, wrong.packing) {
            for (at, piece) in packing.pieces_of_base(block) {
                half.stream(at, piece);
            }
            self.end_restore(half);
        }
    }

    /// A fence of that member alone: if it fails, so will the next commit's, which takes the member out.
    fn end_restore(&self, half: Half<'_>) {
        let _ = half.region.fence();
        half.region.evict(half.offset, self.block_bytes());
    }

    /// Has the next loads of a block's halves see what the medium has.
    pub(crate) fn evict_block(&self, entry: Entry) {
        self.begin_evict_block(entry);
        self.end_evict();
    }
    /// The same, without waiting: [`Media::end_evict`] does.
    pub(crate) fn begin_evict_block(&self, entry: Entry) {
        let packing = entry.slot().filter(|_| entry.is_packed());
        let base = packing.and_then(|slot| self.packing(slot)?.base);
        for slot in entry.slot().into_iter().chain(base) {
            let halves = self.slot_halves(slot);
            halves.each(|half| half.region.begin_evict(half.offset, self.block_bytes()));
        }
    }
    pub(crate) fn end_evict(&self) {
        self.main().end_evict();
    }

    /// How many halves of the slot there are.
    pub(crate) fn half_count(&self, slot: u32) -> u64 {
        self.slot_halves(slot).all().count() as u64
    }

    /// How a slot is packed, by whichever half tells.
    #[cold]
    pub(super) fn packing_elsewhere(&self, slot: u32) -> Option<Packing> {
        let mut halves = self.slot_halves(slot).all();
        halves.find_map(|own| self.packing_on(slot, Some(own)))
    }

    /// Looks at a part of a whole block that was copied out, of which this is the CRC32C. Where its halves differ there,
    /// copies it out from the one that is right.
    pub(crate) fn settle_read(
        &self,
        slot: u32,
        offset: usize,
        out: &mut [u8],
        crc: u32,
    ) -> Settled {
        let halves = self.slot_halves(slot);
        let mut found = vec![0; out.len()];
        let are_equal = halves.all().all(|half| {
            half.read(offset, &mut found);
            found == *out && half.is_whole(offset, found.len())
        });
        if are_equal {
            return Settled::Same;
        }
        let len = self.block_bytes();
        let is_right = |half: &Half<'_>| half.crc32c(len) == crc && half.is_whole(0, len);
        let right = halves.all().find(is_right);
        right.map_or(Settled::Lost, |half| {
            half.read(offset, out);
            Settled::Differ
        })
    }

    /// As `read_slot` from the second half, if the block is there, too. False if it is not.
    pub(crate) fn read_other_half(&self, slot: u32, out: &mut [u8]) -> bool {
        let Some(other) = self.slot_halves(slot).other else {
            return false;
        };
        other.read(0, out);
        other.is_whole(0, out.len())
    }

    /// Puts a packed block together from whichever halves of it and of its base give this CRC; false if none do.
    pub(crate) fn read_packed_elsewhere(&self, slot: u32, crc: u32, out: &mut [u8]) -> bool {
        self.is_mirrored() && self.read_packed_anywhere(slot, crc, out).is_some()
    }
}
