//! The members of a mirror as a thread sees them at one moment: which region has which number, which are stored to,
//! and where the halves of a slot are.

use std::sync::OnceLock;

use forebay_pmem::Region;

use crate::media::geometry::{MIRROR_MEMBERS_MAX, Pair};
use crate::media::served::{BOTH, FIRST, GENERATION_MAX, SECOND, Served};
use crate::mutants::{Mutant, mutated};

const MEMBERS_MAX: usize = MIRROR_MEMBERS_MAX as usize;
/// The position of a member that the pool was opened without.
const ABSENT: u8 = u8::MAX;

/// The regions that a pool was opened with: that of the member that led, and the others.
#[derive(Clone, Copy)]
pub(super) struct Opened<'m> {
    pub(super) main: &'m Region,
    pub(super) others: &'m [Region],
}

impl<'m> Opened<'m> {
    #[inline]
    fn at(self, position: u8) -> Option<&'m Region> {
        match position {
            0 => Some(self.main),
            other => self.others.get(usize::from(other) - 1),
        }
    }
}

/// A member that joined while the pool was open.
struct Joined {
    number: u32,
    region: Region,
}

/// Which region has which number.
pub(super) struct Numbered {
    /// All numbers; first that of the member that led when the pool was opened.
    order: [u8; MEMBERS_MAX],
    count: u8,
    /// By number, the place among the regions of the opening.
    opened_at: [u8; MEMBERS_MAX],
    /// Members that joined, by the generation in which they did. They stay until the pool is closed: a thread may still
    /// look at one that has left.
    joined: Box<[OnceLock<Joined>]>,
}

impl Numbered {
    /// Of `members` members those `numbers` are there, in this order.
    pub(super) fn new(numbers: &[u32], members: u32) -> Numbered {
        let (mut order, mut opened_at) = ([0; MEMBERS_MAX], [ABSENT; MEMBERS_MAX]);
        let is_absent = |number: &u32| !numbers.contains(number);
        let all = numbers
            .iter()
            .copied()
            .chain((0..members).filter(is_absent));
        for (position, number) in all.enumerate() {
            order[position] = number as u8;
            if position < numbers.len() {
                opened_at[number as usize] = position as u8;
            }
        }
        Numbered {
            order,
            count: members as u8,
            opened_at,
            joined: (0..GENERATION_MAX).map(|_| OnceLock::new()).collect(),
        }
    }
    #[inline]
    fn numbers(&self) -> impl Iterator<Item = u32> + Clone {
        let order = self.order[..usize::from(self.count)].iter();
        order.map(|number| u32::from(*number))
    }
    /// A member joins in this generation, the first in it.
    pub(super) fn add(&self, number: u32, generation: u8, region: Region) {
        let place = &self.joined[usize::from(generation) - 1];
        let added = place.set(Joined { number, region });
        assert!(added.is_ok(), "generations are counted, under a lock");
    }
    fn joined(&self) -> impl Iterator<Item = &Joined> {
        self.joined.iter().filter_map(OnceLock::get)
    }
    /// Members that joined since the pool was opened.
    pub(super) fn regions_joined(&self) -> impl Iterator<Item = &Region> {
        self.joined().map(|joined| &joined.region)
    }
    /// Every region that has or had this number.
    pub(super) fn ever_at<'m>(
        &'m self,
        opened: Opened<'m>,
        number: u32,
    ) -> impl Iterator<Item = &'m Region> {
        let joined = self.joined().filter(move |joined| joined.number == number);
        let first = opened.at(self.opened_at[number as usize]);
        first.into_iter().chain(joined.map(|joined| &joined.region))
    }
}

/// Some of the members, in a list that takes no memory of the heap.
#[derive(Clone, Copy)]
pub(super) struct Members<'m> {
    regions: [&'m Region; MEMBERS_MAX],
    count: usize,
}

impl<'m> Members<'m> {
    #[inline]
    fn of(opened: Opened<'m>) -> Members<'m> {
        let mut members = Members {
            regions: [opened.main; MEMBERS_MAX],
            count: 1 + opened.others.len(),
        };
        let places = members.regions[1..].iter_mut();
        places
            .zip(opened.others)
            .for_each(|(place, other)| *place = other);
        members
    }
}

impl<'m> std::ops::Deref for Members<'m> {
    type Target = [&'m Region];
    #[inline]
    fn deref(&self) -> &[&'m Region] {
        &self.regions[..self.count]
    }
}

/// One half of a slot, where it is.
#[derive(Clone, Copy)]
pub(super) struct Half<'m> {
    pub(super) region: &'m Region,
    pub(super) offset: u64,
}

impl Half<'_> {
    pub(super) fn is(self, other: Half<'_>) -> bool {
        std::ptr::eq(self.region, other.region) && self.offset == other.offset
    }
}

/// One half of a slot or both, where they are.
#[derive(Clone, Copy)]
pub(super) struct Halves<'m> {
    /// What is read.
    pub(super) one: Half<'m>,
    /// The other half, if the block is there, too.
    pub(super) other: Option<Half<'m>>,
}

