//! What recovery reads on the members that count, decides and writes.

use super::config::{Config, KEYS};
use super::media::{
    Entry, Layout, Record, checkpoint, decode, read_roster, read_seal, roster, seal,
};
use super::rules::{Mutant, Rules};
use super::world::{KEEPER, Mapped, Phase, Plan, Roster, World};
use crate::memory::Word;
use crate::world::Violation;

/// Reads the rosters of the members at hand, and serves those that the newest calls in; refuses where one of them is not
/// there, unless the operator says that it is gone.
///
/// # Errors
/// It refuses although all are there.
pub fn open(
    world: &mut World,
    config: &Config,
    rules: Rules,
    present: u8,
    is_word_given: bool,
) -> Result<(), Violation> {
    let layout = Layout::new(config);
    let lines = World::each(present).flat_map(|member| {
        let memory = &world.members[member];
        [0, 1].map(|line| read_roster(memory.view(layout.roster(line))))
    });
    let newest = lines.flatten().max();
    let Some((mut epoch, mut members)) = newest else {
        // A new member whose rebuild had only begun.
        return refuse(world, present);
    };
    if rules.breaks(Mutant::StaleMemberTrusted) {
        members = present;
    }
    if members & !present != 0 {
        if !is_word_given && !rules.breaks(Mutant::OpenWithAbsentMember) {
            return refuse(world, present);
        }
        epoch += 1;
        members &= present;
        if members == 0 {
            world.phase = Phase::Refused;
            return Ok(());
        }
        let unit = layout.roster(epoch);
        world.store(members, unit, roster(epoch, members));
        world.flush(members, KEEPER, unit);
        world.fence(members, KEEPER);
    }
    world.up = members;
    world.roster = Roster {
        epoch,
        members,
        rebuilding: 0,
    };
    world.phase = Phase::Recovering(0);
    Ok(())
}

/// The pool does not open: right only where a member that counts is not at hand.
fn refuse(world: &mut World, present: u8) -> Result<(), Violation> {
    world.phase = Phase::Refused;
    match world.called_in & !present {
        0 => Err(Violation("it refuses, and all members are there".into())),
        _ => Ok(()),
    }
}

/// Reads and decides.
///
/// # Errors
/// It finds damage where there is none.
pub fn plan(world: &World, config: &Config, rules: Rules) -> Result<Plan, Violation> {
    let layout = Layout::new(config);
    let members = world.roster.members;
    let views =
        |unit: usize| World::each(members).map(move |member| world.members[member].view(unit));
    let incarnation = (0..2)
        .flat_map(|line| views(layout.incarnation(line)))
        .max()
        .unwrap_or(0);
    // The sequence that an incarnation starts with is forgotten with all before it.
    let (incarnation, started) = ((incarnation >> 8) as u8, incarnation as u8);
    let checkpoints = (0..2).flat_map(|line| views(layout.checkpoint(line)));
    let forgotten = checkpoints
        .filter(|word| (word >> 8) as u8 == incarnation)
        .map(|word| word as u8)
        .max()
        .unwrap_or(started);
    let records = scan(world, layout, config, incarnation, forgotten);
    no_gap(&records, forgotten)?;
    let mut tested = Vec::new();
    let mut accepted: Vec<&Record> = records
        .iter()
        .copied()
        .filter(|record| is_committed(world, layout, rules, &records, record, &mut tested))
        .collect();
    accepted.sort_by_key(|record| record.sequence);
    let sequences = records.iter().map(|record| record.sequence);
    let sequence = sequences.max().unwrap_or(0).max(forgotten);
    let mut decided = Plan {
        incarnation,
        map: [None; KEYS],
        lines: Vec::new(),
        tested,
        redone: Vec::new(),
        found: records
            .iter()
            .map(|record| number_of(world, record))
            .collect(),
        sequence: sequence + 1,
    };
    for position in 0..config.positions as u8 {
        let named = accepted
            .iter()
            .flat_map(|record| &record.elements)
            .rfind(|element| element.position == position);
        let word = match named {
            Some(element) => {
                if let (true, Some(entry)) = (element.is_delta, element.entry) {
                    decided.redone.push((entry.pair(), entry.value));
                }
                element.entry.map_or(0, Entry::word)
            }
            None => base(world, layout, rules, position)?,
        };
        let mut entry = decode(word);
        let ignored = entry.filter(|entry| entry.clean && members & 1 << entry.first() == 0);
        if ignored.is_some() {
            entry = None;
        }
        let is_equal = views(layout.position(position)).all(|view| view == word);
        if named.is_some() || !is_equal || ignored.is_some() {
            decided.lines.push((position, entry.map_or(0, Entry::word)));
        }
        enter(&mut decided.map, members, position, entry)?;
    }
    no_shared_place(&decided.map)?;
    Ok(decided)
}

