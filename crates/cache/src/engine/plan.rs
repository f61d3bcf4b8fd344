//! The plan of a commit: each key's new entry and its place in the table, chosen under the locks.

use crate::engine::Engine;
use crate::engine::change::{Action, Change, Outcome, Patch};
use crate::error::Result;
use crate::log::record::{Element, ElementKind, trim_whole};
use crate::media::entry::Entry;
use crate::mutants::{Mutant, mutated};
use crate::table::slot_ref::SlotRef;
use crate::table::states::{STATE_DIRTY, STATE_WRITING};

/// What a patch of no more bytes replaces is read without memory of the heap.
const SMALL_PATCH_BYTES: usize = 256;

/// What a commit does to one key, decided under its lock.
pub(crate) struct Effect {
    /// The key's new entry; a tombstone if it leaves.
    pub(crate) entry: Entry,
    /// Where that goes.
    pub(crate) index: u32,
    /// The key had none.
    pub(crate) fresh: bool,
    /// The slot that the key leaves.
    pub(crate) freed: Option<SlotRef>,
}

/// The effect of one change of many kinds.
pub(crate) struct Step {
    pub(crate) effect: Effect,
    pub(crate) change: usize,
}

/// Buffers that outlive a commit so that the hot path allocates nothing.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) stripes: Vec<u32>,
    /// The words of a record of whole blocks.
    pub(crate) record: Vec<u64>,
    /// Where the blocks of the row that is being filled are in the commit's data.
    pub(crate) row: Vec<usize>,
    pub(crate) plan: Plan,
}

/// What a commit decided, and the record that says so.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    pub(crate) elements: Vec<Element>,
    pub(crate) payload: Vec<u8>,
    pub(crate) record: Vec<u8>,
}

impl Scratch {
    /// Gives back what a commit of more than so many whole blocks needed.
    pub(crate) fn trim(&mut self, blocks: usize) {
        trim_whole(&mut self.record, blocks);
    }
}

impl Engine {
    /// Decides each key's new entry. On `Some` nothing was taken and nothing is to be done.
    pub(crate) fn plan(&self, changes: &[Change], plan: &mut Plan) -> Result<Option<Outcome>> {
        plan.steps.clear();
        plan.elements.clear();
        plan.payload.clear();
        let mut verdict = Ok(None);
        for (number, change) in changes.iter().enumerate() {
            let stale = change.based_on.is_some_and(|version| {
                version != self.table.index().locked_version(change.bucket.stripe)
            });
            if stale && !mutated(Mutant::BaseVersionIgnored) {
                verdict = Ok(Some(Outcome::Stale));
                break;
            }
            match self.plan_one(number, change, plan) {
                Ok(None) => {}
                other => {
                    verdict = other;
                    break;
                }
            }
        }
        if !matches!(verdict, Ok(None)) {
            for step in plan.steps.drain(..).filter(|step| step.effect.fresh) {
                self.table.index().push_free(step.effect.index);
            }
        }
        verdict
    }

