//! Two members that hold the same: all metadata, and every dirty block in two halves.
//!
//! The halves of a slot lie at the same offset of both members. A block that the backing has needs one half only, the
//! first; which halves hold it is known in DRAM. While both members are in, each store goes to both. A member whose
//! fence fails is taken out by a roster that is durable on the other one, and only then anything is acknowledged that
//! it lacks (I13). One that comes back is stored to from the moment at which it joins, and counts for nothing until it
//! has everything (`engine::rebuild`).

mod lost_places;

use std::sync::{Mutex, MutexGuard, OnceLock};

use forebay_pmem::{PmemError, Region};

use crate::error::{Error, ErrorKind, Result};
use crate::media::bad_list::BadList;
use crate::media::bad_places::BadPlaces;
use crate::media::geometry::Geometry;
use crate::media::roster::Roster;
use crate::media::served::{Place, Served};
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// Members that can join while a pool is open.
const ADDED_MAX: usize = 15;

/// The regions that a pool was opened with: of the member that led, and of the other one.
pub(super) type Opened<'m> = (&'m Region, Option<&'m Region>);

/// What a mirrored medium has beside its members.
pub(super) struct Mirror {
    /// The number of the member that led when the pool was opened.
    main_number: u32,
    /// A `Served`. Stored under the roster's lock.
    served: AtomicU64,
    roster: Mutex<Roster>,
    pool_uuid: [u8; 16],
    /// A byte for each slot: which of its halves hold its block (`Served::note`).
    notes: Box<[AtomicU8]>,
    /// Halves that do not count, whatever is noted of them.
    bad: BadPlaces,
    /// The list of them that was stored last.
    listed: Mutex<BadList>,
    /// Members that joined, in that order. They stay until the pool is closed: a thread may still look at one that
    /// has left.
    added: [OnceLock<Region>; ADDED_MAX],
    /// Held by a thread that writes lines of the volume table.
    volume_lines: Mutex<()>,
}

/// The members of a mirrored pool that are served.
pub(crate) struct MirrorStart {
    /// The number of the one that leads.
    pub(crate) main_number: u32,
    pub(crate) roster: Roster,
    pub(crate) pool_uuid: [u8; 16],
    /// The roster is newer than any that was found.
    pub(crate) is_changed: bool,
}

impl MirrorStart {
    /// Makes a roster that takes members out durable on those that are left.
    ///
    /// # Errors
    /// A fence fails.
    pub(crate) fn store_roster(&self, regions: &[Region], geometry: &Geometry) -> Result<()> {
        if self.is_changed {
            for region in regions {
                // Before anything that the members lack that are out.
                self.roster.settle(region, geometry, self.pool_uuid)?;
            }
        }
        Ok(())
    }
}

/// One half of a slot or both, where they are.
#[derive(Clone, Copy)]
pub(super) struct Halves<'m> {
    /// What is read.
    pub(super) one: &'m Region,
    /// The other half, if the block is there, too.
    pub(super) other: Option<&'m Region>,
}

impl<'m> Halves<'m> {
    #[inline(always)]
    pub(super) fn one(region: &'m Region) -> Halves<'m> {
        Halves {
            one: region,
            other: None,
        }
    }
    #[inline(always)]
    pub(super) fn each(self, mut visit: impl FnMut(&'m Region)) {
        visit(self.one);
        if let Some(other) = self.other {
            visit(other);
        }
    }
}

/// The members as they are at one moment.
#[derive(Clone, Copy)]
pub(super) struct View<'m> {
    regions: [Option<&'m Region>; 2],
    served: Served,
}

impl<'m> View<'m> {
    #[inline]
    fn region(&self, place: Place) -> Option<&'m Region> {
        self.regions[place as usize]
    }
    /// The member there, or the other one if the pool has none there.
    fn region_or_other(&self, place: Place) -> &'m Region {
        let region = self.region(place).or(self.region(place.other()));
        region.expect("a pool has a member")
    }
    fn live(&self, place: Place) -> Option<&'m Region> {
        self.region(place).filter(|_| self.served.is_live(place))
    }
    /// The members that are stored to; first one that has all that was acknowledged.
    pub(super) fn copies(&self) -> (&'m Region, Option<&'m Region>) {
        let leads = match self.served.complete() & Place::Main.bit() {
            0 => Place::Mate,
            _ => Place::Main,
        };
        (self.region_or_other(leads), self.live(leads.other()))
    }
    /// Both members, if both have all that was acknowledged.
    pub(super) fn complete_pair(&self) -> Option<(&'m Region, &'m Region)> {
        let is_complete = |place: &Place| self.served.complete() & place.bit() != 0;
        let pair = [Place::Main, Place::Mate];
        let [main, mate] = pair.map(|place| self.region(place).filter(|_| is_complete(&place)));
        Some((main?, mate?))
    }
}

