//! Joining, writing and publishing.

use super::config::{Config, KEYS, MEMBERS_MAX};
use super::media::{Element, Layout, Page, Shape};
use super::rules::{Mutant, Rules};
use super::world::{Contents, Effect, Flight, Group, Member, Settles, Stage, World};
use crate::world::Violation;

/// What may take the last free segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// A user's transaction, a fill.
    User,
    /// What is carried forward, what lets go of blocks.
    Rescue,
    /// A record by which a segment comes free.
    Tail,
}

impl Class {
    /// Segments that must be free for it to begin one.
    fn free_min(self) -> u8 {
        match self {
            Class::User => 3,
            Class::Rescue => 2,
            Class::Tail => 1,
        }
    }

    /// Segments that must be free behind the one that it joins.
    fn left_min(self) -> u8 {
        match self {
            Class::User => 2,
            Class::Rescue | Class::Tail => 0,
        }
    }
}

fn blocks_of<'e>(elements: impl Iterator<Item = &'e Element>) -> u8 {
    elements
        .filter(|one| matches!(one.shape, Shape::Block { .. }))
        .count() as u8
}

fn has_room(config: &Config, group: &Group, elements: &[Element]) -> bool {
    let blocks = blocks_of(group.elements().chain(elements));
    let header = u8::from(group.start == 0);
    group.members.len() < MEMBERS_MAX && group.start + header + 1 + blocks <= config.pages
}

/// Where a transaction goes.
enum Room {
    /// Into the last group.
    Join,
    /// Into a new one of the newest segment.
    Begin,
    /// Into a new segment.
    Open,
}

fn room(
    world: &World,
    config: &Config,
    rules: Rules,
    elements: &[Element],
    class: Class,
) -> Option<Room> {
    // What the mutant counts as free is there, but no durable record says so.
    let is_early = rules.breaks(Mutant::SegmentReusedBeforeTail);
    let (tail, free_min, left_min) = match is_early {
        true => (world.tail, 1, 0),
        false => (world.tail_durable, class.free_min(), class.left_min()),
    };
    let free = tail + config.places - world.next_segment;
    if free < left_min {
        return None;
    }
    if world
        .queue
        .last()
        .is_some_and(|last| last.is_open && has_room(config, last, elements))
    {
        return Some(Room::Join);
    }
    let cursor = match (world.queue.last().filter(|last| last.is_open), &world.head) {
        (Some(open), Some((contents, _))) if open.segment == contents.segment => {
            Some(open.start + u8::from(open.start == 0) + 1 + blocks_of(open.elements()))
        }
        (_, head) => head.as_ref().map(|(_, cursor)| *cursor),
    };
    let blocks = blocks_of(elements.iter());
    if cursor.is_some_and(|cursor| cursor > 0 && cursor + 1 + blocks <= config.pages) {
        return Some(Room::Begin);
    }
    let fits = 2 + blocks <= config.pages;
    (fits && free >= free_min).then_some(Room::Open)
}

/// Whether it has room.
pub fn may_join(
    world: &World,
    config: &Config,
    rules: Rules,
    elements: &[Element],
    class: Class,
) -> bool {
    !world.is_poisoned && room(world, config, rules, elements, class).is_some()
}

/// Nobody joins the last group any more: its blocks get their pages.
fn close_last(world: &mut World, layout: Layout) {
    let Some(group) = world.queue.last_mut().filter(|last| last.is_open) else {
        return;
    };
    group.is_open = false;
    let mut page = group.start + u8::from(group.start == 0) + 1;
    for element in group
        .members
        .iter_mut()
        .flat_map(|member| &mut member.elements)
    {
        if let Shape::Block { unit, .. } = &mut element.shape {
            *unit = layout.unit(group.segment, page);
            page += 1;
        }
    }
    let (contents, cursor) = world.head.as_mut().expect("a group has a segment");
    *cursor = page;
    contents.groups.1 = group.number;
    contents.elements.extend(group.elements().copied());
}

