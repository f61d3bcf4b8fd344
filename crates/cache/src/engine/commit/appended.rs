//! The commit of an append and at most one changed word of another block; its decisions stay in registers.
//! A file grows this way: bytes at its end, and its size elsewhere.
//!
//! Bytes that reach the end of the block make it a whole block in place. Until then its last bytes are the
//! partial trailer, which stays valid if the commit does not happen. So the bytes that replace the trailer
//! travel in the record, as a delta that follows the append, and are stored after the fence.

use super::shape::Shape;
use crate::engine::Engine;
use crate::engine::change::Outcome;
use crate::error::Result;
use crate::log::lanes::HeldLane;
use crate::log::record::{ElementKind, SmallRecord};
use crate::media::encode_partial_len;
use crate::media::entry::{Entry, Key};
use crate::media::layout::{LINE_BYTES, PARTIAL_TRAILER_BYTES};
use crate::mutants::{Mutant, mutated};
use crate::table::index::Bucket;

const LINE: usize = LINE_BYTES as usize;

/// Bytes to append to a cached partial block whose valid bytes end at `at`.
pub(crate) struct Append<'a> {
    pub(crate) key: Key,
    pub(crate) bucket: Bucket,
    pub(crate) at: usize,
    pub(crate) bytes: &'a [u8],
}

/// A word to change in another cached block.
pub(crate) struct WordPatch {
    pub(crate) key: Key,
    pub(crate) bucket: Bucket,
    pub(crate) offset: usize,
    pub(crate) bytes: [u8; 8],
}

/// A block's new entry, decided under its lock.
struct Step {
    index: u32,
    slot: u32,
    entry: Entry,
}

/// How an append is carried out.
struct Growth<'a> {
    step: Step,
    at: usize,
    /// The bytes that go behind the valid ones, up to the trailer, and the entry of the block with these.
    body: &'a [u8],
    partial: Entry,
    /// The block's last bytes, in the trailer's place, if the block becomes whole.
    last: Option<[u8; PARTIAL_TRAILER_BYTES]>,
}

/// An append, perhaps with a word elsewhere, and how they are carried out.
struct Appended<'a> {
    append: &'a Append<'a>,
    patch: Option<&'a WordPatch>,
    growth: Option<Growth<'a>>,
    word: Option<Step>,
}

impl Engine {
    /// Commits both or neither. Returns false, with nothing changed, if a change in place is impossible: the
    /// block is not a cached partial one whose valid bytes end at `at`, it lacks the room, or the other block
    /// cannot be changed in place.
    pub(crate) fn commit_append(
        &self,
        append: &Append<'_>,
        patch: Option<&WordPatch>,
    ) -> Result<bool> {
        self.check_writable()?;
        let shape = Appended {
            append,
            patch,
            growth: None,
            word: None,
        };
        let outcome = self.commit_batch(shape)?;
        Ok(outcome != Outcome::Stale)
    }

    /// Plans the append, if the bytes may be appended in place.
    #[inline]
    fn plan_growth<'a>(&self, append: &Append<'a>) -> Result<Option<Growth<'a>>> {
        let Some((index, raw)) = self.table.find(append.bucket, append.key) else {
            return Ok(None);
        };
        let Some(now) = self.media().sound(raw) else {
            return Ok(None);
        };
        let (at, end) = (append.at, append.at + append.bytes.len());
        let trailer = self.media().trailer_offset();
        let is_end = now.is_partial() && self.table.valid_bytes(now) == Some(at);
        let is_whole = end == self.block_bytes();
        // A block that is changed in place must have one holder (I10); no partial block is shared.
        if !is_end || !self.table.is_protected(now) || !(end <= trailer || is_whole) {
            return Ok(None);
        }
        self.table.states().prefetch(index);
        self.check_attached(append.key)?;
        let slot = now.slot().expect("partial blocks have slots");
        let (body, last) = append.bytes.split_at(end.min(trailer) - at);
        let crc = self.media().crc_append(now.crc(), body);
        let partial = Entry::data(append.key, slot, crc).as_partial();
        let last: Option<[u8; PARTIAL_TRAILER_BYTES]> = last.try_into().ok();
        let entry = match &last {
            Some(last) => Entry::data(append.key, slot, self.media().crc_append(crc, last)),
            None => partial,
        };
        Ok(Some(Growth {
            step: Step { index, slot, entry },
            at,
            body,
            partial,
            last,
        }))
    }

    /// Plans the change of the word, if its block may be changed in place.
    #[inline]
    fn plan_word(&self, patch: &WordPatch) -> Option<Step> {
        let (index, raw) = self.table.find(patch.bucket, patch.key)?;
        let now = self.media().sound(raw)?;
        if !self.table.may_be_patched(now) {
            return None;
        }
        let slot = now.slot()?;
        let mut old = [0; 8];
        if !self.read_settled(now, slot, patch.offset, &mut old) {
            return None;
        }
        let tail = self.block_bytes() - patch.offset - old.len();
        let crc = self.media().crc_delta(now.crc(), &old, &patch.bytes, tail);
        let entry = Entry::data(patch.key, slot, crc);
        Some(Step { index, slot, entry })
    }

    /// Part of step 5: streams the bytes straight behind the valid ones, where no reader looks (I1). Lines
    /// that the bytes fill in part keep their other bytes.
    #[inline]
    fn stage_growth(&self, growth: &Growth<'_>) {
        let slot = growth.step.slot;
        let (mut at, mut rest) = (growth.at, growth.body);
        while !rest.is_empty() {
            let within = at % LINE;
            if within == 0 && rest.len() >= LINE {
                let whole = rest.len() / LINE * LINE;
                self.media().stream_slot_lines(slot, at, &rest[..whole]);
                (at, rest) = (at + whole, &rest[whole..]);
                continue;
            }
            let len = rest.len().min(LINE - within);
            self.media()
                .stream_into_line(slot, at - within, within, &rest[..len]);
            (at, rest) = (at + len, &rest[len..]);
        }
    }

    /// Stores in place, after the fence of the redo bytes (I8): the last bytes or the valid length, and the
    /// other word. The next checkpoint learns from the record which lines to flush.
    #[inline]
    fn apply_growth(&self, growth: &Growth<'_>, patched: Option<(&WordPatch, &Step)>) {
        let slot = growth.step.slot;
        let trailer = self.media().trailer_offset();
        match &growth.last {
            Some(last) => {
                self.media().store_slot(slot, trailer, last);
                if !mutated(Mutant::CompletedAppendUnmarked) {
                    self.table.references().mark_patched(slot);
                }
            }
            None => {
                let valid = encode_partial_len(growth.at + growth.body.len());
                self.media().store_slot(slot, trailer, &valid);
            }
        }
        if let Some((patch, step)) = patched {
            let references = &self.table.references();
            assert!(
                references.is_sole(step.slot) || mutated(Mutant::SharedSlotPatched),
                "a slot that is changed in place has one holder"
            );
            if !references.is_patched(step.slot) {
                references.mark_patched(step.slot);
            }
            self.media()
                .store_slot(step.slot, patch.offset, &patch.bytes);
        }
    }
}

