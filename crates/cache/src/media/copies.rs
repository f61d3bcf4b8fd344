//! The copies of a mirror's metadata, one on each member: comparing a line, and making a wrong one like the right one.
//!
//! Nobody else writes the line meanwhile: the caller holds whatever lock its writers take. Only a copy that is wrong is
//! written, so that at each moment another one is whole.

use forebay_pmem::Region;

use crate::error::Result;
use crate::media::Media;
use crate::media::layout::{LINE_BYTES, SUPERBLOCK_BYTES};
use crate::media::mend;
use crate::media::roster::Roster;
use crate::media::view::Members;

/// Times that a copy is written before it counts as one that cannot be repaired.
const ATTEMPTS_MAX: usize = 2;

/// Whether two members have the same in these lines.
pub(crate) fn are_same_lines(one: &Region, other: &Region, offset: u64, len: u64) -> bool {
    let mut lines = (offset..offset + len).step_by(LINE_BYTES as usize);
    lines.all(|at| {
        let (one, other) = (one.line(at), other.line(at));
        (0..8).all(|word| one.word(word) == other.word(word))
    })
}

/// What became of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineState {
    /// The copies are the same, or there is one.
    Same,
    /// They were at the second look.
    Transient,
    /// They are now.
    Repaired,
    /// They are not.
    Unrepaired,
}

fn read(region: &Region, offset: u64, len: usize, evict: bool) -> Vec<u8> {
    read_each(&[region], offset, len, evict)
}

/// What each of some members has in a line, one after the other.
fn read_each(members: &[&Region], offset: u64, len: usize, evict: bool) -> Vec<u8> {
    let mut bytes = vec![0; len * members.len()];
    for (region, copy) in members.iter().zip(bytes.chunks_exact_mut(len)) {
        if evict {
            region.evict(offset, len);
        }
        region.read(offset, copy);
    }
    bytes
}

/// Writes a line where it is wrong.
pub(super) fn rewrite(region: &Region, offset: u64, right: &[u8]) -> LineState {
    for _ in 0..ATTEMPTS_MAX {
        region.store(offset, right);
        region.flush(offset, right.len());
        // If it fails, so will the next commit's, which takes the member out.
        let is_fenced = region.fence().is_ok();
        if is_fenced && read(region, offset, right.len(), true) == right {
            return LineState::Repaired;
        }
    }
    LineState::Unrepaired
}

impl Media {
    /// The members of a mirror that have everything: one that is rebuilt is not compared.
    pub(super) fn complete(&self) -> Members<'_> {
        let mirror = self.mirror.as_ref().expect("it is asked of a mirror");
        mirror.view(self.opened()).complete_members()
    }

    /// Compares a line's copies. If they differ, and of those that `is_right` says are right all are the same, the others
    /// are made like them. With `evict` the first look, too, is at what the medium has.
    pub(crate) fn settle_copies(
        &self,
        offset: u64,
        len: usize,
        evict: bool,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> LineState {
        if !self.is_mirrored() {
            return LineState::Same;
        }
        let members = self.complete();
        let are_same = |found: &[u8]| found.chunks_exact(len).all(|copy| *copy == found[..len]);
        if are_same(&read_each(&members, offset, len, evict)) {
            return LineState::Same;
        }
        let found = read_each(&members, offset, len, true);
        if are_same(&found) {
            return LineState::Transient;
        }
        let copies = found.chunks_exact(len);
        let mut rights = copies.clone().filter(|copy| is_right(copy));
        let right = rights.next();
        let Some(right) = right.filter(|right| rights.all(|another| another == *right)) else {
            return LineState::Unrepaired;
        };
        let copies = members.iter().zip(copies);
        let wrong = copies.filter(|(_, copy)| *copy != right);
        worst(wrong.map(|(region, _)| rewrite(region, offset, right)))
    }

    /// Looks whether the medium has a line that was fenced, and writes it again on a member that does not.
    ///
    /// # Errors
    /// The only member does not take it. Another one is taken out.
    pub(crate) fn ensure_kept(&self, offset: u64, line: &[u8]) -> Result<()> {
        let mut is_kept = true;
        for region in self.metadata() {
            let has_it = read(region, offset, line.len(), true) == line;
            if !has_it && rewrite(region, offset, line) != LineState::Repaired {
                region.poison();
                is_kept = false;
            }
        }
        match is_kept {
            true => Ok(()),
            // Fails for what was poisoned.
            false => self.fence(),
        }
    }

    /// Writes a line to each member, one after the other.
    pub(crate) fn rewrite_copies(&self, offset: u64, line: &[u8]) -> LineState {
        worst(
            self.complete()
                .iter()
                .map(|region| rewrite(region, offset, line)),
        )
    }

    /// Compares each member's line of the roster that counts with the one in DRAM.
    pub(crate) fn settle_roster(&self, evict: bool) -> LineState {
        self.on_complete(|roster, pool_uuid, members| {
            let (which, line) = roster.line(pool_uuid);
            let offset = self.geometry.roster_line(which);
            let members = members.iter();
            worst(members.map(|(_, region)| settle_own(region, offset, &line, evict)))
        })
    }

    /// Looks whether all superblocks are valid. All of one but the member's own number and name is in the others, too,
    /// and of the name the roster has what counts.
    pub(crate) fn settle_superblocks(&self, evict: bool) -> LineState {
        let look = |region: &Region, evict| read(region, 0, SUPERBLOCK_BYTES, evict);
        self.on_complete(|roster, _, members| {
            let found = members.iter().map(|(_, region)| look(region, evict));
            let found: Vec<Vec<u8>> = found.collect();
            let valid = found.iter().find(|raw| mend::is_valid(raw));
            let settled = members.iter().zip(&found).map(|((number, region), own)| {
                if mend::is_valid(own) {
                    return LineState::Same;
                }
                if mend::is_valid(&look(region, true)) {
                    return LineState::Transient;
                }
                let right = roster
                    .identity(*number)
                    .and_then(|name| mend::like(valid?, *number, name, own));
                right.map_or(LineState::Unrepaired, |right| rewrite(region, 0, &right))
            });
            worst(settled)
        })
    }

    /// The same if several members are complete.
    fn on_complete(
        &self,
        settle: impl FnOnce(&Roster, [u8; 16], &[(u32, &Region)]) -> LineState,
    ) -> LineState {
        let Some(mirror) = &self.mirror else {
            return LineState::Same;
        };
        mirror.on_complete(self.opened(), |roster, pool_uuid, members| {
            match members.len() {
                1 => LineState::Same,
                _ => settle(roster, pool_uuid, members),
            }
        })
    }
}

/// Compares what a member has with what it should.
fn settle_own(region: &Region, offset: u64, right: &[u8], evict: bool) -> LineState {
    if read(region, offset, right.len(), evict) == right {
        return LineState::Same;
    }
    match read(region, offset, right.len(), true) == right {
        true => LineState::Transient,
        false => rewrite(region, offset, right),
    }
}

/// What is to be told of several.
fn worst(states: impl IntoIterator<Item = LineState>) -> LineState {
    let states = states.into_iter();
    states
        .max_by_key(|state| *state as u8)
        .unwrap_or(LineState::Same)
}
