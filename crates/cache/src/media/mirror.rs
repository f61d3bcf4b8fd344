//! Members that hold the same: all metadata is on each, and every block that the backing lacks in two halves, on two of
//! them.
//!
//! A block that the backing has needs one half only, the first; which halves hold it is known in DRAM. While all
//! members are in, each store goes to each that it belongs to. A member whose fence fails is taken out by a roster that
//! is durable on all others, and only then anything is acknowledged that it lacks (I13). So of any members that were in
//! and that are more than half of those, one knows of every member that was taken out since: they may be served without
//! the others. A second member is never taken out: there would be blocks of which no half is left. One that comes
//! back is stored to from the moment at which it joins, and counts for nothing until it has everything
//! (`engine::rebuild`).

mod lost_places;
mod rows;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use forebay_pmem::{PmemError, Region};

use crate::error::{Error, ErrorKind, Result, refused};
use crate::media::bad_list::BadList;
use crate::media::bad_places::BadPlaces;
use crate::media::geometry::{Geometry, Pair};
use crate::media::roster::Roster;
use crate::media::served::{BOTH, FIRST, SECOND, Served};
use crate::media::start::MirrorStart;
use crate::media::view::{Half, Halves, Numbered, Opened, View};
use crate::media::witness::{Witness, absent};
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// What a mirrored medium has beside its members.
pub(super) struct Mirror {
    members: Numbered,
    /// A `Served`. Stored under the roster's lock.
    served: AtomicU64,
    roster: Mutex<Roster>,
    /// The one that the roster names, if it is there. Locked after the roster.
    witness: Mutex<Option<Witness>>,
    pool_uuid: [u8; 16],
    /// A byte for each slot that is no column of a row: which of its halves hold its block (`Served::note`).
    notes: Box<[AtomicU8]>,
    /// The same for each row, of all its places.
    row_notes: Box<[AtomicU8]>,
    /// Halves that do not count, whatever is noted of them.
    bad: BadPlaces,
    /// The list of them that was stored last.
    listed: Mutex<BadList>,
    /// Held by a thread that writes lines of the volume table.
    volume_lines: Mutex<()>,
    /// The member that the pool was opened without, and that was in until then.
    left_out: Option<u32>,
}

impl Mirror {
    pub(super) fn new(start: MirrorStart, geometry: &Geometry) -> Mirror {
        let mirror = Mirror {
            members: Numbered::new(&start.numbers, geometry.members),
            served: AtomicU64::new(Served::new(start.missing(geometry)).0),
            roster: Mutex::new(start.roster),
            witness: Mutex::new(start.witness),
            pool_uuid: start.pool_uuid,
            notes: Box::default(),
            row_notes: Box::default(),
            bad: BadPlaces::default(),
            listed: Mutex::default(),
            volume_lines: Mutex::new(()),
            left_out: start.left_out,
        };
        mirror.laid_out(geometry)
    }

    /// The same over other slots: what is in them is in their first halves, until more is known.
    pub(super) fn laid_out(self, geometry: &Geometry) -> Mirror {
        let (note, row_note) = (self.served().note(FIRST), self.served().note(BOTH));
        let notes = |count, note| (0..count).map(|_| AtomicU8::new(note)).collect();
        Mirror {
            notes: notes(geometry.pairs(), note),
            row_notes: notes(geometry.rows(), row_note),
            ..self
        }
    }
    pub(super) fn bad(&self) -> &BadPlaces {
        &self.bad
    }

