//! Fill, write-back, letting copies go, and the checkpoint.

use super::config::Config;
use super::media::{Entry, Layout, checkpoint, read_seal, seal};
use super::rules::{Mutant, Rules};
use super::serve::read;
use super::world::{Job, Mapped, World};
use crate::world::Violation;

/// The first free place on a member that counts: pair and member.
fn free_place(world: &World, config: &Config) -> Option<(u8, u8)> {
    let members = world.roster.members & world.up;
    let places = (0..config.pairs as u8).flat_map(|pair| {
        // The last member first, so that a block's only place is often not on the first.
        World::each(members)
            .map(move |member| (pair, member as u8))
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
    });
    places
        .into_iter()
        .find(|(pair, member)| world.taken[*pair as usize] & 1 << member == 0)
}

/// Whether a fill could begin.
pub fn may_fill(world: &World, config: &Config, key: u8) -> bool {
    let at = key as usize;
    let is_absent = world.map[at].is_none() && world.writing_back[at] == 0;
    is_absent
        && world.locked[at] == 0
        && world.free_positions != 0
        && free_place(world, config).is_some()
}

/// Reads the backing and streams the block into one place.
pub fn start_fill(world: &mut World, config: &Config, thread: usize, key: u8) {
    let (pair, member) = free_place(world, config).expect("a place is free");
    world.taken[pair as usize] |= 1 << member;
    let position = world.free_positions.trailing_zeros() as u8;
    world.free_positions &= !(1 << position);
    let value = world.backing[key as usize];
    let unit = Layout::new(config).half(pair as usize);
    world.stream(1 << member, thread, unit, value.into());
    world.threads[thread] = Job::Fill {
        key,
        place: (pair, member),
        position,
        seen: (world.version[key as usize], world.roster.epoch),
        value,
        is_fenced: false,
    };
}

/// Fences, then installs the entry unless the key or the roster changed meanwhile.
pub fn step_fill(world: &mut World, thread: usize) {
    let Job::Fill {
        key,
        place: (pair, member),
        position,
        seen,
        value,
        is_fenced,
    } = &mut world.threads[thread]
    else {
        panic!("thread {thread} fills nothing");
    };
    if !*is_fenced {
        *is_fenced = true;
        let member = *member;
        world.fence(1 << member & world.up, thread);
        return;
    }
    let (key, pair, member, position) = (*key, *pair, *member, *position);
    let (seen, value, at) = (*seen, *value, key as usize);
    let is_same = seen == (world.version[at], world.roster.epoch) && world.up & 1 << member != 0;
    if world.map[at].is_none() && is_same {
        let entry = Entry {
            key,
            slot: 2 * pair + member,
            clean: true,
            value,
        };
        world.map[at] = Some(Mapped {
            position,
            entry,
            halves: 1 << member,
            ticket: world.checkpoints.0,
        });
        world.version[at] += 1;
        world.marked.0 |= 1 << position;
    } else {
        world.taken[pair as usize] &= !(1 << member);
        world.free_positions |= 1 << position;
    }
    world.threads[thread] = Job::Idle;
}

/// Whether a write-back could begin.
pub fn may_write_back(world: &World, key: u8) -> bool {
    let at = key as usize;
    world.writing_back[at] == 0
        && world.locked[at] == 0
        && world.map[at].is_some_and(|mapped| !mapped.entry.clean)
}

/// Copies the block out.
///
/// # Errors
/// No half is good.
pub fn start_write_back(
    world: &mut World,
    config: &Config,
    thread: usize,
    key: u8,
) -> Result<(), Violation> {
    let value = read(world, config, key)?;
    world.writing_back[key as usize] += 1;
    world.threads[thread] = Job::WriteBack {
        key,
        version: world.version[key as usize],
        value,
        is_written: false,
    };
    Ok(())
}

/// Writes and syncs, then marks clean if nothing changed.
pub fn step_write_back(world: &mut World, rules: Rules, thread: usize) {
    let Job::WriteBack {
        key,
        version,
        value,
        is_written,
    } = &mut world.threads[thread]
    else {
        panic!("thread {thread} writes nothing back");
    };
    let at = *key as usize;
    if !*is_written {
        *is_written = true;
        world.backing[at] = *value;
        return;
    }
    if world.version[at] == *version
        && let Some(mapped) = &mut world.map[at]
    {
        mapped.entry.clean = true;
        mapped.ticket = world.checkpoints.0;
        if world.limbo[at] == 0 {
            world.limbo[at] = world.checkpoints.0 + 1;
        }
        if !rules.breaks(Mutant::CleanMarkLineNotTouched) {
            world.marked.0 |= 1 << mapped.position;
        }
    }
    world.writing_back[at] -= 1;
    world.threads[thread] = Job::Idle;
}

/// Whether a key's copy may be let go: its block is clean, and a checkpoint that began after it became so has ended.
pub fn may_let_go(world: &World, rules: Rules, key: u8) -> bool {
    let at = key as usize;
    let Some(mapped) = world.map[at] else {
        return false;
    };
    let done = world.checkpoints.1;
    let is_durable = if rules.breaks(Mutant::CopyLetGoBeforeCheckpoint) {
        true
    } else if rules.breaks(Mutant::LimboAba) {
        done >= world.limbo[at]
    } else {
        done > mapped.ticket
    };
    world.locked[at] == 0
        && mapped.entry.clean
        && mapped.halves.count_ones() == 2
        && world.change == super::world::Change::None
        && is_durable
}

