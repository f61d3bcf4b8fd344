//! Which members of a mirrored pool are served: what is missing, stale, or of another history.
//!
//! A member is taken out by a roster that is durable on every other one before anything is acknowledged that it lacks
//! (`Mirror::take_out`). So with any two of the members that a roster calls in, no later one was in force of which
//! neither knows: the pool opens by itself with *more than half* of those that the newest of their rosters calls in. Of
//! two that is both of them, and one alone needs the caller's word; of three and more it is all but one, since more
//! than one are never done without: there may be blocks on those two alone. Whoever is left out is so by a roster that is
//! durable on all others before anything else.

use std::path::Path;

use forebay_pmem::Region;

use crate::error::{Result, refused};
use crate::media::bad_list::BadList;
use crate::media::geometry::Geometry;
use crate::media::incarnation::{self, Incarnation};
use crate::media::quorum::{Agreed, Quorum};
use crate::media::roster::Roster;
use crate::media::start::MirrorStart;
use crate::mutants::{Mutant, mutated};

/// A member that was given.
pub(super) struct Candidate {
    pub(super) region: Region,
    pub(super) number: u32,
    pub(super) identity: u64,
}

/// The members to serve, the one whose word counts first, and what they start with.
pub(super) struct Membership {
    pub(super) members: Vec<Candidate>,
    pub(super) start: MirrorStart,
}

/// What the caller says of members that are not there.
#[derive(Clone, Copy)]
pub(crate) struct Absences<'p> {
    /// Those that are missing are gone for good.
    pub(crate) without_missing: bool,
    /// Where the witness is now, if it was moved.
    pub(crate) witness: Option<&'p Path>,
}

impl Absences<'_> {
    /// Whatever is missing, for a look that changes nothing.
    pub(crate) const ALL: Absences<'static> = Absences {
        without_missing: true,
        witness: None,
    };
}

/// Chooses among members of one pool that differ in number. Changes nothing.
pub(super) fn choose(
    given: Vec<Candidate>,
    geometry: &Geometry,
    pool_uuid: &[u8; 16],
    absences: Absences<'_>,
) -> Result<Membership> {
    let path = given[0].region.path().to_path_buf();
    let own: Vec<Option<Roster>> = given
        .iter()
        .map(|member| Roster::read(&member.region, geometry, pool_uuid))
        .collect();
    let numbers: Vec<u32> = given.iter().map(|member| member.number).collect();
    let newest = own.iter().flatten().max_by_key(|roster| roster.epoch);
    let Some(newest) = newest.cloned() else {
        return Err(refused(
            &path,
            "none of its roster lines is valid, so nothing tells which members are complete",
            "name the pool's other members too, or restore the pool from a copy",
        ));
    };
    check_one_history(&given, &own, &newest)?;
    let quorum = Quorum::ask(
        &newest,
        absences.witness,
        &given[0].region,
        geometry,
        pool_uuid,
    );
    let may_lack = absences.without_missing || quorum.vouches_for(&newest);
    let mut roster = newest.clone();
    let missing = missing_of(&given, &newest);
    for number in missing.iter().copied() {
        roster = roster.without(number);
    }
    let mut members: Vec<Candidate> = given
        .into_iter()
        .filter(|member| {
            newest.has_in(member.number, member.identity) || mutated(Mutant::MemberOutTrusted)
        })
        .collect();
    leave_stale(&mut members, &mut roster, geometry, pool_uuid);
    let own_of = |member: &Candidate| {
        let number = numbers.iter().position(|number| *number == member.number)?;
        own[number].as_ref()
    };
    // One that lost its rosters says nothing of any that came after those which are there.
    let telling = members.iter().filter(|member| own_of(member).is_some());
    let is_majority = 2 * telling.count() > newest.all_in().count();
    let why = (!may_lack && !is_majority).then(|| quorum.why(&newest));
    check_enough(&path, &members, geometry, &missing, why)?;
    if !absences.without_missing {
        check_no_only_halves(&members, &newest, geometry, pool_uuid)?;
    }
    let Agreed {
        roster,
        witness,
        is_witness_lagging,
    } = quorum.agree(roster, &newest, absences.without_missing)?;
    // A crash may have kept it from one of them, which must be enough alone from here on, or a bit of it is flipped there.
    let has_it = |member: &Candidate| roster.is_stored(&member.region, geometry, *pool_uuid);
    let is_lagging = !members.iter().all(has_it);
    let start = MirrorStart {
        numbers: members.iter().map(|member| member.number).collect(),
        roster,
        pool_uuid: *pool_uuid,
        is_changed: is_lagging,
        witness,
        is_witness_lagging,
        left_out: missing.first().copied(),
    };
    Ok(Membership { members, start })
}

/// The numbers of members that a roster calls in and that were not given.
fn missing_of(given: &[Candidate], roster: &Roster) -> Vec<u32> {
    let is_given = |(number, identity): (u32, u64)| {
        let is_it = |member: &Candidate| member.number == number && member.identity == identity;
        given.iter().any(is_it)
    };
    let missing = roster.all_in().filter(|member| !is_given(*member));
    missing.map(|(number, _)| number).collect()
}

