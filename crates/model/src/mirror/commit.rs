//! Transactions: both halves and both records, then one fence of all members.

use super::config::{Config, Operation};
use super::media::{Entry, Layout, Record};
use super::rules::{Mutant, Rules};
use super::world::{Change, CommitStep, Job, Mapped, Part, World, element};
use crate::world::Violation;

/// The parts of a transaction.
type Parts = [Option<Part>; 2];

/// A pair of which every place that is written is free.
pub fn free_pair(world: &World, config: &Config) -> Option<usize> {
    (0..config.pairs).find(|&pair| world.taken[pair] & world.roster.written() == 0)
}

/// Whether a transaction could begin in this lane.
pub fn may_start(world: &World, config: &Config, operation: Operation, lane: usize) -> bool {
    let (head, tail, _) = world.lanes[lane];
    let is_free = |pair: &usize| world.taken[*pair] & world.roster.written() == 0;
    let needed = match operation {
        Operation::Block(_) => 1,
        Operation::Blocks => 2,
        _ => 0,
    };
    let makes_sense = |key: &u8| {
        let mapped = world.map[*key as usize];
        match operation {
            Operation::Delta(_) => mapped.is_some(),
            Operation::Evict(_) => mapped.is_some_and(|mapped| mapped.entry.clean),
            _ => true,
        }
    };
    world.lane_owner[lane] == 0
        && head - tail < config.places as u8
        && (0..config.pairs).filter(is_free).count() >= needed
        && operation.keys().iter().all(makes_sense)
}

/// Stages the new blocks and takes the lane.
pub fn start(
    world: &mut World,
    config: &Config,
    rules: Rules,
    (thread, operation, lane): (usize, Operation, usize),
) {
    let layout = Layout::new(config);
    let mut parts = [None; 2];
    for (part, &key) in parts.iter_mut().zip(operation.keys()) {
        let value = world.fresh_value();
        let is_whole = matches!(operation, Operation::Block(_) | Operation::Blocks);
        let staged = is_whole.then(|| {
            let pair = free_pair(world, config).expect("a pair is free");
            let members = world.roster.written();
            world.taken[pair] |= members;
            let mut streamed = members & world.up;
            if rules.breaks(Mutant::CopyNotStreamed) || rules.breaks(Mutant::CopyStreamedAfterFence)
            {
                streamed &= streamed.wrapping_neg();
            }
            world.stream(streamed, thread, layout.half(pair), value.into());
            (pair as u8, members)
        });
        *part = Some(Part {
            key,
            staged,
            value,
            old: None,
            new: None,
        });
    }
    world.lane_owner[lane] = thread as u8 + 1;
    world.threads[thread] = Job::Commit {
        step: CommitStep::Lock,
        operation,
        parts,
        lane: lane as u8,
        sequence: 0,
        epoch: world.roster.epoch,
    };
}

/// Whether the next step would have to wait.
pub fn is_blocked(world: &World, rules: Rules, step: CommitStep, operation: Operation) -> bool {
    match step {
        // A roster that is stored and not yet fenced is a barrier.
        CommitStep::Lock => {
            let is_locked = |key: &u8| world.locked[*key as usize] != 0;
            matches!(world.change, Change::Stored { .. }) || operation.keys().iter().any(is_locked)
        }
        CommitStep::Fence => {
            world.has_silent_member() && !rules.breaks(Mutant::RosterAfterAcknowledgement)
        }
        _ => false,
    }
}

/// One step.
pub fn step(
    world: &mut World,
    config: &Config,
    rules: Rules,
    thread: usize,
) -> Result<(), Violation> {
    let Job::Commit {
        step,
        operation,
        mut parts,
        lane,
        mut sequence,
        epoch,
    } = world.threads[thread]
    else {
        panic!("thread {thread} commits nothing");
    };
    let is_delta = matches!(operation, Operation::Delta(_));
    let next = match step {
        CommitStep::Lock => {
            let is_current = epoch == world.roster.epoch || rules.breaks(Mutant::EpochNotRechecked);
            if !is_current || !lock(world, thread, operation, &mut parts) {
                give_up(world, thread, &parts, lane);
                return Ok(());
            }
            world.in_flight[lane as usize] = world.next_sequence;
            CommitStep::Record
        }
        CommitStep::Record => {
            sequence = write_record(world, config, rules, (thread, lane), &parts, is_delta);
            CommitStep::Fence
        }
        CommitStep::Fence => {
            // Orders blocks and record, on every member, before the promise.
            world.fence(world.reached(), thread);
            for part in parts.iter().flatten() {
                if !matches!(operation, Operation::Evict(_)) {
                    world.promised[part.key as usize] = part.value;
                }
            }
            CommitStep::Publish
        }
        CommitStep::Publish => {
            publish(world, config, rules, thread, &parts, is_delta);
            world.in_flight[lane as usize] = 0;
            world.lanes[lane as usize].2 = world.lanes[lane as usize].0;
            CommitStep::Finish
        }
        CommitStep::Finish => {
            finish(world, thread, &parts, lane);
            return Ok(());
        }
    };
    world.threads[thread] = Job::Commit {
        step: next,
        operation,
        parts,
        lane,
        sequence,
        epoch,
    };
    Ok(())
}

