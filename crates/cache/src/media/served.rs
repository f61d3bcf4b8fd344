//! Which members of a mirror are stored to, and since when each has what is written: one word, so that a thread sees
//! all of it as it is at one moment.
//!
//! At most one member is *lacking*: out, or being rebuilt. With two of them there could be blocks of which no half is
//! left, so that the second one is never taken out.
//!
//! Members leave and join in *generations*. A slot's note says in which one its halves were written, and a half counts
//! only if its member has been there since: what is noted too late, by a thread that knew an older member in its
//! place, counts for nothing.

use crate::media::geometry::{MIRROR_MEMBERS_MAX, Pair};

/// Of a note: the half on the first member of the pair holds the block.
pub(super) const FIRST: u8 = 1;
/// The one on the second member does.
pub(super) const SECOND: u8 = 2;
/// Both do.
pub(super) const BOTH: u8 = FIRST | SECOND;

/// Generations that a slot's note has room for.
pub(super) const GENERATION_MAX: u8 = 63;
/// Bits of a note beside the generation: a half each.
const NOTE_SHIFT: u8 = 2;

/// See the module. The number of the member that is lacking plus one, or 0, four bits; whether it is being rebuilt,
/// one; the generation, six; the one in which each member joined, six each. 0 is a pool that has had every member
/// since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Served(pub(super) u64);

const LACKING_BITS: u32 = 4;
const REBUILDING_SHIFT: u32 = LACKING_BITS;
const GENERATION_SHIFT: u32 = REBUILDING_SHIFT + 1;
const GENERATION_BITS: u32 = GENERATION_MAX.count_ones();
const SINCE_SHIFT: u32 = GENERATION_SHIFT + GENERATION_BITS;

const _: () = assert!(MIRROR_MEMBERS_MAX < 1 << LACKING_BITS);
const _: () = assert!(SINCE_SHIFT + GENERATION_BITS * MIRROR_MEMBERS_MAX <= u64::BITS);
const _: () = assert!(GENERATION_MAX as u32 == (u8::MAX >> NOTE_SHIFT) as u32);

/// What is noted of a pair's halves where this is so of each.
#[inline]
pub(super) fn halves_where(pair: Pair, mut is_it: impl FnMut(u32) -> bool) -> u8 {
    let first = if is_it(pair.first) { FIRST } else { 0 };
    let second = if is_it(pair.second) { SECOND } else { 0 };
    first | second
}

impl Served {
    /// When a pool is opened, perhaps without a member.
    pub(super) fn new(lacking: Option<u32>) -> Served {
        Served(0).with_lacking(lacking)
    }
    /// The member that is out or being rebuilt.
    #[inline]
    pub(super) fn lacking(self) -> Option<u32> {
        (self.bits(0, LACKING_BITS) as u32).checked_sub(1)
    }
    #[inline]
    fn is_rebuilding(self) -> bool {
        self.bits(REBUILDING_SHIFT, 1) != 0
    }
    /// The member that is stored to and has not everything.
    #[inline]
    pub(super) fn rebuilding(self) -> Option<u32> {
        self.lacking().filter(|_| self.is_rebuilding())
    }
    /// Whether a member is stored to.
    #[inline]
    pub(super) fn is_live(self, member: u32) -> bool {
        self.lacking() != Some(member) || self.is_rebuilding()
    }
    /// Whether it is, and has all that was acknowledged.
    #[inline]
    pub(super) fn is_complete(self, member: u32) -> bool {
        self.lacking() != Some(member)
    }
    #[inline]
    fn generation(self) -> u8 {
        self.bits(GENERATION_SHIFT, GENERATION_BITS) as u8
    }
    /// Whether members left or joined.
    pub(super) fn has_changed(self) -> bool {
        self.generation() != 0
    }
    /// The generation in which the member of this number joined; 0 for one of the opening.
    #[inline]
    pub(super) fn since(self, member: u32) -> u8 {
        self.bits(SINCE_SHIFT + GENERATION_BITS * member, GENERATION_BITS) as u8
    }

