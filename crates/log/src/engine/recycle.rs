//! Reusing the oldest segment.
//!
//! Before it is written over, (1) every dirty block and every range of zeroes of it is on its backing, synced, or carried forward;
//! (2) what is carried forward is durable in its new place; (3) a durable record says that the segment is gone. Segments go
//! strictly by their numbers, so that when an element goes that took blocks away, everything older has gone.

use super::core::{Log, State};
use super::join::{Class, Ready};
use super::waiter::Ticket;
use super::write_back::not_written_back;
use crate::error::{LogError, Result};
use crate::media::{Element, Key, Shape, Summary};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use crate::state::{Entry, ZeroRange, take_pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A segment that is being emptied. Each of its functions is called in their order, by the thread that maintains the log.
pub struct Recycling {
    segment: u64,
    elements: Vec<Element>,
    /// Still to be carried forward.
    carried: Vec<Entry>,
    zeroes: Vec<ZeroRange>,
}

impl Recycling {
    /// A segment with these elements.
    pub(crate) fn of(segment: u64, elements: Vec<Element>) -> Recycling {
        Recycling {
            segment,
            elements,
            carried: Vec::new(),
            zeroes: Vec::new(),
        }
    }

    /// The volumes of its elements, each as often as it has one.
    pub(crate) fn volumes(&self) -> impl Iterator<Item = u32> {
        self.elements.iter().map(|element| element.key.volume)
    }
}

/// What became of the dirty blocks and ranges of a segment.
#[derive(Default)]
pub(crate) struct Cleaned {
    /// The volumes whose backings failed.
    pub(crate) failures: BTreeMap<u32, LogError>,
    /// Those of which ranges were zeroed in part, or not at all.
    pub(crate) unfinished: BTreeSet<u32>,
}

/// How often what is staged may come between before the segment counts as busy.
const TURNS_MAX: usize = 1000;

impl Log {
    /// Makes the oldest segment free, or takes a step to that; false if there is none but the one that is written. A long range of
    /// zeroes in it is zeroed in part, and carried forward for the rest.
    ///
    /// # Errors
    /// The device fails; or a backing fails, and no more room is free after its blocks were carried forward.
    pub fn recycle(&self) -> Result<bool> {
        let _alone = self.maintain();
        let Some(mut recycling) = self.begin_recycling()? else {
            return Ok(false);
        };
        let (free, progress) = (self.free_pages(), self.progress());
        let failed = self.clean_segment(&mut recycling)?;
        for _ in 0..TURNS_MAX {
            loop {
                match self.carry(&mut recycling) {
                    Ok(Some(ticket)) => self.wait(&ticket)?,
                    Ok(None) => break,
                    // The backing that fails is what is to be told. Where none does, the next turn has less to carry: at the end nothing.
                    Err(error @ LogError::NoRoom { .. }) => {
                        return match failed {
                            None if self.progress() != progress => Ok(true),
                            failed => Err(failed.unwrap_or(error)),
                        };
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.release(&recycling) {
                let ticket = self.stage_tail()?;
                self.wait(&ticket)?;
                // What was carried forward may have taken as much room as came free.
                return match failed {
                    Some(error) if self.free_pages() <= free => Err(error),
                    _ => {
                        self.lock().progress.note_freed();
                        Ok(true)
                    }
                };
            }
            // What is staged over its blocks has to be published first. No record of its own: that could take the last segment
            // and free none.
            self.write_one_or_yield()?;
            self.note_left(&mut recycling);
        }
        Err(failed.unwrap_or_else(|| LogError::NoRoom {
            path: self.device.path().to_owned(),
        }))
    }

    /// Pages that may be written before a segment is recycled.
    fn free_pages(&self) -> u64 {
        let free = self.free_segments() * u64::from(self.geometry.segment_pages);
        let state = self.lock();
        let end = self.geometry.groups_end();
        free + state
            .head
            .as_ref()
            .map_or(0, |head| u64::from(end - head.cursor))
    }

    /// Whether a segment has a summary.
    ///
    /// # Errors
    /// The pool is poisoned: the summary may be one of the writes that were never made.
    pub(crate) fn is_sealed(&self, segment: u64) -> Result<bool> {
        let state = self.lock();
        if let Some(why) = &state.poisoned {
            return Err(self.poisoned(why));
        }
        // A group of a later segment is published, so the summary is durable.
        let published = state.table_segment();
        Ok(published.is_some_and(|published| segment < published))
    }

    /// A segment's summary, if it holds.
    pub(crate) fn read_summary(&self, segment: u64) -> Result<Option<Summary>> {
        super::pages::read_summary(&*self.device, self.uuid, self.geometry, segment)
    }

    /// Writes its dirty blocks back and syncs their backings. What cannot be written is to be carried forward, and so are
    /// clean blocks that were read. Returns the last failure of a backing.
    ///
    /// # Errors
    /// The device fails.
    pub fn clean_segment(&self, recycling: &mut Recycling) -> Result<Option<LogError>> {
        let (blocks, _) = self.held_by(recycling);
        recycling.carried = blocks
            .iter()
            .copied()
            .filter(|entry| entry.is_clean() && entry.is_used())
            .collect();
        // A quarter of what is written may be carried forward.
        let carried_max = self.geometry.segment_pages as usize / 4;
        recycling.carried.truncate(carried_max);
        if mutated(Mutant::SsdSegmentReusedDirty) {
            return Ok(None);
        }
        let cleaned = self.clean_volumes(recycling)?;
        self.note_left(recycling);
        Ok(cleaned.failures.into_values().next_back())
    }

    /// Writes its dirty blocks back, and as much of its ranges of zeroes as is zeroed in one turn, and syncs their backings, volume by
    /// volume. What is left of the ranges stays as it is: each piece that was zeroed and synced has left the table, while the
    /// element stands in the log as a whole until its segment goes. So after a crash the whole range is zeroed again, under what
    /// was written into it since (S2, S5), and as much is right then as before (S6).
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn clean_volumes(&self, recycling: &mut Recycling) -> Result<Cleaned> {
        let (blocks, zeroes) = self.held_by(recycling);
        let mut volumes: BTreeMap<u32, (Vec<ZeroRange>, Vec<Entry>)> = BTreeMap::new();
        for range in zeroes {
            volumes.entry(range.first.volume).or_default().0.push(range);
        }
        for entry in blocks.into_iter().filter(|entry| !entry.is_clean()) {
            volumes.entry(entry.key().volume).or_default().1.push(entry);
        }
        let mut cleaned = Cleaned::default();
        let mut left = self.options.zeroed_at_once_blocks;
        for (volume, (mut zeroes, blocks)) in volumes {
            let pieces = take_pieces(&mut zeroes, (usize::MAX, left));
            left -= pieces.iter().map(|piece| piece.count).sum::<u64>();
            if !zeroes.is_empty() {
                cleaned.unfinished.insert(volume);
                self.has_rest.store(true, Ordering::Relaxed);
            }
            match self.clean_volume(volume, (pieces, blocks)) {
                Ok(()) => {}
                Err(
                    error @ (LogError::Backing { .. }
                    | LogError::Transaction(_)
                    // Blocks that the device does not give; nothing is written to it here.
                    | LogError::Device { .. }
                    | LogError::Corrupt { .. }),
                ) => {
                    cleaned.failures.insert(volume, error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(cleaned)
    }

    /// Writes blocks and ranges of one volume back, and syncs. A backing that does not answer is left alone, as one that fails: what
    /// holds of its blocks holds of these (S6), and no other volume waits for it.
    pub(crate) fn clean_volume(
        &self,
        volume: u32,
        dirty: (Vec<ZeroRange>, Vec<Entry>),
    ) -> Result<()> {
        let backing = self.backing_or_error(volume)?;
        if let Some(error) = backing.unanswered() {
            return Err(not_written_back(volume)(error));
        }
        let brought = self.bring(&*backing, dirty)?;
        self.sync_brought((volume, &*backing), brought)
    }

    /// What is still dirty in it has to be carried forward as well.
    fn note_left(&self, recycling: &mut Recycling) {
        let (blocks, zeroes) = self.held_by(recycling);
        let dirty = blocks.into_iter().filter(|entry| !entry.is_clean());
        for entry in dirty {
            if !recycling.carried.iter().any(|one| one.page == entry.page) {
                recycling.carried.push(entry);
            }
        }
        recycling.zeroes = zeroes;
    }

    /// The blocks and ranges of zeroes that it holds now.
    fn held_by(&self, recycling: &Recycling) -> (Vec<Entry>, Vec<ZeroRange>) {
        let state = self.lock();
        let blocks = recycling
            .elements
            .iter()
            .filter_map(|element| state.entry_at(element));
        (blocks.collect(), state.zeroed.of_segment(recycling.segment))
    }

    /// Carries some blocks forward, as a transaction of its own; none if nothing is left to be carried.
    ///
    /// # Errors
    /// The device fails, or there is no room.
    pub fn carry(&self, recycling: &mut Recycling) -> Result<Option<Ticket>> {
        loop {
            let most = self.geometry.group_blocks_max();
            let from = recycling.carried.len().saturating_sub(most);
            let blocks = recycling.carried.split_off(from);
            let from = recycling.zeroes.len().saturating_sub(most - blocks.len());
            let zeroes = recycling.zeroes.split_off(from);
            if blocks.is_empty() && zeroes.is_empty() {
                return Ok(None);
            }
            if let Some(ticket) = self.carry_some(&blocks, &zeroes)? {
                return Ok(Some(ticket));
            }
        }
    }

    /// None if there is nothing left of them to be carried, or no room for what may be dropped as well.
    fn carry_some(&self, blocks: &[Entry], zeroes: &[ZeroRange]) -> Result<Option<Ticket>> {
        let mut loaded = Vec::with_capacity(blocks.len());
        for entry in blocks {
            let mut bytes = Pages::zeroed(1);
            match self.load_entry(*entry, &mut bytes) {
                Ok(()) => loaded.push((*entry, bytes)),
                // The backing has it.
                Err(LogError::Corrupt { .. } | LogError::Device { .. }) if entry.is_clean() => {}
                Err(error) => return Err(error),
            }
        }
        let mut state = self.lock();
        let mut pages = Pages::zeroed(0);
        let mut elements = Vec::new();
        for (old, bytes) in &loaded {
            let Some(entry) = state.carried_entry(*old) else {
                continue;
            };
            let page = pages.push();
            pages.page_mut(page).copy_from_slice(&bytes[..PAGE_BYTES]);
            elements.push(Element {
                key: old.key(),
                shape: Shape::Block {
                    page: 0,
                    check: old.check,
                },
                is_clean: entry.is_clean(),
            });
        }
        for range in zeroes {
            if state.pending.has_any(range.first, range.count) {
                continue;
            }
            let parts = state
                .zeroed
                .of_element(range.first, range.count, range.sequence);
            elements.extend(parts.iter().map(|part| Element {
                key: part.first,
                shape: Shape::Zero { count: part.count },
                is_clean: false,
            }));
        }
        elements.truncate(self.geometry.group_elements_max());
        if elements.is_empty() {
            return Ok(None);
        }
        let is_needed = elements.iter().any(|element| !element.is_clean);
        let class = match is_needed {
            true => Class::Rescue,
            false => Class::User,
        };
        state.tallies.carried += pages.count() as u64;
        let ready = Ready {
            elements,
            pages: Arc::new(pages),
            is_fill: false,
        };
        match self.join(&mut state, ready, class) {
            Err(LogError::NoRoom { .. }) if !is_needed => Ok(None),
            joined => joined.map(Some),
        }
    }

    /// Lets go of the clean blocks that it still holds: from the next record on it is gone. False if something dirty is left.
    ///
    /// # Panics
    /// Another segment was recycled meanwhile.
    pub fn release(&self, recycling: &Recycling) -> bool {
        let (blocks, zeroes) = self.held_by(recycling);
        let is_dirty = blocks.iter().any(|entry| !entry.is_clean()) || !zeroes.is_empty();
        if is_dirty && !mutated(Mutant::SsdSegmentReusedDirty) {
            return false;
        }
        let mut state = self.lock();
        for element in &recycling.elements {
            if let Some(entry) = state.entry_at(element) {
                state.evict(entry);
            }
        }
        for range in zeroes {
            let sequence = Some(range.sequence);
            state.zeroed.remove(range.first, range.count, sequence);
        }
        assert_eq!(state.tail, recycling.segment, "segments go in their order");
        state.tail = recycling.segment + 1;
        state.tallies.recycled += 1;
        true
    }

    /// A record that says which segments are gone, and nothing else.
    ///
    /// # Errors
    /// The pool is poisoned.
    pub fn stage_tail(&self) -> Result<Ticket> {
        self.stage_record(Class::Tail)
    }

    /// A record of the clean points as they are now. It frees nothing, so it leaves as much free as a user's transaction does.
    ///
    /// # Errors
    /// There is no room, or the pool is poisoned.
    pub fn stage_points(&self) -> Result<Ticket> {
        self.stage_record(Class::Usual)
    }

    fn stage_record(&self, class: Class) -> Result<Ticket> {
        let ready = Ready {
            elements: Vec::new(),
            pages: Arc::new(Pages::zeroed(0)),
            is_fill: false,
        };
        self.join(&mut self.lock(), ready, class)
    }
}

impl State {
    /// The segment of the last published group.
    fn table_segment(&self) -> Option<u64> {
        let waiting = self
            .flights
            .front()
            .map(|flight| &flight.group)
            .or(self.queue.front());
        match (waiting, &self.head) {
            // The first group that is not published may be the first of its segment.
            (Some(group), _) if group.has_header() => group.segment.checked_sub(1),
            (Some(group), _) => Some(group.segment),
            (None, Some(head)) => Some(head.contents.segment),
            // All that recovery found have summaries.
            (None, None) => Some(self.next_segment),
        }
    }

    /// The entry that an element of a segment made, if it is still there.
    fn entry_at(&self, element: &Element) -> Option<Entry> {
        let Shape::Block { page, .. } = element.shape else {
            return None;
        };
        let entry = self.table.get(element.key)?;
        (entry.page == page).then_some(entry)
    }

    /// The entry that a block is carried forward for: it still names the old page, and nothing newer is staged.
    fn carried_entry(&self, old: Entry) -> Option<Entry> {
        let key: Key = old.key();
        let entry = self.table.get(key)?;
        let is_same = entry.page == old.page || mutated(Mutant::SsdCarriedOverNewer);
        let is_staged = self.pending.has_any(key, 1) && !mutated(Mutant::SsdCarriedPastPending);
        (is_same && !is_staged).then_some(entry)
    }
}
