//! Members that die, and that are rebuilt: every change of the roster is fenced before it counts.

use super::config::{Config, KEYS};
use super::media::{Layout, roster};
use super::rules::{Mutant, Rules};
use super::serve::read;
use super::world::{Change, CommitStep, Job, KEEPER, Mapped, Roster, World};
use crate::memory::Memory;
use crate::world::Violation;

/// Whether a member may die now: the other has everything.
pub fn may_die(world: &World, member: usize) -> bool {
    let other = world.roster.members & !(1 << member);
    world.left.deaths > 0 && world.up & 1 << member != 0 && world.up & other != 0
}

/// It does not answer any more. What it will come back with has all its pending stores, or none.
pub fn die(world: &mut World, member: usize, keeps: bool) {
    world.left.deaths -= 1;
    world.up &= !(1 << member);
    let counts = world.members[member].pending_counts();
    let kept: Vec<u8> = counts
        .into_iter()
        .map(|count| if keeps { count } else { 0 })
        .collect();
    world.members[member].power_cut(&kept);
}

/// Whether the next step of a roster without the silent member may be taken.
pub fn may_go_on_without(world: &World) -> bool {
    world.has_silent_member() && !matches!(world.change, Change::Stored { .. })
}

/// Stores the roster without those that do not answer.
pub fn go_on_without(world: &mut World, config: &Config, rules: Rules) {
    let next = Roster {
        epoch: world.roster.epoch + 1,
        members: world.roster.members & world.up,
        rebuilding: world.roster.rebuilding & world.up,
    };
    store_roster(world, config, rules, next);
}

fn store_roster(world: &mut World, config: &Config, rules: Rules, next: Roster) {
    let mut told = world.up & world.roster.members;
    if rules.breaks(Mutant::NewMemberToldAtOnce) {
        told |= world.up & next.written();
    }
    store_line(world, config, next, told);
    // A crash may leave it although it has no fence yet.
    world.called_in |= next.members;
    world.change = Change::Stored {
        next,
        is_told: false,
    };
}

fn store_line(world: &mut World, config: &Config, next: Roster, members: u8) {
    let unit = Layout::new(config).roster(next.epoch);
    world.store(members, unit, roster(next.epoch, next.members));
    world.flush(members, KEEPER, unit);
}

/// The fence of a stored roster, which counts from here on. One that adds a member is fenced on the others before the new
/// one is told: what says of itself that it counts is never unknown to the rest, which could serve without it.
pub fn fence_roster(world: &mut World, config: &Config, rules: Rules) {
    let Change::Stored { next, is_told } = world.change else {
        panic!("no roster is stored");
    };
    let old = world.up & world.roster.members;
    let new = world.up & next.written() & !old;
    world.fence(world.up & (old | new), KEEPER);
    if new != 0 && !is_told {
        store_line(world, config, next, new);
        world.change = Change::Stored {
            next,
            is_told: true,
        };
        return;
    }
    let joins = next.rebuilding & !world.roster.rebuilding;
    world.roster = next;
    world.called_in = next.members;
    world.change = match next.rebuilding {
        0 => Change::None,
        _ => Change::Rebuilding(world.checkpoints.0),
    };
    if joins != 0 {
        // All lines go to it with the next checkpoint.
        world.marked.0 = u16::MAX >> (16 - config.positions);
        return;
    }
    drop_halves(world, rules);
}

/// What was on a member that is out is gone: halves of dirty blocks, and clean blocks that had no other place.
fn drop_halves(world: &mut World, rules: Rules) {
    let written = world.roster.written();
    for taken in &mut world.taken {
        *taken &= written;
    }
    for key in 0..KEYS {
        let Some(mapped) = &mut world.map[key] else {
            continue;
        };
        mapped.halves &= written;
        // A commit that holds the key's lock is past its plan: it publishes at the same position.
        let is_locked = world.locked[key] != 0 && !rules.breaks(Mutant::TombstonedUnderCommit);
        if mapped.halves == 0 && !is_locked {
            assert!(mapped.entry.clean, "a dirty block has a half left");
            world.marked.0 |= 1 << mapped.position;
            world.free_positions |= 1 << mapped.position;
            world.version[key] += 1;
            world.map[key] = None;
        }
    }
}

