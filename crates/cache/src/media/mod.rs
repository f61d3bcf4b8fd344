//! The members of a pool as one medium: entries, lane bytes and slots by number.
//!
//! It owns the mapped regions and the plan of what lies where (`layout`, `geometry`), and has the encoding of all
//! that lies there. It carries parity or a CRC, by which the layers above check what they read; what is
//! durable before what is theirs to order, by [`Media::fence`].

pub(crate) mod areas;
mod bad_list;
mod bad_places;
pub(crate) mod copies;
pub(crate) mod entry;
pub(crate) mod geometry;
pub(crate) mod halves;
pub(crate) mod incarnation;
mod joining;
pub(crate) mod layout;
pub(crate) mod membership;
mod mend;
mod mirror;
pub(crate) mod packed;
mod quorum;
mod retiring;
mod roster;
pub(crate) mod row_places;
pub(crate) mod rows;
pub(crate) mod salt;
pub(crate) mod sealed;
pub(crate) mod seals;
mod served;
mod start;
pub(crate) mod superblock;
mod view;
pub(crate) mod volumes;
mod witness;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_pmem::{Counters, MediaKind, Region};

use crate::error::Result;
use crate::media::entry::{Entry, RawEntry};
use crate::media::geometry::{Geometry, Pair};
use crate::media::layout::{LINE_BYTES, PARTIAL_TRAILER_BYTES};
use crate::media::mirror::Mirror;
use crate::media::view::{Half, Halves, Opened};
use crate::mutants::{Mutant, mutated};

/// Bytes between two slots that are read along with them: a disk reads this many in less time than
/// another request takes.
const READ_ALONG_BYTES: u64 = 64 << 10;

pub(crate) use start::MirrorStart;

/// The members, mapped, with the plan of what lies where.
pub(crate) struct Media {
    /// The member that holds the metadata: here, so that reaching it asks no list for its length.
    main: Arc<Region>,
    others: Box<[Region]>,
    mirror: Option<Box<Mirror>>,
    /// There is no member beside the main one, and none can join.
    is_single: bool,
    /// The number of the member that a mirror was opened without.
    missing: Option<u32>,
    pub(crate) geometry: Geometry,
    slots: u32,
    transaction_limit_bytes: u64,
    /// Slots carry a CRC (otherwise every check is that of the empty string).
    checksums: bool,
}

