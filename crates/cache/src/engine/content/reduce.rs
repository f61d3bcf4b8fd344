//! Probing a whole block before it is written: whether less than all of it need be stored.

use crate::engine::Engine;
use crate::engine::change::Patch;
use crate::log::lanes::thread_hint;
use crate::media::entry::{Entry, Key, Kind};
use crate::media::layout::{LINE_BYTES, PACKED_HEADER_BYTES};
use crate::media::packed::Packing;
use crate::media::packed::piece_bytes;
use crate::mutants::{Mutant, mutated};
use crate::policy::candidates::Sketch;
use crate::policy::candidates::may_be_sparse;
use crate::policy::predictor::Sought;
use crate::table::index::{Bucket, Version};
use crate::table::slot_ref::SlotRef;
use crate::table::states::STATE_DIFFERS;

/// Bytes of a slot that are compared at once; a difference within the first few ends most comparisons.
const COMPARE_BYTES: usize = 512;
/// A block that differed last time is compared again once in this many writes.
const DIFFERED_PERIOD: u64 = 8;

/// What to look for in a block.
#[derive(Clone, Copy)]
pub(crate) struct ProbeResult {
    /// One equal to it, or like it.
    duplicates: bool,
    /// Few bytes that differ from what is cached of it.
    changes: bool,
    /// Whether it is zero for the most part.
    sparse: bool,
}

impl ProbeResult {
    /// Whether there is anything to look for.
    #[inline(always)]
    pub(crate) fn is_worth_it(self) -> bool {
        self.duplicates | self.changes | self.sparse
    }
    /// Whether duplicates are looked for.
    #[inline]
    pub(crate) fn finds_duplicates(self) -> bool {
        self.duplicates
    }
}

/// What a probed block may be stored as. Slots named here are held for it.
pub(crate) enum Finding {
    /// Whole.
    Whole,
    /// The slot that has the same bytes.
    Duplicate(SlotRef),
    /// Packed, on a base that is held.
    Packed(Packing),
    /// Patches of what the key has at this version of its stripe.
    Patches(Vec<Patch>, Version),
}

/// A block that was probed.
pub(crate) struct Reduced {
    pub(crate) finding: Finding,
    /// The CRC of the block, if it was needed.
    pub(crate) crc: u32,
    /// What it looks like, where that may be looked up.
    pub(crate) sketch: Option<Sketch>,
}

impl Engine {
    /// What to look for in a block.
    #[inline(always)]
    pub(crate) fn probe(&self, block: &[u8]) -> ProbeResult {
        let content = &self.content;
        let compares = content.compares_writes();
        let luck = content.predictor.probe();
        ProbeResult {
            duplicates: luck.duplicates,
            changes: compares && luck.changes,
            sparse: compares && may_be_sparse(block),
        }
    }

    /// Looks at a block that the key is to have.
    #[cold]
    pub(crate) fn reduce(
        &self,
        key: Key,
        bucket: Bucket,
        block: &[u8],
        probed: ProbeResult,
    ) -> Reduced {
        let content = &self.content;
        let mut reduced = Reduced {
            finding: Finding::Whole,
            crc: 0,
            sketch: None,
        };
        let shares =
            probed.duplicates && content.shares_duplicates() && self.media().has_checksums();
        if shares {
            reduced.crc = self.media().crc(block);
            if let Some(duplicate) = self.find_duplicate(block, reduced.crc) {
                reduced.finding = Finding::Duplicate(duplicate);
                return self.found(reduced);
            }
        }
        if probed.sparse
            && let Some(pieces) = few_pieces(block)
        {
            let packing = Packing { pieces, base: None };
            reduced.finding = Finding::Packed(packing);
            return self.found(self.with_crc(reduced, block, shares));
        }
        if probed.changes
            && let Some(finding) = self.find_patches(key, bucket, block, false)
        {
            content.predictor.found(Sought::Changes);
            reduced.finding = finding;
            return self.with_crc(reduced, block, shares);
        }
        if probed.duplicates && content.compares_writes() {
            let sketch = Sketch::of(block);
            reduced.sketch = Some(sketch);
            if let Some(finding) = self.find_similar(key, bucket, block, sketch) {
                reduced.finding = finding;
                return self.found(self.with_crc(reduced, block, shares));
            }
        }
        if probed.duplicates {
            content.predictor.found_nothing(Sought::Duplicates);
        }
        reduced
    }

