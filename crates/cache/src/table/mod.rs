//! The table: which blocks are cached, where they lie, and how they stand.
//!
//! The truth is the entries, on the medium or in DRAM; everything else here finds them (the index), tells
//! which slots are free or shared (slots, references), and what is to be written back (states). An entry is
//! changed under the lock of its key's stripe, and readers that hold none compare the stripe's version.

pub(crate) mod entries;
mod groups;
mod holders;
pub(crate) mod index;
pub(crate) mod live;
pub(crate) mod pins;
pub(crate) mod references;
mod retired;
pub(crate) mod slot_ref;
pub(crate) mod slots;
mod start;
pub(crate) mod states;
pub(crate) mod word_set_queue;

use crate::media::entry::{CHECK_MASK_SHIFT, Entry, Key, Kind, RawEntry};
use crate::media::{Media, partial_len_of};
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicU64, Ordering};
use entries::Entries;
use holders::Holders;
use index::{Bucket, ENTRIES_PER_LINE, HASH_BITS_SHIFT, Index, Version};
use live::LiveVolumes;
use pins::Pins;
use references::References;
use slot_ref::SlotRef;
use slots::{SlotCache, Slots};
use states::{Dirtied, States};

/// Where a block was copied out from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopiedFrom {
    /// From where it is read first, which is right.
    First,
    /// That is not right. From the other half of a mirror, which is.
    Other,
    /// Nothing that is there matches the check.
    Nowhere,
}

/// What is cached. See the module.
pub(crate) struct Table {
    media: Media,
    entries: Entries,
    index: Index,
    slots: Slots,
    references: References,
    /// Of columns of rows.
    holders: Holders,
    states: States,
    /// One bit for each line of entries that changed without a record, and that the next checkpoint must
    /// flush.
    unlogged_lines: Box<[AtomicU64]>,
    /// Volumes that may be changed.
    live: LiveVolumes,
    /// Blocks that stay while a thread reads around them.
    pins: Pins,
}

