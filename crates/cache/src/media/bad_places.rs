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

use crate::media::bad_list::{self, BadPlace};
use crate::media::geometry::{Geometry, MIRROR_MEMBERS_MAX};
use crate::media::served::{BOTH, FIRST, SECOND, halves_where};
use crate::sync::{AtomicBool, AtomicU8, Ordering};

/// Slots of a member that may be bad: with more it is broken.
const BAD_SLOTS_MAX: usize = 500;
/// As a share of those that have a half there, in tiny pools.
const BAD_SHARE: usize = 8;

/// Beside the bits of the halves: no block is in the slot, and none will be.
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
    known: Mutex<[Known; MIRROR_MEMBERS_MAX as usize]>,
}

/// What is bad of one member.
#[derive(Default)]
struct Known {
    slots: Vec<u32>,
    /// Where that is on the member, so that it can be found under another plan.
    ranges: Vec<Range<u64>>,
}

/// The half of a slot that is on this member.
fn half_on(member: u32, slot: u32, geometry: &Geometry) -> u8 {
    halves_where(geometry.slot_pair(slot), |number| number == member)
}

impl BadPlaces {
    /// The bad halves of a slot.
    #[inline]
    pub(super) fn halves(&self, slot: u32) -> u8 {
        self.marks.get().map_or(0, |marks| {
            // Acquire: with the thread that notes a half before it acknowledges the page.
            marks[slot as usize].load(Ordering::Acquire) & BOTH
        })
    }

    /// Whether any half is bad.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.marks.get().is_some()
    }

    /// Notes that the halves on `member` of these slots are bad, which take up `range` there.
    /// `is_held` says whether a published block is in a slot.
    pub(super) fn note(
        &self,
        member: u32,
        range: Range<u64>,
        slots: &[u32],
        geometry: &Geometry,
        is_held: &dyn Fn(u32) -> bool,
    ) -> Noted {
        let mut known = forebay_pmem::lock_or_yield(&self.known);
        let listed: usize = known.iter().map(|known| known.ranges.len()).sum();
        let own = &mut known[member as usize];
        let is_new = |slot: &u32| !own.slots.contains(slot);
        let new: Vec<u32> = slots.iter().copied().filter(is_new).collect();
        let most = (geometry.slots_per_member as usize / BAD_SHARE).max(1);
        let room = bad_list::capacity(geometry);
        let is_known = own.ranges.contains(&range);
        let is_full = room > 0 && listed >= room && !is_known;
        if own.slots.len() + new.len() > BAD_SLOTS_MAX.min(most) || is_full {
            return Noted::TooMany;
        }
        let all = geometry.slots();
        let marks = self
            .marks
            .get_or_init(|| (0..all).map(|_| AtomicU8::new(0)).collect());
        let mut noted = Noted::Done;
        // Of those that were known, too: a fence that failed for one must fail again.
        for slot in slots {
            let half = half_on(member, *slot, geometry);
            let before = marks[*slot as usize].fetch_or(half, Ordering::AcqRel);
            let is_lost = before & (BOTH ^ half) != 0 && before & SETTLED == 0;
            if is_lost && !is_held(*slot) {
                noted = Noted::InUse;
            }
        }
        own.slots.extend(&new);
        if !is_known {
            own.ranges.push(range);
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
    /// those that are left, ascending.
    pub(super) fn settle(&self, is_empty: impl Fn(u32) -> bool) -> Vec<u32> {
        let known = forebay_pmem::lock_or_yield(&self.known);
        let Some(marks) = self.marks.get() else {
            return Vec::new();
        };
        let mut left = Vec::new();
        for slot in known.iter().flat_map(|known| &known.slots) {
            let mark = &marks[*slot as usize];
            if mark.load(Ordering::Acquire) & SETTLED != 0 {
                continue;
            }
            if is_empty(*slot) {
                mark.fetch_or(SETTLED, Ordering::AcqRel);
                // Nothing rests on its other half any more.
                self.is_unlisted.store(true, Ordering::Release);
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

    /// The half of a slot that is bad, on this member, if a block may be in the other one alone; else none.
    fn resting(&self, member: u32, slot: u32, geometry: &Geometry) -> u8 {
        let own = half_on(member, slot, geometry);
        let marks = self.marks.get();
        let mark = marks.map_or(0, |marks| marks[slot as usize].load(Ordering::Acquire));
        match mark & (SETTLED | BOTH) == own {
            true => own,
            false => 0,
        }
    }

    /// Blocks that may be in slots of which one half is bad, and the other one on this member.
    pub(super) fn resting_on(&self, member: u32, geometry: &Geometry) -> usize {
        let known = forebay_pmem::lock_or_yield(&self.known);
        let is_on_it = |bad: u32, slot: u32| {
            let other = half_on(member, slot, geometry);
            other != 0 && bad != member && self.resting(bad, slot, geometry) != 0
        };
        let count = |(bad, known): (u32, &Known)| {
            let slots = known.slots.iter();
            slots.filter(|slot| is_on_it(bad, **slot)).count()
        };
        (0..).zip(known.iter()).map(count).sum()
    }

    /// Another member stands there.
    pub(super) fn forget(&self, member: u32, geometry: &Geometry) {
        let mut known = forebay_pmem::lock_or_yield(&self.known);
        let own = std::mem::take(&mut known[member as usize]);
        if let Some(marks) = self.marks.get() {
            for slot in own.slots {
                let half = half_on(member, slot, geometry);
                marks[slot as usize].fetch_and(!half, Ordering::AcqRel);
            }
            // It has no list yet.
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

    /// What is to be on the list.
    pub(super) fn to_list(&self, geometry: &Geometry) -> Vec<BadPlace> {
        let known = forebay_pmem::lock_or_yield(&self.known);
        let members = (0..).zip(known.iter());
        let places = members.flat_map(|(member, known)| {
            known.ranges.iter().map(move |range| {
                let slots = geometry.slots_at(member, range).into_iter();
                let resting = slots.map(|slot| self.resting(member, slot, geometry));
                BadPlace {
                    member,
                    bytes: range.clone(),
                    resting: resting.fold(0, |all, one| all | one),
                }
            })
        });
        places.collect()
    }

    /// What is bad of the members, in bytes from their starts.
    pub(super) fn ranges(&self) -> Vec<(u32, Range<u64>)> {
        let known = forebay_pmem::lock_or_yield(&self.known);
        let members = (0..).zip(known.iter());
        let ranges = members.flat_map(|(member, known)| {
            let ranges = known.ranges.iter().cloned();
            ranges.map(move |range| (member, range))
        });
        ranges.collect()
    }
}

const _: () = assert!(SETTLED & (FIRST | SECOND) == 0, "a bit of its own");
