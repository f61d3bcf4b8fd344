//! The steps of recovery, each of which a crash may cut short, and the verification of what came back.

use crate::config::{Config, KEYS};
use crate::invariants::table_is_map;
use crate::media::{Content, Layout, check_of, line_word};
use crate::recovery::plan;
use crate::rules::{Mutant, Rules};
use crate::world::{Phase, Plan, Violation, World};

/// The one thread that recovers.
const THREAD: usize = 0;

/// One step: settle, write, fence, switch, serve.
pub fn step(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    let layout = Layout::new(config);
    let Phase::Down(step) = world.phase else {
        panic!("the pool is not down")
    };
    match step {
        0 => {
            let decided = plan(world, config, rules)?;
            if !rules.breaks(Mutant::RecoveryBelievesVisible) {
                settle(world, config, &decided);
            }
            world.plan = Some(Box::new(decided));
        }
        1 => {
            let decided = world.plan.clone().expect("decided in step 0");
            write(world, layout, rules, &decided);
        }
        2 if rules.breaks(Mutant::SwitchBeforeTableDurable) => {}
        2 => world.memory.fence(THREAD),
        3 => switch(world, layout, rules),
        _ => {
            world.memory.fence(THREAD);
            return serve(world, config, rules);
        }
    }
    world.phase = Phase::Down(step + 1);
    Ok(())
}

/// Makes durable what the decision rests on: lines, commit words, the records found, tested slots.
fn settle(world: &mut World, config: &Config, decided: &Plan) {
    let layout = Layout::new(config);
    let mut units = Vec::new();
    for line in 0..2 {
        units.extend(layout.incarnation_line(line));
        units.extend(layout.checkpoint_line(line));
    }
    units.extend((0..config.lanes).map(|lane| layout.commit_word(lane)));
    for &(lane, place) in &decided.found {
        units.extend(layout.place(lane as usize, place));
    }
    for &slot in &decided.tested {
        units.extend(layout.slot(slot as usize));
    }
    for unit in units {
        world.memory.flush(THREAD, unit);
    }
    world.memory.fence(THREAD);
}

fn write(world: &mut World, layout: Layout, rules: Rules, decided: &Plan) {
    let mut stores = Vec::new();
    for mapped in decided
        .map
        .iter()
        .flatten()
        .filter(|mapped| decided.written.contains(&mapped.position))
    {
        let units = layout.position(mapped.position as usize);
        stores.extend(units.into_iter().zip(mapped.entry.encode(rules)));
    }
    for &position in &decided.cleared {
        stores.extend(layout.position(position as usize).map(|unit| (unit, 0)));
    }
    for &(slot, half, value) in &decided.redone {
        stores.push((layout.slot(slot as usize)[half as usize], value.into()));
    }
    for (unit, value) in stores {
        if world.memory.view(unit) != value {
            world.memory.store(unit, value);
        } else if rules.breaks(Mutant::RecoverySkipsEqualWords) {
            continue;
        }
        world.memory.flush(THREAD, unit);
    }
}

fn switch(world: &mut World, layout: Layout, rules: Rules) {
    let decided = world.plan.as_ref().expect("decided in step 0");
    let (line, incarnation, salt) = decided.incarnation;
    let salt = if rules.breaks(Mutant::SaltNotChanged) {
        salt
    } else {
        incarnation + 1
    };
    let line = if rules.breaks(Mutant::IncarnationOverNewestLine) {
        line
    } else {
        line ^ 1
    };
    if rules.breaks(Mutant::CheckpointLineWithIncarnation) {
        let older = decided.checkpoint_line.map_or(0, |line| line ^ 1);
        for unit in layout.checkpoint_line(older as usize) {
            world.memory.store(unit, line_word([incarnation + 1, 0]));
            world.memory.flush(THREAD, unit);
        }
    }
    for unit in layout.incarnation_line(line as usize) {
        world.memory.store(unit, line_word([incarnation + 1, salt]));
        world.memory.flush(THREAD, unit);
    }
    world.incarnation = (line, incarnation + 1, salt);
}

