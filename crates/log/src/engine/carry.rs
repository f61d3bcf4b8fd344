//! Carrying forward what a segment that is recycled still holds: dirty blocks and ranges that a backing did not take, and clean blocks
//! that are read.
//!
//! Nothing is carried for a backing's sake unless all of it has room (S8): the last segment that is free is the tail record's.

use super::core::{Log, State};
use super::join::{Class, Ready};
use super::recycle::Recycling;
use super::rescue::{Rescue, carried_groups, cut_groups};
use super::waiter::Ticket;
use crate::error::{LogError, Result};
use crate::media::{Element, Key, Shape, check_of};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Entry, Held, ZeroRange};
use std::sync::Arc;

impl Log {
    /// Carries some blocks forward, as a transaction of its own; none if nothing is left to be carried. Where not all has room, clean
    /// blocks are dropped.
    ///
    /// # Errors
    /// The device fails, or there is no room for all that has to be carried: then nothing of it was.
    ///
    /// # Panics
    /// What was begun with room for all of it has none.
    pub fn carry(&self, recycling: &mut Recycling) -> Result<Option<Ticket>> {
        loop {
            if !recycling.is_begun && !self.lock().has_room_to_carry(self, recycling) {
                recycling.carried.retain(|entry| !entry.is_clean());
            }
            let from = recycling
                .carried
                .len()
                .saturating_sub(self.geometry.carried_at_once());
            let blocks = recycling.carried.split_off(from);
            if blocks.is_empty() && recycling.zeroes.is_empty() {
                return Ok(None);
            }
            let carried = self.carry_some(&blocks, recycling);
            match &carried {
                // The rest of the head is of no use to what cannot be carried as a whole. What is begun still counts on it, whatever
                // fails.
                Err(LogError::NoRoom { .. }) if !recycling.is_begun => {
                    self.lock().is_held_up = true;
                }
                Ok(Some(_)) => self.lock().is_held_up = false,
                _ => {}
            }
            if let Some(ticket) = carried? {
                return Ok(Some(ticket));
            }
            if blocks.is_empty() && !recycling.is_begun {
                // Something is staged over each range of a group: it has to be published first.
                return Ok(None);
            }
        }
    }

    /// None if there is nothing left of them to be carried, or no room for what may be dropped as well. With the last blocks go as many
    /// ranges as a group takes.
    fn carry_some(&self, blocks: &[Entry], recycling: &mut Recycling) -> Result<Option<Ticket>> {
        let loaded = self.load_carried(blocks)?;
        let mut state = self.lock();
        let zeroes = state.take_ranges(self, blocks.len(), recycling);
        let mut pages = Pages::zeroed(0);
        let mut elements = Vec::new();
        for (old, check, bytes) in &loaded {
            let Some(entry) = state.carried_entry(old) else {
                continue;
            };
            let page = pages.push();
            pages.page_mut(page).copy_from_slice(&bytes[..PAGE_BYTES]);
            elements.push(Element {
                key: entry.key(),
                shape: Shape::Block {
                    page: 0,
                    check: *check,
                },
                is_clean: entry.is_clean(),
            });
        }
        for range in &zeroes {
            elements.extend(state.carried_parts(*range));
        }
        if elements.is_empty() {
            return Ok(None);
        }
        let is_needed = elements.iter().any(|element| !element.is_clean);
        if is_needed && !recycling.is_begun {
            let left = (
                blocks.len() + recycling.carried.len(),
                zeroes.len() + recycling.zeroes.len(),
            );
            recycling.is_begun = state.begin_carrying(self, left);
            if !recycling.is_begun {
                return Err(self.no_room());
            }
        }
        // What is cut off for want of room in the group that was planned is found again by the next look at the segment.
        let planned = state.rescue.as_mut().and_then(Rescue::next_group);
        let most = planned.map_or(usize::MAX, |(elements, _)| elements);
        elements.truncate(most.min(self.geometry.group_elements_max()));
        state.tallies.carried += pages.count() as u64;
        let ready = Ready {
            elements,
            pages: Arc::new(pages),
            inline: Vec::new(),
            is_fill: false,
            is_unsynced: false,
        };
        let class = match is_needed {
            true => Class::Rescue,
            false => Class::User,
        };
        let joined = self.join(&mut state, ready, class);
        if is_needed {
            state.check_rescue(self, &joined);
        }
        match joined {
            Err(LogError::NoRoom { .. }) if !is_needed => Ok(None),
            joined => joined.map(Some),
        }
    }

