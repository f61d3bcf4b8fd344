//! The roster of a mirrored pool: which members hold all that was acknowledged.
//!
//! Each change of it has an epoch. A member is taken out by a roster that is durable on all others before
//! anything is acknowledged that it lacks; so of the rosters found later, the newest tells which members are
//! enough. Two lines per member are written in turn, so that a torn one leaves the other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use forebay_pmem::{PmemError, Region};

use crate::media::geometry::Geometry;
use crate::media::layout::{
    ROSTER_ANCESTORS, ROSTER_BYTES, ROSTER_MEMBERS_MAX, RosterLine, WITNESS_PATH_BYTES,
    WITNESSED_MEMBERS, with_each_bit_flipped,
};
use crate::mutants::{Mutant, mutated};

/// Times that a roster is written before the member counts as failed.
const ATTEMPTS_MAX: usize = 2;

/// Epochs beyond it are nonsense: no counter of ours overflows.
const EPOCH_MAX: u64 = 1 << 62;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Roster {
    pub(crate) epoch: u64,
    members: Vec<Listed>,
    /// The digests of those before it, the latest first; 0 where there was none.
    ancestors: [u32; ROSTER_ANCESTORS],
    witness: Option<WitnessName>,
}

/// A member in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Listed {
    /// The first half of its uuid.
    identity: u64,
    state: Standing,
}

/// What it says of the witness (`witness.rs`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct WitnessName {
    /// Tells it from every other file; not 0.
    pub(crate) identity: u64,
    /// Where it was made.
    pub(crate) path: PathBuf,
}

/// What the roster calls a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// It has all that was acknowledged.
    In = 1,
    /// It has what was written since it joined.
    Rebuilding = 2,
    Out = 3,
}

impl Standing {
    fn of(number: u8) -> Option<Standing> {
        match number {
            1 => Some(Standing::In),
            2 => Some(Standing::Rebuilding),
            3 => Some(Standing::Out),
            _ => None,
        }
    }
}

impl Listed {
    fn is_in(&self) -> bool {
        self.state == Standing::In
            || self.state == Standing::Rebuilding && mutated(Mutant::RebuildingMemberTrusted)
    }
}

/// What of a member's uuid the roster has.
pub(crate) fn identity_of(member_uuid: &[u8; 16]) -> u64 {
    let (half, _) = member_uuid.split_at(8);
    u64::from_le_bytes(half.try_into().expect("eight bytes"))
}

/// The witness of a line; `None` if what the line says of it is impossible.
fn decode_witness(line: &RosterLine) -> Option<Option<WitnessName>> {
    let (identity, len) = (line.witness, line.witness_path_bytes as usize);
    if identity == 0 {
        return Some(None);
    }
    let is_possible = line.members as usize == WITNESSED_MEMBERS && len <= WITNESS_PATH_BYTES;
    let room = &line.identities[8 * WITNESSED_MEMBERS..];
    let path = is_possible.then(|| PathBuf::from(OsStr::from_bytes(&room[..len])))?;
    path.is_absolute()
        .then_some(Some(WitnessName { identity, path }))
}

impl Roster {
    /// The first roster of a new pool: every member is in.
    pub(crate) fn of_new(identities: impl IntoIterator<Item = u64>) -> Roster {
        let listed = |identity| Listed {
            identity,
            state: Standing::In,
        };
        Roster {
            epoch: 1,
            members: identities.into_iter().map(listed).collect(),
            ancestors: [0; ROSTER_ANCESTORS],
            witness: None,
        }
    }

    /// Whether the member of this number and identity is in.
    pub(crate) fn has_in(&self, number: u32, identity: u64) -> bool {
        let listed = self.members.get(number as usize);
        listed.is_some_and(|listed| listed.is_in() && listed.identity == identity)
    }