impl Media {
    /// All members, or those of a mirror that are in, the one that leads first.
    pub(crate) fn new(
        members: Vec<Region>,
        mirror: Option<MirrorStart>,
        geometry: Geometry,
        checksums: bool,
    ) -> Media {
        assert!(members.len() == geometry.members as usize || mirror.is_some());
        let is_single = members.len() == 1 && mirror.is_none();
        let missing = mirror.as_ref().and_then(|start| start.missing(&geometry));
        let mirror = mirror.map(|start| Mirror::new(start, &geometry));
        let mut members = members.into_iter();
        let main = members.next().expect("a pool has a member");
        Media {
            main: Arc::new(main),
            others: members.collect(),
            mirror: mirror.map(Box::new),
            is_single,
            missing,
            slots: geometry.slots(),
            transaction_limit_bytes: geometry.transaction_limit_bytes(),
            geometry,
            checksums,
        }
    }
    /// The same members under another plan.
    pub(crate) fn laid_out(self, geometry: Geometry) -> Media {
        let opened = Opened {
            main: &self.main,
            others: &self.others,
        };
        let mirror = self.mirror.map(|mirror| {
            let mut mirror = mirror.laid_out(&geometry);
            mirror.find_bad_anew(&geometry, opened);
            mirror
        });
        Media {
            mirror: mirror.map(Box::new),
            slots: geometry.slots(),
            transaction_limit_bytes: geometry.transaction_limit_bytes(),
            geometry,
            ..self
        }
    }
    /// A member that holds the metadata.
    #[inline]
    pub(crate) fn main(&self) -> &Region {
        match &self.mirror {
            None => &self.main,
            Some(mirror) => self.leading(mirror),
        }
    }
    #[cold]
    fn leading<'m>(&'m self, mirror: &'m Mirror) -> &'m Region {
        mirror.view(self.opened()).leading()
    }
    /// All that do, first one that has everything, as they are at one moment: if one were looked at before a member is
    /// taken out and the others after that, one that is left could be missed.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = &Region> + Clone {
        let live = self
            .mirror
            .iter()
            .flat_map(|mirror| mirror.view(self.opened()).live());
        let own = self.mirror.is_none().then_some(&*self.main);
        own.into_iter().chain(live.map(|(_, region)| region))
    }
    /// Whether several do.
    pub(crate) fn has_copies(&self) -> bool {
        self.metadata().nth(1).is_some()
    }
    /// Has `write` change each copy of the metadata; returns what it said of the first.
    #[inline(always)]
    pub(crate) fn on_metadata<T>(&self, mut write: impl FnMut(&Region) -> T) -> T {
        let Some(mirror) = &self.mirror else {
            return write(&self.main);
        };
        let view = mirror.view(self.opened());
        let Some(Opened { main, others }) = view.unchanged() else {
            let mut written = None;
            view.on_changed(&mut |region| {
                let one = write(region);
                written.get_or_insert(one);
            });
            return written.expect("a member is stored to");
        };
        let written = write(main);
        if !mutated(Mutant::RecordOnOneMember) {
            for other in others {
                write(other);
            }
        }
        written
    }
    /// Whether several members hold the same.
    #[inline]
    pub(crate) fn is_mirrored(&self) -> bool {
        self.mirror.is_some()
    }
    /// The first member, for a layer above that keeps it.
    pub(crate) fn shared_main(&self) -> Arc<Region> {
        Arc::clone(&self.main)
    }
    /// The members but that one.
    pub(crate) fn others(&self) -> &[Region] {
        &self.others
    }
    /// All members in their order; of a mirror those that were in when it was opened, and those that joined.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Region> {
        let joined = self.mirror.iter().flat_map(|mirror| mirror.joined());
        std::iter::once(&*self.main)
            .chain(&self.others)
            .chain(joined)
    }
    pub(crate) fn path(&self) -> PathBuf {
        self.main().path().to_path_buf()
    }
    pub(crate) fn counters(&self) -> Counters {
        self.members()
            .fold(Counters::default(), |sum, member| sum + member.counters())
    }

    /// The member, if the pool has one and is no mirror.
    #[inline(always)]
    pub(crate) fn only_member(&self) -> Option<&Region> {
        self.is_single.then_some(&self.main)
    }

    /// Orders everything this thread streamed or flushed before whatever it does next.
    #[inline(always)]
    pub(crate) fn fence(&self) -> Result<()> {
        self.fence_beside(&|_| false)
    }
    /// The same while the pool is used; `is_held` says whether a published block is in a slot. One sfence serves all members
    /// of the cache-line domains; a page member syncs its file.
    #[inline(always)]
    pub(crate) fn fence_beside(&self, is_held: &dyn Fn(u32) -> bool) -> Result<()> {
        if let Some(mirror) = &self.mirror {
            return mirror.fence(&self.geometry, self.opened(), is_held);
        }
        for member in self.members() {
            member.fence()?;
        }
        Ok(())
    }

    /// The entry, if it may be followed.
    #[inline]
    pub(crate) fn sound(&self, raw: RawEntry) -> Option<Entry> {
        raw.sound(self.slots())
    }
    /// Slot and check of an entry that may be followed to a block that its slot holds as it is.
    #[inline(always)]
    pub(crate) fn sound_plain(&self, raw: RawEntry) -> Option<(u32, u32)> {
        raw.sound_plain(self.slots())
    }
    /// Sends bytes that recovery found, and will rely on, towards the medium: a killed process may have
    /// left them in a cache, and a failed sync in one that takes them for written.
    pub(crate) fn flush_found(&self, region: &Region, offset: u64, len: usize) {
        if mutated(Mutant::PageCacheBelieved) {
            region.flush(offset, len);
        } else {
            region.flush_found(offset, len);
        }
    }
    /// Sends a slot that recovery found towards the medium.
    pub(crate) fn flush_found_slot(&self, slot: u32) {
        if let Some(column) = self.geometry.column_of(slot) {
            return self.flush_found_row(column.row);
        }
        let halves = self.slot_halves(slot);
        halves.each(|half| self.flush_found(half.region, half.offset, self.block_bytes()));
    }
    /// Says that what lies before the table will be read.
    pub(crate) fn read_head_ahead(&self) {
        self.main().read_ahead(0..self.geometry.entry_offset(0));
    }
    fn table(&self) -> Range<u64> {
        self.geometry.entry_offset(0)..self.geometry.lane_area
    }
    /// Has the entry table read.
    pub(crate) fn read_table_ahead(&self) {
        for region in self.metadata() {
            region.read_ahead(self.table());
            region.populate(self.table(), false);
        }
    }
    /// Says that nearly all of the entry table will be stored to.
    pub(crate) fn store_table_ahead(&self) {
        self.main().populate(self.table(), true);
    }
    /// Says that these lanes will be read.
    pub(crate) fn read_lanes_ahead(&self, lanes: Range<u32>) {
        let start = self.geometry.lane_offset(lanes.start);
        let end = self.geometry.lane_offset(lanes.end);
        self.main().read_ahead(start..end);
    }
    /// Says that these slots will be read, near ones in one request: what lies between them is read
    /// along.
    pub(crate) fn read_slots_ahead(&self, slots: impl Iterator<Item = u32>) {
        let is_told = |member: &Region| member.kind() == MediaKind::PlainFile;
        if !self.members().any(is_told) {
            return;
        }
        let block_bytes = u64::from(self.geometry.block_bytes);
        let mut places: Vec<(&Region, u64)> = slots
            .filter(|slot| *slot < self.slots)
            .map(|slot| self.slot(slot))
            .collect();
        places.sort_unstable_by_key(|(region, offset)| (std::ptr::from_ref(*region), *offset));
        let is_near = |one: &(&Region, u64), next: &(&Region, u64)| {
            std::ptr::eq(one.0, next.0) && next.1 - one.1 <= block_bytes + READ_ALONG_BYTES
        };
        for run in places.chunk_by(is_near) {
            let (first, last) = (run[0], run[run.len() - 1]);
            first.0.read_ahead(first.1..last.1 + block_bytes);
        }
    }

    /// A slot, where it is: for what is done to it more than once.
    #[inline]
    pub(crate) fn slot_at(&self, slot: u32) -> Slot<'_> {
        let (region, offset) = self.slot(slot);
        Slot {
            media: self,
            region,
            offset,
        }
    }
    /// Where it is read.
    #[inline(always)]
    pub(crate) fn slot(&self, slot: u32) -> (&Region, u64) {
        if self.mirror.is_some() {
            let Half { region, offset } = self.slot_halves(slot).one;
            return (region, offset);
        }
        let (member, offset) = self.geometry.slot_place(slot);
        (self.member(member), offset)
    }
    /// Every place that holds its block. Of a mirror, which alone has several, not inlined: the others' commits and
    /// reads are laid out as if it were not there.
    #[inline(always)]
    fn slot_halves(&self, slot: u32) -> Halves<'_> {
        if let Some(mirror) = &self.mirror {
            return self.halves_of(mirror, slot);
        }
        let (member, offset) = self.geometry.slot_place(slot);
        Halves::one(self.member(member), offset)
    }
    #[cold]
    fn halves_of<'m>(&'m self, mirror: &'m Mirror, slot: u32) -> Halves<'m> {
        if let Some(column) = self.geometry.column_of(slot) {
            return self.column_halves(mirror, column);
        }
        mirror.halves_of(mirror.view(self.opened()), slot, self.pair(slot))
    }
    #[inline]
    fn pair(&self, slot: u32) -> Pair {
        self.geometry.slot_pair(slot)
    }
    #[inline]
    fn opened(&self) -> Opened<'_> {
        Opened {
            main: &self.main,
            others: &self.others,
        }
    }
    /// Whether the slot's block is wherever a dirty one must be: otherwise it is neither changed in place nor
    /// shared.
    #[inline]
    pub(crate) fn is_protected(&self, slot: u32) -> bool {
        match &self.mirror {
            None => true,
            Some(mirror) => self.is_copied(mirror, slot),
        }
    }
    #[cold]
    fn is_copied(&self, mirror: &Mirror, slot: u32) -> bool {
        if self.geometry.column_of(slot).is_some() {
            return mutated(Mutant::DeltaInRow);
        }
        mirror.is_protected(slot, || self.pair(slot)) || mutated(Mutant::SharedWithUnprotected)
    }
    /// Whether a member of a mirror was not there when it was opened.
    pub(crate) fn lacks_member(&self) -> bool {
        self.missing.is_some()
    }
    /// Whether the first half of the slot is on a member that was not there: only that one need have a block that the
    /// backing has, too.
    pub(crate) fn is_on_missing(&self, slot: Option<u32>) -> bool {
        let (Some(missing), Some(slot)) = (self.missing, slot) else {
            return false;
        };
        // What of a row was there, the others give.
        self.geometry.column_of(slot).is_none() && self.pair(slot).first == missing
    }
    #[inline(always)]
    fn member(&self, number: usize) -> &Region {
        match number.checked_sub(1) {
            None => &self.main,
            Some(other) => &self.others[other],
        }
    }
    /// Streams a whole block that the backing lacks into a private slot; returns its CRC32C. Durable after a fence.
    #[inline(always)]
    pub(crate) fn stream_slot(&self, slot: u32, block: &[u8]) -> u32 {
        self.fill_slot(slot, block, true)
    }
    /// Streams a whole block that the backing has, too.
    #[inline(always)]
    pub(crate) fn stream_clean_slot(&self, slot: u32, block: &[u8]) -> u32 {
        self.fill_slot(slot, block, false)
    }
    #[inline(always)]
    fn fill_slot(&self, slot: u32, block: &[u8], is_dirty: bool) -> u32 {
        debug_assert_eq!(block.len(), self.geometry.block_bytes as usize);
        if let Some(mirror) = &self.mirror {
            return self.fill_halves(mirror, slot, block, is_dirty);
        }
        let (region, offset) = self.slot(slot);
        if self.checksums {
            region.stream_crc32c(offset, block)
        } else {
            region.stream(offset, block);
            0
        }
    }
    /// The same of a mirror, which has checksums.
    #[cold]
    fn fill_halves(&self, mirror: &Mirror, slot: u32, block: &[u8], is_dirty: bool) -> u32 {
        let view = mirror.view(self.opened());
        let halves = mirror.halves_to_fill(view, slot, self.pair(slot), is_dirty);
        let Half { region, offset } = halves.one;
        match halves.other {
            Some(other) => region.stream_crc32c_pair(offset, other.region, other.offset, block),
            None => region.stream_crc32c(offset, block),
        }
    }
    /// Says that a private slot is about to be filled by parts, with what the backing lacks.
    #[inline]
    pub(crate) fn begin_slot(&self, slot: u32) {
        if let Some(mirror) = &self.mirror {
            mirror.halves_to_fill(mirror.view(self.opened()), slot, self.pair(slot), true);
        }
    }
    /// Streams whole lines into part of a slot that was begun, or whose block is wherever it must be.
    pub(crate) fn stream_slot_lines(&self, slot: u32, offset: usize, lines: &[u8]) {
        let halves = self.slot_halves(slot);
        let (one, offset) = (halves.one, offset as u64);
        let at = one.offset + offset;
        match halves.other {
            Some(other) => {
                (one.region).stream_pair(at, other.region, other.offset + offset, lines);
            }
            None => one.region.stream(at, lines),
        }
    }
    /// Streams bytes into a line of a slot whose other bytes stay, in each half as they are there.
    pub(crate) fn stream_into_line(
        &self,
        slot: u32,
        line_offset: usize,
        within: usize,
        bytes: &[u8],
    ) {
        self.slot_halves(slot).each(|Half { region, offset }| {
            let at = offset + line_offset as u64;
            let mut line = [0; LINE_BYTES as usize];
            region.read(at, &mut line);
            line[within..within + bytes.len()].copy_from_slice(bytes);
            region.stream(at, &line);
        });
    }
    /// The same of any number of bytes from `at` on.
    pub(crate) fn stream_into_lines(&self, slot: u32, at: usize, bytes: &[u8]) {
        let line = LINE_BYTES as usize;
        let start = at / line * line;
        let end = (at + bytes.len()).next_multiple_of(line);
        let mut lines = vec![0; end - start];
        self.slot_halves(slot).each(|Half { region, offset }| {
            region.read(offset + start as u64, &mut lines);
            lines[at - start..at - start + bytes.len()].copy_from_slice(bytes);
            region.stream(offset + start as u64, &lines);
        });
    }
    /// Cached stores into a slot; durable after flush and fence.
    pub(crate) fn store_slot(&self, slot: u32, offset: usize, bytes: &[u8]) {
        let halves = self.slot_halves(slot);
        let store = |half: Half<'_>| half.region.store(half.offset + offset as u64, bytes);
        if mutated(Mutant::DeltaOnOneHalf) {
            return store(halves.one);
        }
        halves.each(store);
    }
    pub(crate) fn flush_slot(&self, slot: u32, offset: usize, len: usize) {
        let halves = self.slot_halves(slot);
        halves.each(|half| half.region.flush(half.offset + offset as u64, len));
    }
    /// Copies the start of a slot out without looking at it.
    #[inline]
    pub(crate) fn read_slot(&self, slot: u32, offset: usize, out: &mut [u8]) {
        let (region, base) = self.slot(slot);
        region.read(base + offset as u64, out);
    }
    /// Copies the start of a slot out; returns the CRC32C of what was copied.
    #[inline]
    pub(crate) fn read_slot_crc(&self, slot: u32, out: &mut [u8]) -> u32 {
        self.slot_at(slot).read_crc(out)
    }
    /// Whether entries carry a CRC of the data.
    pub(crate) fn has_checksums(&self) -> bool {
        self.checksums
    }
    /// CRC32C of bytes in memory under this pool's policy.
    pub(crate) fn crc(&self, bytes: &[u8]) -> u32 {
        if self.checksums {
            forebay_pmem::crc32c(bytes)
        } else {
            0
        }
    }
    pub(crate) fn crc_append(&self, crc: u32, more: &[u8]) -> u32 {
        if self.checksums {
            forebay_pmem::crc32c_append(crc, more)
        } else {
            0
        }
    }
    pub(crate) fn crc_delta(&self, crc: u32, old: &[u8], new: &[u8], tail: usize) -> u32 {
        if self.checksums {
            forebay_pmem::crc32c_combine_delta(crc, old, new, tail)
        } else {
            0
        }
    }
    /// Whether a media error took part of the entry table: what is not found may have been there.
    #[inline]
    pub(crate) fn table_lost(&self) -> bool {
        if self.is_mirrored() {
            // Its entries are in DRAM.
            return false;
        }
        let bytes = self.geometry.entry_offset(0)..self.geometry.lane_area;
        self.main()
            .has_media_error(bytes.start, (bytes.end - bytes.start) as usize)
    }
    /// Whether a media error hit part of this slot.
    pub(crate) fn slot_lost(&self, slot: u32) -> bool {
        self.slot_at(slot).is_lost()
    }

    /// The valid length in a partial slot's last bytes, if it makes sense.
    pub(crate) fn partial_len(&self, slot: u32) -> Option<usize> {
        let mut raw = [0; PARTIAL_TRAILER_BYTES];
        self.read_slot(slot, self.trailer_offset(), &mut raw);
        decode_partial_len(raw).filter(|len| *len <= self.trailer_offset())
    }
    /// Offset of the valid length within a slot.
    pub(crate) fn trailer_offset(&self) -> usize {
        self.geometry.block_bytes as usize - PARTIAL_TRAILER_BYTES
    }
    #[inline]
    pub(crate) fn transaction_limit_bytes(&self) -> u64 {
        self.transaction_limit_bytes
    }
    #[inline]
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }
    pub(crate) fn block_bytes(&self) -> usize {
        self.geometry.block_bytes as usize
    }
}