/// Locks the keys and works out the new mappings; false if the change makes no sense on what is there now.
fn lock(world: &mut World, thread: usize, operation: Operation, parts: &mut Parts) -> bool {
    for key in operation.keys() {
        world.locked[*key as usize] = thread as u8 + 1;
    }
    for part in parts.iter_mut().flatten() {
        part.old = world.map[part.key as usize];
        let Some(new) = planned(world, operation, part) else {
            return false;
        };
        part.new = new;
        if let (Some(new), None) = (&mut part.new, part.old) {
            if world.free_positions == 0 {
                part.new = None;
                return false;
            }
            new.position = world.free_positions.trailing_zeros() as u8;
            world.free_positions &= !(1 << new.position);
        }
    }
    true
}

/// The mapping after the change; the outer `None` if it cannot be made.
fn planned(world: &World, operation: Operation, part: &Part) -> Option<Option<Mapped>> {
    let position = part.old.map_or(0, |old| old.position);
    let at = |slot, halves| Mapped {
        position,
        entry: Entry {
            key: part.key,
            slot,
            clean: false,
            value: part.value,
        },
        halves,
        ticket: 0,
    };
    match operation {
        Operation::Evict(_) => part.old.filter(|old| old.entry.clean).map(|_| None),
        Operation::Delta(_) => {
            // In place only where every half is there; else a whole block takes its place.
            let old = part
                .old
                .filter(|old| old.halves == world.roster.written())?;
            Some(Some(at(old.entry.slot, old.halves)))
        }
        _ => {
            let (pair, members) = part.staged.expect("a whole block is staged");
            let first = members.trailing_zeros() as u8;
            Some(Some(at(2 * pair + first, members)))
        }
    }
}

/// Takes everything staged back.
fn give_up(world: &mut World, thread: usize, parts: &Parts, lane: u8) {
    for part in parts.iter().flatten() {
        if let Some((pair, members)) = part.staged {
            world.taken[pair as usize] &= !members;
        }
        if let (None, Some(new)) = (part.old, part.new) {
            world.free_positions |= 1 << new.position;
        }
    }
    unlock(world, thread, lane);
}

fn unlock(world: &mut World, thread: usize, lane: u8) {
    for holder in &mut world.locked {
        if *holder == thread as u8 + 1 {
            *holder = 0;
        }
    }
    world.lane_owner[lane as usize] = 0;
    world.threads[thread] = Job::Idle;
}

/// Draws the sequence and streams the record to every member.
fn write_record(
    world: &mut World,
    config: &Config,
    rules: Rules,
    (thread, lane): (usize, u8),
    parts: &Parts,
    is_delta: bool,
) -> u8 {
    let sequence = world.next_sequence;
    world.next_sequence += 1;
    let bounds = world.in_flight.iter().filter(|&&bound| bound != 0);
    let oldest = bounds.min().copied().unwrap_or(sequence);
    let place = world.lanes[lane as usize].0;
    let elements = parts.iter().flatten();
    world.records.push(Record {
        lane,
        place,
        incarnation: world.incarnation,
        sequence,
        watermark: oldest - 1,
        elements: elements.map(|part| element(part, is_delta)).collect(),
    });
    let mut members = world.reached();
    if rules.breaks(Mutant::RecordOnOneMember) {
        members &= members.wrapping_neg();
    }
    let unit = Layout::new(config).place(lane as usize, place);
    world.stream(members, thread, unit, world.records.len() as u64);
    world.lanes[lane as usize].0 += 1;
    sequence
}

fn publish(
    world: &mut World,
    config: &Config,
    rules: Rules,
    thread: usize,
    parts: &Parts,
    is_delta: bool,
) {
    let layout = Layout::new(config);
    for part in parts.iter().flatten() {
        let mut new = part.new;
        if let Some(new) = &mut new {
            // A member that went out meanwhile took its half along.
            new.halves &= world.roster.written();
            let pair = new.entry.pair();
            let mut members = new.halves & world.up;
            if is_delta {
                if rules.breaks(Mutant::DeltaOnOneHalf) {
                    members &= 1 << new.entry.first();
                }
                world.store(members, layout.half(pair), part.value.into());
                world.marked.1 |= 1 << pair;
            } else if rules.breaks(Mutant::CopyStreamedAfterFence) {
                world.stream(members, thread, layout.half(pair), part.value.into());
            }
        }
        let position = new.or(part.old).expect("before or after").position;
        world.marked.0 |= 1 << position;
        world.map[part.key as usize] = new;
        world.version[part.key as usize] += 1;
    }
}

fn finish(world: &mut World, thread: usize, parts: &Parts, lane: u8) {
    for part in parts.iter().flatten() {
        let Some(old) = part.old else { continue };
        if part.new.is_none() {
            world.free_positions |= 1 << old.position;
        }
        if part.new.is_none_or(|new| new.entry.slot != old.entry.slot) {
            world.taken[old.entry.pair()] &= !old.halves;
        }
    }
    unlock(world, thread, lane);
}
