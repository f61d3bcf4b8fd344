//! Places of a mirror's members that keep nothing: pages that the medium lost, and halves that took no second write.
//!
//! What holds:
//! * A half that is noted here does not count from then on, whatever is noted of its slot, also by a thread that
//!   stored to it before and is late: the block is in the other half alone, and nothing is changed in place or rests
//!   on it.
//! * A half is noted before the page is acknowledged with its region, so before any fence succeeds that covered it.
//! * As long as a block may be in such a slot, the member of the other half is not taken out: it has the only one.

use std::ops::Range;
use std::sync::{Mutex, OnceLock};

use crate::media::bad_list;
use crate::media::geometry::Geometry;
use crate::media::served::Place;
use crate::sync::{AtomicBool, AtomicU8, Ordering};

/// Slots of a member that may be bad: with more it is broken.
const BAD_SLOTS_MAX: usize = 500;
/// As a share of the slots, in tiny pools.
const BAD_SHARE: usize = 8;

/// The bits of both halves.
const HALVES: u8 = Place::Main.bit() | Place::Mate.bit();
/// Beside them: no block is in the slot, and none will be.
const SETTLED: u8 = 1 << 7;

/// What came of noting places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Noted {
    /// They do not count from now on.
    Done,
    /// There are too many for a member that is to stay.
    TooMany,
    /// Both halves of a slot are bad that a commit may be about to use, which must not be acknowledged.
    InUse,
}

/// See the module.
#[derive(Default)]
pub(super) struct BadPlaces {
    /// A byte for each slot, once any is bad.
    marks: OnceLock<Box<[AtomicU8]>>,
    /// Slots were noted that were not settled when they were looked at last.
    are_any_unsettled: AtomicBool,
    /// The list on the medium does not say what is known.
    is_unlisted: AtomicBool,
    known: Mutex<Known>,
}

/// What is bad of either member.
#[derive(Default)]
struct Known {
    slots: [Vec<u32>; 2],
    /// Where that is on the member, so that it can be found under another plan.
    ranges: [Vec<Range<u64>>; 2],
}

impl BadPlaces {
    /// The bad halves of a slot, a bit each.
    #[inline]
    pub(super) fn halves(&self, slot: u32) -> u8 {
        self.marks.get().map_or(0, |marks| {
            // Acquire: with the thread that notes a half before it acknowledges the page.
            marks[slot as usize].load(Ordering::Acquire) & HALVES
        })
    }

    /// Whether any half is bad.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.marks.get().is_some()
    }

    /// Notes that the half at `place` of these slots is bad, which takes up `range` there.
    /// `is_held` says whether a published block is in a slot.
    pub(super) fn note(
        &self,
        place: Place,
        range: Range<u64>,
        slots: &[u32],
        geometry: &Geometry,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Noted {
        let all = geometry.slots();
        let mut known = forebay_pmem::lock_or_yield(&self.known);
        let own = &known.slots[place as usize];
        let new: Vec<u32> = slots
            .iter()
            .copied()
            .filter(|slot| !own.contains(slot))
            .collect();
        let most = BAD_SLOTS_MAX.min((all as usize / BAD_SHARE).max(1));
        let room = bad_list::capacity(geometry);
        let listed: usize = known.ranges.iter().map(Vec::len).sum();
        let is_known = known.ranges[place as usize].contains(&range);
        let is_full = room > 0 && listed >= room && !is_known;
        if known.slots[place as usize].len() + new.len() > most || is_full {
            return Noted::TooMany;
        }
        let marks = self
            .marks
            .get_or_init(|| (0..all).map(|_| AtomicU8::new(0)).collect());
        let mut noted = Noted::Done;
        for slot in &new {
            let before = marks[*slot as usize].fetch_or(place.bit(), Ordering::AcqRel);
            let is_lost = before & place.other().bit() != 0 && before & SETTLED == 0;
            if is_lost && !is_held(*slot) {
                noted = Noted::InUse;
            }
        }
        known.slots[place as usize].extend(&new);
        if !is_known {
            known.ranges[place as usize].push(range);
            self.is_unlisted.store(true, Ordering::Release);
        }
        if !new.is_empty() {
            self.are_any_unsettled.store(true, Ordering::Release);
        }
        noted
    }

    /// Whether blocks may be in bad slots.
    #[inline]
    pub(super) fn are_any_unsettled(&self) -> bool {
        self.are_any_unsettled.load(Ordering::Acquire)
    }

    /// Has `is_empty` say of each bad slot in which a block may be whether there is none, and will be none; returns
    /// those that are left.
    pub(super) fn settle(&self, is_empty: impl Fn(u32) -> bool) -> Vec<u32> {
        let known = forebay_pmem::lock_or_yield(&self.known);
        let Some(marks) = self.marks.get() else {
            return Vec::new();
        };
        let mut left = Vec::new();
        for slot in known.slots.iter().flatten() {
            let mark = &marks[*slot as usize];
            if mark.load(Ordering::Acquire) & SETTLED != 0 {
                continue;
            }
            if is_empty(*slot) {
                mark.fetch_or(SETTLED, Ordering::AcqRel);
            } else {
                left.push(*slot);
            }
        }
        self.are_any_unsettled
            .store(!left.is_empty(), Ordering::Release);
        left.sort_unstable();
        left.dedup();
        left
    }

    /// Blocks that may be in slots whose half at `place` is bad, and that are in the other half alone.
    pub(super) fn resting_on_other(&self, place: Place) -> usize {
        let known = forebay_pmem::lock_or_yield(&self.known);
        let Some(marks) = self.marks.get() else {
            return 0;
        };
        let is_alone = |slot: &&u32| {
            let mark = marks[**slot as usize].load(Ordering::Acquire);
            mark & (SETTLED | place.other().bit()) == 0
        };
        known.slots[place as usize].iter().filter(is_alone).count()
    }

    /// Another member stands there.
    pub(super) fn forget(&self, place: Place) {
        let mut known = forebay_pmem::lock_or_yield(&self.known);
        if let Some(marks) = self.marks.get() {
            for slot in &known.slots[place as usize] {
                marks[*slot as usize].fetch_and(!place.bit(), Ordering::AcqRel);
            }
        }
        known.slots[place as usize].clear();
        if !known.ranges[place as usize].is_empty() {
            known.ranges[place as usize].clear();
            self.is_unlisted.store(true, Ordering::Release);
        }
    }

    /// Whether the list on the medium lacks anything, or says too much.
    #[inline]
    pub(super) fn is_unlisted(&self) -> bool {
        self.is_unlisted.load(Ordering::Acquire)
    }
    /// The caller is about to store the list, which it makes of what is known after this.
    pub(super) fn begin_listing(&self) {
        self.is_unlisted.store(false, Ordering::Release);
    }
    /// It could not be stored everywhere.
    pub(super) fn end_listing(&self) {
        self.is_unlisted.store(true, Ordering::Release);
    }

    /// What is bad of the member there, in bytes from its start.
    pub(super) fn ranges(&self, place: Place) -> Vec<Range<u64>> {
        forebay_pmem::lock_or_yield(&self.known).ranges[place as usize].clone()
    }
}