/// Whether a member may be rebuilt: the barrier of rule 4. No commit is past its look at the epoch, no fill and no
/// checkpoint runs.
pub fn may_rebuild(world: &World) -> bool {
    let is_early = |job: &Job| {
        matches!(
            job,
            Job::Idle
                | Job::WriteBack { .. }
                | Job::Commit {
                    step: CommitStep::Lock,
                    ..
                }
        )
    };
    world.left.rebuilds > 0
        && world.change == Change::None
        && world.roster.members.count_ones() == 1
        && !world.has_silent_member()
        && world.threads.iter().all(is_early)
}

/// The member that is out comes back as it was, or as a blank one: its lanes are cleared, and it is written from the
/// fence of this roster on.
pub fn start_rebuild(world: &mut World, config: &Config, rules: Rules, is_blank: bool) {
    let layout = Layout::new(config);
    world.left.rebuilds -= 1;
    let survivor = world.roster.members.trailing_zeros() as usize;
    let member = 1 - survivor;
    if is_blank {
        world.members[member] = Memory::new(layout.units());
    }
    world.up |= 1 << member;
    let mut copied: Vec<(usize, u64)> = Vec::new();
    copied.extend(layout.lanes().map(|unit| (unit, 0)));
    for line in 0..2 {
        for unit in [layout.incarnation(line), layout.checkpoint(line)] {
            copied.push((unit, world.members[survivor].view(unit)));
        }
    }
    for (unit, word) in copied {
        world.members[member].store(unit, word);
        world.members[member].flush(KEEPER, unit);
    }
    let joining = if rules.breaks(Mutant::RebuildingMemberTrusted) {
        1 << member
    } else {
        0
    };
    let next = Roster {
        epoch: world.roster.epoch + 1,
        members: world.roster.members | joining,
        rebuilding: 1 << member & !joining,
    };
    store_roster(world, config, rules, next);
    if joining != 0 {
        world.marked.0 = u16::MAX >> (16 - config.positions);
    }
}

/// Whether a key's block lacks its half on the member that is rebuilt, and may be copied now.
pub fn may_copy(world: &World, key: usize) -> bool {
    matches!(world.change, Change::Rebuilding(_))
        && world.locked[key] == 0
        && world.map[key].is_some_and(|mapped| {
            !mapped.entry.clean && mapped.halves & world.roster.rebuilding == 0
        })
}

/// Copies it and fences.
///
/// # Errors
/// No half is good.
pub fn copy(world: &mut World, config: &Config, key: usize) -> Result<(), Violation> {
    let value = read(world, config, key as u8)?;
    let members = world.roster.rebuilding;
    let mapped = world.map[key].as_mut().expect("it is mapped");
    let pair = mapped.entry.pair();
    mapped.halves |= members;
    assert_eq!(world.taken[pair] & members, 0, "the mate is free");
    world.taken[pair] |= members;
    let unit = Layout::new(config).half(pair);
    world.stream(members, KEEPER, unit, value.into());
    world.fence(members, KEEPER);
    Ok(())
}

/// Whether the member that is rebuilt has everything: a checkpoint since it joined, and each block but those that a
/// finished checkpoint has as clean. One whose clean mark a crash would lose is dirty again then, with one half.
pub fn may_end_rebuild(world: &World, rules: Rules) -> bool {
    let Change::Rebuilding(begun) = world.change else {
        return false;
    };
    let is_whole = |mapped: &Mapped| {
        let is_durable =
            world.checkpoints.1 > mapped.ticket || rules.breaks(Mutant::CalledInBeforeCleanMarks);
        (mapped.entry.clean && is_durable) || mapped.halves & world.roster.rebuilding != 0
    };
    world.checkpoints.1 > begun
        && world.up & world.roster.rebuilding != 0
        && world.map.iter().flatten().all(is_whole)
}

/// The roster that calls it in.
pub fn end_rebuild(world: &mut World, config: &Config, rules: Rules) {
    let next = Roster {
        epoch: world.roster.epoch + 1,
        members: world.roster.written(),
        rebuilding: 0,
    };
    store_roster(world, config, rules, next);
}