impl Table {
    #[inline]
    pub(crate) fn media(&self) -> &Media {
        &self.media
    }
    #[inline]
    pub(crate) fn entries(&self) -> &Entries {
        &self.entries
    }
    #[inline]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }
    #[inline]
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }
    #[inline]
    pub(crate) fn references(&self) -> &References {
        &self.references
    }
    #[inline]
    pub(crate) fn states(&self) -> &States {
        &self.states
    }
    #[inline]
    pub(crate) fn live(&self) -> &LiveVolumes {
        &self.live
    }
    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }
    /// The medium alone, of a pool that is laid out anew.
    pub(crate) fn into_media(self) -> Media {
        self.media
    }

    #[inline]
    pub(crate) fn bucket(&self, key: Key) -> Bucket {
        const _: () = assert!(
            HASH_BITS_SHIFT == CHECK_MASK_SHIFT,
            "for `Entry::hashed_data`"
        );
        self.index.bucket(key.hash())
    }

    /// The key's entry number and what stands there. Exact under the stripe's lock; else to be validated.
    #[inline]
    pub(crate) fn find(&self, bucket: Bucket, key: Key) -> Option<(u32, RawEntry)> {
        self.entries
            .find_in_line(bucket.home, key)
            .or_else(|| self.find_in_chain(bucket, key))
    }

    fn find_in_chain(&self, bucket: Bucket, key: Key) -> Option<(u32, RawEntry)> {
        let mut found = RawEntry::from(Entry::FREE);
        let index = self.index.find(bucket, |candidate| {
            found = self.entries.load(candidate);
            // A damaged entry may be the one that is looked for: better an error than a miss.
            !found.is_free() && (found.key() == key || !found.parity_holds())
        })?;
        Some((index, found))
    }

    /// A free entry for a key of this bucket.
    #[inline]
    pub(crate) fn pop_free_entry(&self, bucket: Bucket) -> Option<u32> {
        self.index.pop_free(bucket.home)
    }

    /// Prefetches what a lookup of a key of this bucket will touch.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: Bucket) {
        self.index.prefetch(bucket);
        self.entries.prefetch(bucket.home);
    }

    /// A consistent look at one key without a lock.
    #[inline]
    pub(crate) fn peek(&self, bucket: Bucket, key: Key) -> (Version, Option<(u32, RawEntry)>) {
        loop {
            let version = self.index.read_begin(bucket.stripe);
            let found = self.find(bucket, key);
            if self.index.read_valid(bucket.stripe, version) {
                return (version, found);
            }
        }
    }

    /// Locks all stripes, ascending, so that no two threads wait for each other in a circle; the list is
    /// sorted, and has each once, afterwards.
    #[inline]
    pub(crate) fn lock_stripes(&self, stripes: &mut Vec<u32>) {
        if stripes.len() > 1 {
            stripes.sort_unstable();
            stripes.dedup();
        }
        for stripe in stripes {
            self.index.lock(*stripe);
        }
    }

    pub(crate) fn unlock_stripes(&self, stripes: &[u32]) {
        for stripe in stripes {
            self.index.unlock(*stripe);
        }
    }

    /// Stores a key's entry; `fresh` if it had none. The caller holds the stripe's lock.
    #[inline(always)]
    pub(crate) fn install(&self, bucket: Bucket, index: u32, entry: Entry, fresh: bool) -> Dirtied {
        self.entries.store(index, entry);
        if fresh {
            self.index.link(bucket, index);
        }
        self.states.mark_dirty(index, !fresh)
    }

    /// Notes that an entry names a column of a row. The caller holds the stripe's lock.
    #[inline]
    pub(crate) fn note_column(&self, slot: u32, index: u32) {
        self.holders.note(slot, index);
    }
    /// The entries that name columns of a row, with their numbers. A look without their locks.
    pub(crate) fn named_columns(&self, row: u32) -> impl Iterator<Item = (u32, Entry)> {
        let columns = self.media.geometry.columns(row);
        columns.filter_map(|slot| {
            let index = self.holders.get(slot);
            let entry = self.media.sound(self.entries.load(index))?;
            (entry.slot() == Some(slot)).then_some((index, entry))
        })
    }

    /// Stores the entry of a clean block that had none, without a record. The caller holds the stripe's lock.
    pub(crate) fn install_clean(&self, bucket: Bucket, index: u32, entry: Entry) {
        self.entries.store(index, entry);
        self.mark_unlogged(index);
        self.index.link(bucket, index);
    }

    /// Stores that the backing has the block: the key half alone, which cannot tear. Without a record: lost in a
    /// crash, or undone by the replay of an older record, it leaves the block merely dirty. The caller holds the
    /// stripe's lock.
    pub(crate) fn mark_clean(&self, index: u32, entry: Entry) {
        self.entries.store_key_half(index, entry.as_clean());
        if self.entries.are_in_dram() {
            self.mark_unlogged(index);
        }
        self.states.unmark_dirty(index);
    }

    /// Takes a key's entry away. The caller holds the stripe's lock.
    #[inline]
    pub(crate) fn unmap(&self, bucket: Bucket, index: u32) {
        self.index.unlink(bucket, index);
        if mutated(Mutant::EvictClearsOneHalf) {
            self.entries.store_key_half(index, Entry::FREE);
        } else {
            self.entries.store(index, Entry::FREE);
        }
    }

    /// Frees an entry that was taken away, and that the replacement policy has forgotten: from here on another
    /// key may have it.
    #[inline]
    pub(crate) fn free_entry(&self, index: u32) {
        self.states.clear(index);
        self.index.push_free(index);
    }

    /// The entry's line goes with the next checkpoint, which finds no record of the change. Call it after
    /// the store: the locked operation orders the store before the checkpoint's look at the bit.
    #[inline]
    pub(crate) fn mark_unlogged(&self, index: u32) {
        let line = index / ENTRIES_PER_LINE;
        self.unlogged_lines[line as usize / 64].fetch_or(1 << (line % 64), Ordering::AcqRel);
    }

    /// Marks every line so: a member lacks them all.
    pub(crate) fn mark_all_unlogged(&self) {
        (0..self.media.geometry.entries)
            .step_by(ENTRIES_PER_LINE as usize)
            .for_each(|index| self.mark_unlogged(index));
    }

    /// The words of those lines, for a checkpoint, which clears them.
    pub(crate) fn unlogged_lines(&self) -> &[AtomicU64] {
        &self.unlogged_lines
    }

    /// How many of the slot's bytes the entry's check covers; `None` if the trailer is damaged.
    #[inline]
    pub(crate) fn valid_bytes(&self, entry: Entry) -> Option<usize> {
        match (entry.kind(), entry.slot()) {
            (Kind::Data, Some(slot)) if entry.is_partial() => self.media.partial_len(slot),
            _ => Some(self.media.block_bytes()),
        }
    }

    /// The same of a block that was copied out and is good: the halves of a mirror may tell differently.
    #[inline]
    pub(crate) fn valid_bytes_of(&self, entry: Entry, block: &[u8]) -> Option<usize> {
        let valid = self.valid_bytes(entry);
        if !entry.is_partial() || !self.media.is_mirrored() {
            return valid;
        }
        let is_right = |len: &usize| self.media.crc(&block[..*len]) == entry.crc();
        let mut other = vec![0; block.len()];
        let has_other = entry
            .slot()
            .is_some_and(|slot| self.media.read_other_half(slot, &mut other));
        let other = has_other.then(|| partial_len_of(&other)).flatten();
        valid.filter(is_right).or(other.filter(is_right))
    }

    /// Whether bytes of the block may be changed in place: its slot has one holder (I8, I10). The
    /// caller holds its key's lock, or asks again when it does.
    #[inline]
    pub(crate) fn may_be_patched(&self, entry: Entry) -> bool {
        let is_sole = |slot| self.references.is_sole(slot) || mutated(Mutant::SharedSlotPatched);
        entry.is_plain() && entry.slot().is_some_and(is_sole) && self.is_protected(entry)
    }

    /// Whether the block is wherever what the backing lacks must be: a change in place, or another block that rests
    /// on it, makes it one of those. The caller holds its key's lock, or asks again when it does.
    #[inline]
    pub(crate) fn is_protected(&self, entry: Entry) -> bool {
        entry
            .slot()
            .is_none_or(|slot| self.media.is_protected(slot))
    }

    /// Whether another block may rest on what this leads to: of a packed block the base, too, is wherever it must be.
    pub(crate) fn is_all_protected(&self, slot_ref: SlotRef) -> bool {
        !self.media.is_mirrored()
            || self
                .slots_under(slot_ref)
                .all(|slot| self.media.is_protected(slot))
    }

    /// The slots that a block lies in: its own and, of a packed one, its base.
    pub(crate) fn slots_under(&self, slot_ref: SlotRef) -> impl Iterator<Item = u32> {
        let slot = slot_ref.slot();
        let base = slot_ref.is_packed().then(|| self.base_of(slot)).flatten();
        std::iter::once(slot).chain(base)
    }

    /// Whether a published block lies in the slot, or rests on it. A look without a lock: none that has been published, and
    /// is still there, is missed.
    #[cold]
    pub(crate) fn is_held(&self, slot: u32) -> bool {
        let mut entries = (0..self.media.geometry.entries).map(|index| self.entries.load(index));
        entries.any(|raw| self.lies_in(raw, |of_block| of_block == slot))
    }

    /// Whether this holds of a slot that the block of an entry lies in.
    pub(crate) fn lies_in(&self, raw: RawEntry, mut is_it: impl FnMut(u32) -> bool) -> bool {
        let slot_ref = self.media.sound(raw).and_then(SlotRef::of);
        slot_ref.is_some_and(|slot_ref| self.slots_under(slot_ref).any(&mut is_it))
    }

    /// Copies a block out, zeroes beyond its valid length; whether it matches its check.
    /// What was copied, and what is said of it, counts only if the stripe's version stands afterwards.
    #[inline]
    pub(crate) fn copy_out(&self, entry: Entry, verify: bool, out: &mut [u8]) -> CopiedFrom {
        if self.copy_first(entry, verify, out) {
            return CopiedFrom::First;
        }
        match self.media.is_mirrored() && self.copy_other(entry, out) {
            // Nothing is wrong with it: its member is out.
            true if entry
                .slot()
                .is_some_and(|slot| self.media.is_column_absent(slot)) =>
            {
                CopiedFrom::First
            }
            true => CopiedFrom::Other,
            false => CopiedFrom::Nowhere,
        }
    }

    /// The same from the halves that are not read first.
    #[cold]
    fn copy_other(&self, entry: Entry, out: &mut [u8]) -> bool {
        let Some(slot) = entry.slot() else {
            return false;
        };
        if let Some(column) = self.media.column_of(slot) {
            let is_told = entry.is_plain() && self.media.read_column_of_others(column, out);
            return is_told && self.media.crc(out) == entry.crc();
        }
        if entry.is_packed() {
            return self.media.read_packed_elsewhere(slot, entry.crc(), out);
        }
        if !self.media.read_other_half(slot, out) {
            // The first one may have been of a member that went out since, and is another one now.
            return self.copy_first(entry, true, out);
        }
        let valid = match entry.is_partial() {
            true => partial_len_of(out),
            false => Some(out.len()),
        };
        let Some(valid) = valid else {
            return false;
        };
        out[valid..].fill(0);
        self.media.crc(&out[..valid]) == entry.crc()
    }

    #[inline]
    fn copy_first(&self, entry: Entry, verify: bool, out: &mut [u8]) -> bool {
        let Some(slot) = entry.slot() else {
            out.fill(0);
            return true;
        };
        let is_good = if entry.is_packed() {
            self.media.read_packed(slot, out) && (!verify || self.media.crc(out) == entry.crc())
        } else if !entry.is_partial() {
            if verify {
                self.media.read_slot_crc(slot, out) == entry.crc()
            } else {
                self.media.read_slot(slot, 0, out);
                true
            }
        } else {
            let Some(valid) = self.media.partial_len(slot) else {
                return false;
            };
            out[valid..].fill(0);
            self.media.read_slot_crc(slot, &mut out[..valid]) == entry.crc()
        };
        // A page that the medium lost reads as zeroes; without checksums only this tells.
        is_good && !self.media.slot_lost(slot)
    }

    /// A holder releases a slot: a mapping whose removal is fenced (I2), or a thread that held it for a
    /// commit that did not come about. The last one's slot is free, and its base has a holder less.
    #[inline(always)]
    pub(crate) fn release_slot(&self, slot_ref: SlotRef, slot_cache: &SlotCache<'_>) {
        if slot_ref.is_packed() {
            return self.release_packed(slot_ref.slot(), slot_cache);
        }
        if !self.release_leaves_holders(slot_ref.slot()) {
            self.free_slot(slot_ref.slot(), slot_cache);
        }
    }

    /// The same for several mappings, all of them removed. A slot is held by way of a mapping or a holder that
    /// stays, so one look tells whether any of these has another holder or can still come to have one.
    #[inline(always)]
    pub(crate) fn release_slots(
        &self,
        slot_refs: impl Iterator<Item = SlotRef>,
        slot_cache: &SlotCache<'_>,
    ) {
        let are_shared = self.references.are_any_shared();
        for slot_ref in slot_refs {
            if are_shared || slot_ref.is_packed() {
                self.release_slot(slot_ref, slot_cache);
            } else {
                self.free_slot(slot_ref.slot(), slot_cache);
            }
        }
    }

    #[cold]
    fn release_packed(&self, slot: u32, slot_cache: &SlotCache<'_>) {
        if self.release_leaves_holders(slot) {
            return;
        }
        let base = self.base_of(slot);
        self.free_slot(slot, slot_cache);
        if let Some(base) = base {
            // A base is plain, so this ends here.
            self.release_slot(SlotRef::plain(base), slot_cache);
        }
    }

    /// A holder releases the slot; whether others still hold it.
    #[inline(always)]
    fn release_leaves_holders(&self, slot: u32) -> bool {
        !self.references.release(slot) && !mutated(Mutant::SharedSlotFreed)
    }

    #[inline(always)]
    fn free_slot(&self, slot: u32, slot_cache: &SlotCache<'_>) {
        self.references.clear_patched(slot);
        slot_cache.give(slot);
    }

    #[cold]
    fn base_of(&self, slot: u32) -> Option<u32> {
        // A header that the media has changed names no base; the base stays held until the next incarnation.
        self.media.packing(slot)?.base
    }

    #[inline]
    pub(crate) fn state(&self, index: u32) -> u8 {
        self.states.get(index)
    }
    #[inline]
    pub(crate) fn set_state(&self, index: u32, state: u8) {
        self.states.set(index, state);
    }

    /// The entries of a volume that are dirty.
    pub(crate) fn dirty_entries(&self, id: u32) -> impl Iterator<Item = u32> {
        (0..self.media.geometry.entries).filter(move |index| {
            self.states.is_dirty(*index) && self.entries.load(*index).key().volume() == id
        })
    }

    /// Bytes of DRAM in the structures that grow with the pool.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.entries.dram_bytes()
            + self.index.dram_bytes()
            + self.slots.dram_bytes()
            + self.references.dram_bytes()
            + self.holders.dram_bytes()
            + self.states.dram_bytes()
            + self.unlogged_lines.len() as u64 * 8
    }
}
