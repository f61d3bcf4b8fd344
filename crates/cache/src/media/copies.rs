//! The two copies of a mirror's metadata: comparing a line, and making the wrong one like the right one.
//!
//! Nobody else writes the line meanwhile: the caller holds whatever lock its writers take. Only a copy that is wrong is
//! written, so that at each moment the other one is whole.

use forebay_pmem::Region;

use crate::error::Result;
use crate::media::Media;
use crate::media::layout::{LINE_BYTES, SUPERBLOCK_BYTES};
use crate::media::mend;
use crate::media::roster::Roster;

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
    if evict {
        region.evict(offset, len);
    }
    let mut bytes = vec![0; len];
    region.read(offset, &mut bytes);
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
    /// Both members of a mirror, if both have everything: one that is rebuilt is not compared.
    pub(super) fn both(&self) -> Option<(&Region, &Region)> {
        let mirror = self.mirror.as_ref()?;
        mirror.view(self.opened()).complete_pair()
    }

    /// Compares a line's copies. If they differ, and `is_right` says of one of them that it is right, the other one is
    /// made like it. With `evict` the first look, too, is at what the medium has.
    pub(crate) fn settle_copies(
        &self,
        offset: u64,
        len: usize,
        evict: bool,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> LineState {
        let Some((one, other)) = self.both() else {
            return LineState::Same;
        };
        let look = |evict| {
            (
                read(one, offset, len, evict),
                read(other, offset, len, evict),
            )
        };
        let (first, second) = look(evict);
        if first == second {
            return LineState::Same;
        }
        let (first, second) = look(true);
        if first == second {
            return LineState::Transient;
        }
        match (is_right(&first), is_right(&second)) {
            (true, false) => rewrite(other, offset, &first),
            (false, true) => rewrite(one, offset, &second),
            _ => LineState::Unrepaired,
        }
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
        let Some((one, other)) = self.both() else {
            return LineState::Unrepaired;
        };
        let states = [one, other].map(|region| rewrite(region, offset, line));
        worse(states)
    }

    /// Compares each member's line of the roster that counts with the one in DRAM.
    pub(crate) fn settle_roster(&self, evict: bool) -> LineState {
        self.on_complete(|roster, pool_uuid, members| {
            let (which, line) = roster.line(pool_uuid);
            let offset = self.geometry.roster_line(which);
            let settle = |(_, region)| settle_own(region, offset, &line, evict);
            worse(members.map(settle))
        })
    }

    /// Looks whether both superblocks are valid. All of one but the member's own number and name is in the other, too,
    /// and of the name the roster has what counts.
    pub(crate) fn settle_superblocks(&self, evict: bool) -> LineState {
        let look = |region: &Region, evict| read(region, 0, SUPERBLOCK_BYTES, evict);
        self.on_complete(|roster, _, members| {
            let found = members.map(|(_, region)| look(region, evict));
            worse([0, 1].map(|which| {
                let (number, region) = members[which];
                if mend::is_valid(&found[which]) {
                    return LineState::Same;
                }
                if mend::is_valid(&look(region, true)) {
                    return LineState::Transient;
                }
                let (own, other) = (&found[which], &found[which ^ 1]);
                let identity = roster.identity(number);
                let right = identity.and_then(|name| mend::like(other, number, name, own));
                right.map_or(LineState::Unrepaired, |right| rewrite(region, 0, &right))
            }))
        })
    }

    fn on_complete(
        &self,
        settle: impl FnOnce(&Roster, [u8; 16], [(u32, &Region); 2]) -> LineState,
    ) -> LineState {
        let settled = self
            .mirror
            .as_ref()
            .and_then(|mirror| mirror.on_complete(self.opened(), settle));
        settled.unwrap_or(LineState::Same)
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

/// What is to be told of both.
fn worse([one, other]: [LineState; 2]) -> LineState {
    match one as u8 > other as u8 {
        true => one,
        false => other,
    }
}
