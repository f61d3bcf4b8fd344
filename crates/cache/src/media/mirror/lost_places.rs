//! What a mirror does about places of a member that keep nothing: the member stays, and what lies there does not count
//! (`bad_places`).
//!
//! A fence that meets a page which the medium lost goes on without it once its halves are noted, if all members have
//! everything and no block is about to be published that lacks its other half, too: what the thread stored to the page is
//! on another member, whose fence must be good as well. It is noted under the roster's lock, so that no member leaves
//! because of what another one had a moment ago.

use forebay_pmem::{PAGE_BYTES, PmemError, PmemErrorKind, Region};

use super::{Mirror, Opened, View};
use crate::error::{Error, ErrorKind, Result};
use crate::media::bad_list::{self, BadList};
use crate::media::bad_places::Noted;
use crate::media::geometry::Geometry;
use crate::media::roster::Roster;
use crate::media::view::Half;
use crate::mutants::{Mutant, mutated};

impl Mirror {
    /// What is bad under the plan of now, which is another one than it was found under.
    pub(in crate::media) fn find_bad_anew(&mut self, geometry: &Geometry, opened: Opened<'_>) {
        let before = std::mem::take(&mut self.bad);
        for (member, range) in before.ranges() {
            if range.start < geometry.slot_area {
                // Metadata lies there now. Its next fence takes the member out, before anything rests on it.
                let at = self.view(opened).region(member);
                at.inspect(|region| region.poison());
                continue;
            }
            let slots = geometry.slots_at(member, &range);
            // Too many are found one by one, when they are used.
            self.bad.note(member, range, &slots, geometry, &|_| true);
        }
    }

    /// Notes what members that were just opened have in their lists.
    pub(in crate::media) fn find_listed(&self, geometry: &Geometry, opened: Opened<'_>) {
        if geometry.has_rows {
            return;
        }
        let view = self.view(opened);
        let read = |(_, region)| BadList::read(region, geometry, &self.pool_uuid);
        let Some(newest) = view.live().filter_map(read).max_by_key(|list| list.version) else {
            return;
        };
        for place in &newest.places {
            let (member, range) = (place.member, &place.bytes);
            let is_of_slots =
                range.start >= geometry.slot_area && range.end <= geometry.member_bytes;
            let is_there = member < geometry.members && view.served.is_live(member);
            if is_there && is_of_slots {
                let slots = geometry.slots_at(member, range);
                // No commit is under way.
                self.bad
                    .note(member, range.clone(), &slots, geometry, &|_| true);
            }
        }
        *forebay_pmem::lock_or_yield(&self.listed) = newest;
        // A crash may have kept it from some of them.
        self.bad.end_listing();
    }