impl<'m> Halves<'m> {
    #[inline(always)]
    pub(super) fn one(region: &'m Region, offset: u64) -> Halves<'m> {
        Halves {
            one: Half { region, offset },
            other: None,
        }
    }
    #[inline(always)]
    pub(super) fn each(self, mut visit: impl FnMut(Half<'m>)) {
        visit(self.one);
        if let Some(other) = self.other {
            visit(other);
        }
    }
    pub(super) fn all(self) -> impl Iterator<Item = Half<'m>> {
        std::iter::once(self.one).chain(self.other)
    }
}

/// See the module.
#[derive(Clone, Copy)]
pub(super) struct View<'m> {
    numbered: &'m Numbered,
    opened: Opened<'m>,
    pub(super) served: Served,
}

impl<'m> View<'m> {
    #[inline]
    pub(super) fn new(numbered: &'m Numbered, opened: Opened<'m>, served: Served) -> View<'m> {
        View {
            numbered,
            opened,
            served,
        }
    }
    /// The member of this number, also one that is out, if it was ever there.
    #[inline]
    pub(super) fn region(&self, number: u32) -> Option<&'m Region> {
        match self.served.since(number) {
            0 => self.opened.at(self.numbered.opened_at[number as usize]),
            since => {
                let joined = self.numbered.joined[usize::from(since) - 1].get();
                joined.map(|joined| &joined.region)
            }
        }
    }
    fn numbered_regions(
        self,
        numbers: impl Iterator<Item = u32> + Clone + 'm,
    ) -> impl Iterator<Item = (u32, &'m Region)> + Clone {
        numbers.filter_map(move |number| Some((number, self.region(number)?)))
    }
    /// The members that have all that was acknowledged, with their numbers.
    pub(super) fn complete(self) -> impl Iterator<Item = (u32, &'m Region)> + Clone {
        let numbers = self.numbered.numbers();
        let served = self.served;
        self.numbered_regions(numbers.filter(move |number| served.is_complete(*number)))
    }
    /// The members that are stored to, with their numbers; first those that have all that was acknowledged.
    pub(super) fn live(self) -> impl Iterator<Item = (u32, &'m Region)> + Clone {
        let rebuilding = self.numbered_regions(self.served.rebuilding().into_iter());
        self.complete().chain(rebuilding)
    }
    /// All members as they were opened, if all were there and none has left.
    #[inline]
    pub(super) fn unchanged(self) -> Option<Opened<'m>> {
        (self.served.0 == 0).then_some(self.opened)
    }
    /// Shows each that is stored to, of members that have changed.
    #[cold]
    pub(super) fn on_changed(self, visit: &mut dyn FnMut(&'m Region)) {
        let live = self.live().map(|(_, region)| region);
        match mutated(Mutant::RecordOnOneMember) {
            true => live.take(1).for_each(visit),
            false => live.for_each(visit),
        }
    }
    /// Those that have all that was acknowledged.
    #[inline]
    pub(super) fn complete_members(self) -> Members<'m> {
        match self.unchanged() {
            Some(opened) => Members::of(opened),
            None => self.listed(self.complete()),
        }
    }
    /// The first of them.
    #[inline]
    pub(super) fn leading(self) -> &'m Region {
        match self.unchanged() {
            Some(opened) => opened.main,
            None => self.listed(self.complete())[0],
        }
    }
    #[cold]
    fn listed(self, some: impl Iterator<Item = (u32, &'m Region)>) -> Members<'m> {
        let mut members = Members {
            regions: [self.opened.main; MEMBERS_MAX],
            count: 0,
        };
        for (_, region) in some {
            members.regions[members.count] = region;
            members.count += 1;
        }
        members
    }
    /// The member that joined and has not everything yet.
    pub(super) fn rebuilding(&self) -> Option<&'m Region> {
        self.region(self.served.rebuilding()?)
    }
    #[inline]
    fn first(&self, pair: Pair) -> Option<Half<'m>> {
        Some(Half {
            region: self.region(pair.first)?,
            offset: pair.first_offset,
        })
    }
    #[inline]
    fn second(&self, pair: Pair) -> Option<Half<'m>> {
        Some(Half {
            region: self.region(pair.second)?,
            offset: pair.second_offset,
        })
    }
    /// The half of this one bit.
    pub(super) fn half(&self, pair: Pair, bit: u8) -> Option<Half<'m>> {
        match bit {
            FIRST => self.first(pair),
            _ => self.second(pair),
        }
    }
    /// These halves of a slot. Of none there is still one to be read, which is wrong by its check.
    #[inline(always)]
    pub(super) fn halves(&self, pair: Pair, held: u8) -> Halves<'m> {
        let (one, other) = match held {
            BOTH => (self.first(pair), self.second(pair)),
            SECOND => (self.second(pair), None),
            _ => (self.first(pair), None),
        };
        let one = one.or_else(|| self.second(pair));
        Halves {
            one: one.expect("of two members that follow each other one is there"),
            other,
        }
    }
}