/// A transaction that joins.
pub struct Joining {
    /// Its elements.
    pub elements: Vec<Element>,
    /// What the user asked for.
    pub effect: Effect,
    /// Whether it keeps what was read.
    pub is_fill: bool,
    /// Whether it is over when readers see it.
    pub is_unsynced: bool,
}

impl Joining {
    /// One that the pool makes for itself.
    pub fn of_pool(elements: Vec<Element>) -> Self {
        Joining {
            elements,
            effect: Effect::None,
            is_fill: false,
            is_unsynced: false,
        }
    }
}

/// Takes a place in a group, and the sequences.
pub fn join(
    world: &mut World,
    config: &Config,
    rules: Rules,
    member: Joining,
    class: Class,
) -> Result<(), Violation> {
    let elements = member.elements;
    let layout = Layout::new(config);
    let room =
        room(world, config, rules, &elements, class).expect("it was asked whether it has room");
    if !matches!(room, Room::Join) {
        close_last(world, layout);
        let mut group = Group {
            number: world.next_group,
            segment: world.next_segment,
            start: 0,
            first_sequence: world.next_sequence,
            members: Vec::new(),
            is_open: true,
            seal: None,
        };
        if let (Room::Begin, Some((contents, cursor))) = (&room, &world.head) {
            (group.segment, group.start) = (contents.segment, *cursor);
        } else {
            begin_segment(world, config, rules, &mut group)?;
        }
        world.next_group += 1;
        world.queue.push(group);
    }
    let count = elements.len() as u8;
    let group = world.queue.last_mut().expect("there is one");
    group.members.push(Member {
        elements,
        first_sequence: world.next_sequence,
        effect: member.effect,
        is_fill: member.is_fill,
        is_unsynced: member.is_unsynced,
    });
    world.next_sequence += count;
    Ok(())
}

fn begin_segment(
    world: &mut World,
    config: &Config,
    rules: Rules,
    group: &mut Group,
) -> Result<(), Violation> {
    let segment = world.next_segment;
    let is_early = rules.breaks(Mutant::SegmentReusedBeforeTail);
    let is_named =
        |at: Option<u8>| at.is_some_and(|at| at % config.places == segment % config.places);
    let names = |known: &super::world::Known| {
        is_named(known.entry.map(|entry| entry.segment)) || is_named(known.zeroed.map(|(_, at)| at))
    };
    if world.known.iter().any(names) {
        return Err(Violation(format!(
            "segment {segment} would be written over blocks (S4)"
        )));
    }
    if world.tail + config.places - segment <= 1 && !is_early {
        return Err(Violation(format!("segment {segment} is the last one (S8)")));
    }
    group.seal = world.head.take().map(|(contents, _)| contents);
    let contents = Contents {
        segment,
        first_sequence: group.first_sequence,
        groups: (group.number, group.number),
        elements: Vec::new(),
    };
    world.head = Some((contents, 0));
    world.next_segment += 1;
    Ok(())
}

/// How a group that is written next becomes durable.
fn settles(world: &World, rules: Rules, group: &Group) -> Settles {
    if group.members.iter().all(|member| member.is_unsynced) {
        return Settles::Later;
    }
    let is_gap = |flight: &Flight| flight.settles == Settles::Later;
    let has_gap = !world.settled.open.is_empty() && group.seal.is_none();
    match has_gap || world.flights.iter().any(is_gap) {
        true if !rules.breaks(Mutant::DurableBehindGap) => Settles::ByFlush,
        _ => Settles::ByItself,
    }
}

/// Whether a group may go out.
pub fn may_take(world: &World, config: &Config, rules: Rules) -> bool {
    let is_free = !world.is_poisoned && world.flights.len() < usize::from(config.depth);
    world.queue.first().is_some_and(|front| {
        let has_seal = front.seal.is_some() && !rules.breaks(Mutant::SealListsInFlight);
        let waits = has_seal || settles(world, rules, front) == Settles::ByFlush;
        is_free && (!waits || world.flights.is_empty())
    })
}

