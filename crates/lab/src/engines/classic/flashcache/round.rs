//! What a round of the cleaner does to the block cache: its part of `Cleanable`, under the engine's mutex.

use std::ops::Range;

use forebay::Result;

use super::super::layout::{Entry, State};
use super::Flashcache;
use crate::cleaner::{Goal, Picked, Portion, Settled, Standing};
use crate::shared::InFlight;

impl Flashcache {
    pub(in super::super) fn in_flight(&mut self) -> &mut InFlight {
        &mut self.in_flight
    }

    /// Picks dirty blocks of the sets and claims them. What is clean need not leave: it is taken as it is.
    pub(in super::super) fn pick(&mut self, goals: &[(usize, Goal)]) -> Vec<Picked> {
        self.in_flight.begin_round();
        let mut picked = Vec::new();
        for &(set, goal) in goals {
            let count = match goal {
                Goal::Coldest(blocks) | Goal::Clean(blocks) => blocks,
                Goal::ColdestClean(_) => 0,
            };
            for block in self.oldest_with_neighbours(set, count) {
                self.in_flight.claim(block);
                let slot = self.table.find(block).expect("it is dirty");
                picked.push(self.picked_dirty(slot, set));
            }
        }
        picked
    }

    /// Picks the first dirty slots of these and claims them, so many at most.
    pub(in super::super) fn pick_dirty(&mut self, slots: Range<u64>, blocks_max: usize) -> Portion {
        let dirty = self.table.dirty_slots();
        let dirty = dirty.filter(|slot| slots.contains(&u64::from(*slot)));
        let dirty = dirty.map(|slot| {
            let set = self.geometry.set_of(self.table.entry(slot).number);
            (u64::from(slot), self.picked_dirty(slot, set))
        });
        let dirty = dirty.collect();
        Portion::claimed(dirty, blocks_max, &mut self.in_flight)
    }

    fn picked_dirty(&self, slot: u32, set: usize) -> Picked {
        Picked {
            block: self.table.entry(slot).number,
            place: slot,
            offset: self.geometry.slot_offset(slot),
            pool: set,
            leaves: false,
            standing: Standing::Dirty,
        }
    }

    /// Ends a round for blocks whose entries one metadata block has: those that the disk has and that did not change
    /// are clean, durably, before their slots are taken. `ignores_rewrite` is a fault.
    ///
    /// # Errors
    /// The medium's.
    pub(in super::super) fn end_round(
        &mut self,
        picked: &[Picked],
        ignores_rewrite: bool,
    ) -> Result<Settled> {
        let mut settled = Settled::default();
        for one in picked {
            let is_same = self.in_flight.release(one.block) || ignores_rewrite;
            match one.standing {
                Standing::OnDisk if is_same => {
                    settled.done += 1;
                    let (number, state) = (one.block, State::Clean);
                    self.table.set(one.place, Entry { number, state });
                }
                Standing::OnDisk => settled.changed += 1,
                Standing::Clean | Standing::Dirty => {}
            }
        }
        if settled.done > 0 {
            self.write_metadata(self.geometry.metadata_block_of(picked[0].place))?;
        }
        Ok(settled)
    }
}
