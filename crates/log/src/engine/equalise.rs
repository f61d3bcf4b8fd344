//! What recovery accepts, on whichever member it found it, is made the same on both.
//!
//! After a crash two members may differ in what was under way: groups that nobody was told of, a summary, a page of a row. A group that
//! one of them has whole counts, so readers will see it, and then both have to have it: **everything that was accepted is written
//! where it is lacking; the flush that recovery makes next orders that before the summary and the incarnation**. Nothing else is
//! written, so a crash on the way leaves what the next recovery finds to be the same.

use super::load::{Loaded, Loader, Loads};
use super::pages::{read_pages, summary_on};
use super::volume_table::newest_pages;
use crate::device::{Device, Members};
use crate::error::{LogError, Result};
use crate::media::{INCARNATION_PAGE, IncarnationLine, SegmentHeader, summary_pages, volume_page};
use crate::mutants::{Mutant, mutated};
use crate::page::Pages;
use std::cell::RefCell;
use std::io;

/// Whether everything has its copies, or a member was taken out: then what was accepted is looked for anew, on the other one.
type IsEqual = bool;

/// The members that are made equal. **One that does not take a page is taken out at the end**, when the other one has all that was
/// accepted: it may still give what it alone has.
struct Pair<'d> {
    members: &'d dyn Members,
    failed: RefCell<Option<(usize, io::Error)>>,
}

impl Loader<'_> {
    /// Makes what was loaded the same on both members.
    pub(crate) fn equalise(&self, loads: &Loads) -> Result<IsEqual> {
        let Some(members) = self.device.members() else {
            return Ok(true);
        };
        if members.served().len() < 2 || mutated(Mutant::SsdMirrorNotEqualised) {
            return Ok(true);
        }
        if mutated(Mutant::SsdMirrorEqualisedUnsynced) {
            let flushed = self.device.flush();
            flushed.map_err(LogError::of_device(self.device.path(), "flush it"))?;
        }
        let pair = Pair {
            members,
            failed: RefCell::new(None),
        };
        // So a member is never more than one incarnation behind, by which an old copy is known.
        let is_last = |device: &dyn Device| {
            let line =
                IncarnationLine::decode(self.uuid, &read_pages(device, self.line_page(), 1)?);
            Ok(line == Some(self.line))
        };
        pair.make_equal((self.line_page(), 1), &is_last)?;
        self.equalise_rows(&pair)?;
        for loaded in &loads.segments {
            self.equalise_segment(&pair, loaded)?;
        }
        pair.end()
    }

    fn line_page(&self) -> u64 {
        INCARNATION_PAGE + self.line.number % 2
    }

    fn equalise_rows(&self, pair: &Pair<'_>) -> Result<()> {
        let newest = newest_pages(self.device, self.uuid, self.geometry)?;
        for place in 0..newest.count() {
            let mut page = Pages::zeroed(1);
            page.copy_from_slice(newest.page(place));
            let at = volume_page(1, 0) + place as u64;
            for (number, device) in pair.members.served() {
                pair.write_if_other((number, device), at, &page)?;
            }
        }
        Ok(())
    }

    fn equalise_segment(&self, pair: &Pair<'_>, loaded: &Loaded) -> Result<()> {
        let (contents, segment) = (&loaded.contents, loaded.contents.segment);
        let first = self.geometry.page_of(segment);
        let is_its_header = |device: &dyn Device| {
            let header = SegmentHeader::decode(self.uuid, &read_pages(device, first, 1)?);
            Ok(header.is_some_and(|header| {
                header.segment == segment
                    && header.incarnation == loaded.incarnation
                    && header.first_group == contents.first_group
            }))
        };
        pair.make_equal((first, 1), &is_its_header)?;
        if loaded.is_sealed {
            let is_its_summary = |device: &dyn Device| {
                let summary = summary_on(device, self.uuid, self.geometry, segment)?;
                Ok(summary.is_some_and(|summary| {
                    summary.incarnation == loaded.incarnation
                        && summary.last_group == contents.last_group
                }))
            };
            let page = first + u64::from(self.geometry.groups_end());
            let pages = summary_pages(contents.elements.len());
            pair.make_equal((page, pages), &is_its_summary)?;
        }
        for (number, &(at, next)) in loaded.places.iter().enumerate() {
            let group = contents.first_group + number as u64;
            let is_whole = |device: &dyn Device| {
                let found = self.scan().group_on(device, (segment, at), None)?;
                Ok(found.is_some_and(|(end, record)| record.group == group && end == next))
            };
            let pages = (first + u64::from(at), next - at);
            pair.make_equal(pages, &is_whole)?;
        }
        Ok(())
    }
}

impl Pair<'_> {
    /// Writes pages from a member that `has` them right to the other one, if that has other bytes there.
    fn make_equal(
        &self,
        (page, count): (u64, u32),
        has: &dyn Fn(&dyn Device) -> Result<bool>,
    ) -> Result<()> {
        let served = self.members.served();
        // One that cannot be read now has it not.
        let right = served
            .iter()
            .find(|(_, device)| has(*device).unwrap_or(false));
        let Some((from, device)) = right else {
            let path = served[0].1.path().to_owned();
            return Err(LogError::Damaged {
                path,
                found: format!("what was read at page {page} a moment ago is there no more"),
            });
        };
        let bytes = read_pages(*device, page, count)?;
        for (number, device) in served.iter().filter(|one| one.0 != *from) {
            self.write_if_other((*number, *device), page, &bytes)?;
        }
        Ok(())
    }

    /// Writes pages to a member that has other bytes there; one that did not take a page gets no more.
    fn write_if_other(
        &self,
        (number, device): (usize, &dyn Device),
        page: u64,
        bytes: &Pages,
    ) -> Result<()> {
        let there = read_pages(device, page, bytes.count() as u32);
        if there.is_ok_and(|there| there[..] == bytes[..]) {
            return Ok(());
        }
        let mut failed = self.failed.borrow_mut();
        if matches!(*failed, Some((other, _)) if other == number) {
            return Ok(());
        }
        match device.write(page, &[bytes]) {
            Ok(()) => Ok(()),
            Err(error) if failed.is_none() => {
                *failed = Some((number, error));
                Ok(())
            }
            Err(error) => Err(LogError::of_device(device.path(), "make it equal")(error)),
        }
    }

    /// Takes out the member that did not take a page, if one did not.
    fn end(self) -> Result<IsEqual> {
        let Some((number, error)) = self.failed.into_inner() else {
            return Ok(true);
        };
        let served = self.members.served();
        for (_, device) in served.iter().filter(|one| one.0 != number) {
            // Orders all that was accepted before the roster by which this one is enough.
            let flushed = device.flush();
            flushed.map_err(LogError::of_device(device.path(), "flush it"))?;
        }
        let expelled = self.members.expel(number, &error);
        let path = served[0].1.path();
        expelled.map_err(LogError::of_device(path, "make its members equal"))?;
        Ok(false)
    }
}
