//! The end of a run, and the end of power: the battery lasts until every cache is empty (§3.2).

use crate::counts::{Counts, LookUps};
use crate::line::Words;
use crate::machine::state::{Held, Machine};
use crate::mutants::{Mutant, mutated};
use crate::nvm::layout::Class;

impl Machine {
    /// All that was changed goes to memory, data first, then redundancy; the caches are empty. The order within each
    /// is drawn, for the battery's firmware may take any.
    pub fn flush(&mut self, random: &mut fastrand::Rng) {
        let now = self.now();
        let mut changed = Vec::new();
        for (core, own) in self.cores.iter().enumerate() {
            let taken = own.l2.taken();
            changed.extend(taken.into_iter().map(|slot| (core, own.l2.line(slot))));
        }
        random.shuffle(&mut changed);
        for (core, line) in changed {
            self.give_up_private(core, line, now);
        }
        let mut slots = self.llc.array.taken();
        random.shuffle(&mut slots);
        for slot in slots {
            self.evict_shared(slot, now);
        }
        if let Some(caches) = &mut self.controllers.caches
            && !mutated(Mutant::RedundancyNotFlushed)
        {
            caches.flush(&mut self.nvm, now);
        }
    }

    fn give_up_private(&mut self, core: usize, line: u32, now: u64) {
        let Some(second) = self.second_slot(core, line) else {
            return;
        };
        let shared = self.cores[core].l2_below[second] as usize;
        if self.cores[core].l2_held[second] == Held::Modified {
            self.absorb(shared, (core, second), now);
        }
        self.forget_private(core, second);
        let entry = &mut self.llc.entries[shared];
        entry.sharers &= !(1 << core);
        entry.is_owned = false;
    }

    /// Power fails, between two accesses or, by the [fuse](crate::fuse), within one: what was under way in the controllers is complete, the
    /// battery flushes, and the DAX-CL-checksums are gone with the mapping (§3.3): what NVM has in their place is anything.
    pub fn cut_power(&mut self, random: &mut fastrand::Rng) {
        self.nvm.fuse.remove();
        self.nvm.end_rebuild();
        self.flush(random);
        self.controllers.mapped = 0..0;
        for line in 0..self.nvm.layout.lines() {
            if self.nvm.layout.class(line) == Class::LineSums {
                let garbage: Words = std::array::from_fn(|_| random.u64(..));
                self.nvm.contents.set(line, &garbage);
            }
        }
    }

    /// When the last core is done, in cycles.
    pub fn now(&self) -> u64 {
        let ends = self.cores.iter().map(|core| core.clock.end());
        ends.max().unwrap_or(0)
    }

    /// Cores wait for the last one, as threads do at a barrier: what follows begins on all of them at the same time.
    pub fn align(&mut self) {
        let now = self.now();
        for core in &mut self.cores {
            core.clock.stall(now - core.clock.now());
        }
    }

    /// All that was counted so far.
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts;
        counts.instructions = self.cores.iter().map(|core| core.clock.instructions).sum();
        counts.dram_reads = self.dram.reads;
        counts.dram_writes = self.dram.writes;
        let mut add = |look_ups: LookUps| {
            counts.llc_redundancy.hits += look_ups.hits;
            counts.llc_redundancy.misses += look_ups.misses;
        };
        if let Some(diffs) = &self.controllers.diffs {
            add(diffs.look_ups);
        }
        if let Some(caches) = &self.controllers.caches {
            add(caches.partition_look_ups);
            counts.controller = caches.own_look_ups;
        }
        counts
    }
}