    /// Their bytes, with their patches, and the checks of these; clean ones that are damaged, or that the device does not give, stay behind.
    fn load_carried(&self, blocks: &[Entry]) -> Result<Vec<(Held, u32, Pages)>> {
        let mut loaded = Vec::with_capacity(blocks.len());
        for entry in blocks {
            let mut bytes = Pages::zeroed(1);
            // What has gone is written anew.
            let Some(held) = self.lock().held(*entry) else {
                continue;
            };
            let read = match mutated(Mutant::SsdCarriedWithoutPatch) {
                true => self.load_entry(*entry, &mut bytes),
                false => self.load_held(&held, &mut bytes),
            };
            match read {
                Ok(()) => {
                    let check = match &held.patched {
                        None => entry.check,
                        Some(_) => check_of(entry.key(), &bytes[..PAGE_BYTES]),
                    };
                    loaded.push((held, check, bytes));
                }
                // The backing has it.
                Err(LogError::Corrupt { .. } | LogError::Device { .. }) if entry.is_clean() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(loaded)
    }
}

impl State {
    /// Whether all that is to be carried has room, down to the last.
    fn has_room_to_carry(&self, log: &Log, recycling: &Recycling) -> bool {
        let ranges = self.zeroed.of_segment(recycling.segment()).len();
        let left = (recycling.carried.len(), ranges);
        let spare = self.spare_segments(log.geometry);
        self.fits(log.geometry, self.groups_to_carry(log, left), spare)
            || mutated(Mutant::SsdCarriedIntoLastSegment)
    }

    /// The groups in which so many blocks and ranges are carried, and the pieces of ranges that each group staged now may leave behind it:
    /// these are carried when it is published.
    fn groups_to_carry(&self, log: &Log, left: (usize, usize)) -> Vec<(usize, usize)> {
        let at_once = log.geometry.carried_at_once();
        let mut groups: Vec<_> = carried_groups(left, at_once).collect();
        if left.1 > 0 {
            let flights = self.flights.iter().map(|flight| flight.group.size.elements);
            let queued = self.queue.iter().map(|group| group.size.elements);
            groups.extend(
                flights
                    .chain(queued)
                    .flat_map(|elements| cut_groups(elements, at_once)),
            );
        }
        groups
    }

    /// Begins to carry so many blocks and ranges, if all have room. From then on nothing joins that would take it (S11).
    fn begin_carrying(&mut self, log: &Log, left: (usize, usize)) -> bool {
        if mutated(Mutant::SsdCarriedIntoLastSegment) {
            return true;
        }
        let groups = self.groups_to_carry(log, left);
        let spare = self.spare_segments(log.geometry);
        let pieces_max = (left.1 > 0).then(|| log.geometry.carried_at_once());
        self.begin_rescue(log.geometry, (groups, spare), pieces_max)
    }

    /// S11: what was begun has room, and leaves as many segments as it was to leave.
    fn check_rescue(&self, log: &Log, joined: &Result<Ticket>) {
        let Some(rescue) = &self.rescue else { return };
        let has_none = matches!(joined, Err(LogError::NoRoom { .. }));
        let (free, least) = (self.free_segments(log.geometry), rescue.least_free);
        assert!(
            !has_none && free >= least,
            "a rescue that was begun with room for all of it leaves {free} segments free, not {least} or more; {has_none}"
        );
    }

    /// The next of the ranges, so many that they fill a group of so many blocks. Until something is begun they are those that the segment
    /// has at this moment: since it was looked through some may have been cut.
    fn take_ranges(&self, log: &Log, blocks: usize, recycling: &mut Recycling) -> Vec<ZeroRange> {
        if !recycling.is_begun {
            recycling.zeroes = self.zeroed.of_segment(recycling.segment());
        }
        let most = log.geometry.carried_at_once() - blocks;
        let from = recycling.zeroes.len().saturating_sub(most);
        recycling.zeroes.split_off(from)
    }

    /// The entry that a block is carried forward for: it still names the old page, with the same patches, and nothing newer is staged.
    fn carried_entry(&self, old: &Held) -> Option<Entry> {
        let key: Key = old.entry.key();
        let entry = match mutated(Mutant::SsdCarriedOverNewer) {
            true => self.table.get(key),
            false => self.still(old),
        }?;
        let is_staged = self.pending.has_any(key, 1) && !mutated(Mutant::SsdCarriedPastPending);
        (!is_staged).then_some(entry)
    }

    /// What is left of a range of zeroes, if nothing newer is staged.
    fn carried_parts(&self, range: ZeroRange) -> Vec<Element> {
        if self.pending.has_any(range.first, range.count) {
            return Vec::new();
        }
        let parts = self
            .zeroed
            .of_element(range.first, range.count, range.sequence);
        let elements = parts.iter().map(|part| Element {
            key: part.first,
            shape: Shape::Zero { count: part.count },
            is_clean: false,
        });
        elements.collect()
    }
}