/// The next group goes out, after the summary that makes way for it, and the flush of what that lists.
pub fn take(world: &mut World, config: &Config, rules: Rules) {
    let layout = Layout::new(config);
    if world.queue[0].is_open {
        close_last(world, layout);
    }
    let settles = settles(world, rules, &world.queue[0]);
    let group = world.queue.remove(0);
    let is_flushed = world.settled.open.is_empty() || rules.breaks(Mutant::SealListsUnsettled);
    let stage = match (&group.seal, is_flushed) {
        (None, _) => Stage::Write,
        (Some(_), true) => Stage::Seal,
        (Some(_), false) => Stage::FlushFirst,
    };
    world.flights.push(Flight {
        tail: world.tail,
        group,
        stage,
        settles,
    });
    submit(world, layout, rules, world.flights.len() - 1);
}

/// What its stage is about is under way.
fn submit(world: &mut World, layout: Layout, rules: Rules, at: usize) {
    match world.flights[at].stage {
        Stage::Seal => submit_seal(world, layout, rules, at),
        Stage::Write => submit_group(world, layout, at),
        Stage::FlushFirst | Stage::FlushBehind | Stage::Over => {}
    }
}

fn submit_seal(world: &mut World, layout: Layout, rules: Rules, at: usize) {
    let group = &mut world.flights[at].group;
    let thread = thread_of(group);
    let contents = group.seal.take().expect("it has one");
    let tail = match rules.breaks(Mutant::TailOfOwnSeal) {
        true => world.tail,
        false => world.tail_durable.min(contents.segment),
    };
    let unit = layout.summary(contents.segment);
    let page = summary(contents, tail, world.point);
    let word = world.pages.word(page);
    world.disk.stream(thread, usize::from(unit), word);
}

/// What a summary says.
pub fn summary(contents: Contents, tail: u8, point: u8) -> Page {
    Page::Summary {
        segment: contents.segment,
        first_sequence: contents.first_sequence,
        groups: contents.groups,
        tail,
        point,
        elements: contents.elements,
    }
}

/// The memory's threads stand for writes under way.
fn thread_of(group: &Group) -> usize {
    usize::from(group.number) % SYNC
}

/// That of a sync's flush.
const SYNC: usize = 7;

fn submit_group(world: &mut World, layout: Layout, at: usize) {
    let flight = &world.flights[at];
    let group = flight.group.clone();
    let page = group.start;
    let mut parts = Vec::new();
    if page == 0 {
        parts.push(Page::Header {
            segment: group.segment,
            incarnation: world.incarnation,
            first_group: group.number,
        });
    }
    parts.push(Page::Record {
        group: group.number,
        place: (group.segment, page + parts.len() as u8),
        incarnation: world.incarnation,
        first_sequence: group.first_sequence,
        tail: flight.tail,
        point: world.point,
        elements: group.elements().copied().collect(),
    });
    parts.extend(group.elements().filter_map(|element| match element.shape {
        Shape::Block { value, .. } => Some(Page::Block(value)),
        _ => None,
    }));
    for (page, part) in (group.start..).zip(parts) {
        let word = world.pages.word(part);
        let unit = usize::from(layout.unit(group.segment, page));
        world.disk.stream(thread_of(&group), unit, word);
    }
}

