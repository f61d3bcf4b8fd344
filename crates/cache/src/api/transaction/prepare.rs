//! What a transaction's operations become: changes in place where these are possible and pay, otherwise
//! whole blocks, of which some are rebuilt from what the pool or the backing holds now.

use super::MemoryTransaction;
use crate::api::workspace::{Base, Edit, Operation, Spare, apply_edits};
use crate::background::Pipeline;
use crate::engine::change::{Action, Change};
use crate::engine::commit::{Block, NO_SLOT};
use crate::error::Result;
use crate::media::encode_partial_len;
use crate::media::entry::Kind;
use crate::media::layout::PARTIAL_TRAILER_BYTES;

impl MemoryTransaction<'_> {
    /// Turns operations into changes; fresh blocks have no slots yet.
    pub(super) fn prepare(&mut self, deltas: bool) -> Result<()> {
        self.work.clear_changes();
        for number in 0..self.work.operations.len() {
            let change = self.change_of(number, deltas)?;
            self.work.changes.push(change);
        }
        Ok(())
    }

    fn change_of(&mut self, number: usize, deltas: bool) -> Result<Change> {
        let pipeline = self.pipeline();
        let work = &mut *self.work;
        let operation = &work.operations[number];
        let Block { key, bucket, .. } = operation.block;
        let action = match operation.base() {
            Base::Staged { slot, crc } => Action::Block { slot, crc },
            Base::Buffered { at } => Action::Fresh {
                slot: NO_SLOT,
                at,
                valid_bytes: None,
            },
            Base::Zero => Action::Zero,
            Base::Current => {
                let mut found = None;
                if deltas {
                    found = in_place(pipeline, operation, &mut work.spare);
                }
                match found {
                    Some(action) => action,
                    None => return self.rebuilt(number),
                }
            }
        };
        Ok(Change {
            key,
            bucket,
            action,
            based_on: None,
        })
    }

    /// The edits over the present block, as a whole new block that is valid only if the present
    /// one does not change before the commit.
    fn rebuilt(&mut self, number: usize) -> Result<Change> {
        let block_bytes = self.pipeline().engine().block_bytes();
        let work = &mut *self.work;
        let operation = &work.operations[number];
        let at = work.data.len();
        work.data.resize(at + block_bytes, 0);
        let bytes = &mut work.data[at..];
        let is_new = |edit: &Edit| edit.truncate && edit.offset == 0;
        let is_independent = operation.edits.first().is_some_and(is_new);
        let (based_on, mut valid) = if is_independent {
            // Nothing that is there now is left.
            (None, 0)
        } else {
            // Whatever the policy: a check computed over bad bytes would make them look good for ever.
            let read = self
                .volume
                .read_versioned(operation.block.key.block(), bytes, true)?;
            (Some(read.0), read.1)
        };
        apply_edits(&operation.edits, bytes);
        for edit in &operation.edits {
            let end = edit.offset + edit.bytes.len();
            valid = if edit.truncate { end } else { valid.max(end) };
        }
        let trailer = block_bytes - PARTIAL_TRAILER_BYTES;
        let valid_bytes = (valid <= trailer).then_some(valid);
        if let Some(valid) = valid_bytes {
            bytes[trailer..].copy_from_slice(&encode_partial_len(valid));
        }
        Ok(Change {
            key: operation.block.key,
            bucket: operation.block.bucket,
            action: Action::Fresh {
                slot: NO_SLOT,
                at,
                valid_bytes,
            },
            based_on,
        })
    }

    /// Cuts the rebuilt blocks off the transaction's memory.
    pub(super) fn forget_rebuilt(&mut self) {
        let block_bytes = self.pipeline().engine().block_bytes();
        let ends = self
            .work
            .operations
            .iter()
            .filter_map(|operation| match operation.base() {
                Base::Buffered { at } => Some(at + block_bytes),
                _ => None,
            });
        let end = ends.max().unwrap_or(0);
        self.work.data.truncate(end);
    }
}

/// The edits as a change of the cached block in place, if that is possible and pays.
#[inline]
fn in_place(pipeline: &Pipeline, operation: &Operation, spare: &mut Spare) -> Option<Action> {
    let (_, found) = pipeline
        .table()
        .peek(operation.block.bucket, operation.block.key);
    let entry = pipeline.media().sound(found?.1)?;
    if entry.kind() != Kind::Data || !pipeline.table().is_protected(entry) {
        return None;
    }
    if !entry.is_partial() && !pipeline.table().may_be_patched(entry) {
        return None;
    }
    let edits = &operation.edits;
    if entry.is_partial() {
        let at = pipeline.table().valid_bytes(entry)?;
        let mut end = at;
        for edit in edits {
            if !edit.truncate || edit.offset != end {
                return None;
            }
            end += edit.bytes.len();
        }
        if end > pipeline.media().trailer_offset() {
            return None;
        }
        let mut bytes = spare.bytes();
        for edit in edits {
            bytes.extend_from_slice(&edit.bytes);
        }
        return Some(Action::Append { at, bytes });
    }
    let changed: usize = edits.iter().map(|edit| edit.bytes.len()).sum();
    if edits.iter().any(|edit| edit.truncate) || changed * 2 > pipeline.engine().block_bytes() {
        return None;
    }
    Some(Action::Delta {
        patches: spare.patches_of(edits),
        crc: None,
    })
}
