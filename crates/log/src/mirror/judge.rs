//! Which of the members that were named are served.
//!
//! M1 A member leaves only by a roster that is durable on the other one. So the newer of two rosters, one of which follows from the
//! other, names all that have everything. M2 Where each says that the other one is out, or no longer knows it, each was served without the other, and neither is taken:
//! a program cannot know which of two histories is wanted.

use super::claim::Claim;
use crate::media::{Roster, Standing};
use crate::mutants::{Mutant, mutated};

/// What is served, and what has to be written before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) roster: Roster,
    pub(super) is_served: [bool; 2],
    /// They get the roster before any other write, the one first whose it is.
    pub(super) is_behind: [bool; 2],
    pub(super) first: usize,
    /// Why a member that was named is not served.
    pub(super) why_out: [Option<String>; 2],
}

impl Verdict {
    fn alone(claim: &Claim, roster: Roster, why_out: Option<String>) -> Verdict {
        assert!(
            roster.standings[claim.member ^ 1] != Standing::In,
            "a member that counts is not left out"
        );
        let mut verdict = Verdict {
            roster,
            is_served: [false; 2],
            is_behind: [false; 2],
            first: claim.member,
            why_out: [None, None],
        };
        verdict.is_served[claim.member] = true;
        verdict.is_behind[claim.member] = roster != claim.roster;
        verdict.why_out[claim.member ^ 1] = why_out;
        verdict
    }

    /// Both, by the roster of the first.
    fn both(roster: Roster, [first, second]: [&Claim; 2]) -> Verdict {
        Verdict {
            roster,
            is_served: [true; 2],
            // What a kill left of it in the cache of the first alone is durable there before the second says the same: after a power
            // cut that one would call both in, and the first would not know it.
            is_behind: [second.roster != roster; 2],
            first: first.member,
            why_out: [None, None],
        }
    }
}

/// Judges one or two claims; the caller's word that what is missing `is_gone` for good stands for a member that is. The error says what
/// was found, and what to do.
pub(super) fn judge(claims: &[Claim], is_gone: bool) -> Result<Verdict, String> {
    if let [one, other] = claims {
        check_pair(one, other)?;
    }
    let mut voters: Vec<&Claim> = claims.iter().filter(|claim| claim.is_in()).collect();
    voters.sort_by_key(|claim| claim.roster.epoch);
    match voters[..] {
        [] => Err(String::from(
            "it is a copy that was not finished, or a member that is out; name the member that is in",
        )),
        [older, newest] => judge_two(older, newest, is_gone),
        [alone, ..] => {
            let other = claims.iter().find(|claim| claim.member != alone.member);
            judge_one(alone, other, is_gone)
        }
    }
}

fn check_pair(one: &Claim, other: &Claim) -> Result<(), String> {
    if one.superblock.uuid != other.superblock.uuid {
        return Err(format!(
            "{} is a member of another pool; name the members of one pool",
            other.path().display()
        ));
    }
    if one.member == other.member {
        return Err(format!(
            "it and {} are both member {} of the pool: one is a copy of the other, or came in its place; name the one that is in, and \
             the other member",
            other.path().display(),
            one.member
        ));
    }
    Ok(())
}

fn judge_two(older: &Claim, newest: &Claim, is_gone: bool) -> Result<Verdict, String> {
    let (old, new) = (&older.roster, &newest.roster);
    if old == new {
        return judge_ages(older, newest, is_gone);
    }
    // A member that leaves and joins again has another id, so one that a newer roster calls in under its own has that roster, too.
    let is_out = old.epoch < new.epoch && !new.calls_in(older.member, older.id());
    let is_known = old.calls_in(newest.member, newest.id());
    let path = older.path().display();
    match is_out && is_known {
        true if mutated(Mutant::SsdMirrorStaleServed) => Ok(Verdict::both(*new, [newest, older])),
        // Another file came in its place, and may have what the newest one lacks.
        true if new.standings[older.member] == Standing::In => {
            judge_one(newest, Some(older), is_gone)
        }
        true => Ok(Verdict::alone(
            newest,
            *new,
            Some(format!("the pool went on without it: it is stale ({path})")),
        )),
        false if mutated(Mutant::SsdMirrorSplitServed) => Ok(Verdict::both(*new, [newest, older])),
        false => Err(format!(
            "it and {path} were each used without the other, so they hold two histories of the pool; name the one alone whose \
             history is to stay, and bring the other one back with forebay member readd"
        )),
    }
}

/// Two that say the same: an opening that was not finished leaves one of them an incarnation behind, and nothing leaves one further behind
/// but an old copy in its place.
fn judge_ages(one: &Claim, other: &Claim, is_gone: bool) -> Result<Verdict, String> {
    let (behind, ahead) = match one.incarnation < other.incarnation {
        true => (one, other),
        false => (other, one),
    };
    if ahead.incarnation - behind.incarnation <= 1 {
        return Ok(Verdict::both(one.roster, [one, other]));
    }
    let what = format!(
        "{} is an old copy: it was last used in incarnation {}, and {} in {}",
        behind.path().display(),
        behind.incarnation,
        ahead.path().display(),
        ahead.incarnation
    );
    if !is_gone {
        return Err(format!(
            "{what}; open the pool without it (--without-missing), and bring it back with forebay member readd"
        ));
    }
    let roster = ahead.roster.with(behind.member, Standing::Out);
    Ok(Verdict::alone(ahead, roster, Some(what)))
}

fn judge_one(alone: &Claim, other: Option<&Claim>, is_gone: bool) -> Result<Verdict, String> {
    let (roster, number) = (alone.roster, alone.member ^ 1);
    let joined = other.filter(|other| roster.calls_in(number, other.id()));
    if let Some(joined) = joined {
        // It was called in, and had not been told.
        return Ok(Verdict::both(roster, [alone, joined]));
    }
    let why = other.map(|other| {
        let what = match other.is_in() {
            true => "another one came in its place: it is stale",
            false => "it is a copy that was not finished",
        };
        format!("{what} ({})", other.path().display())
    });
    match roster.standings[number] {
        Standing::In if is_gone => {
            let without = roster.with(number, Standing::Out);
            Ok(Verdict::alone(alone, without, why))
        }
        Standing::In => {
            let instead = why.map_or(String::new(), |why| format!(" (of the file named: {why})"));
            Err(format!(
                "member {number} of this mirror is missing{instead}, and it may have what this one lacks; name both (--member), or say \
                 that it is gone for good (--without-missing)"
            ))
        }
        _ => Ok(Verdict::alone(alone, roster, why)),
    }
}
