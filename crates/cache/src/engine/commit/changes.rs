//! The commit of changes of all kinds. What it gathers lies in memory that its caller reuses.

use super::shape::{Ascending, Shape};
use crate::engine::Engine;
use crate::engine::change::{Action, Change, Outcome, record_bound};
use crate::engine::plan::{Plan, Scratch, push_elements};
use crate::error::Result;
use crate::log::lanes::{HeldLane, thread_hint};
use crate::log::record;
use crate::media::encode_partial_len;
use crate::media::entry::Entry;
use crate::media::layout::LINE_BYTES;
use crate::mutants::{Mutant, mutated};
use crate::table::slots::SlotCache;

/// Changes of any kind, at most one for each key.
struct Changes<'a> {
    slot_cache: &'a SlotCache<'a>,
    changes: &'a [Change],
    data: &'a [u8],
    /// Memory for the stripes; taken by `stripes`.
    stripes: Option<&'a mut Vec<u32>>,
    plan: &'a mut Plan,
}

impl Engine {
    /// Commits changes that need no new slot.
    pub(crate) fn commit_mappings(&self, changes: &[Change]) -> Result<Outcome> {
        let slot_cache = self.table.slots().slot_cache(thread_hint());
        self.commit(changes, &[], &slot_cache, &mut Scratch::default())
    }

    /// Commits all changes or none. On `Done` they are durable and published, and the private slots that
    /// actions name belong to the pool; otherwise they remain the caller's. Slots that lose their
    /// last mapping go into `slot_cache`. The caller holds it throughout, so that no lock has to be taken
    /// between the non-temporal stores and their fence.
    pub(crate) fn commit(
        &self,
        changes: &[Change],
        data: &[u8],
        slot_cache: &SlotCache<'_>,
        scratch: &mut Scratch,
    ) -> Result<Outcome> {
        self.check_writable()?;
        if changes.is_empty() {
            return Ok(Outcome::Done(0));
        }
        let shape = Changes {
            slot_cache,
            changes,
            data,
            stripes: Some(&mut scratch.stripes),
            plan: &mut scratch.plan,
        };
        self.commit_batch(shape)
    }
}

impl<'a> Shape for Changes<'a> {
    type Stripes = Ascending<'a>;

    #[inline]
    fn record_bytes(&self) -> u64 {
        record_bound(self.changes)
    }

    #[inline]
    fn stripes(&mut self) -> Ascending<'a> {
        let memory = self.stripes.take().expect("they are asked for once");
        let stripes = self.changes.iter().map(|change| change.bucket.stripe);
        Ascending::of(stripes, memory)
    }

    #[inline]
    fn plan(&mut self, engine: &Engine) -> Result<Option<Outcome>> {
        if let Some(outcome) = engine.plan(self.changes, self.plan)? {
            return Ok(Some(outcome));
        }
        let has_effect = !self.plan.steps.is_empty();
        Ok((!has_effect).then_some(Outcome::Done(0)))
    }

    #[inline]
    fn stream(&mut self, engine: &Engine, lane: &HeldLane<'_>, sequence: u64) -> u64 {
        self.stream_fresh(engine);
        self.stage_appends(engine);
        let plan = &mut *self.plan;
        let header = engine.log.header(lane, sequence);
        record::encode(&header, &plan.elements, &plan.payload, &mut plan.record);
        let offset = engine.log.record_offset(engine.media(), lane);
        engine
            .media()
            .on_metadata(|region| region.stream(offset, &plan.record));
        plan.record.len() as u64
    }

    #[inline]
    fn appends(&self) -> bool {
        let is_append = |change: &Change| matches!(change.action, Action::Append { .. });
        self.changes.iter().any(is_append)
    }

    #[inline]
    fn publish(&self, engine: &Engine) {
        for step in &self.plan.steps {
            engine.publish_entry(self.changes[step.change].bucket, &step.effect);
        }
    }

    /// Partial blocks get their valid length, too. The next checkpoint learns from the record which lines
    /// to flush.
    #[inline]
    fn apply_in_place(&self, engine: &Engine) {
        for step in &self.plan.steps {
            let Some(slot) = step.effect.entry.slot() else {
                continue;
            };
            match &self.changes[step.change].action {
                Action::Delta { patches, .. } => {
                    let references = engine.table.references();
                    assert!(
                        references.is_sole(slot) || mutated(Mutant::SharedSlotPatched),
                        "a slot that is changed in place has one holder"
                    );
                    references.mark_patched(slot);
                    for patch in patches {
                        engine.media().store_slot(slot, patch.offset, &patch.bytes);
                    }
                }
                Action::Append { at, bytes } => {
                    let trailer = encode_partial_len(at + bytes.len());
                    let media = engine.media();
                    media.store_slot(slot, media.trailer_offset(), &trailer);
                }
                _ => {}
            }
        }
    }

    #[inline]
    fn release_freed(&self, engine: &Engine) {
        let freed = self.plan.steps.iter().filter_map(|step| step.effect.freed);
        freed.for_each(|slot_ref| engine.table.release_slot(slot_ref, self.slot_cache));
    }

    #[inline]
    fn effects(&self) -> usize {
        self.plan.steps.len()
    }
}

impl Changes<'_> {
    /// Streams fresh blocks into their private slots. With their CRCs known, the entries, and so the
    /// record's elements, are complete.
    fn stream_fresh(&mut self, engine: &Engine) {
        let block_of = |at: usize| &self.data[at..at + engine.block_bytes()];
        let plan = &mut *self.plan;
        for number in 0..plan.steps.len() {
            let step = &mut plan.steps[number];
            let change = &self.changes[step.change];
            if let Action::Fresh {
                slot,
                at,
                valid_bytes,
            } = change.action
            {
                let crc = match valid_bytes {
                    None => engine.media().stream_slot(slot, block_of(at)),
                    Some(valid) => engine.stream_partial(slot, block_of(at), valid),
                };
                let entry = Entry::data(change.key, slot, crc);
                step.effect.entry = valid_bytes.map_or(entry, |_| entry.as_partial());
            }
            if let Action::Packed {
                slot, at, packing, ..
            } = change.action
            {
                engine.media().stream_packed(slot, block_of(at), packing);
            }
            let (entry, index) = (step.effect.entry, step.effect.index);
            push_elements(&change.action, entry, index, plan);
        }
    }

    /// Streams appended bytes straight behind the valid ones, where no reader looks (I1).
    fn stage_appends(&self, engine: &Engine) {
        let media = engine.media();
        for step in &self.plan.steps {
            if let Action::Append { at, bytes } = &self.changes[step.change].action {
                let slot = step.effect.entry.slot().expect("partial blocks have slots");
                assert!(
                    at + bytes.len() <= media.trailer_offset(),
                    "the trailer stays free"
                );
                media.stream_into_lines(slot, *at, bytes);
            }
        }
    }
}

impl Engine {
    /// Streams the lines of a block that hold valid bytes, and the trailer's. Returns the CRC of the valid
    /// bytes.
    fn stream_partial(&self, slot: u32, block: &[u8], valid: usize) -> u32 {
        let line = LINE_BYTES as usize;
        let trailer = self.media().trailer_offset() / line * line;
        let end = valid.next_multiple_of(line).min(trailer);
        self.media().begin_slot(slot);
        self.media().stream_slot_lines(slot, 0, &block[..end]);
        self.media()
            .stream_slot_lines(slot, trailer, &block[trailer..]);
        self.media().crc(&block[..valid])
    }
}