    #[inline]
    fn served(&self) -> Served {
        // Acquire: what is stored for some members alone comes after the roster that says so, and a region that joined
        // is there.
        Served(self.served.load(Ordering::Acquire))
    }
    /// Under the roster's lock.
    fn set_served(&self, served: Served) {
        self.served.store(served.0, Ordering::Release);
    }
    #[inline]
    pub(super) fn view<'m>(&'m self, opened: Opened<'m>) -> View<'m> {
        View::new(&self.members, opened, self.served())
    }
    /// Members that joined since the pool was opened.
    pub(super) fn joined(&self) -> impl Iterator<Item = &Region> {
        self.members.regions_joined()
    }
    /// Every region that has or had this number.
    pub(super) fn ever_at<'m>(
        &'m self,
        opened: Opened<'m>,
        number: u32,
    ) -> impl Iterator<Item = &'m Region> {
        self.members.ever_at(opened, number)
    }

    /// Whether a member of this pool has writes that the pool lacks.
    pub(super) fn was_served_without_us(
        &self,
        region: &Region,
        geometry: &Geometry,
        number: u32,
    ) -> bool {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let Some(own) = Roster::read(region, geometry, &self.pool_uuid) else {
            return false;
        };
        own.identity(number)
            .is_some_and(|identity| own.is_of_another_history(&roster, number, identity))
    }
    /// Whether members left or joined since the pool was opened.
    #[cold]
    pub(super) fn has_changed(&self) -> bool {
        self.served().has_changed()
    }
    #[inline]
    fn note(&self, slot: u32) -> u8 {
        self.notes[slot as usize].load(Ordering::Relaxed)
    }
    /// Says which halves of a slot hold its block. The caller has the slot to itself, or its key's lock.
    #[inline]
    fn set_note(&self, slot: u32, note: u8) {
        self.notes[slot as usize].store(note, Ordering::Relaxed);
    }
    /// Says that the halves of a slot hold its block that were found lacking.
    pub(super) fn note_halves(&self, slot: u32, note: u8) {
        self.set_note(slot, note);
    }
    /// Both halves hold the block of a slot.
    pub(super) fn note_both(&self, slot: u32, pair: Pair) {
        let served = self.served();
        self.set_note(slot, served.note(served.live(pair)));
    }

    /// What stores to a whole private slot go to: both halves, or for a block that the backing has the first; or the
    /// half on the member that is left. Notes it.
    #[inline(always)]
    pub(super) fn halves_to_fill<'m>(
        &self,
        view: View<'m>,
        slot: u32,
        pair: Pair,
        is_dirty: bool,
    ) -> Halves<'m> {
        let halves = match view.served.live(pair) {
            BOTH if !is_dirty || mutated(Mutant::CopyNotStreamed) => FIRST,
            live => live,
        };
        self.set_note(slot, view.served.note(halves));
        view.halves(pair, halves)
    }

    /// Where the block of a slot is: what is read first, and what else holds it. Of a member that is out only what
    /// no other one has.
    #[inline]
    pub(super) fn halves_of<'m>(&self, view: View<'m>, slot: u32, pair: Pair) -> Halves<'m> {
        let held = view.served.halves(self.note(slot), pair) & !self.bad.halves(slot);
        view.halves(pair, held)
    }

    /// What lacks the block of a slot: of a dirty one, either of its members that is stored to; of a clean one, that of
    /// the first half, if it is stored to.
    pub(super) fn lacking<'m>(
        &self,
        view: View<'m>,
        slot: u32,
        pair: Pair,
        is_dirty: bool,
    ) -> Lacking<'m> {
        let held = view.served.halves(self.note(slot), pair);
        let live = view.served.live(pair);
        let wanted = if is_dirty { live } else { live & FIRST };
        let from = match held & FIRST {
            0 => held & SECOND,
            first => first,
        };
        if from == 0 {
            return Lacking::Everything;
        }
        let to = wanted & !held;
        match (view.half(pair, from), view.half(pair, to)) {
            (Some(from), Some(to_half)) if to != 0 => Lacking::Half {
                from,
                to: to_half,
                // What leaves or joins meanwhile does so in another generation than this one's.
                note: view.served.note(held | to),
            },
            _ => Lacking::Nothing,
        }
    }

    /// Whether the block of a slot is on both its members, of those that are stored to, so that it may be changed in
    /// place, or others may rest on it.
    #[inline]
    pub(super) fn is_protected(&self, slot: u32, pair: impl FnOnce() -> Pair) -> bool {
        let (served, note) = (self.served(), self.note(slot));
        let good = !self.bad.halves(slot);
        if served.0 == 0 {
            return note & good & BOTH == BOTH;
        }
        let pair = pair();
        served.halves(note, pair) & good == served.live(pair)
    }

    /// Fences the members that are in. One whose fence fails is taken out, if all others are complete; but not for a page
    /// among its slots that the medium lost, which is noted. `is_held` says whether a published block is in a slot.
    #[inline]
    pub(super) fn fence(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let view = self.view(opened);
        if let Some(Opened {
            main,
            others: [other],
        }) = view.unchanged()
        {
            let fenced = match main.fence_pair(other) {
                (Ok(()), Ok(())) => return Ok(()),
                (own, others) => [own, others],
            };
            return self.fence_failed(geometry, opened, view, fenced, is_held);
        }
        self.fence_all(geometry, opened, view, is_held)
    }

    /// The same of other than two members that are as they were opened.
    #[cold]
    fn fence_all(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        view: View<'_>,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let regions: Vec<&Region> = view.live().map(|(_, region)| region).collect();
        let fenced = Region::fence_all(&regions);
        match fenced.iter().all(std::result::Result::is_ok) {
            true => Ok(()),
            false => self.fence_failed(geometry, opened, view, fenced, is_held),
        }
    }

    /// Whether the member of this number is stored to, and whether it has everything.
    pub(super) fn standing(&self, number: u32) -> (bool, bool) {
        let served = self.served();
        (served.is_live(number), served.is_complete(number))
    }

    /// Shows the roster, and the members that are complete with their numbers. No member leaves or joins meanwhile.
    pub(super) fn on_complete<T>(
        &self,
        opened: Opened<'_>,
        look: impl FnOnce(&Roster, [u8; 16], &[(u32, &Region)]) -> T,
    ) -> T {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let members: Vec<_> = self.view(opened).complete().collect();
        look(&roster, self.pool_uuid, &members)
    }

    /// Takes the member of this number out, as if it had failed. `is_held` says whether a published block is in a slot.
    pub(super) fn take_out_number(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        number: u32,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        // Pages that no fence has met yet would fail that of the members that are left, and end the pool's writes.
        self.note_all_lost(geometry, opened, is_held);
        let seen = self.view(opened);
        let refused = match seen.served.lacking() {
            Some(lacking) if geometry.members > 2 => format!(
                "member {lacking} of the pool does not have everything, and some blocks are on members {lacking} and \
                 {number} alone; bring that one back first"
            ),
            _ => format!(
                "member {number} of the pool is the only one that is in; it cannot be taken out"
            ),
        };
        let refused = ErrorKind::Options(refused);
        self.take_out(geometry, opened, seen, number, refused.into())
    }

    /// Takes a member out, which `failed` when the members were those `seen`. When it returns, the rosters of all members
    /// that are left say so, durably, and nothing is stored to the other one any more. If it has left already, one
    /// that stands in its place stays: what was in flight when that one joined has ended before it was called in.
    ///
    /// # Errors
    /// Another member is out already, or not complete, or fails, too; or this one has the only half of some block.
    #[cold]
    fn take_out(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        seen: View<'_>,
        gone: u32,
        failed: Error,
    ) -> Result<()> {
        let mut roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let is_another = view.served.since(gone) != seen.served.since(gone);
        if !view.served.is_live(gone) || is_another {
            return Ok(());
        }
        if view.served.lacking().is_some_and(|lacking| lacking != gone) {
            return Err(failed);
        }
        let left = || view.complete().filter(|(number, _)| *number != gone);
        assert!(
            left().count() as u32 + 1 == geometry.members,
            "it alone is gone"
        );
        let resting = match view.served.is_complete(gone) && !mutated(Mutant::OnlyHalfTakenOut) {
            true => self.bad.resting_on(gone, geometry),
            // Nothing rests on one that is being rebuilt.
            false => 0,
        };
        if resting > 0 {
            return Err(self.only_halves(failed, gone, resting));
        }
        let next = roster.without(gone);
        // Before the roster is stored: one that may reach the medium, and does not count, looks like another history.
        left().try_for_each(|(_, region)| region.fence())?;
        let is_rebuilding = view.served.rebuilding() == Some(gone);
        match self.tell_witness(&roster, &next) {
            // The rosters call it rebuilding, and so does no opening need it: that may stay.
            Err(_) if is_rebuilding => {
                self.set_served(view.served.without(gone));
                return Ok(());
            }
            told => told?,
        }
        // Before anything is acknowledged that the member lacks: on all that are left, so that of any of them which are
        // more than half of those that were in, one says it.
        let told = match (
            mutated(Mutant::RosterAfterAcknowledgement),
            mutated(Mutant::RosterOnOneMember),
        ) {
            (true, _) => 0,
            (_, true) => 1,
            _ => usize::MAX,
        };
        for (_, region) in left().take(told) {
            next.settle(region, geometry, self.pool_uuid)?;
        }
        *roster = next;
        self.set_served(view.served.without(gone));
        Ok(())
    }

    /// Calls the member in again that the opening went on without, after which nothing was served: it has all that was
    /// acknowledged.
    ///
    /// # Errors
    /// A fence fails, or the witness cannot be written.
    #[cold]
    pub(super) fn call_back(&self, geometry: &Geometry, opened: Opened<'_>) -> Result<()> {
        let mut roster = forebay_pmem::lock_or_yield(&self.roster);
        let members = || self.view(opened).complete();
        let Some(number) = self
            .left_out
            .filter(|_| !members().any(|(_, one)| one.is_private()))
        else {
            return Ok(());
        };
        let next = roster.with_in(number);
        self.tell_witness(&roster, &next)?;
        for (_, region) in members() {
            next.settle(region, geometry, self.pool_uuid)?;
        }
        *roster = next;
        Ok(())
    }

    /// Makes the next roster durable on the witness, if there is to be one, before a member has it.
    ///
    /// # Errors
    /// It is not there, or cannot be written.
    fn tell_witness(&self, roster: &Roster, next: &Roster) -> Result<()> {
        let named = roster.witness();
        let Some(name) = named.filter(|_| !mutated(Mutant::WitnessNotTold)) else {
            return Ok(());
        };
        match &*forebay_pmem::lock_or_yield(&self.witness) {
            Some(witness) => witness.tell(next),
            None => Err(absent(&name.path, "is not there")),
        }
    }

    /// Has the pool have this witness, or none. When this returns both members say so, durably, and so does the witness.
    ///
    /// # Errors
    /// It has one already; not both members are in; a fence fails.
    pub(super) fn set_witness(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        made: Option<Witness>,
    ) -> Result<()> {
        let mut roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let has_one = made.is_some() && roster.witness().is_some();
        let why_not = match view.served.lacking() {
            Some(_) => Some(
                "a witness comes and goes while both members are in; bring the other one back first, or, if the witness \
                 that the pool has is gone for good, open the pool without it (on the command line --without-missing)",
            ),
            None => has_one.then_some("the pool has a witness; give that one up first"),
        };
        if let Some(why_not) = why_not {
            return Err(ErrorKind::Options(why_not.into()).into());
        }
        let next = roster.witnessed(made.as_ref().map(|made| made.name().clone()));
        match &made {
            // Before a member names it: then it must not be older than that one.
            Some(made) => made.tell(&next)?,
            // Where it is there a member that is not yet told asks it in vain.
            None => drop(self.tell_witness(&roster, &next)),
        }
        for (_, member) in view.complete() {
            next.settle(member, geometry, self.pool_uuid)?;
        }
        *roster = next;
        let mut witness = forebay_pmem::lock_or_yield(&self.witness);
        if let Some(given_up) = std::mem::replace(&mut *witness, made) {
            given_up.remove();
        }
        Ok(())
    }

    /// Closes the witness; no roster changes any more.
    pub(super) fn release_witness(&self) {
        *forebay_pmem::lock_or_yield(&self.witness) = None;
    }

    /// Where the witness is, if the pool has one, and whether it is there.
    pub(super) fn witness(&self) -> Option<(PathBuf, bool)> {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let named = roster.witness()?.path.clone();
        let witness = forebay_pmem::lock_or_yield(&self.witness);
        let opened = witness.as_ref();
        let path = opened.map_or(named, |witness| witness.name().path.clone());
        Some((path, opened.is_some_and(Witness::is_there)))
    }

    /// The mapping of a member, if it was ever there.
    pub(super) fn at<'m>(&'m self, opened: Opened<'m>, number: u32) -> Option<&'m Region> {
        self.view(opened).region(number)
    }

    /// The mapping of a member that is out, if it was ever there.
    pub(super) fn gone<'m>(&'m self, opened: Opened<'m>, number: u32) -> Option<&'m Region> {
        let view = self.view(opened);
        let region = view.region(number);
        region.filter(|_| !view.served.is_live(number))
    }

    /// Has a member join in the place of the one that is out: stored to from now on, and not yet believed. When this
    /// returns all rosters say so, durably.
    ///
    /// # Errors
    /// The member of this number is not out; too many have joined; a fence fails. Of a complete member, that is fatal.
    pub(super) fn join(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        number: u32,
        identity: u64,
        region: Region,
    ) -> Result<()> {
        let mut roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        if view.served.is_live(number) {
            return Err(ErrorKind::Options(format!("member {number} is in use")).into());
        }
        let Some(joined) = view.served.joined(number) else {
            return Err(ErrorKind::Options(
                "too many members have joined since the pool was opened; open it again".into(),
            )
            .into());
        };
        let next = roster.with_rebuilding(number, identity);
        self.tell_witness(&roster, &next)?;
        for (_, complete) in view.complete() {
            // Before the new member's: where that one is, the others know of it.
            next.settle(complete, geometry, self.pool_uuid)?;
        }
        *roster = next;
        // Before what the member is sent. Without it the member is as if it were not there.
        let settled = roster.settle(&region, geometry, self.pool_uuid);
        settled.map_err(|error| unusable(&region, &error))?;
        // Slots of the old member stay retired until the pool is opened anew.
        self.bad.forget(number, geometry);
        self.members.add(number, joined.since(number), region);
        self.set_served(joined);
        Ok(())
    }

    /// A member that joined has everything: from now on it counts.
    ///
    /// # Errors
    /// It was taken out; a fence fails.
    pub(super) fn call_in(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        number: u32,
    ) -> Result<()> {
        let mut roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let rebuilding = view.rebuilding();
        let is_it = view.served.rebuilding() == Some(number);
        let Some(region) = rebuilding.filter(|_| is_it) else {
            return Err(ErrorKind::Options(format!(
                "member {number} was taken out while it was rebuilt"
            ))
            .into());
        };
        let next = roster.with_in(number);
        self.tell_witness(&roster, &next)?;
        for (_, complete) in view.complete() {
            // Before the member's own: a member that calls itself in is called so.
            next.settle(complete, geometry, self.pool_uuid)?;
        }
        *roster = next;
        // From here on the pool opens with this member, whatever its own roster says.
        self.set_served(view.served.rebuilt());
        // Before anything is acknowledged that rests on the member.
        let fenced = roster.settle(region, geometry, self.pool_uuid);
        drop(roster);
        fenced.or_else(|failed| {
            let refused = unusable(region, &failed);
            let seen = self.view(opened);
            self.take_out(geometry, opened, seen, number, failed.into())?;
            Err(refused)
        })
    }

    /// Held while lines of the volume table are written.
    pub(super) fn hold_volume_lines(&self) -> MutexGuard<'_, ()> {
        forebay_pmem::lock_or_yield(&self.volume_lines)
    }
}

/// A new member failed, which nothing rests on.
pub(super) fn unusable(region: &Region, error: &PmemError) -> Error {
    let found = format!("it failed while it was made a member: {error}");
    refused(region.path(), found, "name another file or device")
}

/// What of a slot's block is not where it must be.
pub(super) enum Lacking<'m> {
    Nothing,
    /// One half, which is to have what the other one has, and then the slot this note.
    Half {
        from: Half<'m>,
        to: Half<'m>,
        note: u8,
    },
    /// No member that counts has any of it.
    Everything,
}