    /// Whether the member of this number and identity was taken out: this history went on without it.
    pub(crate) fn has_out(&self, number: u32, identity: u64) -> bool {
        let listed = self.members.get(number as usize);
        listed.is_some_and(|listed| listed.state == Standing::Out && listed.identity == identity)
    }

    /// Whether the member that has this roster may have writes that the history that ends in `newest` lacks: it was
    /// in, and no roster of that history follows from its own. Of a roster too old to be remembered there, its
    /// members tell: it calls one of the others out, or is in with none of them.
    pub(crate) fn is_of_another_history(
        &self,
        newest: &Roster,
        number: u32,
        identity: u64,
    ) -> bool {
        if self == newest || !self.has_in(number, identity) {
            return false;
        }
        let Some(age) = newest.epoch.checked_sub(self.epoch + 1) else {
            return true;
        };
        if let Some(ancestor) = newest.ancestors.get(age as usize) {
            return *ancestor != self.digest();
        }
        let calls_out = |(number, identity)| self.has_out(number, identity);
        let is_shared = |(number, identity)| self.has_in(number, identity);
        !newest.all_in().any(is_shared) || newest.all_in().any(calls_out)
    }

    /// Tells it from every other roster of its epoch.
    fn digest(&self) -> u32 {
        let (_, line) = self.line([0; 16]);
        let (_, crc) = line.split_last_chunk().expect("a line ends in its sum");
        u32::from_le_bytes(*crc)
    }

    /// The numbers of the members that are in, with their identities.
    pub(crate) fn all_in(&self) -> impl Iterator<Item = (u32, u64)> {
        let numbered = (0..).zip(&self.members);
        numbered
            .filter(|(_, listed)| listed.is_in())
            .map(|(number, listed)| (number, listed.identity))
    }

    /// The next roster, in which this member is out.
    pub(crate) fn without(&self, number: u32) -> Roster {
        self.with(number, |listed| listed.state = Standing::Out)
    }

    /// The next roster, in which a member with nothing yet takes this number.
    pub(crate) fn with_rebuilding(&self, number: u32, identity: u64) -> Roster {
        self.with(number, |listed| {
            *listed = Listed {
                identity,
                state: Standing::Rebuilding,
            };
        })
    }

    /// The next roster, in which this member is in.
    pub(crate) fn with_in(&self, number: u32) -> Roster {
        self.with(number, |listed| listed.state = Standing::In)
    }

    /// The next roster, with this witness or none.
    pub(crate) fn witnessed(&self, witness: Option<WitnessName>) -> Roster {
        assert!(witness.is_none() || self.members.len() == WITNESSED_MEMBERS);
        Roster {
            witness,
            ..self.renewed()
        }
    }

    /// What it says of the witness.
    pub(crate) fn witness(&self) -> Option<&WitnessName> {
        self.witness.as_ref()
    }

    /// The next roster, which says the same.
    pub(crate) fn renewed(&self) -> Roster {
        let mut next = self.clone();
        next.epoch += 1;
        next.ancestors.rotate_right(1);
        next.ancestors[0] = self.digest();
        next
    }

    fn with(&self, number: u32, change: impl FnOnce(&mut Listed)) -> Roster {
        let mut next = self.renewed();
        change(&mut next.members[number as usize]);
        next
    }

    /// The newest roster that a member has; `None` if none of its lines is valid.
    pub(crate) fn read(
        region: &Region,
        geometry: &Geometry,
        pool_uuid: &[u8; 16],
    ) -> Option<Roster> {
        let lines = (0..2).filter_map(|which| {
            let mut raw = [0; ROSTER_BYTES];
            region.read(geometry.roster_line(which), &mut raw);
            let is_of_place = |roster: &Roster| roster.epoch % 2 == which as u64;
            let told = Roster::of_line(&raw, pool_uuid, geometry.members).filter(is_of_place);
            told.or_else(|| Roster::mended(&raw, pool_uuid, geometry.members).filter(is_of_place))
        });
        lines.max_by_key(|roster| roster.epoch)
    }