/// What is under way returns, and the next of the group's stages begins.
pub fn returned(world: &mut World, config: &Config, rules: Rules, at: usize) {
    let flight = &world.flights[at];
    let thread = thread_of(&flight.group);
    let next = match flight.stage {
        // None but this one is under way.
        Stage::FlushFirst => {
            world.disk.sync();
            world.settle(world.settled.open.len());
            Stage::Seal
        }
        Stage::Seal => {
            world.disk.fence(thread);
            Stage::Write
        }
        Stage::Write => written(world, rules, at),
        Stage::FlushBehind => {
            world.disk.sync();
            Stage::Over
        }
        Stage::Over => panic!("nothing of it is under way"),
    };
    world.flights[at].stage = next;
    submit(world, Layout::new(config), rules, at);
    loop {
        let is_over = |flight: &Flight| flight.stage == Stage::Over;
        let next = match rules.breaks(Mutant::AckOutOfOrder) {
            true => world.flights.iter().position(is_over),
            false => world.flights.first().is_some_and(is_over).then_some(0),
        };
        let Some(next) = next else { return };
        let flight = world.flights.remove(next);
        publish(world, rules, flight);
    }
}

/// A group's write has returned.
fn written(world: &mut World, rules: Rules, at: usize) -> Stage {
    let flight = &world.flights[at];
    let thread = thread_of(&flight.group);
    let is_of_fills = flight.group.members.iter().all(|member| member.is_fill);
    let is_plain = rules.breaks(Mutant::AckBeforeFlush)
        || rules.breaks(Mutant::FillGroupUnsynced) && is_of_fills;
    match flight.settles {
        Settles::ByItself if !is_plain => world.disk.fence(thread),
        _ => world.disk.land(thread),
    }
    match flight.settles {
        Settles::ByFlush => Stage::FlushBehind,
        Settles::ByItself | Settles::Later => Stage::Over,
    }
}

/// A write under way fails: what of it is there nobody knows, and nothing is published any more.
pub fn failed(world: &mut World, rules: Rules, at: usize) {
    if rules.breaks(Mutant::PoisonForgotten) {
        let gone = world.flights.remove(at);
        world.published += gone.group.elements().count() as u8;
        return;
    }
    world.is_poisoned = true;
}

/// The flush of a sync begins, of what is published now.
pub fn begin_sync(world: &mut World) {
    world.syncing = Some(world.settled.open.len());
    let units: Vec<usize> = world.disk.pending_units().collect();
    units
        .into_iter()
        .for_each(|unit| world.disk.flush(SYNC, unit));
}

/// It returns.
pub fn end_sync(world: &mut World, rules: Rules) {
    if !rules.breaks(Mutant::SyncWithoutFlush) {
        world.disk.fence(SYNC);
    }
    let groups = match rules.breaks(Mutant::SyncCoversLater) {
        true => world.settled.open.len(),
        false => world.syncing.expect("it is under way"),
    };
    world.settle(groups);
    world.syncing = None;
}

fn publish(world: &mut World, rules: Rules, flight: Flight) {
    let segment = flight.group.segment;
    let mut elements = Vec::new();
    for member in &flight.group.members {
        elements.extend(member.elements.iter().copied().zip(member.first_sequence..));
        member.effect.on(&mut world.acknowledged);
        // What the mutant keeps out of the record.
        if member.effect == Effect::Zero && member.elements.is_empty() {
            let of_both = Element {
                key: 0,
                shape: Shape::Zero(KEYS as u8),
                is_clean: false,
            };
            elements.push((of_both, member.first_sequence));
        }
    }
    world.published += flight.group.elements().count() as u8;
    if rules.breaks(Mutant::PublishedOutOfOrder) {
        elements.reverse();
    }
    for (element, sequence) in elements {
        for key in element.keys() {
            world.known[key].apply(&element, sequence, segment);
            world.version[key] += 1;
        }
    }
    let effects = flight.group.members.iter().map(|member| member.effect);
    world.settled.open.push((effects.collect(), flight.tail));
    // All before it are durable, or were flushed with it.
    if flight.settles != Settles::Later {
        world.settle(world.settled.open.len());
    }
    let acknowledged = world.acknowledged;
    if let Some(reader) = &mut world.reader {
        let value = acknowledged[usize::from(reader.key)];
        if !reader.allowed.contains(&value) {
            reader.allowed.push(value);
        }
    }
}
