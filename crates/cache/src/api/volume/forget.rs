//! Some blocks of a volume by their numbers: which are cached, written back, forgotten.

use std::ops::ControlFlow;

use crate::api::volume::Volume;
use crate::background::reclaim::EVICT_BATCH_MAX;
use crate::engine::change::{Action, Change, Outcome};
use crate::engine::core::STATE_DIRTY;
use crate::error::Result;

impl Volume {
    /// Calls `visit` with each cached block and whether it is dirty, in no order; takes a look at every
    /// entry of the table. Exact where no other thread is at work.
    pub fn cached_blocks(&self, mut visit: impl FnMut(u64, bool)) {
        let core = &*self.core;
        for index in 0..core.media.geometry.entries {
            let entry = core.media.load_entry(index);
            if !entry.is_free() && entry.key().volume() == self.id() {
                visit(entry.key().block(), core.state(index) & STATE_DIRTY != 0);
            }
        }
    }

    /// Writes back those of the blocks that are dirty, and syncs the backing if there were any.
    ///
    /// Errors: the backing failed; everything is still in the pool.
    pub fn flush_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        let core = &*self.core;
        core.is_open()?;
        let entry_of = |block| {
            let key = self.key(block);
            let (_, found) = core.peek(core.bucket(key), key);
            found.map(|(index, _)| index)
        };
        let is_dirty = |index: &u32| core.state(*index) & STATE_DIRTY != 0;
        let dirty = blocks.into_iter().filter_map(entry_of).filter(is_dirty);
        let dirty: Vec<u32> = dirty.collect();
        if dirty.is_empty() {
            return Ok(());
        }
        core.flush_entries(&self.state, dirty, &mut |_| Ok(()))
    }

    /// Removes the blocks from the pool, durably, dirty ones too: what was written to them and not
    /// written back is gone, and reads find what the backing has. Not atomic as a whole: a crash may
    /// leave part of it done.
    ///
    /// Errors: a fence failed.
    pub fn forget_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        let core = &*self.core;
        let at_once = core.evictions_per_record().min(EVICT_BATCH_MAX);
        let mut changes = Vec::with_capacity(at_once);
        let mut blocks = blocks.into_iter();
        loop {
            changes.clear();
            // Nothing is being written back until these are gone.
            let _round = core.begin_round();
            let flow = blocks.try_for_each(|block| {
                let key = self.key(block);
                let bucket = core.bucket(key);
                if core.peek(bucket, key).1.is_some() {
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
            while core.commit_mappings(&changes)? == Outcome::Stale {
                // A thread reads around one of them.
                crate::sync::spin_hint();
            }
            core.wakeup.notify_space();
            if flow.is_continue() {
                return core.table_is_whole();
            }
        }
    }
}
