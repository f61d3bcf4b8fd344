//! Some blocks of a volume by their numbers: which are cached, written back, forgotten.

use std::ops::{ControlFlow, Range};

use crate::api::volume::MemoryVolume;
use crate::engine::EVICT_BATCH_MAX;
use crate::engine::change::{Action, Change, Outcome};
use crate::error::Result;
use crate::table::states::STATE_DIRTY;

/// Blocks as runs of neighbours, in the order in which they come, if `check` refuses none of them.
///
/// # Errors
/// Those of `check`, before a caller has done anything with the blocks before.
pub(crate) fn runs_of(
    blocks: impl IntoIterator<Item = u64>,
    check: impl Fn(u64) -> Result<()>,
) -> Result<Vec<Range<u64>>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for block in blocks {
        check(block)?;
        // What is checked has a next number.
        match runs.last_mut() {
            Some(run) if run.end == block => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    Ok(runs)
}

impl MemoryVolume {
    /// Calls `visit` with each cached block and whether it is dirty, in no order; takes a look at every
    /// entry of the table. Exact where no other thread is at work.
    pub fn cached_blocks(&self, mut visit: impl FnMut(u64, bool)) {
        let pipeline = &*self.pipeline;
        for index in 0..pipeline.media().geometry.entries {
            let entry = pipeline.table().entries().load(index);
            if !entry.is_free() && entry.key().volume() == self.id() {
                visit(
                    entry.key().block(),
                    pipeline.table().state(index) & STATE_DIRTY != 0,
                );
            }
        }
    }

    /// Writes back those of the blocks that are dirty, and syncs the backing if there were any.
    ///
    /// # Errors
    /// As [`MemoryVolume::flush`]; one is outside the volume.
    pub fn flush_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        let pipeline = &*self.pipeline;
        pipeline.engine().check_open()?;
        let runs = self.runs_of(blocks)?;
        let entry_of = |block| {
            let key = self.key(block);
            let (_, found) = pipeline.table().peek(pipeline.table().bucket(key), key);
            found.map(|(index, _)| index)
        };
        let is_dirty = |index: &u32| pipeline.table().state(*index) & STATE_DIRTY != 0;
        let blocks = runs.into_iter().flatten();
        let dirty = blocks.filter_map(entry_of).filter(is_dirty);
        let dirty: Vec<u32> = dirty.collect();
        if dirty.is_empty() {
            return Ok(());
        }
        pipeline.flush_entries(&self.state, dirty, &mut |_| Ok(()))
    }

    /// Removes the blocks from the pool, durably, dirty ones too: what was written to them and not
    /// written back is gone, and reads find what the backing has. Not atomic as a whole: a crash may
    /// leave part of it done.
    ///
    /// # Errors
    /// As [`MemoryPool::checkpoint`](crate::Pool::checkpoint); one is outside the volume, and none is gone.
    pub fn forget_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        self.pipeline.engine().check_open()?;
        self.forget_known(self.runs_of(blocks)?.into_iter().flatten())
    }

    fn runs_of(&self, blocks: impl IntoIterator<Item = u64>) -> Result<Vec<Range<u64>>> {
        runs_of(blocks, |block| self.check_blocks(block, self.block_size()))
    }

    /// The same of blocks that the table has, or could have.
    pub(crate) fn forget_known(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        let pipeline = &*self.pipeline;
        let at_once = pipeline
            .engine()
            .evictions_per_record()
            .min(EVICT_BATCH_MAX);
        let mut changes = Vec::with_capacity(at_once);
        let mut blocks = blocks.into_iter();
        loop {
            changes.clear();
            // Nothing is being written back until these are gone.
            let _round = pipeline.begin_round();
            let flow = blocks.try_for_each(|block| {
                let key = self.key(block);
                let bucket = pipeline.table().bucket(key);
                if pipeline.table().peek(bucket, key).1.is_some() {
                    changes.push(Change {
                        key,
                        bucket,
                        action: Action::Forget,
                        based_on: None,
                    });
                }
                match changes.len() == at_once {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            changes.sort_unstable_by_key(|change| change.key);
            changes.dedup_by_key(|change| change.key);
            crate::sync::look_hint();
            while pipeline.engine().commit_mappings(&changes)? == Outcome::Stale {
                // A thread reads around one of them.
                crate::sync::spin_hint();
            }
            pipeline.engine().wakeup().notify_space();
            if flow.is_continue() {
                return pipeline.engine().check_table_whole();
            }
        }
    }
}
