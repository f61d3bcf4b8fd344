//! The steps of a commit, evict and discard among them.

use crate::config::{Change, Config, LANES};
use crate::invariants::{may_apply, may_overwrite};
use crate::media::{Element, Entry, Kind, Layout, Record, ZERO, check_of, commit_word};
use crate::rules::{Mutant, Rules};
use crate::world::{CommitStep, Job, Mapped, Part, Violation, World, locked_keys};

type Parts = [Option<Part>; 2];

/// Whether a commit could begin now in this lane.
pub fn may_start(world: &World, config: &Config, changes: &[(u8, Change)], lane: usize) -> bool {
    let (head, tail, _) = world.lanes[lane];
    let slots_needed = changes
        .iter()
        .filter(|(_, change)| needs_slot(*change))
        .count();
    world.lane_owner[lane] == 0
        && head - tail < config.places as u8
        && world.free_slots(config) >= slots_needed
}

fn needs_slot(change: Change) -> bool {
    matches!(change, Change::Block | Change::Short)
}

/// Stages the new blocks and takes the lane.
pub fn start(
    world: &mut World,
    layout: Layout,
    thread: usize,
    changes: &[(u8, Change)],
    lane: usize,
) {
    let mut parts = [None; 2];
    for (part, &(key, change)) in parts.iter_mut().zip(changes) {
        let mut staged = None;
        let fresh = matches!(
            change,
            Change::Block | Change::Short | Change::Delta { .. } | Change::Append
        );
        let value = if fresh { world.fresh_value() } else { ZERO };
        if needs_slot(change) {
            let slot = world.reserve_slot();
            let halves = if change == Change::Short { 1 } else { 2 };
            for &unit in &layout.slot(slot as usize)[..halves] {
                world.memory.stream(thread, unit, value.into());
            }
            staged = Some(slot);
        }
        *part = Some(Part {
            key,
            change,
            staged,
            value,
            old: None,
            new: None,
            content: None,
        });
    }
    world.lane_owner[lane] = thread as u8 + 1;
    world.threads[thread] = Job::Commit {
        step: CommitStep::Lock,
        parts,
        lane: lane as u8,
        sequence: 0,
    };
}

/// Whether the next step would have to wait.
pub fn blocked(world: &World, step: CommitStep, parts: &Parts) -> bool {
    let changes: Vec<_> = parts
        .iter()
        .flatten()
        .map(|part| (part.key, part.change))
        .collect();
    step == CommitStep::Lock && locked_keys(&changes).any(|key| world.locked[key as usize] != 0)
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
        mut parts,
        lane,
        mut sequence,
    } = world.threads[thread]
    else {
        panic!("thread {thread} commits nothing");
    };
    let layout = Layout::new(config);
    let next = match step {
        CommitStep::Lock => {
            if !lock(world, layout, rules, thread, &mut parts) {
                give_up(world, thread, &parts, lane);
                return Ok(());
            }
            if unrecorded(rules, &parts) {
                return vanish_without_record(world, config, rules, thread, &parts, lane);
            }
            world.in_flight[lane as usize] = world.next_sequence;
            CommitStep::Record
        }
        CommitStep::Record => {
            sequence = write_record(world, config, rules, thread, &parts, lane)?;
            CommitStep::Fence
        }
        CommitStep::Fence => {
            if !rules.breaks(Mutant::RecordFenceMissing) {
                world.memory.fence(thread);
            }
            if config.strict {
                CommitStep::Word
            } else {
                promise(world, &parts);
                CommitStep::Publish
            }
        }
        CommitStep::Word => {
            store_commit_word(world, layout, thread, lane);
            CommitStep::WordFence
        }
        CommitStep::WordFence => {
            world.memory.fence(thread);
            promise(world, &parts);
            CommitStep::Publish
        }
        CommitStep::Publish => {
            publish(world, config, rules, &parts)?;
            world.in_flight[lane as usize] = 0;
            world.lanes[lane as usize].2 = world.lanes[lane as usize].0;
            CommitStep::Finish
        }
        CommitStep::Finish => {
            finish(world, rules, thread, &parts, lane);
            return Ok(());
        }
    };
    world.threads[thread] = Job::Commit {
        step: next,
        parts,
        lane,
        sequence,
    };
    Ok(())
}

/// From here on it is durable.
fn promise(world: &mut World, parts: &Parts) {
    for part in parts.iter().flatten() {
        world.promised[part.key as usize] = part.content;
    }
}

fn store_commit_word(world: &mut World, layout: Layout, thread: usize, lane: u8) {
    let unit = layout.commit_word(lane as usize);
    world.memory.store(
        unit,
        commit_word(world.incarnation.2, world.lanes[lane as usize].0),
    );
    world.memory.flush(thread, unit);
}