    fn with_crc(&self, mut reduced: Reduced, block: &[u8], is_known: bool) -> Reduced {
        if !is_known {
            reduced.crc = self.media().crc(block);
        }
        reduced
    }

    fn found(&self, reduced: Reduced) -> Reduced {
        self.content.predictor.found(Sought::Duplicates);
        reduced
    }

    /// A slot with exactly these bytes, held.
    fn find_duplicate(&self, block: &[u8], crc: u32) -> Option<SlotRef> {
        let mask = self.content.duplicate_mask;
        let index = self.content.candidates.duplicate(crc & mask)?;
        let may_be_equal = |entry: Entry| (entry.crc() ^ crc) & mask == 0;
        let (entry, slot_ref) = self.hold_slot_of(index, may_be_equal)?;
        let is_equal = if entry.is_packed() {
            let mut found = vec![0; block.len()];
            self.media().read_packed(slot_ref.slot(), &mut found) && found == block
        } else {
            self.differing_pieces(slot_ref.slot(), block, 0).is_some()
        };
        // Of another check it has other bytes, whatever was read.
        let is_equal = is_equal && entry.crc() == crc;
        let is_equal = is_equal || mutated(Mutant::DuplicateTrustedByCrc);
        // A page that the medium lost reads as zeroes.
        if is_equal && !self.media().slot_lost(slot_ref.slot()) {
            return Some(slot_ref);
        }
        self.table
            .release_slot(slot_ref, &self.table.slots().slot_cache(thread_hint()));
        None
    }

    /// How to store the block as what it does not have in common with one like it: packed, on a base
    /// that is held; or as patches, if that one is its own.
    fn find_similar(
        &self,
        key: Key,
        bucket: Bucket,
        block: &[u8],
        sketch: Sketch,
    ) -> Option<Finding> {
        let index = self.content.candidates.similar(sketch)?;
        let like = self.media().sound(self.table.entries().load(index))?;
        if like.key() == key && !like.is_packed() {
            // As a base, the slot that the key leaves would be held for it alone.
            let finding = self.find_patches(key, bucket, block, true)?;
            self.content.predictor.found(Sought::Changes);
            return Some(finding);
        }
        let (entry, slot_ref) = self.hold_slot_of(index, |_| true)?;
        let slot_cache = || self.table.slots().slot_cache(thread_hint());
        let base = if entry.is_packed() {
            // As long as we hold the slot, it holds its base.
            let base = self.media().packing(slot_ref.slot()).and_then(|p| p.base);
            let held = base.filter(|base| {
                self.media().is_protected(*base) && self.table.references().hold(*base)
            });
            self.table.release_slot(slot_ref, &slot_cache());
            held?
        } else {
            slot_ref.slot()
        };
        let pieces_max = packed_pieces_max(block.len());
        match self.differing_pieces(base, block, pieces_max) {
            Some(pieces) if !self.media().slot_lost(base) && self.is_base(base, block, pieces) => {
                let base = Some(base);
                Some(Finding::Packed(Packing { pieces, base }))
            }
            _ => {
                self.table.release_slot(SlotRef::plain(base), &slot_cache());
                None
            }
        }
    }