    /// What a line says of which one bit is flipped. Over the line before it a member would be believed that is out; a line
    /// that a crash tore is further from any.
    #[cold]
    fn mended(raw: &[u8; ROSTER_BYTES], pool_uuid: &[u8; 16], members: u32) -> Option<Roster> {
        // Of a place that was never written nothing is to be mended.
        let is_written = raw.iter().any(|byte| *byte != 0);
        let written = is_written.then_some(raw)?;
        with_each_bit_flipped(written).find_map(|right| Roster::of_line(&right, pool_uuid, members))
    }

    /// The roster in a line of a pool of so many members.
    pub(crate) fn of_line(
        raw: &[u8; ROSTER_BYTES],
        pool_uuid: &[u8; 16],
        members: u32,
    ) -> Option<Roster> {
        let line = RosterLine::decode(raw)?;
        let is_ours =
            line.pool_uuid == *pool_uuid && line.members == members && line.epoch < EPOCH_MAX;
        is_ours.then(|| Roster::decode(&line)).flatten()
    }

    fn decode(line: &RosterLine) -> Option<Roster> {
        let (identities, _) = line.identities.as_chunks::<8>();
        let numbered = line.states.iter().zip(identities);
        let listed = numbered.take(line.members as usize);
        let members = listed.map(|(state, identity)| {
            Some(Listed {
                identity: u64::from_le_bytes(*identity),
                state: Standing::of(*state)?,
            })
        });
        let (digests, _) = line.ancestors.as_chunks::<4>();
        let mut ancestors = [0; ROSTER_ANCESTORS];
        for (ancestor, digest) in ancestors.iter_mut().zip(digests) {
            *ancestor = u32::from_le_bytes(*digest);
        }
        Some(Roster {
            epoch: line.epoch,
            members: members.collect::<Option<_>>()?,
            ancestors,
            witness: decode_witness(line)?,
        })
    }

    /// Which line it is, and the line.
    pub(crate) fn line(&self, pool_uuid: [u8; 16]) -> (usize, [u8; ROSTER_BYTES]) {
        let mut line = RosterLine {
            pool_uuid,
            epoch: self.epoch,
            members: self.members.len() as u32,
            reserved0: 0,
            states: [0; ROSTER_MEMBERS_MAX],
            identities: [0; 8 * ROSTER_MEMBERS_MAX],
            ancestors: [0; 4 * ROSTER_ANCESTORS],
            witness: 0,
            witness_path_bytes: 0,
            crc: 0,
        };
        let (digests, _) = line.ancestors.as_chunks_mut::<4>();
        for (digest, ancestor) in digests.iter_mut().zip(&self.ancestors) {
            *digest = ancestor.to_le_bytes();
        }
        let (identities, _) = line.identities.as_chunks_mut::<8>();
        let places = line.states.iter_mut().zip(identities);
        for ((state, identity), listed) in places.zip(&self.members) {
            *state = listed.state as u8;
            *identity = listed.identity.to_le_bytes();
        }
        if let Some(witness) = &self.witness {
            let path = witness.path.as_os_str().as_bytes();
            line.witness = witness.identity;
            line.witness_path_bytes = path.len() as u32;
            line.identities[8 * WITNESSED_MEMBERS..][..path.len()].copy_from_slice(path);
        }
        ((self.epoch % 2) as usize, line.encode())
    }

    /// What of the uuid of the member of this number it has.
    pub(crate) fn identity(&self, number: u32) -> Option<u64> {
        let listed = self.members.get(number as usize);
        listed.map(|listed| listed.identity)
    }

    /// Stores and flushes it on a member, over the older line; durable after a fence.
    pub(crate) fn store(&self, region: &Region, geometry: &Geometry, pool_uuid: [u8; 16]) {
        let (which, line) = self.line(pool_uuid);
        let offset = geometry.roster_line(which);
        region.store(offset, &line);
        region.flush(offset, ROSTER_BYTES);
    }