    fn plan_one(&self, number: usize, change: &Change, plan: &mut Plan) -> Result<Option<Outcome>> {
        let current = match self.table.find(change.bucket, change.key) {
            Some((index, raw)) => {
                let entry = self.media().sound(raw);
                Some((index, entry.ok_or_else(|| self.corrupt(change.key))?))
            }
            None => None,
        };
        if let Some((index, _)) = current {
            // The publication will look at it after the fence.
            self.table.states().prefetch(index);
        }
        if !matches!(change.action, Action::Evict { .. } | Action::Forget) {
            self.check_attached(change.key)?;
        }
        if self.media().is_mirrored() && !self.complete(change)? {
            return Ok(Some(Outcome::Stale));
        }
        let old = current.map(|(_, entry)| entry);
        let entry = match &change.action {
            Action::Block { slot, crc } => Entry::data(change.key, *slot, *crc),
            Action::Share { held, crc } => held.entry(change.key, *crc),
            Action::Packed { slot, crc, .. } => Entry::packed(change.key, *slot, *crc),
            // The CRC follows when the block has been streamed.
            Action::Fresh { slot, .. } => Entry::data(change.key, *slot, 0),
            Action::Zero => Entry::zero(change.key),
            Action::Evict { entry } => {
                let still = current.is_some_and(|(index, now)| {
                    now == *entry && self.table.state(index) & (STATE_DIRTY | STATE_WRITING) == 0
                });
                if !still || self.table.pins().keeps(change.key) {
                    return Ok(None);
                }
                Entry::tombstone(change.key)
            }
            Action::Forget => {
                let Some((index, _)) = current else {
                    return Ok(None);
                };
                let is_writing = self.table.state(index) & STATE_WRITING != 0;
                assert!(
                    !is_writing,
                    "write-back has ended before a block is forgotten"
                );
                if self.table.pins().keeps(change.key) {
                    return Ok(Some(Outcome::Stale));
                }
                Entry::tombstone(change.key)
            }
            Action::Delta { patches, crc } => match old {
                Some(now) if self.table.may_be_patched(now) => match crc {
                    // Nothing differs, and what is there is durable.
                    Some(crc) if patches.is_empty() && now.crc() == *crc => return Ok(None),
                    // But the media has changed it to what is written now.
                    Some(_) if patches.is_empty() => return Ok(Some(Outcome::Stale)),
                    // Not from the old one: the media may have changed a bit that is now right.
                    Some(crc) => SlotRef::of(now)
                        .expect("it has a slot")
                        .entry(now.key(), *crc),
                    None => match self.patched(now, patches) {
                        Some(entry) => entry,
                        None => return Err(self.corrupt(now.key())),
                    },
                },
                _ => return Ok(Some(Outcome::Stale)),
            },
            Action::Append { at, bytes } => match old {
                Some(now)
                    if now.is_partial()
                        && self.table.is_protected(now)
                        && self.table.valid_bytes(now) == Some(*at) =>
                {
                    let slot = now.slot().expect("partial blocks have slots");
                    let crc = self.media().crc_append(now.crc(), bytes);
                    Entry::data(change.key, slot, crc).as_partial()
                }
                _ => return Ok(Some(Outcome::Stale)),
            },
        };
        let (index, fresh) = match current {
            Some((index, _)) => (index, false),
            None => match self.table.pop_free_entry(change.bucket) {
                Some(index) => (index, true),
                None => return Ok(Some(Outcome::NoEntry)),
            },
        };
        let slot_ref = old.and_then(SlotRef::of);
        // A key that shares the slot it has already was counted for it twice.
        let is_shared = matches!(change.action, Action::Share { .. });
        plan.steps.push(Step {
            effect: Effect {
                entry,
                index,
                fresh,
                freed: slot_ref
                    .filter(|slot_ref| is_shared || entry.slot() != Some(slot_ref.slot())),
            },
            change: number,
        });
        Ok(None)
    }

    /// The entry of a block after its patches; the check follows from the old one (CRC is linear). `None` if the
    /// halves of a mirror differ there, and neither is right.
    fn patched(&self, entry: Entry, patches: &[Patch]) -> Option<Entry> {
        let slot = entry.slot().expect("data entries have slots");
        let mut crc = entry.crc();
        let (mut small, mut large) = ([0; SMALL_PATCH_BYTES], Vec::new());
        for (number, patch) in patches.iter().enumerate() {
            let (len, end) = (patch.bytes.len(), patch.offset + patch.bytes.len());
            let old = if len <= small.len() {
                &mut small[..len]
            } else {
                large.resize(len, 0);
                &mut large[..]
            };
            if !self.read_settled(entry, slot, patch.offset, old) {
                return None;
            }
            // Earlier patches of this very transaction are not in the slot yet.
            for Patch { offset, bytes } in &patches[..number] {
                let (from, to) = (patch.offset.max(*offset), end.min(offset + bytes.len()));
                if from < to {
                    old[from - patch.offset..to - patch.offset]
                        .copy_from_slice(&bytes[from - offset..to - offset]);
                }
            }
            let tail = self.block_bytes() - end;
            crc = self.media().crc_delta(crc, old, &patch.bytes, tail);
        }
        Some(Entry::data(entry.key(), slot, crc))
    }
}

#[inline]
pub(crate) fn push_elements(action: &Action, entry: Entry, index: u32, plan: &mut Plan) {
    if mutated(Mutant::ZeroWithoutRecord) && matches!(action, Action::Zero) {
        return;
    }
    match action {
        Action::Delta { patches, .. } => {
            for Patch { offset, bytes } in patches {
                let kind = ElementKind::Delta {
                    offset: u16::try_from(*offset).expect("blocks have at most 64 KiB"),
                    len: u16::try_from(bytes.len()).expect("a delta is part of a block"),
                };
                plan.elements.push(Element { entry, index, kind });
                plan.payload.extend_from_slice(bytes);
            }
        }
        Action::Append { at, bytes } => {
            let kind = ElementKind::Append {
                valid_bytes: (at + bytes.len()) as u32,
            };
            plan.elements.push(Element { entry, index, kind });
        }
        Action::Fresh {
            valid_bytes: Some(valid_bytes),
            ..
        } => {
            let kind = ElementKind::Append {
                valid_bytes: *valid_bytes as u32,
            };
            plan.elements.push(Element { entry, index, kind });
        }
        _ => plan.elements.push(Element {
            entry,
            index,
            kind: ElementKind::Whole,
        }),
    }
}
