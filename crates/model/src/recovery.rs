//! What recovery reads, decides and writes.

use crate::config::{Config, KEYS};
use crate::media::{Entry, Kind, Layout, Position, Record, check_of, decode, read_line};
use crate::rules::{Mutant, Rules};
use crate::world::{Mapped, Plan, Violation, World};

/// Reads the image and decides.
pub fn plan(world: &World, config: &Config, rules: Rules) -> Result<Plan, Violation> {
    let layout = Layout::new(config);
    let lines = [0, 1].map(|line| {
        read_line(&world.memory, layout.incarnation_line(line)).map(|found| (line as u8, found))
    });
    let Some((line, [incarnation, salt])) = lines
        .into_iter()
        .flatten()
        .max_by_key(|(_, found)| found[0])
    else {
        return Err(Violation(
            "no incarnation line is valid: the pool cannot be opened".into(),
        ));
    };
    let checkpoints = [0, 1].map(|line| {
        read_line(&world.memory, layout.checkpoint_line(line)).map(|found| (line as u8, found))
    });
    let mine = |found: [u8; 2]| {
        found[0] == incarnation || rules.breaks(Mutant::CheckpointLineOfOtherIncarnationBelieved)
    };
    let newest = checkpoints
        .into_iter()
        .flatten()
        .filter(|(_, found)| mine(*found))
        .max_by_key(|(_, found)| found[1]);
    if newest.is_none() && incarnation > 1 && rules.breaks(Mutant::CheckpointLineWithIncarnation) {
        return Err(Violation(format!(
            "incarnation {incarnation} has no checkpoint line: the pool cannot be opened"
        )));
    }
    let forgotten = newest.map_or(0, |(_, found)| found[1]);
    let valid = scan(world, config, rules, salt, forgotten);
    no_gap(&valid, forgotten)?;
    let mut tested = Vec::new();
    let mut accepted: Vec<&Record> = valid
        .iter()
        .copied()
        .filter(|record| committed(world, config, rules, &valid, record, &mut tested))
        .collect();
    accepted.sort_by_key(|record| record.sequence);
    if rules.breaks(Mutant::OlderRecordReplayedLast) {
        accepted.reverse();
    }
    let (positions, redone) = replay(rules, &accepted);
    let mut map: Map = [None; KEYS];
    let mut written = Vec::new();
    let mut cleared = Vec::new();
    for position in 0..config.positions as u8 {
        let named = positions.iter().find(|named| named.position == position);
        let entry = match named {
            Some(named) => named
                .entry
                .or_else(|| kept_base(world, layout, rules, position)),
            None => base(world, layout, rules, position, &accepted, &mut cleared)?,
        };
        match (entry, named) {
            (Some(entry), _) => enter(&mut map, position, entry)?,
            (None, Some(_)) if !rules.breaks(Mutant::VanishedPositionNotCleared) => {
                cleared.push(position)
            }
            (None, _) => {}
        }
        written.extend(named.and(entry).map(|_| position));
    }
    let checkpoint_line = newest.map(|(line, _)| line);
    Ok(Plan {
        incarnation: (line, incarnation, salt),
        checkpoint_line,
        map,
        cleared,
        written,
        redone,
        found: valid
            .iter()
            .map(|record| (record.lane, record.place))
            .collect(),
        tested,
    })
}

/// Whole records of this incarnation that S has not forgotten.
fn scan<'w>(
    world: &'w World,
    config: &Config,
    rules: Rules,
    salt: u8,
    forgotten: u8,
) -> Vec<&'w Record> {
    let layout = Layout::new(config);
    let mut valid = Vec::new();
    for lane in 0..config.lanes {
        for place in 0..config.places {
            let [first, second] = layout
                .place(lane, place as u8)
                .map(|unit| world.memory.view(unit) as usize);
            if first == 0 || first != second {
                continue;
            }
            let record = &world.records[first - 1];
            let remembered =
                record.sequence > forgotten || rules.breaks(Mutant::RecordsBelowCheckpointAccepted);
            if record.salt == salt && remembered {
                valid.push(record);
            }
        }
    }
    valid
}

/// A record that must be there and is not would be media damage, and here nothing damages the media.
fn no_gap(valid: &[&Record], forgotten: u8) -> Result<(), Violation> {
    let watermark = valid
        .iter()
        .map(|record| record.watermark)
        .max()
        .unwrap_or(0);
    for sequence in forgotten + 1..=watermark {
        if !valid.iter().any(|record| record.sequence == sequence) {
            return Err(Violation(format!(
                "open refuses a healthy pool: record {sequence} is missing below the watermark {watermark}"
            )));
        }
    }
    Ok(())
}

