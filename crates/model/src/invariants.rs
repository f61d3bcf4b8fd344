//! The protocol's invariants that a step can be checked against; the rest shows in what users read.

use crate::config::{Change, Config};
use crate::media::{Layout, Position, Record, decode, read_line};
use crate::world::{Part, Violation, World};

/// I3 and I5: no record that S remembers is overwritten, and sequences in a lane rise.
pub fn may_overwrite(
    world: &World,
    layout: Layout,
    units: [usize; 2],
    lane: u8,
    sequence: u8,
) -> Result<(), Violation> {
    let (_, incarnation, salt) = world.incarnation;
    let lines = [0, 1].map(|line| layout.checkpoint_line(line));
    let durable = |units: [usize; 2]| {
        let same = world.memory.durable(units[0]) == world.memory.durable(units[1]);
        read_line(&world.memory, units).filter(|line| same && line[0] == incarnation)
    };
    let forgotten = lines
        .into_iter()
        .filter_map(durable)
        .map(|line| line[1])
        .max()
        .unwrap_or(0);
    let mine = |record: &&Record| record.lane == lane && record.salt == salt;
    for unit in units {
        let number = world.memory.view(unit) as usize;
        if let Some(old) = number
            .checked_sub(1)
            .map(|at| &world.records[at])
            .filter(mine)
            && old.sequence > forgotten
        {
            return Err(Violation(format!(
                "I3: sequence {} is overwritten while S is {forgotten}",
                old.sequence
            )));
        }
    }
    if world
        .records
        .iter()
        .filter(mine)
        .any(|record| record.sequence >= sequence)
    {
        return Err(Violation(format!(
            "I5: sequence {sequence} does not rise in lane {lane}"
        )));
    }
    Ok(())
}

/// I8: a delta goes into a slot with one owner, over a fenced base.
pub fn may_apply(world: &World, layout: Layout, part: &Part) -> Result<(), Violation> {
    if let (Change::Delta { .. }, Some(slot)) =
        (part.change, part.new.and_then(|new| new.entry.slot))
    {
        if world.references[slot as usize] > 1 {
            return Err(Violation(format!(
                "I8: delta on slot {slot}, which has two owners"
            )));
        }
        if layout
            .slot(slot as usize)
            .iter()
            .any(|&unit| world.memory.has_unfenced_stream(unit))
        {
            return Err(Violation(format!(
                "I8: delta on slot {slot}, which is not fenced"
            )));
        }
    }
    Ok(())
}

/// I6, on the table itself: it says what the index says.
pub fn table_is_map(world: &World, config: &Config) -> Result<(), Violation> {
    let layout = Layout::new(config);
    for position in 0..config.positions as u8 {
        let expected = world
            .map
            .iter()
            .flatten()
            .find(|mapped| mapped.position == position);
        let expected = expected.map_or(Position::Free, |mapped| Position::Holds(mapped.entry));
        let found = decode(
            layout
                .position(position as usize)
                .map(|unit| world.memory.view(unit)),
        );
        if found != expected {
            return Err(Violation(format!(
                "I6: position {position} holds {found:?}, the index says {expected:?}"
            )));
        }
    }
    Ok(())
}
