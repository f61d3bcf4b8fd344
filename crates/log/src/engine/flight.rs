//! A group on its way to the device: one write, and before the first of a segment the summary of the one before.

use super::core::{Log, State};
use super::group::{Contents, Group, InFlight, Settles};
use crate::device::Device;
use crate::error::Result;
use crate::media::{CleanPoints, Record, SegmentHeader, Summary};
use crate::mutants::{Mutant, mutated};
use crate::page::{PAGE_BYTES, Pages};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is to be written for a group. Whoever takes it writes it, and tells the log what came of it.
pub struct Flight {
    number: u64,
    /// The summary of the segment before, and whether groups that it lists are to be flushed first.
    seal: Option<(u64, Pages)>,
    is_flushed_first: bool,
    page: u64,
    /// The segment's header, if it is the first group there, and the record.
    start: Pages,
    blocks: Vec<Arc<Pages>>,
    settles: Settles,
    is_durable: bool,
}

impl Flight {
    /// Writes the summary of the segment before, if it is due. All groups that it lists are durable by then.
    ///
    /// # Errors
    /// The system's.
    pub fn write_seal(&self, device: &dyn Device) -> io::Result<()> {
        if self.is_flushed_first && !mutated(Mutant::SsdSealListsUnsettled) {
            device.flush()?;
        }
        match &self.seal {
            Some((page, pages)) => device.write_durable(*page, &[pages]),
            None => Ok(()),
        }
    }

    /// Where the group goes, in pages.
    #[must_use]
    pub fn page(&self) -> u64 {
        self.page
    }

    /// All of it, in order.
    #[must_use]
    pub fn parts(&self) -> Vec<&[u8]> {
        let blocks = self.blocks.iter().map(|pages| &pages[..]);
        std::iter::once(&self.start[..])
            .chain(blocks.filter(|blocks| !blocks.is_empty()))
            .collect()
    }

    /// Whether it is to be made durable, which without a fault it is.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Writes it, and flushes behind it if its members wait for that.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&self, device: &dyn Device) -> io::Result<()> {
        match self.is_durable {
            true => device.write_durable(self.page, &self.parts()),
            false => device.write(self.page, &self.parts()),
        }?;
        self.flush(device)
    }

    /// The flush behind its write, if there is one: it orders this group and all before it before their acknowledgement.
    ///
    /// # Errors
    /// The system's.
    pub fn flush(&self, device: &dyn Device) -> io::Result<()> {
        match self.settles == Settles::ByFlush && !mutated(Mutant::SsdAckBeforeFlush) {
            true => device.flush(),
            false => Ok(()),
        }
    }
}

/// Every group whose members wait for it is, also one of fills alone: a later group counts only if this one does.
fn is_durable(group: &Group, settles: Settles) -> bool {
    let is_plain = mutated(Mutant::SsdFillGroupUnsynced) && group.has_only_fills;
    settles == Settles::ByItself && !is_plain && !mutated(Mutant::SsdAckBeforeFlush)
}

impl State {
    /// How a group that is written next becomes durable.
    fn settles(&self, group: &Group) -> Settles {
        if group.is_unsynced {
            return Settles::Later;
        }
        let is_gap = |flight: &InFlight| flight.settles == Settles::Later;
        let has_gap = !self.settled.is_all() && group.seal.is_none();
        let is_alone = !has_gap && !self.flights.iter().any(is_gap);
        match is_alone || mutated(Mutant::SsdDurableBehindGap) {
            true => Settles::ByItself,
            false => Settles::ByFlush,
        }
    }

    /// The group to be written next, closed; none if there is none, or if its segment's first write has to wait.
    fn next_group(&mut self, log: &Log) -> Option<Group> {
        if self.poisoned.is_some() || self.flights.len() >= log.options.depth as usize {
            return None;
        }
        let front = self.queue.front()?;
        // A summary lists durable groups alone, and a flush orders those writes alone that have returned.
        let has_seal = front.seal.is_some() && !mutated(Mutant::SsdSealListsInFlight);
        let waits = has_seal || self.settles(front) == Settles::ByFlush;
        if waits && !self.flights.is_empty() {
            return None;
        }
        if front.is_open {
            self.close_last(log.geometry);
        }
        self.queue.pop_front()
    }
}