/// Locks the keys and works out old and new mappings; false if the change makes no sense on what is there now.
fn lock(world: &mut World, layout: Layout, rules: Rules, thread: usize, parts: &mut Parts) -> bool {
    let changes: Vec<_> = parts
        .iter()
        .flatten()
        .map(|part| (part.key, part.change))
        .collect();
    for key in locked_keys(&changes) {
        world.locked[key as usize] = thread as u8 + 1;
    }
    for part in parts.iter_mut().flatten() {
        part.old = world.map[part.key as usize];
        let Some((entry, content)) = changed(world, layout, rules, part) else {
            return false;
        };
        part.content = content;
        part.new = None;
        if let Some(entry) = entry {
            let position = match part.old {
                Some(mapped) => mapped.position,
                None if world.free_positions == 0 => return false,
                None => world.free_positions.trailing_zeros() as u8,
            };
            world.free_positions &= !(1 << position);
            part.new = Some(Mapped { position, entry });
            if let (Change::Share { .. }, Some(slot)) = (part.change, entry.slot) {
                // Pinned: the other owner may leave from now on.
                world.references[slot as usize] += 1;
            }
        }
    }
    true
}

/// The entry and the content after a change, or nothing if it cannot be made.
#[allow(clippy::type_complexity)]
fn changed(
    world: &World,
    layout: Layout,
    rules: Rules,
    part: &Part,
) -> Option<(Option<Entry>, Option<[u8; 2]>)> {
    let old = part.old.map(|mapped| mapped.entry);
    let in_place = || old.filter(|entry| entry.slot.is_some());
    let entry = |slot, partial, content| {
        let check = check_of(part.key, content, partial);
        (
            Some(Entry {
                key: part.key,
                slot,
                clean: false,
                partial,
                check,
            }),
            Some(content),
        )
    };
    match part.change {
        Change::Block => Some(entry(part.staged, false, [part.value; 2])),
        Change::Short => Some(entry(part.staged, true, [part.value, ZERO])),
        Change::Zero => Some(entry(None, false, [ZERO; 2])),
        Change::Delta { half } => {
            let old = in_place()?;
            let shared = world.references[old.slot? as usize] > 1
                && !rules.breaks(Mutant::SharedSlotDeltaInPlace);
            if shared || (old.partial && half == 1) {
                return None;
            }
            let mut content = world.entry_content(layout, old);
            content[half as usize] = part.value;
            Some(entry(old.slot, old.partial, content))
        }
        Change::Append => {
            let old = in_place().filter(|old| old.partial)?;
            Some(entry(
                old.slot,
                false,
                [world.entry_content(layout, old)[0], part.value],
            ))
        }
        Change::Share { from } => {
            let theirs = world.map[from as usize]?.entry;
            let differs = theirs.slot.is_some()
                && !theirs.partial
                && old.is_none_or(|old| old.slot != theirs.slot);
            differs.then(|| entry(theirs.slot, false, world.entry_content(layout, theirs)))
        }
        Change::Evict => old
            .filter(|old| old.clean)
            .map(|_| (None, world.promised[part.key as usize])),
        Change::Discard => old.map(|_| (None, None)),
    }
}

