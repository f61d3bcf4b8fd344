//! Two members that hold the same: all metadata, and every dirty block in two halves.
//!
//! The halves of a slot lie at the same offset of both members. A block that the backing has needs one half only, the
//! first; whether the second holds it too is known in DRAM. While both members are in, each store goes to both. A
//! member whose fence fails is taken out by a roster that is durable on the other one, and only then anything is
//! acknowledged that it lacks (I13).

use std::sync::Mutex;

use forebay_pmem::Region;

use crate::error::{Error, ErrorKind, Result};
use crate::media::geometry::Geometry;
use crate::media::roster::Roster;
use crate::mutants::{Mutant, mutated};
use crate::sync::{AtomicU8, Ordering};

/// Bits of `Mirror::live`: the member that leads, and the other one.
const MAIN: u8 = 1;
const MATE: u8 = 2;

/// What a mirrored medium has beside its members.
pub(super) struct Mirror {
    /// The number of the member that leads.
    main_number: u32,
    /// Which members are stored to.
    live: AtomicU8,
    roster: Mutex<Roster>,
    pool_uuid: [u8; 16],
    /// A byte for each slot: its second half holds its block.
    copied: Box<[AtomicU8]>,
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
                self.roster.store(region, geometry, self.pool_uuid);
                // Orders the roster before anything that the members lack that are out.
                region.fence()?;
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

impl Mirror {
    pub(super) fn new(start: MirrorStart, has_mate: bool, slots: u32) -> Mirror {
        Mirror {
            main_number: start.main_number,
            live: AtomicU8::new(if has_mate { MAIN | MATE } else { MAIN }),
            roster: Mutex::new(start.roster),
            pool_uuid: start.pool_uuid,
            copied: (0..slots).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    /// The same over other slots, of which none holds a block.
    pub(super) fn laid_out(self, slots: u32) -> Mirror {
        Mirror {
            copied: (0..slots).map(|_| AtomicU8::new(0)).collect(),
            ..self
        }
    }

    #[inline]
    fn live(&self) -> u8 {
        // Acquire: what is stored for one member alone comes after the roster that says so.
        self.live.load(Ordering::Acquire)
    }
    /// The members that are stored to, one of them first.
    pub(super) fn copies<'m>(
        &self,
        (main, mate): (&'m Region, Option<&'m Region>),
    ) -> (&'m Region, Option<&'m Region>) {
        match (self.live(), mate) {
            (MATE, Some(mate)) => (mate, None),
            (MAIN, _) => (main, None),
            _ => (main, mate),
        }
    }

    /// Says whether a slot's second half holds its block. The caller has the slot to itself, or its key's lock.
    #[inline]
    pub(super) fn set_copied(&self, slot: u32, is_copied: bool) {
        self.copied[slot as usize].store(u8::from(is_copied), Ordering::Relaxed);
    }
    #[inline]
    pub(super) fn is_copied(&self, slot: u32) -> bool {
        self.copied[slot as usize].load(Ordering::Relaxed) != 0
    }

    /// Whether the first half of a slot is on the member that leads.
    #[inline]
    pub(super) fn begins_on_main(&self, member: usize) -> bool {
        member as u32 == self.main_number
    }

    /// What stores to a whole private slot go to: both halves, or for a block that the backing has the first; or the
    /// half on the member that is left. Notes it.
    #[inline]
    pub(super) fn halves_to_fill<'m>(
        &self,
        slot: u32,
        member: usize,
        regions: (&'m Region, Option<&'m Region>),
        is_dirty: bool,
    ) -> Halves<'m> {
        let (main, Some(mate)) = regions else {
            return Halves::one(regions.0);
        };
        let begins_on_main = self.begins_on_main(member);
        let (first, second) = if begins_on_main {
            (main, mate)
        } else {
            (mate, main)
        };
        let (first_bit, second_bit) = if begins_on_main {
            (MAIN, MATE)
        } else {
            (MATE, MAIN)
        };
        let live = self.live();
        let stores_first = live & first_bit != 0;
        let stores_second = live & second_bit != 0
            && (is_dirty || !stores_first)
            && !mutated(Mutant::CopyNotStreamed);
        self.set_copied(slot, stores_second);
        match (stores_first, stores_second) {
            (true, true) => Halves {
                one: first,
                other: Some(second),
            },
            (false, true) => Halves::one(second),
            _ => Halves::one(first),
        }
    }

