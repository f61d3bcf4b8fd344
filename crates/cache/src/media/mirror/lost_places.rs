//! What a mirror does about places of a member that keep nothing: the member stays, and what lies there does not count
//! (`bad_places`).
//!
//! A fence that meets a page which the medium lost goes on without it once its halves are noted, if both members have
//! everything and no block is about to be published that lacks its other half, too: what the thread stored to the page is
//! on the other member, whose fence must be good as well. It is noted under the roster's lock, so that no member leaves
//! because of what another one had a moment ago.

use forebay_pmem::{PAGE_BYTES, PmemError, PmemErrorKind, Region};

use super::{Mirror, Opened, View};
use crate::error::{Error, ErrorKind, Result};
use crate::media::bad_list::{self, BadList};
use crate::media::bad_places::Noted;
use crate::media::geometry::Geometry;
use crate::media::roster::Roster;
use crate::media::served::Place;
use crate::mutants::{Mutant, mutated};

impl Mirror {
    /// What is bad under the plan of now, which is another one than it was found under.
    pub(in crate::media) fn find_bad_anew(&mut self, geometry: &Geometry) {
        let before = std::mem::take(&mut self.bad);
        for place in [Place::Main, Place::Mate] {
            for range in before.ranges(place) {
                let slots = geometry.slots_at(&range);
                // Too many are found one by one, when they are used.
                self.bad.note(place, range, &slots, geometry, &|_| true);
            }
        }
    }

    /// Notes what members that were just opened have in their lists.
    pub(in crate::media) fn find_listed(&self, geometry: &Geometry, opened: Opened<'_>) {
        let view = self.view(opened);
        let places = [Place::Main, Place::Mate];
        let there = places.into_iter().filter_map(|place| view.live(place));
        let lists = there.filter_map(|region| BadList::read(region, geometry, &self.pool_uuid));
        let Some(newest) = lists.max_by_key(|list| list.version) else {
            return;
        };
        for (number, range) in &newest.places {
            let place = self.place_of(*number);
            let is_of_slots =
                range.start >= geometry.slot_area && range.end <= geometry.member_bytes;
            if view.live(place).is_some() && *number < geometry.members && is_of_slots {
                let slots = geometry.slots_at(range);
                // No commit is under way.
                self.bad
                    .note(place, range.clone(), &slots, geometry, &|_| true);
            }
        }
        *forebay_pmem::lock_or_yield(&self.listed) = newest;
    }