    /// Holds the slot that an entry names, if it may be shared. What the slot holds was fenced before it
    /// was published, and no thread changes it while it has another holder (I10).
    fn hold_slot_of(&self, index: u32, wanted: impl Fn(Entry) -> bool) -> Option<(Entry, SlotRef)> {
        let sound = || self.media().sound(self.table.entries().load(index));
        let may_be_shared =
            |entry: &Entry| !entry.is_free() && !entry.is_partial() && wanted(*entry);
        let entry = sound().filter(may_be_shared)?;
        if entry.kind() != Kind::Data {
            return None;
        }
        let slot_ref = SlotRef::of(entry)?;
        let references = &self.table.references();
        let stripe = self.table.bucket(entry.key()).stripe;
        crate::sync::look_hint();
        // Not worth a wait: its holder may be in the midst of a fence.
        if !self.table.index().try_lock(stripe) {
            return None;
        }
        // Under its key's lock the mapping stays, so its slot has a holder.
        let still = sound().is_some_and(|now| {
            now.key() == entry.key() && SlotRef::of(now) == Some(slot_ref) && may_be_shared(&now)
        });
        let still = still || mutated(Mutant::HeldWithoutRecheck);
        let is_whole =
            !references.is_patched(slot_ref.slot()) || mutated(Mutant::PatchedSlotShared);
        let held = still
            && is_whole
            && self.table.is_all_protected(slot_ref)
            && (mutated(Mutant::SharedWithoutHold) || references.hold(slot_ref.slot()));
        self.table.index().unlock(stripe);
        held.then_some((entry, slot_ref))
    }

    /// The bytes that differ from what is cached of the key, if they are few and may be changed in
    /// place. Where they were many last time it mostly is not worth it.
    fn find_patches(
        &self,
        key: Key,
        bucket: Bucket,
        block: &[u8],
        is_likely: bool,
    ) -> Option<Finding> {
        let (version, found) = self.table.peek(bucket, key);
        let (index, raw) = found?;
        let entry = self.media().sound(raw).filter(|entry| entry.is_plain())?;
        let slot = entry.slot()?;
        if !self.table.references().is_sole(slot) || !self.table.is_protected(entry) {
            return None;
        }
        let differed = self.table.state(index) & STATE_DIFFERS != 0;
        let turn = key.hash().wrapping_add(version.turn());
        if differed && !is_likely && !turn.is_multiple_of(DIFFERED_PERIOD) {
            return None;
        }
        let pieces_max = (block.len() / piece_bytes(block.len()) / 8).max(1);
        let pieces = self.differing_pieces(slot, block, pieces_max);
        let pieces = pieces.filter(|_| !self.media().slot_lost(slot));
        if pieces.is_none() != differed {
            self.remember(bucket, key, pieces.is_none());
        }
        let Some(pieces) = pieces else {
            self.content.predictor.found_nothing(Sought::Changes);
            return None;
        };
        let patches = self.patches(slot, block, pieces);
        crate::sync::look_hint();
        if !self.makes(slot, &patches, block) {
            return None;
        }
        Some(Finding::Patches(patches, version))
    }

    /// Whether the other half of a slot, too, differs from the block in these pieces alone, where there is one.
    fn is_base(&self, slot: u32, block: &[u8], pieces: u64) -> bool {
        self.other_half_agrees(slot, |other| {
            let bytes = piece_bytes(block.len());
            let mut pairs = (0..).zip(block.chunks_exact(bytes).zip(other.chunks_exact(bytes)));
            pairs.all(|(number, (new, old))| pieces >> number & 1 != 0 || new == old)
        })
    }

    /// Whether these patches make the block of the other half of a slot, too, where there is one.
    fn makes(&self, slot: u32, patches: &[Patch], block: &[u8]) -> bool {
        self.other_half_agrees(slot, |other| {
            for Patch { offset, bytes } in patches {
                other[*offset..offset + bytes.len()].copy_from_slice(bytes);
            }
            other == block
        })
    }

    /// Whether what was found of one half of a slot holds of the other one, too. What one member returns may be from
    /// elsewhere, and both halves of what is committed would rest on it.
    fn other_half_agrees(&self, slot: u32, agrees: impl FnOnce(&mut [u8]) -> bool) -> bool {
        if !self.media().is_mirrored() {
            return true;
        }
        let mut other = vec![0; self.block_bytes()];
        self.media().read_other_half(slot, &mut other) && agrees(&mut other)
    }

    /// Remembers whether the key's block differed, if that takes no wait.
    fn remember(&self, bucket: Bucket, key: Key, differs: bool) {
        if !self.table.index().try_lock(bucket.stripe) {
            return;
        }
        if let Some((index, _)) = self.table.find(bucket, key) {
            let others = self.table.state(index) & !STATE_DIFFERS;
            self.table
                .set_state(index, others | if differs { STATE_DIFFERS } else { 0 });
        }
        self.table.index().unlock(bucket.stripe);
    }