    /// Where the block of a slot is: what is read first, and what else holds it. Of a member that is out only what
    /// no other one has.
    #[inline]
    pub(super) fn halves_of<'m>(
        &self,
        slot: u32,
        member: usize,
        regions: (&'m Region, Option<&'m Region>),
    ) -> Halves<'m> {
        let (main, Some(mate)) = regions else {
            return Halves::one(regions.0);
        };
        let begins_on_main = self.begins_on_main(member);
        let (first, second) = if begins_on_main {
            (main, mate)
        } else {
            (mate, main)
        };
        let (first_bit, second_bit) = if begins_on_main {
            (MAIN, MATE)
        } else {
            (MATE, MAIN)
        };
        let live = self.live();
        let is_copied = self.is_copied(slot);
        if is_copied && live & first_bit == 0 {
            return Halves::one(second);
        }
        let other = (is_copied && live & second_bit != 0).then_some(second);
        Halves { one: first, other }
    }

    /// Whether the block of a slot is on a member that is in.
    pub(super) fn is_in_reach(&self, slot: u32, member: usize) -> bool {
        let first_bit = if self.begins_on_main(member) {
            MAIN
        } else {
            MATE
        };
        self.is_copied(slot) || self.live() & first_bit != 0
    }

    /// Whether the block of a slot is on every member that is in, so that it may be changed in place, or others may
    /// rest on it.
    #[inline]
    pub(super) fn is_protected(&self, slot: u32, member: usize, has_mate: bool) -> bool {
        if !has_mate || self.is_copied(slot) {
            return true;
        }
        let first_bit = if self.begins_on_main(member) {
            MAIN
        } else {
            MATE
        };
        self.live() == first_bit
    }

    /// Fences the members that are in. One whose fence fails is taken out, if another is left.
    #[inline]
    pub(super) fn fence(
        &self,
        geometry: &Geometry,
        regions: (&Region, Option<&Region>),
    ) -> Result<()> {
        let (main, Some(mate)) = regions else {
            return Ok(regions.0.fence()?);
        };
        match self.live() {
            MAIN => Ok(main.fence()?),
            MATE => Ok(mate.fence()?),
            _ => match (main.fence(), mate.fence()) {
                (Ok(()), Ok(())) => Ok(()),
                (Ok(()), Err(failed)) => self.take_out(geometry, main, MATE, failed.into()),
                (Err(failed), Ok(())) => self.take_out(geometry, mate, MAIN, failed.into()),
                (Err(failed), Err(_)) => Err(failed.into()),
            },
        }
    }

    /// The numbers of the members that are in.
    pub(super) fn members_in(&self) -> Vec<u32> {
        let roster = forebay_pmem::lock_or_yield(&self.roster);
        roster.all_in().map(|(number, _)| number).collect()
    }

    /// Takes the member of this number out, as if it had failed.
    pub(super) fn take_out_number(
        &self,
        geometry: &Geometry,
        regions: (&Region, Option<&Region>),
        number: u32,
    ) -> Result<()> {
        let last = || {
            ErrorKind::Options(format!(
                "member {number} of the pool is the only one that is in; it cannot be taken out"
            ))
        };
        let (main, Some(mate)) = regions else {
            return Err(last().into());
        };
        match number == self.main_number {
            true => self.take_out(geometry, mate, MAIN, last().into()),
            false => self.take_out(geometry, main, MATE, last().into()),
        }
    }

    /// Takes a member out, which `failed`. When it returns, the roster of the member that is left says so, durably,
    /// and nothing is stored to the other one any more.
    ///
    /// # Errors
    /// The member that was to be left is out already, or fails, too.
    #[cold]
    fn take_out(&self, geometry: &Geometry, left: &Region, gone: u8, failed: Error) -> Result<()> {
        let mut roster = forebay_pmem::lock_or_yield(&self.roster);
        let live = self.live();
        if live & gone == 0 {
            return Ok(());
        }
        if live == gone {
            return Err(failed);
        }
        let is_main = gone == MAIN;
        let number = if is_main {
            self.main_number
        } else {
            self.main_number ^ 1
        };
        let next = roster.without(number);
        // Before the roster is stored: one that may reach the medium, and does not count, looks like another history.
        left.fence()?;
        if !mutated(Mutant::RosterAfterAcknowledgement) {
            next.store(left, geometry, self.pool_uuid);
            // Orders the roster before anything is acknowledged that the member lacks.
            left.fence()?;
        }
        *roster = next;
        self.live.store(self.live() & !gone, Ordering::Release);
        Ok(())
    }
}
