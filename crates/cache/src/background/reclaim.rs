//! Reclaim: which blocks leave where room is needed.
//!
//! Where write-back runs ahead of need, clean blocks are plenty, and the coldest of them go. Where the
//! low watermark is so high that hardly any are clean, the coldest clean block may be one that was just
//! read: then reclaim takes the coldest blocks whatever they are, and writes the dirty ones back first,
//! in a round like any other. So a block that changes often is not written back while a colder one is
//! there, and none leaves before a colder one.

use crate::background::Pipeline;
use crate::error::Result;
use crate::policy::plan;

impl Pipeline {
    /// Frees up to `wanted` slots: of the coldest blocks where hardly any are clean, otherwise of the
    /// coldest clean ones; returns how many blocks went. It may wait for a backing, never for slots.
    pub(crate) fn reclaim(&self, wanted: usize) -> Result<usize> {
        if self.is_dirty_throughout() {
            let evicted = self.reclaim_coldest(wanted)?;
            if evicted > 0 {
                return Ok(evicted);
            }
            // Their backing fails, or all of them changed meanwhile.
        }
        self.engine.reclaim_once(wanted)
    }

    /// Whether more than seven eighths of the slots are dirty, and write-back rests all the same; not
    /// where its rate is limited, which only the flusher keeps to.
    fn is_dirty_throughout(&self) -> bool {
        let slots = u64::from(self.media().geometry.room());
        let dirty = self.table().states().dirty_count();
        let low = self.slots_of(self.engine.wakeup().watermarks.low_per_mille());
        plan::is_dirty_throughout(slots, dirty, low) && self.engine.wakeup().pace.limit().is_none()
    }

    /// Writes back what is dirty of the coldest blocks, up to `wanted` but no more than reclaim lacks,
    /// and evicts them.
    fn reclaim_coldest(&self, wanted: usize) -> Result<usize> {
        let ample = plan::ample(self.engine.free_target());
        let free = self
            .table()
            .slots()
            .free_count()
            .min(self.engine.free_entries());
        let lacking = ample.saturating_sub(free).max(1) as usize;
        let wanted = self.engine.batch_of(wanted.min(lacking));
        // Held until they are gone: no other thread takes the same ones meanwhile.
        let mut round_state = self.begin_round();
        let victims = self.write_back_coldest(&mut round_state, wanted);
        self.engine.evict(victims)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::{
        Backing, BackingStore, MemoryStore, Pool, PoolOptions, Region, ReplacementPolicy, Volume,
    };

    /// A pool without threads, all of which may be dirty and of which a tenth is kept free, with a volume.
    fn may_be_dirty_throughout() -> (Pool, Arc<MemoryStore>, Volume) {
        let mut options = PoolOptions::default();
        options.format.block_bytes = 128;
        options.format.unit_bytes = 256;
        options.format.volumes = 2;
        options.runtime.background = false;
        options.runtime.replacement = ReplacementPolicy::Lru;
        options.runtime.dirty_low_per_mille = 1000;
        options.runtime.dirty_high_per_mille = 1000;
        options.runtime.free_low_per_mille = 100;
        let pool = Pool::create_on(vec![Region::shadow(1 << 20)], &options).expect("create");
        let store = Arc::new(MemoryStore::new(1 << 20));
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("attach");
        (pool, store, volume)
    }

    #[test]
    fn where_all_is_dirty_the_coldest_go_once_the_backing_has_them() {
        let (pool, store, volume) = may_be_dirty_throughout();
        let dirty = pool.stats().slots * 15 / 16;
        for block in (0..dirty).chain([0]) {
            volume
                .write(block, &[(block % 100) as u8; 128])
                .expect("write");
        }
        let pipeline = &volume.memory().expect("in memory").pipeline;
        assert_eq!(pipeline.reclaim(4).expect("reclaim"), 4);
        assert!(volume.is_resident(0..1), "it changed last");
        assert!(!(1..5).any(|block| volume.is_resident(block..block + 1)));
        assert!((5..dirty).all(|block| volume.is_resident(block..block + 1)));
        let stats = pool.stats();
        assert_eq!(
            (stats.totals.write_backs, stats.dirty_blocks),
            (4, dirty - 4)
        );
        let mut found = [0; 128];
        store.read_at(4 * 128, &mut found).expect("read");
        assert_eq!(found, [4; 128]);
        // With a colder clean block there, that one goes, and nothing is written back.
        volume.read(1, &mut found).expect("fill");
        for block in 5..dirty {
            volume.write(block, &[7; 128]).expect("write");
        }
        volume.write(0, &[7; 128]).expect("write");
        assert_eq!(pipeline.reclaim(1).expect("reclaim"), 1);
        assert!(!volume.is_resident(1..2));
        assert_eq!(pool.stats().totals.write_backs, 4);
        // Write-back that is to work ahead of need does so: clean blocks alone go.
        pool.set_watermarks(500, 900).expect("marks");
        assert_eq!(pipeline.reclaim(4).expect("reclaim"), 0);
        assert_eq!(pool.stats().totals.write_backs, 4);
    }

    /// Or a writer would reclaim itself, and where all is dirty wait for the backing each time.
    #[test]
    fn a_committer_that_runs_low_asks_for_reclaim_before_it_is_out_of_slots() {
        let (pool, _store, volume) = may_be_dirty_throughout();
        let engine = volume.memory().expect("in memory").pipeline.engine();
        let notices = || engine.wakeup().wait_work(u64::MAX, Duration::ZERO).0;
        let slots = pool.stats().slots;
        let (usual, free_at_least) = (notices(), slots / 20);
        let mut block = 0u64;
        while notices() == usual {
            let free = pool.stats().slots - pool.stats().cached_blocks;
            assert!(free > free_at_least, "{free} of {slots} slots are free");
            let mut bytes = [7; 128];
            bytes[..8].copy_from_slice(&block.to_le_bytes());
            volume.write(block, &bytes).expect("write");
            block += 1;
        }
        // Not before; the committer had a magazine of slots in its hands.
        assert!(slots - block < slots / 10 + 128, "{block} of {slots}");
        assert_eq!(pool.stats().totals.write_backs, 0);
    }
}
