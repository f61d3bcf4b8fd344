//! The second cache of a core.

use crate::controller::state::Loss;
use crate::line::{Home, NO_LINE, home};
use crate::machine::state::{Held, Machine};
use crate::mutants::{Mutant, mutated};

impl Machine {
    /// Brings a line into a core's second cache, to be changed if `is_store`: its slot, and when it is there.
    pub(in crate::machine) fn reach_second(
        &mut self,
        core: usize,
        line: u32,
        is_store: bool,
        now: u64,
    ) -> Result<(usize, u64), Loss> {
        let own = &mut self.cores[core];
        let set = (line & (own.l2_sets - 1)) as usize;
        let now = now + self.times.l2_cycles;
        let found = own.l2.find(set, line);
        self.counts.l2.note(found.is_some());
        if let Some(slot) = found {
            own.l2.touch(slot);
            let below = own.l2_below[slot];
            let done = match is_store && own.l2_held[slot] == Held::Shared {
                true => self.upgrade(core, below, now),
                false => now,
            };
            return Ok((slot, done));
        }
        let (below, done) = self.reach_shared(core, line, is_store, now)?;
        // Only now: what came may have taken a line of this set away.
        let slot = self.cores[core].l2.victim(set);
        self.evict_second(core, slot, now);
        let held = self.join(core, below);
        let own = &mut self.cores[core];
        own.l2.put(slot, line);
        own.l2_held[slot] = held;
        own.l2_below[slot] = below as u32;
        Ok((slot, done))
    }

    /// A core's second cache needs a slot: what was changed goes to the shared one.
    fn evict_second(&mut self, core: usize, slot: usize, now: u64) {
        if self.cores[core].l2.line(slot) == NO_LINE {
            return;
        }
        let shared = self.cores[core].l2_below[slot] as usize;
        if self.cores[core].l2_held[slot] == Held::Modified {
            self.absorb(shared, (core, slot), now);
        }
        self.forget_private(core, slot);
        let entry = &mut self.llc.entries[shared];
        entry.sharers &= !(1 << core);
        entry.is_owned = false;
    }

    /// The line in a slot of a core's second cache leaves the core's caches, whatever it holds.
    pub(in crate::machine) fn forget_private(&mut self, core: usize, slot: usize) {
        let own = &mut self.cores[core];
        let line = own.l2.line(slot);
        own.l2.clear(slot);
        let above = own.l2_above[slot] as usize;
        if own.l1d.line(above) == line && !mutated(Mutant::FirstCopyNotForgotten) {
            own.l1d.clear(above);
        }
        // Of DRAM's lines the first ones are the program's loop.
        if !own.is_traced && !matches!(home(line), Home::Dram(line) if line < own.code_lines) {
            return;
        }
        if let Some(slot) = own.l1i.find((line & (own.l1i_sets - 1)) as usize, line) {
            own.l1i.clear(slot);
            own.code_lines_held -= 1;
        }
    }

    /// The slot of a core's second cache that has a line.
    pub(in crate::machine) fn second_slot(&self, core: usize, line: u32) -> Option<usize> {
        let own = &self.cores[core];
        own.l2.find((line & (own.l2_sets - 1)) as usize, line)
    }
}