    /// One bit for each piece in which the block differs from a slot; `None` if they are more than
    /// `pieces_max`. What was read may be changing: it counts only if the version stands later, or
    /// the slot is held.
    fn differing_pieces(&self, slot: u32, block: &[u8], pieces_max: usize) -> Option<u64> {
        let piece_bytes = piece_bytes(block.len());
        let chunk_bytes = COMPARE_BYTES.max(piece_bytes).min(block.len());
        let mut buffer = [0; 2 * COMPARE_BYTES];
        let buffer = &mut buffer[..chunk_bytes];
        let (mut pieces, mut number) = (0u64, 0);
        for (chunk, at) in block
            .chunks_exact(chunk_bytes)
            .zip((0..).step_by(chunk_bytes))
        {
            self.media().read_slot(slot, at, buffer);
            if chunk == buffer {
                number += (chunk_bytes / piece_bytes) as u32;
                continue;
            }
            let pairs = chunk.chunks_exact(piece_bytes);
            for (new, old) in pairs.zip(buffer.chunks_exact(piece_bytes)) {
                pieces |= u64::from(differ(new, old)) << number;
                number += 1;
            }
            if pieces.count_ones() as usize > pieces_max {
                return None;
            }
        }
        Some(pieces)
    }

    /// The bytes of differing pieces, neighbours together, without equal bytes at either end.
    fn patches(&self, slot: u32, block: &[u8], pieces: u64) -> Vec<Patch> {
        let piece_bytes = piece_bytes(block.len());
        let mut patches: Vec<Patch> = Vec::new();
        let mut old = Vec::new();
        let mut number = 0;
        while pieces >> number != 0 {
            let start = number + (pieces >> number).trailing_zeros();
            let end = start + (pieces >> start).trailing_ones();
            let range = start as usize * piece_bytes..end as usize * piece_bytes;
            old.resize(range.len(), 0);
            self.media().read_slot(slot, range.start, &mut old);
            let new = &block[range.clone()];
            let differs = |at: &usize| new[*at] != old[*at];
            if let (Some(first), Some(last)) = (
                (0..new.len()).find(differs),
                (0..new.len()).rev().find(differs),
            ) {
                patches.push(Patch {
                    offset: range.start + first,
                    bytes: new[first..=last].to_vec(),
                });
            }
            if end == u64::BITS {
                break;
            }
            number = end;
        }
        patches
    }
}

/// Whether two pieces differ. They are a few lines long: no call, no early end.
#[inline]
fn differ(one: &[u8], other: &[u8]) -> bool {
    let words = |bytes: &[u8], at| {
        let mut raw = [0; 8];
        raw.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(raw)
    };
    let lines = one.chunks_exact(LINE_BYTES as usize);
    lines
        .zip(other.chunks_exact(LINE_BYTES as usize))
        .any(|(one, other)| {
            let differences = |sum, at| sum | words(one, at) ^ words(other, at);
            (0..LINE_BYTES as usize).step_by(8).fold(0, differences) != 0
        })
}

/// Pieces that a packed block has at most: fewer lines than three in eight of the block's.
fn packed_pieces_max(block_bytes: usize) -> usize {
    let bytes_max = block_bytes * 3 / 8;
    let pieces = bytes_max.saturating_sub(PACKED_HEADER_BYTES) / piece_bytes(block_bytes);
    // Tiny blocks gain nothing, but are what the crash checker runs on.
    pieces.max(1)
}

/// The pieces of the block that are not zero, if they are few.
fn few_pieces(block: &[u8]) -> Option<u64> {
    let pieces_max = packed_pieces_max(block.len());
    let mut pieces = 0u64;
    for (number, piece) in block.chunks_exact(piece_bytes(block.len())).enumerate() {
        let is_zero = piece.iter().all(|byte| *byte == 0);
        pieces |= u64::from(!is_zero) << number;
        if pieces.count_ones() as usize > pieces_max {
            return None;
        }
    }
    Some(pieces)
}