impl Mirror {
    /// `first` tells the place of a slot's first half.
    pub(super) fn new(
        start: MirrorStart,
        has_mate: bool,
        slots: u32,
        first: impl Fn(&Mirror, u32) -> Place,
    ) -> Mirror {
        let mirror = Mirror {
            main_number: start.main_number,
            served: AtomicU64::new(Served::new(has_mate).0),
            roster: Mutex::new(start.roster),
            pool_uuid: start.pool_uuid,
            notes: Box::default(),
            bad: BadPlaces::default(),
            listed: Mutex::default(),
            added: std::array::from_fn(|_| OnceLock::new()),
            volume_lines: Mutex::new(()),
        };
        mirror.laid_out(slots, first)
    }

    /// The same over other slots: what is in them is in their first halves, until more is known.
    pub(super) fn laid_out(self, slots: u32, first: impl Fn(&Mirror, u32) -> Place) -> Mirror {
        let served = self.served();
        let note = |slot| AtomicU8::new(served.note(first(&self, slot).bit()));
        let notes = (0..slots).map(note).collect();
        Mirror { notes, ..self }
    }
    pub(super) fn bad(&self) -> &BadPlaces {
        &self.bad
    }

    #[inline]
    fn served(&self) -> Served {
        // Acquire: what is stored for one member alone comes after the roster that says so, and a region that joined
        // is there.
        Served(self.served.load(Ordering::Acquire))
    }
    /// Under the roster's lock.
    fn set_served(&self, served: Served) {
        self.served.store(served.0, Ordering::Release);
    }
    #[inline]
    pub(super) fn view<'m>(&'m self, (main, mate): Opened<'m>) -> View<'m> {
        let served = self.served();
        let at = |place, opened| match served.region(place) {
            0 => opened,
            added => self.added[added - 1].get(),
        };
        View {
            regions: [at(Place::Main, Some(main)), at(Place::Mate, mate)],
            served,
        }
    }
    /// Members that joined since the pool was opened.
    pub(super) fn added(&self) -> impl Iterator<Item = &Region> {
        self.added.iter().filter_map(OnceLock::get)
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
    /// The place of the member of this number.
    #[inline]
    pub(super) fn place_of(&self, number: u32) -> Place {
        match number == self.main_number {
            true => Place::Main,
            false => Place::Mate,
        }
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
    pub(super) fn note_both(&self, slot: u32) {
        let served = self.served();
        self.set_note(slot, served.note(served.live()));
    }

    /// What stores to a whole private slot go to: both halves, or for a block that the backing has the first; or the
    /// half on the member that is left. Notes it.
    #[inline]
    pub(super) fn halves_to_fill<'m>(
        &self,
        view: View<'m>,
        slot: u32,
        first: Place,
        is_dirty: bool,
    ) -> Halves<'m> {
        let (one, other) = (view.live(first), view.live(first.other()));
        let other = other.filter(|_| {
            (is_dirty || one.is_none()) && !(mutated(Mutant::CopyNotStreamed) && one.is_some())
        });
        let bit = |region: Option<&Region>, place: Place| match region {
            Some(_) => place.bit(),
            None => 0,
        };
        let halves = bit(one, first) | bit(other, first.other());
        self.set_note(slot, view.served.note(halves));
        match (one, other) {
            (Some(one), other) => Halves { one, other },
            (None, Some(other)) => Halves::one(other),
            (None, None) => Halves::one(view.region_or_other(first)),
        }
    }

