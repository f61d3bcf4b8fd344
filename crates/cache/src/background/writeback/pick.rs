//! Which blocks a round takes: in the order of the disk, but those that changed lately later; for
//! reclaim, the coldest.

use std::time::Instant;

use super::RoundState;
use super::fault_domains::RoundScope;
use crate::background::Pipeline;
use crate::sync::Ordering;
use crate::table::states::{STATE_DEFERRED, STATE_DIRTY, STATE_SECOND_CHANCE, STATE_WRITING};

impl Pipeline {
    /// Takes the next round's blocks off the backlog. Those that changed lately wait for the next
    /// sweep; while a writer waits for space, or is about to, no more of them than make a round. Also returns their
    /// number.
    pub(super) fn pick(&self, backlog: &mut Vec<u32>) -> (Vec<u32>, usize) {
        let wanted = self.steady_round_blocks();
        let is_pressed = self.table().states().dirty_count() > self.engine.wakeup().pace.high()
            || self.write_back.throttled_writers.load(Ordering::Relaxed) > 0;
        let spared_max = match (self.has_background(), is_pressed) {
            (false, _) => 0,
            (true, false) => usize::MAX,
            (true, true) => wanted,
        };
        let (mut picked, mut spared) = (Vec::with_capacity(wanted), 0);
        while picked.len() < wanted
            && let Some(index) = backlog.pop()
        {
            if spared < spared_max && self.spare(index) {
                spared += 1;
            } else {
                picked.push(index);
            }
        }
        (picked, spared)
    }

    /// Writes back what is dirty of the `wanted` coldest blocks, and returns all of these. Journals are
    /// left out, and what cannot be written now. What is written stays in the queue, as after a flush.
    pub(crate) fn write_back_coldest(
        &self,
        round_state: &mut RoundState,
        wanted: usize,
    ) -> Vec<u32> {
        self.prepare_deferred(&mut round_state.deferred);
        let (deferred, backed_off) = (&round_state.deferred, self.backed_off());
        let is_dirty = |index: &u32| self.table().state(*index) & STATE_DIRTY != 0;
        let mut victims = Vec::new();
        self.engine.replacement().victims(
            wanted,
            &mut |index| {
                let stays = |key| self.is_journal(deferred, key) || backed_off.contains(self, key);
                self.table().state(index) & (STATE_WRITING | STATE_DEFERRED) == 0
                    && !(is_dirty(&index) && stays(self.table().entries().load(index).key()))
            },
            &mut victims,
        );
        let dirty: Vec<u32> = victims.iter().copied().filter(is_dirty).collect();
        if !dirty.is_empty() {
            let started = Instant::now();
            let round = self.round(round_state, &dirty, &RoundScope::Due);
            self.measure(&round, started);
        }
        victims
    }

    /// Puts a block that changed lately back into the queue, once: it may well change again, and then
    /// this write would have been for nothing. So those that have not changed for longest go first, nearly.
    /// Whether it did so; the block is then the queue's.
    fn spare(&self, index: u32) -> bool {
        while self.table().state(index) & STATE_SECOND_CHANCE != 0 {
            let key = self.table().entries().load(index).key();
            let bucket = self.table().bucket(key);
            self.table().index().lock(bucket.stripe);
            let is_same = self.table().entries().load(index).key() == key;
            let state = self.table().state(index);
            let is_spared = is_same && state & STATE_SECOND_CHANCE != 0 && state & STATE_DIRTY != 0;
            if is_spared {
                self.table().set_state(index, state & !STATE_SECOND_CHANCE);
                self.table().states().announce(index);
            }
            self.table().index().unlock(bucket.stripe);
            if is_same {
                return is_spared;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Backing, MemoryStore, Pool, PoolOptions, Region};

    #[test]
    fn young_blocks_wait_but_no_more_than_a_round_of_them_while_a_writer_waits() {
        let mut options = PoolOptions::default();
        options.format.block_bytes = 128;
        options.format.unit_bytes = 256;
        options.format.volumes = 2;
        options.runtime.dirty_low_per_mille = 1000;
        options.runtime.dirty_high_per_mille = 1000;
        let pool = Pool::create_on(vec![Region::shadow(1 << 20)], &options).expect("create");
        let store = Arc::new(MemoryStore::new(1 << 20));
        let volume = pool.attach(Backing::from_store(store)).expect("attach");
        for block in (0..300).chain(0..200) {
            volume.write(block, &[1; 128]).expect("write");
        }
        let pipeline = &volume.memory().expect("in memory").pipeline;
        // No other thread begins a round meanwhile.
        let _round_state = pipeline.begin_round();
        let mut backlog: Vec<u32> = pipeline.table().dirty_entries(volume.id()).collect();
        backlog
            .sort_by_key(|index| std::cmp::Reverse(pipeline.table().entries().load(*index).key()));
        pipeline
            .write_back
            .throttled_writers
            .store(1, Ordering::Relaxed);
        let counts = |(picked, spared): (Vec<u32>, usize)| (picked.len(), spared);
        assert_eq!(counts(pipeline.pick(&mut backlog)), (64, 64));
        pipeline
            .write_back
            .throttled_writers
            .store(0, Ordering::Relaxed);
        assert_eq!(counts(pipeline.pick(&mut backlog)), (64, 72));
        assert_eq!(counts(pipeline.pick(&mut backlog)), (36, 0));
    }
}
