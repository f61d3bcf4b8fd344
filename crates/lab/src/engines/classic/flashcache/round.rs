//! What a round of the cleaner does to the block cache: its part of `Cleanable`, under the engine's mutex.

use forebay::Result;

use super::super::layout::{Entry, State};
use super::Flashcache;
use crate::cleaner::{Goal, Picked, Settled, Standing};
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
                Goal::CleanAll => usize::MAX,
            };
            for block in self.oldest_with_neighbours(set, count) {
                self.in_flight.claim(block);
                picked.push(Picked {
                    block,
                    place: self.table.find(block).expect("it is dirty"),
                    pool: set,
                    leaves: false,
                    standing: Standing::Dirty,
                });
            }
        }
        picked
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
