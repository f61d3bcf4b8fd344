//! Which entries claim which slots: several may share one, if they say the same of it. Slots of pairs and columns of rows in
//! one group are the same places: it has slots of one kind.

use std::collections::{BTreeSet, HashMap};

use crate::error::Result;
use crate::media::entry::{Entry, Kind};
use crate::media::geometry::Geometry;
use crate::recovery::mappings::{Mappings, Stores};
use crate::recovery::report::Notes;

/// The claims seen so far.
pub(super) struct Claims {
    /// One bit for each claimed slot.
    claimed: Vec<u64>,
    /// Slots that were claimed again.
    contested: BTreeSet<u32>,
    /// For each group of a pool with rows what was claimed there: bit 0, slots of pairs; bit 1, columns.
    kinds: Vec<u8>,
    /// Groups of which both were.
    torn_groups: BTreeSet<u32>,
    geometry: Geometry,
}

impl Claims {
    pub(super) fn new(geometry: &Geometry) -> Claims {
        Claims {
            claimed: vec![0; (geometry.slots() as usize).div_ceil(64)],
            contested: BTreeSet::new(),
            kinds: vec![0; geometry.groups() as usize],
            torn_groups: BTreeSet::new(),
            geometry: *geometry,
        }
    }

    /// Takes the claim of an entry in.
    pub(super) fn add(&mut self, entry: Entry) {
        if let Some(slot) = entry.slot().filter(|_| self.geometry.has_rows) {
            let group = self.geometry.group_of(slot);
            let kinds = &mut self.kinds[group as usize];
            *kinds |= kind_of(&self.geometry, slot);
            if *kinds == 3 {
                self.torn_groups.insert(group);
            }
        }
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
        if self.contested.is_empty() && self.torn_groups.is_empty() {
            return Ok(Vec::new());
        }
        let mut first: HashMap<u32, (u32, bool)> = HashMap::new();
        let mut losers = Vec::new();
        let mut first_of_groups: HashMap<u32, u8> = HashMap::new();
        for (index, entry) in &*mappings {
            let Some(slot) = entry.slot() else { continue };
            let kind = kind_of(&self.geometry, slot);
            let is_other_kind = self
                .torn_group_of(slot)
                .is_some_and(|group| *first_of_groups.entry(group).or_insert(kind) != kind);
            if is_other_kind {
                losers.push(*index);
                notes.damage(format!(
                    "entry {index} claims slot {slot}, in places that another entry claims otherwise"
                ))?;
                continue;
            }
            if !self.contested.contains(&slot) {
                continue;
            }
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

    /// The group of a slot, if both kinds were claimed there.
    fn torn_group_of(&self, slot: u32) -> Option<u32> {
        if self.torn_groups.is_empty() {
            return None;
        }
        let group = self.geometry.group_of(slot);
        self.torn_groups.contains(&group).then_some(group)
    }
}

/// The kind of a slot, as a bit.
fn kind_of(geometry: &Geometry, slot: u32) -> u8 {
    match geometry.column_of(slot) {
        None => 1,
        Some(_) => 2,
    }
}
