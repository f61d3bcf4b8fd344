//! Fill, write-back and checkpoint, step by step.

use crate::commit::oldest_in_flight;
use crate::config::{Config, LANES};
use crate::media::{Entry, Layout, check_of, line_word};
use crate::rules::{Mutant, Rules};
use crate::world::{Job, Mapped, Violation, World};

/// Whether a fill could begin.
pub fn may_fill(world: &World, config: &Config, rules: Rules, key: u8) -> bool {
    let at = key as usize;
    let quiet = world.writing_back[at] == 0 || rules.breaks(Mutant::FillDuringWriteBack);
    let room = world.free_slots(config) > 0 && world.free_positions != 0;
    quiet && room && world.map[at].is_none() && world.locked[at] == 0
}

/// Reads the backing and streams it into a free slot.
pub fn start_fill(world: &mut World, layout: Layout, thread: usize, key: u8) {
    let slot = world.reserve_slot();
    let position = world.free_positions.trailing_zeros() as u8;
    world.free_positions &= !(1 << position);
    let content = world.backing_content(key);
    for (unit, value) in layout.slot(slot as usize).into_iter().zip(content) {
        world.memory.stream(thread, unit, value.into());
    }
    let version = world.version[key as usize];
    world.threads[thread] = Job::Fill {
        fenced: false,
        key,
        slot,
        position,
        version,
        content,
    };
}

/// Fences, then installs the entry unless the key was touched meanwhile.
pub fn step_fill(world: &mut World, config: &Config, rules: Rules, thread: usize) {
    let Job::Fill {
        fenced,
        key,
        slot,
        position,
        version,
        content,
    } = world.threads[thread]
    else {
        panic!("thread {thread} fills nothing");
    };
    if !fenced {
        if !rules.breaks(Mutant::DeltaOnUnfencedFill) {
            world.memory.fence(thread);
        }
        world.threads[thread] = Job::Fill {
            fenced: true,
            key,
            slot,
            position,
            version,
            content,
        };
        return;
    }
    let at = key as usize;
    let untouched = world.version[at] == version || rules.breaks(Mutant::FillRacesWrite);
    if world.map[at].is_none() && untouched {
        let check = check_of(key, content, false);
        let entry = Entry {
            key,
            slot: Some(slot),
            clean: true,
            partial: false,
            check,
        };
        world.store_position(config, rules, position, Some(entry));
        world.map[at] = Some(Mapped { position, entry });
        world.version[at] += 1;
    } else {
        world.release_slot(slot);
        world.free_positions |= 1 << position;
    }
    world.threads[thread] = Job::Idle;
}

/// Whether a write-back could begin.
pub fn may_write_back(world: &World, rules: Rules, key: u8) -> bool {
    let at = key as usize;
    let alone = world.writing_back[at] == 0 || rules.breaks(Mutant::TwoWriteBacksInFlight);
    alone && world.locked[at] == 0 && world.map[at].is_some_and(|mapped| !mapped.entry.clean)
}

/// Copies the block out.
pub fn start_write_back(world: &mut World, layout: Layout, thread: usize, key: u8) {
    let at = key as usize;
    let entry = world.map[at]
        .expect("only a mapped key is written back")
        .entry;
    let content = world.entry_content(layout, entry);
    world.writing_back[at] += 1;
    world.threads[thread] = Job::WriteBack {
        step: 0,
        key,
        version: world.version[at],
        content,
        failures: 0,
    };
}

/// Writes, syncs, marks clean. `sync_fails` only counts for the second of these.
pub fn step_write_back(
    world: &mut World,
    config: &Config,
    rules: Rules,
    thread: usize,
    sync_fails: bool,
) {
    let Job::WriteBack {
        step,
        key,
        version,
        content,
        mut failures,
    } = world.threads[thread]
    else {
        panic!("thread {thread} writes nothing back");
    };
    let at = key as usize;
    match step {
        0 => {
            failures = world.failures;
            world.backing.store(2 * at, content[0].into());
            world.backing.store(2 * at + 1, content[1].into());
            if rules.breaks(Mutant::CleanBeforeSync) {
                mark_clean(world, config, rules, key, version);
            }
        }
        1 if sync_fails => {
            world.backing.drop_pending();
            world.failures += 1;
            world.writing_back[at] = world.writing_back[at].saturating_sub(1);
            world.threads[thread] = Job::Idle;
            return;
        }
        1 => world.backing.sync(),
        _ => {
            if world.failures == failures || rules.breaks(Mutant::FailedSyncForgotten) {
                mark_clean(world, config, rules, key, version);
            }
            world.writing_back[at] = world.writing_back[at].saturating_sub(1);
            world.threads[thread] = Job::Idle;
            return;
        }
    }
    world.threads[thread] = Job::WriteBack {
        step: step + 1,
        key,
        version,
        content,
        failures,
    };
}

