//! Detach: a volume is drained, emptied, and only then taken out of the table.
//!
//! A crash on the way leaves the volume attached with whatever it still has in the pool, or, once its
//! place in the table is free, everything on its backing.

use crate::api::pool::MemoryPool;
use crate::api::pool::drain::{Drain, DrainWatcher};
use crate::api::volume::MemoryVolume;
use crate::error::Result;
use crate::media::volumes::{self, Description, Standing};
use crate::mutants::{Mutant, mutated};

/// Drains while the volume is still in use, at most.
const PASSES_MAX: usize = 4;
/// With no more dirty blocks than this its callers are stopped, and wait for the last of them.
const DIRTY_BLOCKS_LEFT: usize = 256;

impl MemoryPool {
    /// Writes everything of a volume back, drops its blocks and forgets it, under a watcher that may stop it. Writes, then reads
    /// through other clones of the volume fail from some moment on; what was acknowledged before is in the backing, and synced.
    ///
    /// # Errors
    /// As [`MemoryPool::close`]; [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) where the watcher said so: the volume
    /// is attached and in use as before.
    pub fn detach_watched(
        &self,
        volume: MemoryVolume,
        watcher: &mut DrainWatcher<'_>,
    ) -> Result<()> {
        let pipeline = &self.pipeline;
        self.description(&volume)?;
        let mut drain = Drain::new(watcher);
        // While it is still in use, so that little is left for later.
        for _ in 0..PASSES_MAX {
            drain.pass(&volume)?;
            if pipeline.table().dirty_entries(volume.id()).count() <= DIRTY_BLOCKS_LEFT {
                break;
            }
        }
        let _one_at_a_time = self.lock_table();
        let found = self.description(&volume)?;
        pipeline.table().live().remove(found.id);
        pipeline.table().index().wait_for_holders();
        // Nor is its backing changed behind the cache: a discard that saw it attached has listed its range.
        volume.state.zeroings.wait(0..u64::MAX);
        let gone = self.forget(&volume, &found, &mut drain);
        if gone.is_err() && self.may_go_on(&found) {
            volume.state.set_gone(false);
            pipeline.table().live().add(found.id);
        }
        gone
    }

    /// Whether the volume may be used again after all: not once its mark may say that the backing is whole.
    fn may_go_on(&self, found: &Description) -> bool {
        let now = volumes::read(self.pipeline.media(), found.place);
        now.is_none_or(|now| now.standing == found.standing)
    }

    /// No thread changes the volume any more: its last blocks go, then its place is free.
    fn forget(
        &self,
        volume: &MemoryVolume,
        found: &Description,
        drain: &mut Drain<'_, '_>,
    ) -> Result<()> {
        let pipeline = &self.pipeline;
        drain.pass(volume)?;
        let Description { place, id, .. } = *found;
        if mutated(Mutant::DetachedBeforeEmptied) {
            let standing = Standing::default();
            pipeline
                .engine()
                .write_volume(place, id, &found.identity, standing, false)?;
        }
        pipeline
            .engine()
            .drop_volume_blocks(volume.id(), &volume.state.path)?;
        // The tombstones must be in the table before the id may be used again.
        pipeline.engine().checkpoint()?;
        if let Ok(backing) = volume.state.backing() {
            let epoch = volume.state.health.sync_epoch();
            let synced = volume.state.health.sync_all_since(epoch, backing);
            synced.map_err(|source| volume.state.backing_error(source))?;
            // Before the mark says that any pool may have it.
            volume.state.set_gone(true);
            self.end_mark(backing, found)?;
        }
        let standing = Standing::default();
        pipeline
            .engine()
            .write_volume(place, id, &found.identity, standing, false)?;
        self.pipeline.set_volume(place, None);
        // The backing stays locked for as long as a thread holds it.
        pipeline.write_back().journal().wait_until_unseen(id);
        Ok(())
    }
}