/// The one predicate: was this record's transaction acknowledged, or is it whole at least?
fn committed(
    world: &World,
    config: &Config,
    rules: Rules,
    valid: &[&Record],
    record: &Record,
    tested: &mut Vec<u8>,
) -> bool {
    let layout = Layout::new(config);
    if config.strict {
        // The lane's word replaces classification.
        let word = world.memory.view(layout.commit_word(record.lane as usize));
        let mine = word >> 8 == u64::from(record.salt)
            || rules.breaks(Mutant::StrictWordOfOtherIncarnationBelieved);
        return mine && record.place < word as u8;
    }
    let names = |other: &Record| {
        other
            .elements
            .iter()
            .any(|e| record.elements.iter().any(|mine| mine.key == e.key))
    };
    let proven = valid.iter().any(|other| {
        (other.lane == record.lane && other.place > record.place)
            || other.watermark >= record.sequence
            || (other.sequence > record.sequence
                && names(other)
                && !rules.breaks(Mutant::NewestToOldestDropped))
    });
    if (proven && !rules.breaks(Mutant::ClassificationByDataAlone))
        || rules.breaks(Mutant::RecordsNotTested)
    {
        return true;
    }
    record.elements.iter().all(|element| match element.kind {
        Kind::Block(entry) | Kind::Append(entry) => {
            tested.extend(entry.slot);
            check_of(entry.key, world.entry_content(layout, entry), entry.partial) == entry.check
        }
        Kind::Delta { .. } | Kind::Zero(_) | Kind::Tombstone => true,
    })
}

type Map = [Option<Mapped>; KEYS];

/// What the accepted records say of a position.
struct Named {
    position: u8,
    entry: Option<Entry>,
    redo: Vec<(u8, u8, u8)>,
}

fn enter(map: &mut Map, position: u8, entry: Entry) -> Result<(), Violation> {
    let key = entry.key;
    match &mut map[key as usize] {
        Some(other) => {
            let positions = (other.position, position);
            Err(Violation(format!(
                "key {key} stands in the table twice, at {positions:?}"
            )))
        }
        free => {
            *free = Some(Mapped { position, entry });
            Ok(())
        }
    }
}

fn read_position(world: &World, layout: Layout, position: u8) -> Position {
    decode(
        layout
            .position(position as usize)
            .map(|unit| world.memory.view(unit)),
    )
}

fn kept_base(world: &World, layout: Layout, rules: Rules, position: u8) -> Option<Entry> {
    match read_position(world, layout, position) {
        Position::Holds(entry) if rules.breaks(Mutant::BaseEntryOfNamedPositionKept) => Some(entry),
        _ => None,
    }
}

/// The entry at a position that no accepted record names. A torn one was a fill, and is cleared.
fn base(
    world: &World,
    layout: Layout,
    rules: Rules,
    position: u8,
    accepted: &[&Record],
    cleared: &mut Vec<u8>,
) -> Result<Option<Entry>, Violation> {
    match read_position(world, layout, position) {
        Position::Free => Ok(None),
        Position::Torn => {
            if !rules.breaks(Mutant::TornEntryNotCleared) {
                cleared.push(position);
            }
            Ok(None)
        }
        Position::Damaged => Err(Violation(format!(
            "damage is reported in a healthy pool: the entry at position {position}"
        ))),
        Position::Holds(entry) => {
            let names = accepted
                .iter()
                .flat_map(|record| &record.elements)
                .any(|e| e.key == entry.key);
            Ok(Some(entry).filter(|_| !(names && rules.breaks(Mutant::ReplayByKey))))
        }
    }
}

/// Replays by table position; returns what is left at each, and the redo bytes of the slots that are.
fn replay(rules: Rules, accepted: &[&Record]) -> (Vec<Named>, Vec<(u8, u8, u8)>) {
    let mut positions: Vec<Named> = Vec::new();
    let mut every_delta = Vec::new();
    for element in accepted.iter().flat_map(|record| &record.elements) {
        let position = element.position;
        let at = positions
            .iter()
            .position(|named| named.position == position)
            .unwrap_or_else(|| {
                positions.push(Named {
                    position,
                    entry: None,
                    redo: Vec::new(),
                });
                positions.len() - 1
            });
        let named = &mut positions[at];
        let entry = element.kind.entry();
        let slot = entry.and_then(|entry| entry.slot);
        let stays = slot.is_some()
            && named
                .entry
                .is_some_and(|now| now.slot == slot && now.key == element.key);
        if !(stays && matches!(element.kind, Kind::Delta { .. } | Kind::Append(_))) {
            named.redo.clear();
        }
        if let (Kind::Delta { half, value, .. }, Some(slot)) = (element.kind, slot) {
            named.redo.push((slot, half, value));
            every_delta.push((slot, half, value));
        }
        named.entry = entry;
    }
    let mut redone = positions
        .iter()
        .flat_map(|named| named.redo.clone())
        .collect();
    if rules.breaks(Mutant::DeltaReplayedOnSlot) {
        redone = every_delta;
    } else if rules.breaks(Mutant::DeltaNotReplayed) {
        redone.clear();
    } else if !rules.breaks(Mutant::RedoThroughOlderBytes) {
        redone = last_of_each(&redone);
    }
    (positions, redone)
}

/// The final bytes only: bytes in between would undo what a tested append or share rests on, if a crash kept them.
fn last_of_each(redone: &[(u8, u8, u8)]) -> Vec<(u8, u8, u8)> {
    let is_last = |at: usize| {
        !redone[at + 1..]
            .iter()
            .any(|later| later.0 == redone[at].0 && later.1 == redone[at].1)
    };
    (0..redone.len())
        .filter(|&at| is_last(at))
        .map(|at| redone[at])
        .collect()
}