/// A slot of the medium.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'m> {
    media: &'m Media,
    region: &'m Region,
    offset: u64,
}

impl Slot<'_> {
    /// Copies its start out without looking at it.
    #[inline]
    pub(crate) fn read(self, out: &mut [u8]) {
        self.region.read(self.offset, out);
    }
    /// Copies its start out; returns the CRC32C of what was copied.
    #[inline]
    pub(crate) fn read_crc(self, out: &mut [u8]) -> u32 {
        if self.media.checksums {
            return self.region.read_crc32c(self.offset, out);
        }
        self.read(out);
        0
    }
    /// Whether a media error hit part of it.
    #[inline]
    pub(crate) fn is_lost(self) -> bool {
        let len = self.media.geometry.block_bytes as usize;
        self.region.has_media_error(self.offset, len) && !mutated(Mutant::LostSlotServed)
    }
}

const _: () = assert!(
    PARTIAL_TRAILER_BYTES == 8,
    "the valid length is stored whole"
);

/// The valid length and its complement, so that a flipped bit is seen.
pub(crate) fn encode_partial_len(len: usize) -> [u8; PARTIAL_TRAILER_BYTES] {
    let len = len as u32;
    (u64::from(len) | u64::from(!len) << 32).to_le_bytes()
}

/// The valid length in the last bytes of a partial block, if it makes sense.
pub(crate) fn partial_len_of(block: &[u8]) -> Option<usize> {
    let (rest, raw) = block.split_last_chunk()?;
    decode_partial_len(*raw).filter(|len| *len <= rest.len())
}

fn decode_partial_len(raw: [u8; PARTIAL_TRAILER_BYTES]) -> Option<usize> {
    let word = u64::from_le_bytes(raw);
    (word as u32 == !((word >> 32) as u32)).then_some(word as u32 as usize)
}