/// Rebuilds what DRAM holds and verifies it.
fn serve(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    let decided = world.plan.take().expect("decided in step 0");
    world.map = decided.map;
    // Sequences begin anew: nothing but the salt tells the incarnations apart.
    world.next_sequence = 1;
    world.next_checkpoint_line = decided.checkpoint_line.map_or(0, |line| line ^ 1);
    for slot in world
        .map
        .iter()
        .flatten()
        .filter_map(|mapped| mapped.entry.slot)
    {
        world.references[slot as usize] += 1;
    }
    let positions = world.map.iter().flatten().map(|mapped| mapped.position);
    world.free_positions = positions.fold((1 << config.positions) - 1, |free, position| {
        free & !(1 << position)
    });
    world.phase = Phase::Running;
    if !rules.breaks(Mutant::BackingNotSyncedAtOpen) {
        world.backing.sync();
    }
    resolve_doubts(world, config)?;
    check_reads(world, config)?;
    if rules.invariants {
        table_is_map(world, config)?;
    }
    Ok(())
}

/// What the key reads as; a failed checksum of a clean block sends the reader to the backing.
fn read(world: &World, layout: Layout, key: u8) -> Result<Content, Violation> {
    let Some(mapped) = world.map[key as usize] else {
        return Ok(world.backing_content(key));
    };
    let content = world.entry_content(layout, mapped.entry);
    if mapped.entry.slot.is_none()
        || check_of(key, content, mapped.entry.partial) == mapped.entry.check
    {
        return Ok(content);
    }
    if mapped.entry.clean {
        return Ok(world.backing_content(key));
    }
    Err(Violation(format!(
        "key {key}: its only copy, in slot {:?}, fails its checksum",
        mapped.entry.slot
    )))
}

/// A transaction caught before its fence is there whole or not at all; which of the two holds from now on.
fn resolve_doubts(world: &mut World, config: &Config) -> Result<(), Violation> {
    let layout = Layout::new(config);
    for doubt in std::mem::take(&mut world.doubts) {
        let reads: Result<Vec<Content>, Violation> = doubt
            .keys
            .iter()
            .map(|&(key, _)| read(world, layout, key))
            .collect();
        let reads = reads?;
        let old = doubt.keys.iter().zip(&reads).all(|(&(key, _), &seen)| {
            world.promised[key as usize].is_none_or(|promised| promised == seen)
        });
        let new = doubt
            .keys
            .iter()
            .zip(&reads)
            .all(|(&(_, content), &seen)| content.is_none_or(|c| c == seen));
        if !old && !new {
            return Err(Violation(format!(
                "transaction of {:?} is there by half: {reads:?}",
                doubt.keys
            )));
        }
        for &(key, content) in &doubt.keys {
            // An undefined outcome leaves the key undefined: either reading is right.
            world.promised[key as usize] = match (old, content) {
                (_, None) => None,
                (true, _) => world.promised[key as usize],
                (false, _) => content,
            };
        }
    }
    Ok(())
}

/// Every key that no thread is changing reads as promised, and every clean block is on the backing for good.
pub fn check_reads(world: &World, config: &Config) -> Result<(), Violation> {
    let layout = Layout::new(config);
    for key in 0..config.keys as u8 {
        let at = key as usize;
        if let Some(mapped) = world.map[at].filter(|mapped| mapped.entry.clean) {
            let durable = [2 * at, 2 * at + 1].map(|unit| world.backing.durable(unit) as u8);
            let content = world.entry_content(layout, mapped.entry);
            if content != durable
                && check_of(key, content, mapped.entry.partial) == mapped.entry.check
            {
                return Err(Violation(format!(
                    "key {key} is clean and reads {content:?}, the backing holds {durable:?}"
                )));
            }
        }
        if world.locked[at] != 0 {
            continue;
        }
        let Some(promised) = world.promised[at] else {
            continue;
        };
        let seen = read(world, layout, key)?;
        if seen != promised {
            let owner = (0..KEYS as u8)
                .find(|&other| other != key && world.promised[other as usize] == Some(seen));
            let whose = owner.map_or(String::new(), |other| format!(", which is key {other}'s"));
            return Err(Violation(format!(
                "key {key} reads {seen:?}{whose}, promised was {promised:?}"
            )));
        }
    }
    Ok(())
}