impl Log {
    /// Takes the next group, which nobody joins from now on; none if there is none, or if it has to wait for those under way.
    pub fn take_group(&self) -> Option<Flight> {
        let mut state = self.lock();
        let mut group = state.next_group(self)?;
        let (tail, points) = (state.tail, state.points);
        let recorded = match group.has_header() {
            true => CleanPoints::NONE,
            false => state.points_recorded,
        };
        let settles = state.settles(&group);
        let seal = group.seal.take();
        let flushed_first =
            (seal.is_some() && !state.settled.is_all()).then(|| state.settled.begin_flush());
        // All before a segment's first group are durable when it is written.
        let settled = match seal.is_some() {
            true => group.number,
            false => state.settled.below(),
        };
        let flight = Flight {
            number: group.number,
            is_flushed_first: flushed_first.is_some(),
            settles,
            seal: seal.map(|contents| self.summary(contents, &state, false)),
            page: self.geometry.page_of(group.segment) + u64::from(group.start),
            start: self.start_of(&group, (tail, points), (settled, &recorded)),
            blocks: group.members.iter().map(|one| one.pages.clone()).collect(),
            is_durable: is_durable(&group, settles),
        };
        state.flights.push_back(InFlight {
            group,
            settles,
            flushed_first,
            tail,
            points,
            outcome: None,
        });
        Some(flight)
    }

    /// The page of a segment's summary, and what it says.
    pub(crate) fn summary(
        &self,
        contents: Contents,
        state: &State,
        is_closed: bool,
    ) -> (u64, Pages) {
        let page = self.geometry.page_of(contents.segment) + u64::from(self.geometry.groups_end());
        let summary = Summary {
            segment: contents.segment,
            incarnation: self.incarnation.number,
            first_sequence: contents.first_sequence,
            first_group: contents.first_group,
            last_group: contents.last_group,
            // A summary is durable before the group that it makes way for. Were that group's tail in it, a crash between the two would
            // leave the oldest segment gone, and not what the group lets go of. No segment may say of itself that it is gone.
            tail: state.settled.tail_durable().min(contents.segment),
            points: state.points,
            is_closed,
            elements: contents.elements,
        };
        (page, summary.encode(self.uuid))
    }

    fn start_of(
        &self,
        group: &Group,
        (tail, points): (u64, CleanPoints),
        (settled, recorded): (u64, &CleanPoints),
    ) -> Pages {
        let record = Record {
            group: group.number,
            settled,
            first_sequence: group.first_sequence,
            tail,
            points,
            elements: group.all_elements(),
            inline: group.all_inline(),
        };
        let header_pages = usize::from(group.has_header());
        let mut pages = Pages::zeroed(header_pages + record.pages() as usize);
        let (header, rest) = pages.split_at_mut(header_pages * PAGE_BYTES);
        if group.has_header() {
            let of_segment = SegmentHeader {
                segment: group.segment,
                incarnation: self.incarnation.number,
                first_sequence: group.first_sequence,
                first_group: group.number,
                tail,
                points,
            };
            of_segment.encode(self.uuid, header);
        }
        let place = (group.segment, group.start + header_pages as u32);
        record.encode(self.incarnation.salt, place, recorded, rest);
        pages
    }

    /// Tells what came of a group's write, after so long. Readers see it and its committers return as soon as all groups
    /// before it are durable; if it failed, nothing is ever published again.
    ///
    /// # Errors
    /// It failed.
    pub fn finish(&self, flight: &Flight, written: io::Result<()>, took: Duration) -> Result<()> {
        let said = match &written {
            Ok(()) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        self.note_written(flight.number, said, took);
        written.map_err(self.failed("write a group"))
    }

    /// Writes a group that was taken, and tells the log.
    ///
    /// # Errors
    /// It failed.
    pub fn write_group(&self, flight: &Flight) -> Result<()> {
        let device = &*self.device;
        let start = Instant::now();
        let sealed = flight.write_seal(device);
        let written = sealed.and_then(|()| flight.write(device));
        self.finish(flight, written, start.elapsed())
    }
}
