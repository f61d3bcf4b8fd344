//! How much of a volume is cached, counted by a walk over the table.

use crate::api::volume::MemoryVolume;
use crate::table::states::STATE_DIRTY;

/// What a volume has in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VolumeUsage {
    /// Its blocks in the pool.
    pub cached_blocks: u64,
    /// Of these, blocks that its backing does not have yet.
    pub dirty_blocks: u64,
}

impl MemoryVolume {
    /// Counts the volume's blocks in the pool; takes a look at every entry of the table, so it is not
    /// for every screen refresh of a large pool. Rough where others are at work.
    pub fn usage(&self) -> VolumeUsage {
        let mut usage = VolumeUsage::default();
        for index in 0..self.pipeline.media().geometry.entries {
            let entry = self.pipeline.table().entries().load(index);
            if !entry.is_free() && entry.key().volume() == self.id() {
                usage.cached_blocks += 1;
                usage.dirty_blocks +=
                    u64::from(self.pipeline.table().state(index) & STATE_DIRTY != 0);
            }
        }
        usage
    }
}