/// Takes everything staged back.
fn give_up(world: &mut World, thread: usize, parts: &Parts, lane: u8) {
    for part in parts.iter().flatten() {
        let pinned = part
            .new
            .filter(|_| matches!(part.change, Change::Share { .. }))
            .and_then(|new| new.entry.slot);
        if let Some(slot) = part.staged.or(pinned) {
            world.release_slot(slot);
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

fn element(part: &Part) -> Element {
    let position = part
        .new
        .or(part.old)
        .expect("a change needs a mapping before or after")
        .position;
    let kind = match (part.new, part.change) {
        (None, _) => Kind::Tombstone,
        (Some(new), Change::Delta { half }) => Kind::Delta {
            entry: new.entry,
            half,
            value: part.value,
        },
        (Some(new), Change::Append) => Kind::Append(new.entry),
        (Some(new), Change::Zero) => Kind::Zero(new.entry),
        (Some(new), _) => Kind::Block(new.entry),
    };
    Element {
        key: part.key,
        position,
        kind,
    }
}

/// Draws the sequence and streams the record; flushes first what the record's test will look at.
fn write_record(
    world: &mut World,
    config: &Config,
    rules: Rules,
    thread: usize,
    parts: &Parts,
    lane: u8,
) -> Result<u8, Violation> {
    let layout = Layout::new(config);
    let sequence = world.next_sequence;
    world.next_sequence += 1;
    let oldest = world
        .in_flight
        .iter()
        .filter(|&&bound| bound != 0)
        .min()
        .copied()
        .unwrap_or(sequence);
    let watermark = if rules.breaks(Mutant::WatermarkCountsUnfenced) {
        sequence - 1
    } else {
        oldest - 1
    };
    for part in parts.iter().flatten() {
        flush_before_test(world, layout, rules, thread, part);
        if rules.breaks(Mutant::DeltaBeforeFence) {
            apply_delta(world, layout, part);
        }
    }
    let place = world.lanes[lane as usize].0;
    let units = layout.place(lane as usize, place);
    if rules.invariants {
        may_overwrite(world, layout, units, lane, sequence)?;
    }
    let elements = parts.iter().flatten().map(element).collect();
    world.records.push(Record {
        lane,
        place,
        salt: world.incarnation.2,
        sequence,
        watermark,
        elements,
    });
    for unit in units {
        world
            .memory
            .stream(thread, unit, world.records.len() as u64);
    }
    world.lanes[lane as usize].0 += 1;
    if rules.breaks(Mutant::StrictWordBeforeFence) && config.strict {
        store_commit_word(world, layout, thread, lane);
    }
    if rules.breaks(Mutant::SlotFreedBeforeFence) {
        for old in parts.iter().flatten().filter_map(removed_slot) {
            world.release_slot(old);
        }
    }
    Ok(sequence)
}

/// An append's or a share's slot must be durable as its check says, or the record would be classified wrongly.
fn flush_before_test(world: &mut World, layout: Layout, rules: Rules, thread: usize, part: &Part) {
    let broken = match part.change {
        Change::Append => Mutant::AppendAfterUnflushedDelta,
        Change::Share { .. } => Mutant::ShareOfUnflushedDelta,
        _ => return,
    };
    let units = layout.slot(
        part.new
            .and_then(|new| new.entry.slot)
            .expect("append and share have a slot") as usize,
    );
    if !rules.breaks(broken) {
        for unit in units {
            world.memory.flush(thread, unit);
        }
    }
    if part.change == Change::Append {
        world.memory.stream(thread, units[1], part.value.into());
    }
}

fn apply_delta(world: &mut World, layout: Layout, part: &Part) {
    if let (
        Change::Delta { half },
        Some(Mapped {
            entry: Entry {
                slot: Some(slot), ..
            },
            ..
        }),
    ) = (part.change, part.new)
    {
        let unit = layout.slot(slot as usize)[half as usize];
        world.memory.store(unit, part.value.into());
        world.marked.0 |= 1 << slot;
    }
}

fn publish(
    world: &mut World,
    config: &Config,
    rules: Rules,
    parts: &Parts,
) -> Result<(), Violation> {
    let layout = Layout::new(config);
    for part in parts.iter().flatten() {
        if rules.invariants {
            may_apply(world, layout, part)?;
        }
        if !rules.breaks(Mutant::DeltaBeforeFence) {
            apply_delta(world, layout, part);
        }
        let half_only = part.change == Change::Evict && rules.breaks(Mutant::EvictClearsOneHalf);
        let position = element(part).position;
        if half_only {
            world.memory.store(layout.position(position as usize)[1], 0);
        } else {
            world.store_position(config, rules, position, part.new.map(|new| new.entry));
        }
        world.marked.1 |= 1 << position;
        world.map[part.key as usize] = part.new;
        world.version[part.key as usize] += 1;
        if part.new.is_none() && rules.breaks(Mutant::WriteBackForgottenWithEntry) {
            world.writing_back[part.key as usize] = 0;
        }
    }
    Ok(())
}

/// The slot that this part's key leaves.
fn removed_slot(part: &Part) -> Option<u8> {
    let old = part.old?.entry.slot?;
    (part.new.and_then(|new| new.entry.slot) != Some(old)).then_some(old)
}

fn finish(world: &mut World, rules: Rules, thread: usize, parts: &Parts, lane: u8) {
    for part in parts.iter().flatten() {
        if let (Some(old), None) = (part.old, part.new) {
            world.free_positions |= 1 << old.position;
        }
        if let Some(slot) = removed_slot(part)
            && !rules.breaks(Mutant::SlotFreedBeforeFence)
        {
            world.release_slot(slot);
        }
    }
    unlock(world, thread, lane);
}

fn unrecorded(rules: Rules, parts: &Parts) -> bool {
    parts.iter().flatten().any(|part| match part.change {
        Change::Evict => rules.breaks(Mutant::EvictWithoutRecord),
        Change::Discard => rules.breaks(Mutant::DiscardWithoutRecord),
        _ => false,
    })
}

/// What evict and discard must not do.
fn vanish_without_record(
    world: &mut World,
    config: &Config,
    rules: Rules,
    thread: usize,
    parts: &Parts,
    lane: u8,
) -> Result<(), Violation> {
    promise(world, parts);
    publish(world, config, rules, parts)?;
    finish(world, rules, thread, parts, lane);
    Ok(())
}

/// The lowest sequence that may still be in flight, for a checkpoint that waits.
pub fn oldest_in_flight(world: &World) -> Option<u8> {
    (0..LANES)
        .map(|lane| world.in_flight[lane])
        .filter(|&bound| bound != 0)
        .min()
}