fn mark_clean(world: &mut World, config: &Config, rules: Rules, key: u8, version: u8) {
    let at = key as usize;
    let same = world.version[at] == version || rules.breaks(Mutant::CleanIgnoresRedirty);
    if let Some(mapped) = &mut world.map[at]
        && same
    {
        mapped.entry.clean = true;
        let Mapped { position, entry } = *mapped;
        world.store_position(config, rules, position, Some(entry));
    }
}

/// Notes the lanes' published ends, then the next sequence.
pub fn start_checkpoint(world: &mut World, thread: usize) {
    world.checkpointing = true;
    let ends = world.lanes.map(|(_, _, published)| published);
    world.threads[thread] = Job::Checkpoint {
        step: 0,
        bound: world.next_sequence,
        ends,
    };
}

/// Whether the checkpoint has to wait for commits in flight.
pub fn checkpoint_blocked(world: &World, rules: Rules, step: u8, bound: u8) -> bool {
    let passing = oldest_in_flight(world).is_some_and(|oldest| oldest < bound);
    step == 0 && passing && !rules.breaks(Mutant::CheckpointPassesInFlight)
}

/// Flushes, fences, stores S, fences, hands the lanes' bytes out.
pub fn step_checkpoint(
    world: &mut World,
    config: &Config,
    rules: Rules,
    thread: usize,
) -> Result<(), Violation> {
    let Job::Checkpoint {
        step,
        bound,
        mut ends,
    } = world.threads[thread]
    else {
        panic!("thread {thread} runs no checkpoint");
    };
    let layout = Layout::new(config);
    match step {
        0 => flush_marked(world, config, rules, thread),
        1 if rules.breaks(Mutant::CheckpointFenceMissing) => {}
        1 => world.memory.fence(thread),
        2 => {
            if rules.invariants && oldest_in_flight(world).is_some_and(|oldest| oldest < bound) {
                return Err(Violation(format!(
                    "I4: S {} passes a sequence in flight",
                    bound - 1
                )));
            }
            if rules.breaks(Mutant::LaneTailTakenLate) {
                ends = world.lanes.map(|(_, _, published)| published);
            }
            if rules.breaks(Mutant::SeparateLaneTails) {
                // Only the first lane forgets, and nothing on the media says so to the others.
                world.lanes[0].1 = ends[0];
                return end_checkpoint(world, thread);
            }
            store_checkpoint(world, layout, rules, thread, bound - 1);
            if rules.breaks(Mutant::LaneReusedBeforeCheckpointDurable) {
                reuse_lanes(world, &ends);
            }
        }
        _ => {
            world.memory.fence(thread);
            reuse_lanes(world, &ends);
            return end_checkpoint(world, thread);
        }
    }
    world.threads[thread] = Job::Checkpoint {
        step: step + 1,
        bound,
        ends,
    };
    Ok(())
}

fn end_checkpoint(world: &mut World, thread: usize) -> Result<(), Violation> {
    world.checkpointing = false;
    world.threads[thread] = Job::Idle;
    Ok(())
}

fn flush_marked(world: &mut World, config: &Config, rules: Rules, thread: usize) {
    let layout = Layout::new(config);
    let (slots, positions) = std::mem::take(&mut world.marked);
    let set = |bits: u16| (0..16usize).filter(move |bit| bits & (1 << bit) != 0);
    for position in set(positions) {
        if config.entries_in_dram {
            send_from_dram(world, layout, rules, position as u8);
        }
        for unit in layout.position(position) {
            world.memory.flush(thread, unit);
        }
    }
    if !rules.breaks(Mutant::CheckpointSkipsSlotLines) {
        for slot in set(slots) {
            for unit in layout.slot(slot) {
                world.memory.flush(thread, unit);
            }
        }
    }
}

/// Stores what the index says of the position.
fn send_from_dram(world: &mut World, layout: Layout, rules: Rules, position: u8) {
    let mapped = world.map.iter().flatten().find(|m| m.position == position);
    let entry = mapped.map(|mapped| mapped.entry);
    if entry.is_some() || !rules.breaks(Mutant::GoneEntriesNotSent) {
        world.store_in_table(layout, rules, position, entry);
    }
}

fn store_checkpoint(world: &mut World, layout: Layout, rules: Rules, thread: usize, through: u8) {
    if rules.breaks(Mutant::CheckpointOverNewestLine) {
        world.next_checkpoint_line = 0;
    }
    for unit in layout.checkpoint_line(world.next_checkpoint_line as usize) {
        world
            .memory
            .store(unit, line_word([world.incarnation.1, through]));
        world.memory.flush(thread, unit);
    }
    world.next_checkpoint_line ^= 1;
}

fn reuse_lanes(world: &mut World, ends: &[u8; LANES]) {
    for (lane, &end) in world.lanes.iter_mut().zip(ends) {
        lane.1 = end;
    }
}