    #[inline]
    fn bits(self, shift: u32, bits: u32) -> u64 {
        self.0 >> shift & ((1 << bits) - 1)
    }
    fn put(self, shift: u32, bits: u32, value: u64) -> Served {
        let mask = (1 << bits) - 1;
        assert!(value <= mask, "there is room for it");
        Served(self.0 & !(mask << shift) | value << shift)
    }
    fn with_lacking(self, lacking: Option<u32>) -> Served {
        self.put(
            0,
            LACKING_BITS,
            u64::from(lacking.map_or(0, |member| member + 1)),
        )
        .put(REBUILDING_SHIFT, 1, 0)
    }
    fn next_generation(self) -> Served {
        let next = u64::from(self.generation()) + 1;
        self.put(GENERATION_SHIFT, GENERATION_BITS, next)
    }
    /// Without this member, which is complete where all others are, or being rebuilt.
    pub(super) fn without(self, member: u32) -> Served {
        assert!(
            self.lacking().is_none_or(|lacking| lacking == member),
            "each block has a half on a member that is left"
        );
        self.with_lacking(Some(member)).next_generation()
    }
    /// With a member in the place of the one that is out, which has nothing yet; `None` once there is no generation left
    /// for its leaving.
    pub(super) fn joined(self, member: u32) -> Option<Served> {
        assert_eq!(self.lacking(), Some(member), "its place is empty");
        if self.generation() + 2 > GENERATION_MAX {
            return None;
        }
        let next = self.next_generation().put(REBUILDING_SHIFT, 1, 1);
        let since = u64::from(next.generation());
        Some(next.put(
            SINCE_SHIFT + GENERATION_BITS * member,
            GENERATION_BITS,
            since,
        ))
    }
    /// The member that was being rebuilt has everything.
    pub(super) fn rebuilt(self) -> Served {
        self.with_lacking(None)
    }

    /// The halves of a pair that are stored to.
    #[inline]
    pub(super) fn live(self, pair: Pair) -> u8 {
        match self.0 {
            0 => BOTH,
            _ => halves_where(pair, |member| self.is_live(member)),
        }
    }
    /// The note of a slot whose halves are written now.
    #[inline]
    pub(super) fn note(self, halves: u8) -> u8 {
        halves | self.generation() << NOTE_SHIFT
    }
    /// The halves of a slot with this note that count.
    #[inline]
    pub(super) fn halves(self, note: u8, pair: Pair) -> u8 {
        match self.0 {
            0 => note & BOTH,
            _ => self.halves_since(note, pair),
        }
    }
    #[cold]
    fn halves_since(self, note: u8, pair: Pair) -> u8 {
        note & halves_where(pair, |member| self.counts(note, member))
    }
    /// Whether what was written with this note counts on a member.
    #[inline]
    pub(super) fn counts(self, note: u8, member: u32) -> bool {
        self.is_live(member) && note >> NOTE_SHIFT >= self.since(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(first: u32, second: u32) -> Pair {
        Pair {
            first,
            second,
            first_offset: 0,
            second_offset: 0,
        }
    }

    #[test]
    fn a_half_counts_only_if_its_member_has_been_there_since() {
        let (of_it, of_others) = (pair(1, 2), pair(0, 1));
        let opened = Served::new(None);
        let note = opened.note(BOTH);
        assert_eq!(opened.halves(note, of_it), BOTH);
        let alone = opened.without(2);
        assert_eq!(alone.live(of_it), FIRST);
        assert_eq!(alone.live(of_others), BOTH);
        assert_eq!(alone.halves(note, of_it), FIRST);
        assert_eq!(alone.halves(note, of_others), BOTH);
        let joined = alone.joined(2).unwrap();
        assert!(joined.is_live(2) && !joined.is_complete(2));
        assert_eq!(joined.rebuilding(), Some(2));
        assert!(joined.since(2) > 0 && joined.since(1) == 0);
        assert_eq!(
            joined.halves(note, of_it),
            FIRST,
            "that of the member before"
        );
        assert_eq!(
            joined.halves(alone.note(BOTH), of_it),
            FIRST,
            "what is noted too late"
        );
        assert_eq!(joined.halves(joined.note(BOTH), of_it), BOTH);
        assert_eq!(joined.halves(note, of_others), BOTH);
        let whole = joined.rebuilt();
        assert!(whole.is_complete(2));
        assert_eq!(whole.lacking(), None);
        assert_eq!(whole.halves(joined.note(BOTH), of_it), BOTH);
        assert_eq!(whole.halves(note, of_it), FIRST, "it is another one still");
    }

    #[test]
    fn a_member_can_leave_whenever_it_could_join() {
        for member in [0, MIRROR_MEMBERS_MAX - 1] {
            let mut served = Served::new(Some(member));
            let mut joins = 0;
            while let Some(joined) = served.joined(member) {
                served = joined.rebuilt().without(member);
                let of_it = pair(member, 1);
                assert_eq!(served.halves(served.note(BOTH), of_it), SECOND);
                joins += 1;
            }
            assert_eq!(joins, 31);
        }
    }
}