/// Refuses members that are not enough. Where neither the caller nor a witness nor a majority says that those which are
/// missing may be, `why` is what the witness says.
fn check_enough(
    path: &Path,
    members: &[Candidate],
    geometry: &Geometry,
    missing: &[u32],
    why: Option<String>,
) -> Result<()> {
    let has = |number: &u32| members.iter().any(|member| member.number == *number);
    let lacking: Vec<u32> = (0..geometry.members)
        .filter(|number| !has(number))
        .collect();
    if let [one, another, ..] = lacking[..]
        && !members.is_empty()
    {
        return Err(refused(
            path,
            format!(
                "members {one} and {another} of the pool were not given, are out, or are old copies, and some blocks \
                 may be on those two alone"
            ),
            "name one of them as it was in use last",
        ));
    }
    let why = why.filter(|_| !mutated(Mutant::OpenedWithoutMemberThatIsIn));
    match (missing.first(), why) {
        (Some(number), Some(why)) => Err(refused(
            path,
            format!(
                "member {number} of the pool has all that was acknowledged, too, and was not given{why}"
            ),
            "name it as well; if it is gone for good, open the pool without it (on the command line --without-missing)",
        )),
        _ if members.is_empty() => Err(refused(
            path,
            "it was taken out of the pool, or it is an old copy of a member",
            "name the member that was in use last",
        )),
        _ => Ok(()),
    }
}

/// Refuses members that go on by themselves without one that has the only half of some block: what is lost with it is the
/// caller's to give up.
fn check_no_only_halves(
    members: &[Candidate],
    newest: &Roster,
    geometry: &Geometry,
    pool_uuid: &[u8; 16],
) -> Result<()> {
    let is_served = |number: u32| members.iter().any(|member| member.number == number);
    let lacking = newest.all_in().map(|(number, _)| number);
    let lacking: Vec<u32> = lacking.filter(|number| !is_served(*number)).collect();
    let lists = members
        .iter()
        .filter_map(|member| BadList::read(&member.region, geometry, pool_uuid));
    let list = lists.max_by_key(|list| list.version).unwrap_or_default();
    let mut places = list.places.iter();
    let found = places.find_map(|place| {
        let rests = |number: &&u32| place.rests_on(**number, geometry.members);
        Some((place, lacking.iter().find(rests)?))
    });
    match found {
        None => Ok(()),
        Some((place, number)) => Err(refused(
            members[0].region.path(),
            format!(
                "member {number} of the pool was not given, or is an old copy, and has the only copy of some blocks, whose \
                 place on member {} is bad",
                place.member
            ),
            "name it as well; if it is gone for good, open the pool without it (on the command line --without-missing)",
        )),
    }
}

/// A member that was served without others says that those are out; if two say so of each other, each has
/// writes that the other lacks.
fn check_one_history(given: &[Candidate], own: &[Option<Roster>], newest: &Roster) -> Result<()> {
    if mutated(Mutant::TwoHistoriesJoined) {
        return Ok(());
    }
    for (member, roster) in given.iter().zip(own) {
        let Some(roster) = roster.as_ref().filter(|roster| *roster != newest) else {
            continue;
        };
        let is_same_epoch = roster.epoch == newest.epoch;
        if is_same_epoch || roster.is_of_another_history(newest, member.number, member.identity) {
            let mut others = given.iter().filter(|other| other.number != member.number);
            let other = others.find(|other| newest.has_in(other.number, other.identity));
            return Err(refused(
                member.region.path(),
                format!(
                    "it was served without {}, which was served without it: each has writes that the other lacks",
                    other.map_or("another member".into(), |other| other
                        .region
                        .path()
                        .display()
                        .to_string())
                ),
                "name only the members whose writes are to be kept",
            ));
        }
    }
    Ok(())
}

/// Takes out what was in by its own roster and missed an incarnation all the same: an old copy. The member that
/// is furthest comes first.
fn leave_stale(
    members: &mut Vec<Candidate>,
    roster: &mut Roster,
    geometry: &Geometry,
    pool_uuid: &[u8; 16],
) {
    let mut found: Vec<(Candidate, Option<Incarnation>)> = members
        .drain(..)
        .map(|member| {
            let own = incarnation::read(&member.region, geometry, pool_uuid);
            (member, own)
        })
        .collect();
    // Stable: of equals the first member leads.
    found.sort_by_key(|(_, own)| std::cmp::Reverse(own.map(|own| (own.number, own.checkpoint))));
    let Some((_, first)) = found.first() else {
        return;
    };
    let first = *first;
    for (member, own) in found {
        let is_current = match (first, own) {
            (Some(first), Some(own)) => own.is_current(&first),
            // Recovery says what is wrong with it.
            (None, _) => true,
            (Some(_), None) => false,
        };
        if is_current || mutated(Mutant::StaleMemberTrusted) {
            members.push(member);
        } else {
            *roster = roster.without(member.number);
        }
    }
}
