//! Room in the sets, where a cleaner makes it: what will be written is counted before the first store, and where a set
//! lacks room the work is given up, to be done again from its beginning when the set has some.

use std::collections::BTreeMap;

use forebay::{Error, ErrorKind, Result};

use super::Flashcache;
use super::cleaning::{Cleaning, Lacking};
use crate::cleaner::Level;

/// A set keeps at least one in so many of its slots clean: it is small, and a round is to have several blocks of it.
const CLEAN_SHARE: u64 = 32;

impl Flashcache {
    pub(in super::super) fn set_cleaning(&mut self, cleaning: Cleaning) {
        self.cleaning = cleaning;
    }

    /// What the last work lacked, if that is why it failed.
    pub(in super::super) fn take_lacking(&mut self) -> Option<Lacking> {
        self.lacking.take()
    }

    /// How the sets stand: a clean slot is taken without writing anything, so it counts as free.
    pub(in super::super) fn level(&self, set: usize) -> Level {
        let slots = u64::from(self.geometry.slots_of(set));
        let dirty = self.table.dirty_in(set) as u64;
        Level {
            slots,
            free: slots - dirty,
            dirty,
            free_least: (slots / CLEAN_SHARE).max(1),
        }
    }

    /// The sets that were written to since this was last asked.
    pub(in super::super) fn take_touched(&mut self) -> Vec<Level> {
        let touched = std::mem::take(&mut self.touched);
        touched.into_iter().map(|set| self.level(set)).collect()
    }

    /// Whether all of these blocks can be written one after the other without a cleaning, where that is asked for.
    ///
    /// # Errors
    /// `NoSpace`, and [`Flashcache::take_lacking`] says where.
    pub(in super::super) fn check_room(
        &mut self,
        numbers: impl Iterator<Item = u64>,
    ) -> Result<()> {
        if self.cleaning != Cleaning::InBackground {
            return Ok(());
        }
        let mut needed: BTreeMap<usize, u64> = BTreeMap::new();
        for number in numbers {
            // One that is clean may be evicted for another one before its turn comes.
            let is_dirty = self.is_dirty(number);
            *needed.entry(self.geometry.set_of(number)).or_default() += u64::from(!is_dirty);
        }
        let lacks = |(set, slots): &(usize, u64)| self.level(*set).free < *slots;
        match needed.into_iter().find(lacks) {
            Some((set, slots)) => Err(self.note_lacking(set, slots)),
            None => Ok(()),
        }
    }

    pub(super) fn note_lacking(&mut self, set: usize, slots: u64) -> Error {
        let level = self.level(set);
        self.lacking = Some(Lacking {
            set,
            slots,
            is_too_many: slots > level.slots / 2,
        });
        ErrorKind::NoSpace {
            waited_ms: 0,
            dirty_blocks: level.dirty,
        }
        .into()
    }
}
