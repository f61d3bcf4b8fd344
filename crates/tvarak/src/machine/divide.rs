//! A set of the shared cache that divides its ways anew, between the application, redundancy and diffs.
//!
//! It happens when the set is to take a line anyway. At each access to NVM on the way both of the controllers' invariants hold:
//! what leaves is clean in the caches before it is written, and redundancy follows it as in any write-back.

use crate::machine::state::Machine;
use crate::mutants::{Mutant, mutated};

impl Machine {
    /// Divides a set as the duel wants it now, if it is not.
    pub(in crate::machine) fn divide_anew(&mut self, set: usize, now: u64) {
        let Some(wanted) = self.controllers.duel().map(|duel| duel.wanted()) else {
            return;
        };
        let ways = self.llc.ways - wanted.redundancy - wanted.diffs;
        let diffs = self.controllers.diffs.as_ref();
        let is_divided = self.llc.array.limit_of(set) == ways as usize
            && diffs.is_none_or(|diffs| diffs.limit_of(set) == wanted.diffs as usize);
        if is_divided {
            return;
        }
        self.divide_diffs(set, wanted.diffs, now);
        while let Some(slot) = self.llc.array.over(set, ways) {
            self.evict_shared(slot, now);
        }
        self.llc.array.limit(set, ways);
        if let Some(caches) = &mut self.controllers.caches {
            caches.divide(set, wanted.redundancy, &mut self.nvm, now);
        }
    }

    /// Lines whose diffs do not fit are written back. Where there were none and now are, what is dirty stays so without one.
    fn divide_diffs(&mut self, set: usize, ways: u32, now: u64) {
        while let Some((line, diff)) =
            (self.controllers.diffs.as_mut()).and_then(|diffs| diffs.take_over(set, ways))
        {
            if mutated(Mutant::CleanedByDivisionUnwritten) {
                let slot = self.shared_slot(line);
                self.llc.entries[slot].is_dirty = false;
                continue;
            }
            self.clean(line, Some(diff), now);
        }
        if let Some(diffs) = &mut self.controllers.diffs {
            diffs.divide(set, ways);
        }
    }
}
