//! Reusing the oldest segment.
//!
//! Before it is written over, (1) every dirty block and every range of zeroes of it is on its backing, synced, or carried forward;
//! (2) what is carried forward is durable in its new place; (3) a durable record says that the segment is gone. Segments go
//! strictly by their numbers, so that when an element goes that took blocks away, everything older has gone.

use super::core::{Head, Log, State};
use super::join::{Class, Ready};
use super::waiter::Ticket;
use super::write_back::not_written_back;
use crate::error::{LogError, Result};
use crate::media::{Element, Inline, Key, Shape, Summary};
use crate::mutants::{Mutant, mutated};
use crate::page::Pages;
use crate::state::{Entry, ZeroRange, take_pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A segment that is being emptied. Each of its functions is called in their order, by the thread that maintains the log.
pub struct Recycling {
    segment: u64,
    elements: Vec<Element>,
    /// Still to be carried forward.
    pub(crate) carried: Vec<Entry>,
    pub(crate) zeroes: Vec<ZeroRange>,
    /// Something of it is carried, and all of it has room.
    pub(crate) is_begun: bool,
}

impl Recycling {
    /// A segment with these elements.
    pub(crate) fn of(segment: u64, elements: Vec<Element>) -> Recycling {
        Recycling {
            segment,
            elements,
            carried: Vec::new(),
            zeroes: Vec::new(),
            is_begun: false,
        }
    }

    /// Its number.
    pub(crate) fn segment(&self) -> u64 {
        self.segment
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
pub(super) const TURNS_MAX: usize = 1000;

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
        let recycled = self.recycle_begun(&mut recycling);
        self.lock().rescue = None;
        recycled
    }

    fn recycle_begun(&self, recycling: &mut Recycling) -> Result<bool> {
        self.publish_patches(recycling)?;
        let (free, progress) = (self.free_pages(), self.progress());
        let failed = self.clean_segment(recycling)?;
        for _ in 0..TURNS_MAX {
            loop {
                match self.carry(recycling) {
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
            if self.release(recycling) {
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
            self.note_left(recycling);
        }
        Err(failed.unwrap_or_else(|| self.no_room()))
    }

    /// Waits until no patch of a block that the segment holds is staged any more. None joins (S13), so from then on none of its blocks
    /// that is clean becomes dirty: what is to be carried of it is counted once (S11).
    pub(super) fn publish_patches(&self, recycling: &Recycling) -> Result<()> {
        while self.has_patch_staged(recycling)? {
            self.write_one_or_yield()?;
        }
        Ok(())
    }

    /// Whether a patch of a block that the segment holds is staged.
    ///
    /// # Errors
    /// The pool is poisoned: what is staged stays so.
    pub fn has_patch_staged(&self, recycling: &Recycling) -> Result<bool> {
        let state = self.lock();
        if let Some(why) = &state.poisoned {
            return Err(self.poisoned(why));
        }
        Ok(state.has_patch_staged(recycling))
    }

    /// Pages that may be written before a segment is recycled.
    fn free_pages(&self) -> u64 {
        let free = self.free_segments() * u64::from(self.geometry.segment_pages);
        let state = self.lock();
        let end = u64::from(self.geometry.groups_end());
        // What is kept for whole blocks in records is not written.
        let left = |head: &Head| {
            let used = u64::from(head.cursor) + head.contents.kept_pages as u64;
            end.saturating_sub(used)
        };
        free + state.head.as_ref().map_or(0, left)
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
        let (mut blocks, zeroes) = self.held_by(recycling);
        if !mutated(Mutant::SsdCleanedPastPatch) {
            blocks.extend(self.lock().patched_by(recycling));
        }
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
            let is_it = |one: &Entry| one.page == entry.page && one.key() == entry.key();
            if !recycling.carried.iter().any(is_it) {
                recycling.carried.push(entry);
            }
        }
        recycling.zeroes = zeroes;
    }

    /// The blocks and ranges of zeroes that it holds now.
    fn held_by(&self, recycling: &Recycling) -> (Vec<Entry>, Vec<ZeroRange>) {
        self.lock().held_by(recycling)
    }

    /// Lets go of the clean blocks that it still holds: from the next record on it is gone. False if something dirty is left.
    ///
    /// # Panics
    /// Another segment was recycled meanwhile.
    pub fn release(&self, recycling: &Recycling) -> bool {
        self.lock().release(recycling, None)
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
            inline: Vec::new(),
            is_fill: false,
            is_unsynced: false,
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

    fn held_by(&self, recycling: &Recycling) -> (Vec<Entry>, Vec<ZeroRange>) {
        let elements = recycling.elements.iter();
        let blocks = elements.filter_map(|element| self.entry_at(element));
        let mut blocks: Vec<Entry> = blocks.collect();
        // Of a page that has several blocks, one may be there more than once.
        let mut inline = BTreeSet::new();
        blocks.retain(|entry| !entry.is_patched() || inline.insert(entry.key()));
        (blocks, self.zeroed.of_segment(recycling.segment))
    }

    /// The blocks of older segments that have patches in this one.
    fn patched_by(&self, recycling: &Recycling) -> Vec<Entry> {
        let elements = recycling.elements.iter();
        let inline = elements.filter(|element| matches!(element.shape, Shape::Inline(_)));
        let keys: BTreeSet<Key> = inline.map(|element| element.key).collect();
        let entries = keys.into_iter().filter_map(|key| self.table.get(key));
        let place = self.live.place_of(recycling.segment);
        entries
            .filter(|entry| entry.is_patched() && self.live.place_of_page(entry.page) != place)
            .collect()
    }

    /// Lets go of what a segment still holds: from the next record on it is gone. False if something dirty is left, but of a volume that the
    /// next group lets go of.
    ///
    /// # Panics
    /// Another segment was recycled meanwhile.
    pub(super) fn release(&mut self, recycling: &Recycling, gone: Option<u32>) -> bool {
        let (blocks, zeroes) = self.held_by(recycling);
        let dirty = blocks.iter().filter(|entry| !entry.is_clean());
        let dirty = dirty.map(|entry| entry.key().volume);
        let mut volumes = dirty.chain(zeroes.iter().map(|range| range.first.volume));
        let is_dirty = volumes.any(|volume| Some(volume) != gone);
        // S13: what a patch that is staged is to be laid over stays.
        if self.has_patch_over(&blocks) {
            return false;
        }
        if is_dirty && !mutated(Mutant::SsdSegmentReusedDirty) {
            return false;
        }
        for entry in blocks {
            self.evict(entry);
        }
        for range in zeroes {
            let sequence = Some(range.sequence);
            self.zeroed.remove(range.first, range.count, sequence);
        }
        assert_eq!(self.tail, recycling.segment, "segments go in their order");
        self.tail = recycling.segment + 1;
        self.rescue = None;
        self.is_held_up = false;
        self.tallies.recycled += 1;
        true
    }

    /// Whether a patch of a block that a segment holds is staged.
    pub(super) fn has_patch_staged(&self, recycling: &Recycling) -> bool {
        self.has_patch_over(&self.held_by(recycling).0)
    }

    /// Whether a patch of one of these blocks is staged.
    fn has_patch_over(&self, blocks: &[Entry]) -> bool {
        if mutated(Mutant::SsdBaseGoneUnderPatch) {
            return false;
        }
        let has_staged = |entry: &Entry| self.pending.patches_of(entry.key()) > 0;
        blocks.iter().any(has_staged)
    }

    /// The entry that an element of a segment made, if it is still there.
    fn entry_at(&self, element: &Element) -> Option<Entry> {
        let page = match element.shape {
            Shape::Block { page, .. } => page,
            Shape::Inline(inline @ Inline { page, .. }) if inline.is_whole() => page,
            _ => return None,
        };
        let entry = self.table.get(element.key)?;
        (entry.page == page).then_some(entry)
    }
}
