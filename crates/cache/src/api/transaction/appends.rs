//! Appends in place: the transactions that files are mostly made of.

use crate::api::transaction::MemoryTransaction;
use crate::api::volume::MemoryVolume;
use crate::api::workspace::Base;
use crate::background::Pipeline;
use crate::engine::commit::{Append, WordPatch};
use crate::error::Result;

impl MemoryVolume {
    // Hidden: it is the file buffer's shortcut, in the shape that its size table has.
    /// Appends `data` to the cached part of `block`, which ends at byte `offset`, and stores `word` at a
    /// byte offset of the volume, a multiple of 8, as one transaction: what [`MemoryVolume::begin`],
    /// [`MemoryTransaction::append`](crate::Transaction::append), `write_at` and `commit` do, in a fraction of
    /// the time. False if it is not this simple; nothing has happened then, and the long way is to be
    /// taken.
    ///
    /// # Errors
    /// As [`MemoryTransaction::commit`](crate::Transaction::commit).
    #[doc(hidden)]
    pub fn append_with_word(
        &self,
        block: u64,
        offset: usize,
        data: &[u8],
        word: Option<(u64, [u8; 8])>,
    ) -> Result<bool> {
        self.keep_pace();
        let pipeline = &*self.pipeline;
        let block_bytes = pipeline.engine().block_bytes();
        self.check_blocks(block, block_bytes)?;
        if data.is_empty() || offset.saturating_add(data.len()) > block_bytes {
            return Ok(false);
        }
        let key = self.key(block);
        let append = Append {
            bucket: pipeline.table().bucket(key),
            key,
            at: offset,
            bytes: data,
        };
        let Some((at, bytes)) = word else {
            return append_small(pipeline, &append, None);
        };
        self.check_bytes(at, bytes.len())?;
        let key = self.key(at >> pipeline.media().geometry.block_shift());
        let patch = WordPatch {
            key,
            bucket: pipeline.table().bucket(key),
            offset: at as usize & (block_bytes - 1),
            bytes,
        };
        if key == append.key || !patch.offset.is_multiple_of(bytes.len()) {
            return Ok(false);
        }
        append_small(pipeline, &append, Some(&patch))
    }
}

/// Commits an append that is simple enough, and counts it.
fn append_small(
    pipeline: &Pipeline,
    append: &Append<'_>,
    patch: Option<&WordPatch>,
) -> Result<bool> {
    let is_done = pipeline.engine().commit_append(append, patch)?;
    if is_done {
        let tallies = pipeline.engine().tallies().mine();
        tallies.commits(1);
        tallies.appends_written(1);
        let words = u64::from(patch.is_some());
        tallies.deltas_written(words);
        tallies.payload_bytes(append.bytes.len() as u64 + 8 * words);
    }
    Ok(is_done)
}

impl MemoryTransaction<'_> {
    /// Commits a transaction that is nothing but an append of one block, if that is as simple as it is
    /// mostly.
    pub(super) fn commit_small_append(&mut self) -> Result<bool> {
        let [operation] = &self.work.operations[..] else {
            return Ok(false);
        };
        match (operation.base(), &operation.edits[..]) {
            (Base::Current, [edit]) if edit.truncate && !edit.bytes.is_empty() => {
                let append = Append {
                    key: operation.block.key,
                    bucket: operation.block.bucket,
                    at: edit.offset,
                    bytes: &edit.bytes,
                };
                append_small(self.pipeline(), &append, None)
            }
            _ => Ok(false),
        }
    }
}
