//! Volumes whose backing is lost are given up, with what was written to them and not written back.
//!
//! A crash on the way leaves the volume, its generation raised, with a part of its blocks, or nothing of
//! it. The raised generation is more than its backing's mark says: should the backing come back to what
//! is left, it is refused as an old copy, and not served with acknowledged blocks missing.

use crate::api::pool::MemoryPool;
use crate::api::volume::MemoryVolume;
use crate::error::{ErrorKind, Result};
use crate::marks::Stage;
use crate::media::volumes::{Description, Standing};

impl MemoryPool {
    /// Forgets a volume that has no backing attached: everything that the pool has of it is gone, also
    /// what was acknowledged and never written back. Returns how many such blocks there were. Done again
    /// after a crash or an error it goes on from there.
    ///
    /// # Errors
    /// [`ErrorKind::Volume`]: the volume has its backing, and can be detached. [`ErrorKind::Media`],
    /// [`ErrorKind::Poisoned`]: a fence failed.
    pub fn discard_volume(&self, volume: MemoryVolume) -> Result<u64> {
        let _one_at_a_time = self.lock_table();
        let pipeline = &self.pipeline;
        pipeline.engine().check_open()?;
        let found = self.description(&volume)?;
        if volume.state.backing.get().is_some() {
            return Err(ErrorKind::Volume(format!(
                "{}: it is in use; detach it, which loses nothing",
                volume.state.path.display()
            ))
            .into());
        }
        if found.standing.stage != Stage::None {
            let standing = Standing {
                generation: found.standing.generation + 1,
                stage: Stage::Open,
            };
            let Description { place, id, .. } = found;
            // Its fence orders it before the first block that goes.
            pipeline
                .engine()
                .write_volume(place, id, &found.identity, standing, true)?;
        }
        pipeline.table().live().remove(found.id);
        pipeline.table().index().wait_for_holders();
        let unwritten = pipeline.table().dirty_entries(found.id).count() as u64;
        let gone = self.discard_blocks(&volume, &found);
        if gone.is_err() {
            pipeline.table().live().add(found.id);
        }
        gone.map(|()| unwritten)
    }

    /// No thread reads or writes the volume: its blocks go, then its place is free.
    fn discard_blocks(&self, volume: &MemoryVolume, found: &Description) -> Result<()> {
        let pipeline = &self.pipeline;
        let mut blocks = Vec::new();
        volume.cached_blocks(|block, _| blocks.push(block));
        volume.forget_known(blocks)?;
        pipeline
            .engine()
            .drop_volume_blocks(volume.id(), &volume.state.path)?;
        // The tombstones must be in the table before the id may be used again.
        pipeline.engine().checkpoint()?;
        let Description { place, id, .. } = *found;
        let standing = Standing::default();
        pipeline
            .engine()
            .write_volume(place, id, &found.identity, standing, false)?;
        self.pipeline.set_volume(place, None);
        pipeline.write_back().journal().wait_until_unseen(id);
        Ok(())
    }
}