    /// Where the block of a slot is: what is read first, and what else holds it. Of a member that is out only what
    /// no other one has.
    #[inline]
    pub(super) fn halves_of<'m>(&self, view: View<'m>, slot: u32, first: Place) -> Halves<'m> {
        let halves = view.served.halves(self.note(slot)) & !self.bad.halves(slot);
        let holds = |place: Place| view.region(place).filter(|_| halves & place.bit() != 0);
        match (holds(first), holds(first.other())) {
            (Some(one), other) => Halves { one, other },
            (None, Some(other)) => Halves::one(other),
            (None, None) => Halves::one(view.region_or_other(first)),
        }
    }

    /// What lacks the block of a slot: of a dirty one, any member that is stored to; of a clean one, that of the first
    /// half, if it is stored to.
    pub(super) fn lacking<'m>(
        &self,
        view: View<'m>,
        slot: u32,
        first: Place,
        is_dirty: bool,
    ) -> Lacking<'m> {
        let halves = view.served.halves(self.note(slot));
        let holds = |place: Place| view.live(place).filter(|_| halves & place.bit() != 0);
        let Some(from) = holds(first).or(holds(first.other())) else {
            return Lacking::Everything;
        };
        let lacks = |place: Place| view.live(place).filter(|_| halves & place.bit() == 0);
        let second = lacks(first.other()).filter(|_| is_dirty);
        match lacks(first).or(second) {
            None => Lacking::Nothing,
            // Of two halves one is there, so that this is the other one. What leaves or joins meanwhile does so in
            // another generation than the note's.
            Some(to) => Lacking::Half {
                from,
                to,
                note: view.served.note(view.served.live()),
            },
        }
    }

    /// Whether the block of a slot is on every member that is stored to, so that it may be changed in place, or others
    /// may rest on it.
    #[inline]
    pub(super) fn is_protected(&self, slot: u32) -> bool {
        let served = self.served();
        served.halves(self.note(slot)) & !self.bad.halves(slot) == served.live()
    }

    /// Fences the members that are in. One whose fence fails is taken out, if another is left; but not for a page among
    /// its slots that the medium lost, which is noted. `is_held` says whether a published block is in a slot.
    #[inline]
    pub(super) fn fence(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let view = self.view(opened);
        match (view.live(Place::Main), view.live(Place::Mate)) {
            (Some(main), Some(mate)) => match main.fence_pair(mate) {
                (Ok(()), Ok(())) => Ok(()),
                (main, mate) => {
                    let failed = [main.err(), mate.err()];
                    self.fence_failed(geometry, opened, view, failed, is_held)
                }
            },
            (Some(alone), None) | (None, Some(alone)) => Ok(alone.fence()?),
            (None, None) => unreachable!("one member is always in"),
        }
    }

    /// Whether the member of this number is stored to, and whether it has everything.
    pub(super) fn standing(&self, number: u32) -> (bool, bool) {
        let (served, bit) = (self.served(), self.place_of(number).bit());
        (served.live() & bit != 0, served.complete() & bit != 0)
    }

    /// Shows the roster, and both members with their numbers if both are complete. No member leaves or joins meanwhile.
    pub(super) fn on_complete<T>(
        &self,
        opened: Opened<'_>,
        look: impl FnOnce(&Roster, [u8; 16], [(u32, &Region); 2]) -> T,
    ) -> Option<T> {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        let (main, mate) = self.view(opened).complete_pair()?;
        let places = [(Place::Main, main), (Place::Mate, mate)];
        let members = places.map(|(place, region)| (self.number_at(place), region));
        Some(look(&roster, self.pool_uuid, members))
    }

    /// Takes the member of this number out, as if it had failed.
    pub(super) fn take_out_number(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        number: u32,
    ) -> Result<()> {
        let last = ErrorKind::Options(format!(
            "member {number} of the pool is the only one that is in; it cannot be taken out"
        ));
        // Pages that no fence has met yet would fail that of the member that is left, and end the pool's writes.
        self.note_all_lost(geometry, opened, &|_| true);
        let seen = self.view(opened);
        self.take_out(geometry, opened, seen, self.place_of(number), last.into())
    }

    /// Takes a member out, which `failed` when the members were those `seen`. When it returns, the roster of the member
    /// that is left says so, durably, and nothing is stored to the other one any more. If it has left already, one
    /// that stands in its place stays: what was in flight when that one joined has ended before it was called in.
    ///
    /// # Errors
    /// The member that was to be left is out already, or not complete, or fails, too; or the other one has the only
    /// half of some block.
    #[cold]
    fn take_out(
        &self,
        geometry: &Geometry,
        opened: Opened<'_>,
        seen: View<'_>,
        gone: Place,
        failed: Error,
    ) -> Result<()> {
        let mut roster = forebay_pmem::lock_or_yield(&self.roster);
        let view = self.view(opened);
        let is_another = view.served.since(gone) != seen.served.since(gone);
        if !view.served.is_live(gone) || is_another {
            return Ok(());
        }
        let left_place = gone.other();
        let is_enough = view.served.complete() & left_place.bit() != 0;
        let Some(left) = view.region(left_place).filter(|_| is_enough) else {
            return Err(failed);
        };
        let resting = self.bad.resting_on_other(left_place);
        if resting > 0 && !mutated(Mutant::OnlyHalfTakenOut) {
            return Err(self.only_halves(failed, gone, resting));
        }
        let next = roster.without(self.number_at(gone));
        // Before the roster is stored: one that may reach the medium, and does not count, looks like another history.
        left.fence()?;
        if !mutated(Mutant::RosterAfterAcknowledgement) {
            // Before anything is acknowledged that the member lacks.
            next.settle(left, geometry, self.pool_uuid)?;
        }
        *roster = next;
        self.set_served(view.served.without(gone));
        Ok(())
    }

    fn number_at(&self, place: Place) -> u32 {
        match place {
            Place::Main => self.main_number,
            Place::Mate => self.main_number ^ 1,
        }
    }

    /// The mapping of a member, if it was ever there.
    pub(super) fn at<'m>(&'m self, opened: Opened<'m>, number: u32) -> Option<&'m Region> {
        self.view(opened).region(self.place_of(number))
    }

    /// The mapping of a member that is out, if it was ever there.
    pub(super) fn gone<'m>(&'m self, opened: Opened<'m>, number: u32) -> Option<&'m Region> {
        let view = self.view(opened);
        let place = self.place_of(number);
        view.region(place).filter(|_| !view.served.is_live(place))
    }

    /// Has a member join at the place of one that is out: stored to from now on, and not yet believed. When this
    /// returns both rosters say so, durably.
    ///
    /// # Errors
    /// A member of this number is in; too many have joined; a fence fails. Of the complete member, that is fatal.
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
        let place = self.place_of(number);
        let slot = self.added.iter().position(|added| added.get().is_none());
        let joined = slot.and_then(|slot| view.served.joined(place, slot + 1));
        let (Some(slot), Some(joined)) = (slot, joined) else {
            return Err(ErrorKind::Options(
                "too many members have joined since the pool was opened; open it again".into(),
            )
            .into());
        };
        if view.served.is_live(place) {
            return Err(ErrorKind::Options(format!("member {number} is in use")).into());
        }
        let (complete, _) = view.copies();
        let next = roster.with_rebuilding(number, identity);
        // Before the new member's: where that one is, the others know of it.
        next.settle(complete, geometry, self.pool_uuid)?;
        *roster = next;
        // Before what the member is sent. Without it the member is as if it were not there.
        let settled = roster.settle(&region, geometry, self.pool_uuid);
        settled.map_err(|error| unusable(&region, &error))?;
        let added = self.added[slot].set(region);
        assert!(added.is_ok(), "under the roster's lock");
        // Slots of the old member stay retired until the pool is opened anew.
        self.bad.forget(place);
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
        let place = self.place_of(number);
        let rebuilding = view.served.rebuilding() & place.bit() != 0;
        let Some(region) = view.live(place).filter(|_| rebuilding) else {
            return Err(ErrorKind::Options(format!(
                "member {number} was taken out while it was rebuilt"
            ))
            .into());
        };
        let (complete, _) = view.copies();
        let next = roster.with_in(number);
        // Before the member's own: a member that calls itself in is called so.
        next.settle(complete, geometry, self.pool_uuid)?;
        *roster = next;
        // From here on the pool opens with this member only, whatever its own roster says.
        self.set_served(view.served.rebuilt(place));
        // Before anything is acknowledged that rests on the member.
        let fenced = roster.settle(region, geometry, self.pool_uuid);
        drop(roster);
        fenced.or_else(|failed| {
            let refused = unusable(region, &failed);
            let seen = self.view(opened);
            self.take_out(geometry, opened, seen, place, failed.into())?;
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
    ErrorKind::Refused {
        path: region.path().to_path_buf(),
        found: format!("it failed while it was made a member: {error}"),
        todo: "name another file or device".into(),
    }
    .into()
}

/// What of a slot's block is not where it must be.
pub(super) enum Lacking<'m> {
    Nothing,
    /// One half, which is to have what the other one has, and then the slot this note.
    Half {
        from: &'m Region,
        to: &'m Region,
        note: u8,
    },
    /// No member that counts has any of it.
    Everything,
}