    /// Makes the list on the members say what is known, if it does not; durable when this returns, unless a fence of a
    /// member fails, which its next one tells.
    #[cold]
    pub(in crate::media) fn list(&self, geometry: &Geometry, opened: Opened<'_>) {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        if self.bad.is_unlisted() {
            let live = self.view(opened).live();
            self.store_list(&roster, geometry, live.map(|(_, region)| (region, &[][..])));
        }
    }

    /// Stores the next list on all members, with what is known now, and fences it, but for these pages of each: it is
    /// stored over the one before the last. False if a fence fails. The caller holds the roster's lock, so that lists
    /// follow each other.
    fn store_list<'m>(
        &self,
        _: &Roster,
        geometry: &Geometry,
        members: impl Iterator<Item = (&'m Region, &'m [u64])>,
    ) -> bool {
        self.bad.begin_listing();
        if bad_list::capacity(geometry) == 0 {
            return true;
        }
        let mut listed = forebay_pmem::lock_or_yield(&self.listed);
        *listed = BadList {
            version: listed.version + 1,
            places: self.bad.to_list(geometry),
        };
        let line = listed.encode(self.pool_uuid);
        let offset = bad_list::offset(geometry, listed.version);
        let stored = members.map(|(region, pages)| {
            region.store(offset, &line);
            region.flush(offset, line.len());
            // Orders this list before the next one, and before all that does not count on what it names.
            region.fence_beside_media_errors(pages).is_ok()
        });
        let are_all = stored.fold(true, |are_all, is_stored| are_all & is_stored);
        if !are_all {
            self.bad.end_listing();
        }
        are_all
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

    /// What the fences of all members that are stored to say, of which some failed.
    #[cold]
    pub(super) fn fence_failed(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        view: View<'_>,
        fenced: impl IntoIterator<Item = std::result::Result<(), PmemError>>,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let numbered = view.live().zip(fenced);
        let failed = numbered.filter_map(|((member, _), fenced)| Some((member, fenced.err()?)));
        let (mut failed, mut broken) = (failed.collect::<Vec<_>>(), Vec::new());
        while let Some((member, error)) = failed.pop() {
            if !matches!(error.kind(), PmemErrorKind::Media { .. }) {
                broken.push((member, error));
                continue;
            }
            match self.note_lost(geometry, opened, view, member, is_held) {
                Noted::Done => {
                    // What this thread stored elsewhere is durable by this one: where a page is lost, a file's sync is not
                    // begun.
                    let again = view.region(member).map(Region::fence);
                    failed.extend(again.and_then(|fenced| Some((member, fenced.err()?))));
                }
                Noted::TooMany => broken.push((member, error)),
                // Nothing may be acknowledged that might lie there.
                Noted::InUse => return Err(error.into()),
            }
        }
        match (broken.pop(), broken.pop()) {
            (None, _) => Ok(()),
            (Some((gone, error)), None) => {
                self.take_out(geometry, opened, view, gone, error.into())
            }
            (Some((_, error)), Some(_)) => Err(error.into()),
        }
    }

    /// Notes which halves lie on pages that the medium of a member lost, which was `seen` there; and only then
    /// acknowledges the pages. `TooMany`, too, where anything but slots lies there, or some member does not have
    /// everything.
    #[cold]
    fn note_lost(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        seen: View<'_>,
        member: u32,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Noted {
        // No member leaves or joins meanwhile.
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let is_same = view.served.since(member) == seen.served.since(member);
        // Which of its places are bad is not kept of a row.
        if view.served.lacking().is_some() || !is_same || geometry.has_rows {
            return Noted::TooMany;
        }
        let mut lost = Vec::new();
        for (number, region) in view.complete() {
            match self.note_pages(geometry, region, number, is_held) {
                Ok(pages) => lost.push((region, pages)),
                Err(refused) => return refused,
            }
        }
        if lost.iter().all(|(_, pages)| pages.is_empty()) {
            return Noted::Done;
        }
        // On all members: after a crash the next process must not believe what this one did not, whichever it lacks.
        if !self.store_list(
            &roster,
            geometry,
            lost.iter().map(|(region, pages)| (*region, &pages[..])),
        ) {
            return Noted::TooMany;
        }
        // After the notes: a fence that succeeds without the page proves nothing of what is on it.
        for (region, pages) in lost {
            region.acknowledge_media_errors(&pages);
        }
        Noted::Done
    }

    /// Notes the halves on pages that the medium of a member lost and that were not acknowledged; says which pages those
    /// are.
    fn note_pages(
        &self,
        geometry: &Geometry,
        region: &Region,
        member: u32,
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
            let slots = geometry.slots_at(member, &range);
            match self.bad.note(member, range, &slots, geometry, is_held) {
                Noted::Done => {}
                refused => return Err(refused),
            }
        }
        Ok(pages)
    }

    /// The same of all members, by a thread that has read such pages.
    #[cold]
    pub(in crate::media) fn note_all_lost(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        is_held: &dyn Fn(u32) -> bool,
    ) {
        let seen = self.view(opened);
        for member in 0..geometry.members {
            // What it does not note, the next fence meets.
            self.note_lost(geometry, opened, seen, member, is_held);
        }
    }

    /// Notes that this half of a slot took no second write. A member with too many is taken out.
    ///
    /// # Errors
    /// It is the last one; or a fence fails.
    #[cold]
    pub(in crate::media) fn note_unrepaired(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        (half, slot): (Half<'_>, u32),
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let mut complete = view.complete();
        let stands_at = complete.find(|(_, region)| std::ptr::eq(*region, half.region));
        let (Some((member, _)), None) = (stands_at, view.served.lacking()) else {
            return Ok(());
        };
        let range = half.offset..half.offset + u64::from(geometry.block_bytes);
        let noted = match geometry.has_rows {
            true => Noted::TooMany,
            false => self.bad.note(member, range, &[slot], geometry, is_held),
        };
        drop(roster);
        if noted != Noted::TooMany {
            return Ok(());
        }
        let broken = ErrorKind::Damaged {
            path: half.region.path().to_path_buf(),
            found: "more places than a member may have take no second write".into(),
        };
        self.take_out(geometry, opened, view, member, broken.into())
    }

    /// Why a member is not taken out: what failed of it, or that others lack what it has.
    #[cold]
    pub(super) fn only_halves(&self, failed: Error, gone: u32, blocks: usize) -> Error {
        match failed.kind() {
            ErrorKind::Options(_) => ErrorKind::Options(format!(
                "member {gone} has the only copy of {blocks} blocks, whose place on another member is bad; they are \
                 committed anew by the next checkpoint, try again then"
            ))
            .into(),
            _ => failed,
        }
    }
}