/// Lets it go.
pub fn let_go(world: &mut World, key: u8) {
    let mapped = world.map[key as usize].as_mut().expect("it is mapped");
    let first = 1 << mapped.entry.first();
    world.taken[mapped.entry.pair()] &= first;
    mapped.halves = first;
}

/// Notes the lanes' published ends, then the next sequence.
pub fn start_checkpoint(world: &mut World, thread: usize) {
    world.is_checkpointing = true;
    world.checkpoints.0 += 1;
    world.threads[thread] = Job::Checkpoint {
        step: 0,
        number: world.checkpoints.0,
        bound: world.next_sequence,
        ends: world.lanes.map(|(_, _, published)| published),
        lines: 0,
    };
}

/// Whether the checkpoint has to wait, for commits in flight or for a roster.
pub fn is_checkpoint_blocked(world: &World, step: u8, bound: u8) -> bool {
    let is_passing = |&in_flight: &u8| in_flight != 0 && in_flight < bound;
    match step {
        0 => world.in_flight.iter().any(is_passing),
        1 | 3 => world.has_silent_member(),
        _ => false,
    }
}

/// Sends lines and seals, fences, stores S, fences, hands the lanes' bytes out.
pub fn step_checkpoint(world: &mut World, config: &Config, rules: Rules, thread: usize) {
    let Job::Checkpoint {
        step,
        number,
        bound,
        ends,
        mut lines,
    } = world.threads[thread]
    else {
        panic!("thread {thread} runs no checkpoint");
    };
    let layout = Layout::new(config);
    match step {
        0 => {
            lines = send_lines(world, config, rules, thread, bound - 1);
        }
        // Orders lines, seals and what changed in place before S.
        1 => world.fence(world.reached(), thread),
        2 => {
            let members = world.reached();
            if rules.breaks(Mutant::SealWithS) {
                let positions = (0..16).filter(|position| lines & 1 << position != 0);
                for position in positions {
                    let word = world.members[members.trailing_zeros() as usize]
                        .view(layout.position(position));
                    store_flushed(world, thread, layout.seal(position), seal(word, bound - 1));
                }
            }
            let unit = layout.checkpoint(world.next_checkpoint_line);
            let line = checkpoint(world.incarnation, bound - 1);
            store_flushed(world, thread, unit, line);
            world.next_checkpoint_line ^= 1;
        }
        _ => {
            // Orders S before any reuse of what it frees.
            world.fence(world.reached(), thread);
            for (lane, &end) in world.lanes.iter_mut().zip(&ends) {
                lane.1 = end;
            }
            world.checkpoints.1 = number;
            world.is_checkpointing = false;
            world.threads[thread] = Job::Idle;
            return;
        }
    }
    world.threads[thread] = Job::Checkpoint {
        step: step + 1,
        number,
        bound,
        ends,
        lines,
    };
}

fn store_flushed(world: &mut World, thread: usize, unit: usize, word: u64) {
    let members = world.reached();
    world.store(members, unit, word);
    world.flush(members, thread, unit);
}

/// Sends what is marked; returns which lines.
fn send_lines(world: &mut World, config: &Config, rules: Rules, thread: usize, through: u8) -> u16 {
    let layout = Layout::new(config);
    let (lines, pairs) = std::mem::take(&mut world.marked);
    for position in (0..16u8).filter(|position| lines & 1 << position != 0) {
        if !rules.breaks(Mutant::LineNotJudged) {
            put_line_right(world, layout, thread, position);
        }
        let mapped = world.map.iter().flatten();
        let word = mapped
            .filter(|mapped| mapped.position == position)
            .map(|mapped| mapped.entry.word())
            .sum();
        store_flushed(world, thread, layout.position(position), word);
        if !rules.breaks(Mutant::SealWithS) {
            store_flushed(world, thread, layout.seal(position), seal(word, through));
        }
    }
    let mut members = world.reached();
    if rules.breaks(Mutant::DeltaLinesOfCopyNotFlushed) {
        members &= members.wrapping_neg();
    }
    for pair in (0..config.pairs).filter(|pair| pairs & 1 << pair != 0) {
        world.flush(members, thread, layout.half(pair));
    }
    lines
}

/// Before a line is overwritten both copies are judged, and a bad one is put right and fenced: or a crash now would
/// leave none that fits a seal.
fn put_line_right(world: &mut World, layout: Layout, thread: usize, position: u8) {
    let members = world.reached() & world.roster.members;
    let unit = layout.position(position);
    let sealed = World::each(members)
        .filter_map(|member| read_seal(world.members[member].view(layout.seal(position))))
        .max_by_key(|(_, through)| *through);
    let Some((word, _)) = sealed else { return };
    let is_good = |member: usize| world.members[member].view(unit) == word;
    if World::each(members).any(is_good) && !World::each(members).all(is_good) {
        store_flushed(world, thread, unit, word);
        world.fence(members, thread);
    }
}