    /// Makes the list on the members say what is known, if it does not; durable when this returns, unless a fence of a
    /// member fails, which its next one tells.
    #[cold]
    pub(in crate::media) fn list(&self, geometry: &Geometry, opened: Opened<'_>) {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        if self.bad.is_unlisted() {
            self.bad.begin_listing();
            let (one, other) = self.view(opened).copies();
            if !self.store_list(&roster, geometry, std::iter::once(one).chain(other)) {
                self.bad.end_listing();
            }
        }
    }

    /// Stores the next list on these members, and fences it: it is stored over the one before the last. False if a fence
    /// fails. The caller holds the roster's lock, so that lists follow each other.
    fn store_list<'m>(
        &self,
        _: &Roster,
        geometry: &Geometry,
        regions: impl Iterator<Item = &'m Region>,
    ) -> bool {
        if bad_list::capacity(geometry) == 0 {
            return true;
        }
        let mut listed = forebay_pmem::lock_or_yield(&self.listed);
        let of = |place: Place| {
            let number = self.number_at(place);
            let ranges = self.bad.ranges(place).into_iter();
            ranges.map(move |range| (number, range))
        };
        *listed = BadList {
            version: listed.version + 1,
            places: of(Place::Main).chain(of(Place::Mate)).collect(),
        };
        let line = listed.encode(self.pool_uuid);
        let offset = bad_list::offset(geometry, listed.version);
        let stored = regions.map(|region| {
            region.store(offset, &line);
            region.flush(offset, line.len());
            // Orders this list before the next one, and before all that does not count on what it names.
            region.fence().is_ok()
        });
        stored.fold(true, |are_all, is_stored| are_all & is_stored)
    }

    /// Shows where the list is that was stored last, and what it is; none is stored meanwhile.
    pub(in crate::media) fn on_listed<T>(
        &self,
        geometry: &Geometry,
        look: impl FnOnce(u64, &[u8]) -> T,
    ) -> Option<T> {
        let listed = forebay_pmem::lock_or_yield(&self.listed);
        let is_stored = listed.version > 0 && !self.bad.is_unlisted();
        is_stored.then(|| {
            let offset = bad_list::offset(geometry, listed.version);
            look(offset, &listed.encode(self.pool_uuid))
        })
    }

    /// What a fence of both members says that failed on one, or on each.
    #[cold]
    pub(super) fn fence_failed(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        view: View<'_>,
        mut failed: [Option<PmemError>; 2],
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        loop {
            let mut is_any_noted = false;
            for place in [Place::Main, Place::Mate] {
                let own = &mut failed[place as usize];
                let is_lost =
                    |error: &PmemError| matches!(error.kind(), PmemErrorKind::Media { .. });
                let Some(error) = own.take_if(|error| is_lost(error)) else {
                    continue;
                };
                let since = view.served.since(place);
                match self.note_lost(geometry, opened, since, place, is_held) {
                    Noted::Done => {
                        is_any_noted = true;
                        // What this thread stored elsewhere is durable by this one: where a page is lost, a file's sync is not
                        // begun.
                        *own = view.live(place).and_then(|region| region.fence().err());
                    }
                    Noted::TooMany => *own = Some(error),
                    // Nothing may be acknowledged that might lie there.
                    Noted::InUse => return Err(error.into()),
                }
            }
            if !is_any_noted {
                break;
            }
        }
        match failed {
            [None, None] => Ok(()),
            [Some(failed), None] => {
                self.take_out(geometry, opened, view, Place::Main, failed.into())
            }
            [None, Some(failed)] => {
                self.take_out(geometry, opened, view, Place::Mate, failed.into())
            }
            [Some(failed), Some(_)] => Err(failed.into()),
        }
    }

    /// Notes which halves lie on pages that the medium lost, of the member that has been at a place since a generation;
    /// and only then acknowledges the pages. `TooMany`, too, where anything but slots lies there, or the other member
    /// does not have everything.
    #[cold]
    fn note_lost(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        since: u8,
        place: Place,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Noted {
        // No member leaves or joins meanwhile.
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let are_both = view.complete_pair().is_some() && view.served.since(place) == since;
        let (Some(region), Some(other), true) =
            (view.region(place), view.region(place.other()), are_both)
        else {
            return Noted::TooMany;
        };
        let pages = match self.note_pages(geometry, region, place, is_held) {
            Ok(pages) if pages.is_empty() => return Noted::Done,
            Ok(pages) => pages,
            Err(refused) => return refused,
        };
        match self.note_pages(geometry, other, place.other(), is_held) {
            // Every fence still fails by the first member, so these are on a list, too, when one succeeds.
            Ok(pages) => other.acknowledge_media_errors(&pages),
            Err(refused) => return refused,
        }
        // The other one's list: after a crash the next process must not believe what this one did not.
        if !self.store_list(&roster, geometry, std::iter::once(other)) {
            return Noted::TooMany;
        }
        // After the notes: a fence that succeeds without the page proves nothing of what is on it.
        region.acknowledge_media_errors(&pages);
        Noted::Done
    }

    /// Notes the halves on pages that the medium of a member lost and that were not acknowledged; says which pages those
    /// are.
    fn note_pages(
        &self,
        geometry: &Geometry,
        region: &Region,
        place: Place,
        is_held: &dyn Fn(u32) -> bool,
    ) -> std::result::Result<Vec<u64>, Noted> {
        let pages = region.unacknowledged_media_errors().ok_or(Noted::TooMany)?;
        if pages.iter().any(|page| *page < geometry.slot_area) {
            return Err(Noted::TooMany);
        }
        for page in &pages {
            if mutated(Mutant::LostPageAcknowledgedUnnoted) {
                break;
            }
            let range = *page..*page + PAGE_BYTES as u64;
            let slots = geometry.slots_at(&range);
            match self.bad.note(place, range, &slots, geometry, is_held) {
                Noted::Done => {}
                refused => return Err(refused),
            }
        }
        Ok(pages)
    }

    /// The same of both members, by a thread that has read such pages.
    #[cold]
    pub(in crate::media) fn note_all_lost(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        is_held: &dyn Fn(u32) -> bool,
    ) {
        let served = self.served();
        for place in [Place::Main, Place::Mate] {
            // What it does not note, the next fence meets.
            self.note_lost(geometry, opened, served.since(place), place, is_held);
        }
    }

    /// Notes that the half of a slot on this member took no second write. A member with too many is taken out.
    ///
    /// # Errors
    /// It is the last one; or a fence fails.
    #[cold]
    pub(in crate::media) fn note_unrepaired(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        (region, slot, offset): (&Region, u32, u64),
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let stands_at = |place: &Place| {
            view.region(*place)
                .is_some_and(|at| std::ptr::eq(at, region))
        };
        let found = [Place::Main, Place::Mate].into_iter().find(stands_at);
        let (Some(place), true) = (found, view.complete_pair().is_some()) else {
            return Ok(());
        };
        let range = offset..offset + u64::from(geometry.block_bytes);
        let noted = self.bad.note(place, range, &[slot], geometry, is_held);
        drop(roster);
        if noted != Noted::TooMany {
            return Ok(());
        }
        let broken = ErrorKind::Damaged {
            path: region.path().to_path_buf(),
            found: "more places than a member may have take no second write".into(),
        };
        self.take_out(geometry, opened, view, place, broken.into())
    }

    /// Why a member is not taken out: what failed of it, or that another one lacks what it has.
    #[cold]
    pub(super) fn only_halves(&self, failed: Error, gone: Place, blocks: usize) -> Error {
        match failed.kind() {
            ErrorKind::Options(_) => ErrorKind::Options(format!(
                "member {} has the only copy of {blocks} blocks, whose place on the other member is bad; they are \
                 committed anew by the next checkpoint, try again then",
                self.number_at(gone)
            ))
            .into(),
            _ => failed,
        }
    }
}
