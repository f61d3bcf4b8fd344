//! Which entries claim which slots: several may share one, if they say the same of it.

use std::collections::{BTreeSet, HashMap};

use crate::error::Result;
use crate::media::entry::{Entry, Kind};
use crate::recovery::mappings::{Mappings, Stores};
use crate::recovery::report::Notes;

/// The claims seen so far.
pub(super) struct Claims {
    /// One bit for each claimed slot.
    claimed: Vec<u64>,
    /// Slots that were claimed again.
    contested: BTreeSet<u32>,
}

impl Claims {
    pub(super) fn new(slots: u32) -> Claims {
        Claims {
            claimed: vec![0; (slots as usize).div_ceil(64)],
            contested: BTreeSet::new(),
        }
    }

    /// Takes the claim of an entry in.
    pub(super) fn add(&mut self, entry: Entry) {
        let Some(slot) = entry.slot().filter(|_| entry.kind() == Kind::Data) else {
            return;
        };
        let word = &mut self.claimed[slot as usize / 64];
        let bit = 1 << (slot % 64);
        if *word & bit != 0 {
            self.contested.insert(slot);
        }
        *word |= bit;
    }

    /// Of the entries that claim one slot, those that the first one contradicts are damage: they go.
    /// Returns their numbers, ascending.
    pub(super) fn settle(
        &self,
        mappings: &mut Mappings,
        stores: &mut Stores,
        notes: &mut Notes,
    ) -> Result<Vec<u32>> {
        if self.contested.is_empty() {
            return Ok(Vec::new());
        }
        let mut first: HashMap<u32, (u32, bool)> = HashMap::new();
        let mut losers = Vec::new();
        for (index, entry) in &*mappings {
            let Some(slot) = entry.slot().filter(|slot| self.contested.contains(slot)) else {
                continue;
            };
            let told = (entry.crc(), entry.is_packed());
            let agreed = *first.entry(slot).or_insert(told) == told && !entry.is_partial();
            if !agreed {
                losers.push(*index);
                notes.damage(format!(
                    "entry {index} claims slot {slot}, of which another entry says otherwise"
                ))?;
            }
        }
        mappings.retain(|(index, entry)| {
            let stays = losers.binary_search(index).is_err();
            if !stays {
                notes.report.dirty_blocks -= u64::from(!entry.is_clean());
            }
            stays
        });
        stores.retain(|(index, _)| losers.binary_search(index).is_err());
        stores.extend(losers.iter().map(|index| (*index, Entry::FREE)));
        stores.sort_by_key(|(index, _)| *index);
        Ok(losers)
    }
}
