//! A volume grows to the size that its backing has now.
//!
//! The new size is one line of the volume table, durable before any thread may write beyond the old end;
//! a crash leaves the old size or the new one.

use crate::api::pool::MemoryPool;
use crate::api::pool::attach::check_size;
use crate::api::volume::MemoryVolume;
use crate::background::health::Health;
use crate::backing::BackingIdentity;
use crate::error::{ErrorKind, Result};
use crate::mutants::{Mutant, mutated};
use crate::sync::Ordering;
use crate::table::states::STATE_DIRTY;

/// How often the block with the old end is evicted; it comes back while it is in use.
const ATTEMPTS_MAX: usize = 64;

impl MemoryPool {
    /// Gives a volume the size that its backing has now, while it is in use; returns that size. New
    /// blocks hold what the backing has there.
    ///
    /// # Errors
    /// [`ErrorKind::Volume`]: the backing shrank, which a volume never does, or is not attached.
    /// [`ErrorKind::Backing`], [`ErrorKind::Media`]: the backing or a fence failed. [`ErrorKind::Poisoned`]: one
    /// failed earlier. The volume is as before.
    pub fn grow_volume(&self, volume: &MemoryVolume) -> Result<u64> {
        let _one_at_a_time = self.lock_table();
        let pipeline = &self.pipeline;
        // The size that the table seems to have may be that of a line whose fence failed.
        pipeline.engine().check_lines()?;
        let found = self.description(volume)?;
        let state = &volume.state;
        let backing = state.backing()?;
        let failed = |source| state.backing_error(source);
        let old_bytes = found.identity.size_bytes;
        let size_bytes = state.size_to_grow_to(backing, old_bytes)?;
        if size_bytes == old_bytes {
            return Ok(size_bytes);
        }
        let identity = BackingIdentity {
            size_bytes,
            ..found.identity
        };
        check_size(&identity, pipeline.engine().block_bytes())?;
        // That it grew must be durable before what is written there can be clean. Rounds of write-back
        // that have written and not synced yet learn of a failure.
        let no_round_hears = Health::default();
        let health = match mutated(Mutant::GrowSyncSwallowed) {
            true => &no_round_hears,
            false => &state.health,
        };
        let epoch = health.sync_epoch();
        health.sync_all_since(epoch, backing).map_err(failed)?;
        self.distrust_cached(state, backing, old_bytes..size_bytes);
        self.let_use(volume, old_bytes, size_bytes)?;
        if !mutated(Mutant::SizeWithoutItsLine) {
            let (place, id, standing) = (found.place, found.id, found.standing);
            pipeline
                .engine()
                .write_volume(place, id, &identity, standing, true)?;
        }
        state.size_bytes.store(size_bytes, Ordering::Relaxed);
        Ok(size_bytes)
    }

    /// Raises the limit of what is used of the backing. Where the old end lies within a block, the
    /// backing may hold something behind it that a cached copy of that block does not have, so the
    /// limit rises when there is none and, under the block's lock, no thread brings one in.
    fn let_use(&self, volume: &MemoryVolume, old_bytes: u64, size_bytes: u64) -> Result<()> {
        let pipeline = &self.pipeline;
        let raise = || {
            let limited = volume.state.limited.get();
            limited.expect("it has a backing").raise(size_bytes);
        };
        let block_bytes = pipeline.engine().block_bytes() as u64;
        if old_bytes.is_multiple_of(block_bytes) || mutated(Mutant::OddEndGrownUnlocked) {
            raise();
            return Ok(());
        }
        let key = volume.key(old_bytes / block_bytes);
        let bucket = pipeline.table().bucket(key);
        for _ in 0..ATTEMPTS_MAX {
            pipeline.table().index().lock(bucket.stripe);
            let cached = pipeline.table().find(bucket, key);
            if cached.is_none() {
                raise();
                // A thread that has read the block from the backing until now must read it again. One that says it will only
                // after this reads it as it is now: so it comes after the new end, and before the version changes.
                let block = key.block();
                pipeline
                    .table()
                    .pins()
                    .disturb(key.volume(), &(block..block + 1));
                pipeline.table().index().begin_change(bucket.stripe);
                pipeline
                    .table()
                    .index()
                    .end_change_and_unlock(bucket.stripe);
                return Ok(());
            }
            pipeline.table().index().unlock(bucket.stripe);
            let Some((index, raw)) = cached else {
                continue;
            };
            if pipeline.table().state(index) & STATE_DIRTY != 0 {
                volume.flush()?;
            }
            let entry = pipeline.engine().sound_or_corrupt(raw)?;
            pipeline
                .engine()
                .commit_mappings(&[pipeline.engine().eviction(entry)])?;
        }
        Err(ErrorKind::Volume(format!(
            "{}: its last block is in constant use; grow it again in a quieter moment",
            volume.state.path.display()
        ))
        .into())
    }
}