    /// Whether a member has it, bit by bit.
    pub(crate) fn is_stored(
        &self,
        region: &Region,
        geometry: &Geometry,
        pool_uuid: [u8; 16],
    ) -> bool {
        let (which, line) = self.line(pool_uuid);
        let mut found = [0; ROSTER_BYTES];
        region.read(geometry.roster_line(which), &mut found);
        found == line
    }

    /// Makes it durable on a member, and looks whether the medium has it: over an older one that a lost write left there,
    /// the next opening would believe a member that is out. All that was flushed before is durable, too.
    ///
    /// # Errors
    /// The fence fails, or the medium does not take it, after which every fence fails.
    pub(crate) fn settle(
        &self,
        region: &Region,
        geometry: &Geometry,
        pool_uuid: [u8; 16],
    ) -> Result<(), PmemError> {
        let (which, line) = self.line(pool_uuid);
        let offset = geometry.roster_line(which);
        for _ in 0..ATTEMPTS_MAX {
            self.store(region, geometry, pool_uuid);
            // Orders the roster before whatever rests on it.
            region.fence()?;
            region.evict(offset, ROSTER_BYTES);
            let mut found = [0; ROSTER_BYTES];
            region.read(offset, &mut found);
            if found == line {
                return Ok(());
            }
        }
        region.poison();
        region.fence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 0xa;
    const B: u64 = 0xb;
    const C: u64 = 0xc;
    const D: u64 = 0xd;

    fn replaced(roster: &Roster, number: u32, identity: u64) -> Roster {
        let joined = roster.without(number).with_rebuilding(number, identity);
        joined.with_in(number)
    }

    #[test]
    fn an_old_copy_of_a_member_has_nothing_even_if_all_were_replaced_since() {
        let first = Roster::of_new([A, B]);
        let newest = replaced(&replaced(&first, 1, D), 0, C);
        assert!(!first.is_of_another_history(&newest, 0, A));
        assert!(!first.is_of_another_history(&newest, 1, B));
        let between = replaced(&first, 1, D).without(0);
        assert!(!first.is_of_another_history(&between, 0, A));
    }

    #[test]
    fn two_that_went_on_without_each_other_are_told_apart_whatever_joined_them_since() {
        let first = Roster::of_new([A, B]);
        let (one, other) = (first.without(1), first.without(0));
        assert!(one.is_of_another_history(&other, 0, A));
        let (one, other) = (replaced(&first, 1, D), replaced(&first, 0, C));
        assert!(one.is_of_another_history(&other, 0, A));
        assert!(one.is_of_another_history(&other.without(0), 0, A));
        let later = replaced(&other, 0, A ^ 1);
        assert!(one.is_of_another_history(&later, 0, A), "one is older");
        assert!(later.is_of_another_history(&one, 1, B), "or newer");
    }

    #[test]
    fn what_is_too_old_to_be_remembered_is_told_by_its_members() {
        let (first, mut newest) = (Roster::of_new([A, B]), Roster::of_new([A, B]));
        let mut with = C;
        while newest.epoch - first.epoch <= ROSTER_ANCESTORS as u64 + 1 {
            newest = replaced(&newest, 1, with);
            with += 1;
        }
        assert!(!first.is_of_another_history(&newest, 0, A));
        assert!(
            first
                .without(1)
                .with_rebuilding(1, D)
                .is_of_another_history(&replaced(&newest, 0, 0x1000), 0, A)
        );
    }

    #[test]
    fn a_line_keeps_all_of_it() {
        let roster = replaced(&Roster::of_new([A, B]), 1, D).without(0);
        let (_, line) = roster.line([7; 16]);
        let line = RosterLine::decode(&line).expect("its sum is right");
        assert_eq!(Roster::decode(&line), Some(roster));
    }
}