impl<'a> Appended<'a> {
    #[inline(always)]
    fn growth(&self) -> &Growth<'a> {
        self.growth.as_ref().expect("it was planned")
    }
    #[inline(always)]
    fn patched(&self) -> Option<(&'a WordPatch, &Step)> {
        Some((self.patch?, self.word.as_ref()?))
    }
}

impl Shape for Appended<'_> {
    type Stripes = (u32, Option<u32>);

    #[inline(always)]
    fn record_bytes(&self) -> u64 {
        SmallRecord::BYTES_MAX
    }

    #[inline(always)]
    fn stripes(&mut self) -> (u32, Option<u32>) {
        let first = self.append.bucket.stripe;
        match self.patch.map(|patch| patch.bucket.stripe) {
            Some(second) if second < first => (second, Some(first)),
            Some(second) if second > first => (first, Some(second)),
            _ => (first, None),
        }
    }

    #[inline(always)]
    fn plan(&mut self, engine: &Engine) -> Result<Option<Outcome>> {
        self.growth = engine.plan_growth(self.append)?;
        if self.growth.is_none() {
            return Ok(Some(Outcome::Stale));
        }
        if let Some(patch) = self.patch {
            self.word = engine.plan_word(patch);
            if self.word.is_none() {
                return Ok(Some(Outcome::Stale));
            }
        }
        Ok(None)
    }

    #[inline(always)]
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64 {
        let (log, media) = (&engine.log, engine.media());
        let header = log.header(lane, sequence);
        let growth = self.growth();
        engine.stage_growth(growth);
        let mut record = SmallRecord::new();
        let Step { index, entry, .. } = growth.step;
        let valid_bytes = (growth.at + growth.body.len()) as u32;
        record.element(growth.partial, index, ElementKind::Append { valid_bytes });
        let word = |offset: usize| ElementKind::Delta {
            offset: offset as u16,
            len: 8,
        };
        if growth.last.is_some() {
            record.element(entry, index, word(media.trailer_offset()));
        }
        if let Some((patch, step)) = self.patched() {
            record.element(step.entry, step.index, word(patch.offset));
        }
        growth.last.into_iter().for_each(|last| record.redo(last));
        if let Some((patch, _)) = self.patched() {
            record.redo(patch.bytes);
        }
        let (offset, record) = (log.record_offset(media, lane), record.sealed(&header));
        media.on_metadata(|region| record.stream(region, offset));
        record.bytes
    }

    #[inline(always)]
    fn appends(&self) -> bool {
        true
    }

    #[inline(always)]
    fn publish(&self, engine: &Engine) {
        let Step { index, entry, .. } = self.growth().step;
        engine.publish_block(self.append.bucket, index, entry, false);
        if let Some((patch, step)) = self.patched() {
            engine.publish_block(patch.bucket, step.index, step.entry, false);
        }
    }

    #[inline(always)]
    fn apply_in_place(&self, engine: &Engine) {
        engine.apply_growth(self.growth(), self.patched());
    }

    #[inline(always)]
    fn effects(&self) -> usize {
        1
    }
}
