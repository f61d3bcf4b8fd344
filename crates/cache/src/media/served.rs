//! Which members of a mirror are stored to, and since when each has what is written: one word, so that a thread sees
//! all of it as it is at one moment.
//!
//! Members leave and join in *generations*. A slot's note says in which one its halves were written, and a half counts
//! only if its member has been there since: what is noted too late, by a thread that knew an older member at its
//! place, counts for nothing.

/// The place of a member: that of the one that led when the pool was opened, or the other one's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Main = 0,
    Mate = 1,
}

impl Place {
    #[inline]
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }
    #[inline]
    pub(super) fn other(self) -> Place {
        match self {
            Place::Main => Place::Mate,
            Place::Mate => Place::Main,
        }
    }
}

/// The bits of both places.
const BOTH: u8 = Place::Main.bit() | Place::Mate.bit();

/// Generations that a slot's note has room for.
const GENERATION_MAX: u8 = 63;
/// Bits of a note beside the generation: a half each.
const NOTE_SHIFT: u8 = 2;

/// See the module. Live members, two bits; those of them that are being rebuilt, two; the generation, eight; the one in
/// which either place's member joined, eight each; which region stands at either place, four each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Served(pub(super) u64);

const REBUILDING_SHIFT: u32 = 2;
const GENERATION_SHIFT: u32 = 4;
const SINCE_SHIFT: u32 = 12;
const REGION_SHIFT: u32 = 28;

impl Served {
    /// When a pool is opened: its regions stand at their places.
    pub(super) fn new(has_mate: bool) -> Served {
        Served(u64::from(match has_mate {
            true => BOTH,
            false => Place::Main.bit(),
        }))
    }
    /// Members that are stored to, a bit each.
    #[inline]
    pub(super) fn live(self) -> u8 {
        self.0 as u8 & BOTH
    }
    #[inline]
    pub(super) fn is_live(self, place: Place) -> bool {
        self.live() & place.bit() != 0
    }
    /// Members that are stored to, and have all that was acknowledged.
    #[inline]
    pub(super) fn complete(self) -> u8 {
        self.live() & !self.rebuilding()
    }
    #[inline]
    pub(super) fn rebuilding(self) -> u8 {
        (self.0 >> REBUILDING_SHIFT) as u8 & BOTH
    }
    #[inline]
    fn generation(self) -> u8 {
        (self.0 >> GENERATION_SHIFT) as u8
    }
    /// Whether members left or joined.
    pub(super) fn has_changed(self) -> bool {
        self.generation() != 0
    }
    /// The generation in which the member there joined.
    #[inline]
    pub(super) fn since(self, place: Place) -> u8 {
        (self.0 >> (SINCE_SHIFT + 8 * place as u32)) as u8
    }
    /// Which region stands there: 0 for the one of the opening, else one that was added, counted from 1.
    #[inline]
    pub(super) fn region(self, place: Place) -> usize {
        (self.0 >> (REGION_SHIFT + 4 * place as u32)) as usize & 0xf
    }

    fn put(self, shift: u32, bits: u32, value: u64) -> Served {
        let mask = (1 << bits) - 1;
        debug_assert!(value <= mask);
        Served(self.0 & !(mask << shift) | value << shift)
    }
    fn next_generation(self) -> Served {
        self.put(GENERATION_SHIFT, 8, u64::from(self.generation()) + 1)
    }
    /// Without the member there.
    pub(super) fn without(self, place: Place) -> Served {
        let left = u64::from(!place.bit());
        let live = u64::from(self.live()) & left;
        let rebuilding = u64::from(self.rebuilding()) & left;
        self.put(0, 2, live)
            .put(REBUILDING_SHIFT, 2, rebuilding)
            .next_generation()
    }
    /// With a member there that has nothing yet; `None` once there is no number left for its leaving.
    pub(super) fn joined(self, place: Place, region: usize) -> Option<Served> {
        if self.generation() + 2 > GENERATION_MAX {
            return None;
        }
        let next = self.next_generation();
        let live = u64::from(self.live() | place.bit());
        let rebuilding = u64::from(self.rebuilding() | place.bit());
        let since = u64::from(next.generation());
        Some(
            next.put(0, 2, live)
                .put(REBUILDING_SHIFT, 2, rebuilding)
                .put(SINCE_SHIFT + 8 * place as u32, 8, since)
                .put(REGION_SHIFT + 4 * place as u32, 4, region as u64),
        )
    }
    /// The member there has everything.
    pub(super) fn rebuilt(self, place: Place) -> Served {
        let rebuilding = u64::from(self.rebuilding() & !place.bit());
        self.put(REBUILDING_SHIFT, 2, rebuilding)
    }

    /// The note of a slot whose halves are written now.
    #[inline]
    pub(super) fn note(self, halves: u8) -> u8 {
        halves | self.generation() << NOTE_SHIFT
    }
    /// The halves of a slot with this note that count.
    #[inline]
    pub(super) fn halves(self, note: u8) -> u8 {
        let written = note >> NOTE_SHIFT;
        let counts = |place: Place| match written >= self.since(place) {
            true => place.bit(),
            false => 0,
        };
        note & self.live() & (counts(Place::Main) | counts(Place::Mate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_counts_only_if_its_member_has_been_there_since() {
        let opened = Served::new(true);
        let note = opened.note(BOTH);
        assert_eq!(opened.halves(note), BOTH);
        let alone = opened.without(Place::Mate);
        assert_eq!((alone.live(), alone.halves(note)), (1, 1));
        let joined = alone.joined(Place::Mate, 3).unwrap();
        assert_eq!((joined.live(), joined.complete()), (BOTH, 1));
        assert_eq!(joined.region(Place::Mate), 3);
        assert_eq!(joined.region(Place::Main), 0);
        assert_eq!(joined.halves(note), 1, "the old member's half");
        assert_eq!(joined.halves(alone.note(BOTH)), 1, "noted late");
        assert_eq!(joined.halves(joined.note(BOTH)), BOTH);
        let whole = joined.rebuilt(Place::Mate);
        assert_eq!(whole.complete(), BOTH);
        assert_eq!(whole.halves(joined.note(BOTH)), BOTH);
    }

    #[test]
    fn a_member_can_leave_whenever_it_could_join() {
        let mut served = Served::new(true).without(Place::Main);
        let mut joins = 0;
        while let Some(joined) = served.joined(Place::Main, 1) {
            served = joined.rebuilt(Place::Main).without(Place::Main);
            assert_eq!(served.halves(served.note(BOTH)), Place::Mate.bit());
            joins += 1;
        }
        assert_eq!(joins, 31);
    }
}