/// Records of this incarnation above S, that one member has at least.
fn scan<'w>(
    world: &'w World,
    layout: Layout,
    config: &Config,
    incarnation: u8,
    forgotten: u8,
) -> Vec<&'w Record> {
    let mut found: Vec<usize> = Vec::new();
    for member in World::each(world.roster.members) {
        for lane in 0..config.lanes {
            for place in 0..config.places as u8 {
                let word = world.members[member].view(layout.place(lane, place));
                found.extend((word as usize).checked_sub(1));
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    found
        .into_iter()
        .map(|number| &world.records[number])
        .filter(|record| record.incarnation == incarnation && record.sequence > forgotten)
        .collect()
}

/// Lane and place of a record, and what stands there.
fn number_of(world: &World, record: &Record) -> (u8, u8, Word) {
    let at = world.records.iter().position(|other| other == record);
    let number = at.expect("it was found among them") as Word + 1;
    (record.lane, record.place, number)
}

fn no_gap(records: &[&Record], forgotten: u8) -> Result<(), Violation> {
    let watermarks = records.iter().map(|record| record.watermark);
    for sequence in forgotten + 1..=watermarks.max().unwrap_or(0) {
        if !records.iter().any(|record| record.sequence == sequence) {
            return Err(Violation(format!(
                "open refuses a healthy pool: record {sequence} is missing"
            )));
        }
    }
    Ok(())
}

/// Whether the record's transaction was acknowledged, or is whole: of each of its blocks some half is there. What was
/// believed is made equal.
fn is_committed(
    world: &World,
    layout: Layout,
    rules: Rules,
    records: &[&Record],
    record: &Record,
    blocks: &mut Vec<(usize, u8)>,
) -> bool {
    let names = |other: &Record| {
        let keys = |record: &Record| record.elements.iter().map(|e| e.key).collect::<Vec<_>>();
        keys(other).iter().any(|key| keys(record).contains(key))
    };
    let is_proven = records.iter().any(|other| {
        (other.lane == record.lane && other.place > record.place)
            || other.watermark >= record.sequence
            || (other.sequence > record.sequence && names(other))
    });
    if is_proven {
        return true;
    }
    let is_block = |element: &&super::media::Element| !element.is_delta;
    let entries = record.elements.iter().filter(is_block);
    let entries: Vec<Entry> = entries.filter_map(|element| element.entry).collect();
    let has = |entry: &Entry, member: usize| {
        world.members[member].view(layout.half(entry.pair())) == Word::from(entry.value)
    };
    let members = world.roster.members;
    let is_there = |entry: &Entry| {
        let first = entry.first();
        if rules.breaks(Mutant::TestedByFirstHalfOnly) && members & 1 << first != 0 {
            return has(entry, first);
        }
        World::each(members).any(|member| has(entry, member))
    };
    let is_whole = entries.iter().all(is_there);
    if is_whole && !rules.breaks(Mutant::TestedHalfNotRestored) {
        blocks.extend(entries.iter().map(|entry| (entry.pair(), entry.value)));
    }
    is_whole
}

/// The word of a line that no record names: what the members agree on, or what the newest seal vouches for.
fn base(world: &World, layout: Layout, rules: Rules, position: u8) -> Result<Word, Violation> {
    let members = world.roster.members;
    let words: Vec<Word> = World::each(members)
        .map(|member| world.members[member].view(layout.position(position)))
        .collect();
    if words.iter().all(|word| *word == words[0]) || rules.breaks(Mutant::TableTakenWithoutSeals) {
        return Ok(words[0]);
    }
    let seals = World::each(members)
        .filter_map(|member| read_seal(world.members[member].view(layout.seal(position))));
    let fitting = seals.filter(|(word, _)| words.contains(word));
    if let Some((word, _)) = fitting.max_by_key(|(_, through)| *through) {
        return Ok(word);
    }
    Err(Violation(format!(
        "damage without a fault: line {position} fits no seal: {words:?}"
    )))
}

fn enter(
    map: &mut [Option<Mapped>; KEYS],
    members: u8,
    position: u8,
    entry: Option<Entry>,
) -> Result<(), Violation> {
    let Some(entry) = entry else { return Ok(()) };
    let free = &mut map[entry.key as usize];
    if let Some(other) = free {
        let positions = (other.position, position);
        let text = format!(
            "key {} stands in the table twice, at {positions:?}",
            entry.key
        );
        return Err(Violation(text));
    }
    *free = Some(Mapped {
        position,
        entry,
        halves: if entry.clean {
            1 << entry.first()
        } else {
            members
        },
        ticket: 0,
    });
    Ok(())
}

/// No two mappings have one place.
fn no_shared_place(map: &[Option<Mapped>; KEYS]) -> Result<(), Violation> {
    let mut mapped = map.iter().flatten();
    let (Some(one), Some(other)) = (mapped.next(), mapped.next()) else {
        return Ok(());
    };
    if one.entry.pair() == other.entry.pair() && one.halves & other.halves != 0 {
        return Err(Violation(format!(
            "damage without a fault: {:?} and {:?} have one place",
            one.entry, other.entry
        )));
    }
    Ok(())
}

/// Makes durable, on every member, what the decision rests on: a killed process may have left it in a cache, and a member
/// that dies now may have been the only one that had it.
pub fn settle(world: &mut World, config: &Config, rules: Rules, decided: &Plan) {
    let layout = Layout::new(config);
    let members = world.roster.members;
    let lines = (0..2).flat_map(|line| {
        [
            layout.roster(line),
            layout.incarnation(line),
            layout.checkpoint(line),
        ]
    });
    for unit in lines.chain(layout.lanes()) {
        world.flush(members, KEEPER, unit);
    }
    if !rules.breaks(Mutant::RecordsOfOneMemberReplayed) {
        for &(lane, place, number) in &decided.found {
            make_equal(world, layout.place(lane as usize, place), number);
        }
    }
    if !rules.breaks(Mutant::HalvesMadeEqualWithTable) {
        for &(pair, value) in &decided.tested {
            make_equal(world, layout.half(pair), value.into());
        }
    }
    world.fence(members, KEEPER);
    // Until here a kill may have left a roster that a power cut takes back.
    world.called_in = members;
}

/// Writes what was decided; all of it is flushed, also where it reads right already.
pub fn write(world: &mut World, config: &Config, decided: &Plan) {
    let layout = Layout::new(config);
    let mut stores = Vec::new();
    for &(position, word) in &decided.lines {
        stores.push((layout.position(position), word));
        stores.push((layout.seal(position), seal(word, decided.sequence)));
    }
    for &(pair, value) in decided.tested.iter().chain(&decided.redone) {
        stores.push((layout.half(pair), Word::from(value)));
    }
    for (unit, word) in stores {
        make_equal(world, unit, word);
    }
}

/// Stores the word where it does not stand, and flushes it everywhere.
fn make_equal(world: &mut World, unit: usize, word: Word) {
    for member in World::each(world.roster.members) {
        if world.members[member].view(unit) != word {
            world.members[member].store(unit, word);
        }
        world.members[member].flush(KEEPER, unit);
    }
}

/// Begins the new incarnation on every member.
pub fn switch(world: &mut World, config: &Config, decided: &Plan) {
    let layout = Layout::new(config);
    let incarnation = decided.incarnation + 1;
    let unit = layout.incarnation(incarnation);
    let members = world.roster.members;
    world.store(members, unit, checkpoint(incarnation, decided.sequence));
    world.flush(members, KEEPER, unit);
    world.incarnation = incarnation;
}

/// Rebuilds what DRAM holds.
pub fn serve(world: &mut World, config: &Config, decided: &Plan) {
    world.map = decided.map;
    world.next_sequence = decided.sequence + 1;
    world.free_positions = (1 << config.positions) - 1;
    for mapped in world.map.iter().flatten() {
        world.taken[mapped.entry.pair()] |= mapped.halves;
        world.free_positions &= !(1 << mapped.position);
    }
    world.phase = Phase::Running;
}
