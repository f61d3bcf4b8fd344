//! What keeps the ring going: write-back, carrying forward, the tail.

use super::commit::{Class, Joining, join, may_join};
use super::config::{Config, KEYS};
use super::media::{Element, Shape};
use super::rules::{Mutant, Rules};
use super::world::{Known, Turn, World};
use crate::world::Violation;

/// The oldest segment that has something that its backing lacks.
fn dirty_segment(world: &World) -> Option<u8> {
    let dirty = world.known.iter().filter_map(Known::dirty);
    dirty.map(|(_, segment)| segment).min()
}

fn dirty_in(world: &World, segment: u8) -> Vec<u8> {
    let is_there = |key: &u8| {
        let dirty = world.known[usize::from(*key)].dirty();
        dirty.is_some_and(|(_, at)| at == segment)
    };
    (0..KEYS as u8).filter(is_there).collect()
}

/// What may be written back: the blocks of one segment.
pub fn cleanable(world: &World, rules: Rules) -> Vec<u8> {
    // What a backing gets is durable in the log.
    let is_settled = world.settled.open.is_empty() || rules.breaks(Mutant::BroughtUnsettled);
    let is_free = world.turn == Turn::None && !world.is_poisoned && is_settled;
    let segment = dirty_segment(world).filter(|_| is_free);
    segment
        .map(|segment| dirty_in(world, segment))
        .unwrap_or_default()
}

/// Writes them to the backing, which does not take `refused`.
pub fn clean(world: &mut World, rules: Rules, refused: Option<u8>) -> Result<(), Violation> {
    let mut items = Vec::new();
    for key in cleanable(world, rules) {
        if refused == Some(key) {
            continue;
        }
        let value = world.view(usize::from(key))?;
        world.backing.store(usize::from(key), value.into());
        let dirty = world.known[usize::from(key)].dirty();
        items.push((key, dirty.expect("it is dirty").0));
    }
    world.left.troubles -= u8::from(refused.is_some());
    if rules.breaks(Mutant::CleanPointBeforeSync) {
        note_clean(world, rules, &items, refused);
    }
    world.turn = Turn::Cleaning { items, refused };
    Ok(())
}

/// The backing is synced, or fails to: then nothing is known of what it was given.
pub fn sync(world: &mut World, rules: Rules, is_good: bool) {
    let Turn::Cleaning { items, refused } = std::mem::replace(&mut world.turn, Turn::None) else {
        panic!("nothing was written back");
    };
    if !is_good {
        world.left.troubles -= 1;
        world.backing.drop_pending();
        return;
    }
    world.backing.sync();
    note_clean(world, rules, &items, refused);
}

fn note_clean(world: &mut World, rules: Rules, items: &[(u8, u8)], refused: Option<u8>) {
    for (key, sequence) in items {
        let known = &mut world.known[usize::from(*key)];
        // What has changed since is dirty.
        if let Some(entry) = known
            .entry
            .as_mut()
            .filter(|entry| entry.sequence == *sequence)
        {
            entry.is_clean = true;
        }
        known.zeroed = known.zeroed.filter(|zeroed| zeroed.0 != *sequence);
    }
    let is_passed_over =
        |key: &usize| rules.breaks(Mutant::CleanPointPastFailed) && refused == Some(*key as u8);
    let keys = (0..KEYS).filter(|key| !is_passed_over(key));
    let dirty = keys.filter_map(|key| world.known[key].dirty());
    let first_dirty = dirty.map(|(sequence, _)| sequence).min();
    let clean = first_dirty.unwrap_or(world.published) - 1;
    world.point = world.point.max(clean);
}

/// Whether the tail has another segment before it, all of whose groups are published.
fn is_tail_old(world: &World) -> bool {
    let under_way = world
        .flights
        .iter()
        .map(|flight| &flight.group)
        .chain(&world.queue);
    let oldest = under_way.map(|group| group.segment).min();
    let head = world.head.as_ref().map(|(contents, _)| contents.segment);
    let bound = head
        .unwrap_or(world.next_segment)
        .min(oldest.unwrap_or(u8::MAX));
    world.turn == Turn::None && !world.is_poisoned && world.tail < bound
}

/// What of the oldest segment may be carried forward.
pub fn carriable(world: &World) -> Vec<u8> {
    match is_tail_old(world) && world.left.carries > 0 {
        true => dirty_in(world, world.tail),
        false => Vec::new(),
    }
}

/// Reads it, without the lock.
pub fn load_carried(world: &mut World) {
    world.left.carries -= 1;
    let items = carriable_now(world);
    world.turn = Turn::Carrying(items);
}

fn carriable_now(world: &World) -> Vec<(u8, Known)> {
    let keys = dirty_in(world, world.tail);
    keys.into_iter()
        .map(|key| (key, world.known[usize::from(key)]))
        .collect()
}

/// What of it is still as it was read, under the lock.
fn carried(world: &World, rules: Rules) -> Vec<Element> {
    let Turn::Carrying(items) = &world.turn else {
        panic!("nothing is carried");
    };
    let mut elements = Vec::new();
    for (key, known) in items {
        let is_same =
            world.known[usize::from(*key)] == *known || rules.breaks(Mutant::CarriedOverNewer);
        let is_staged = world.newest_staged(usize::from(*key)).is_some()
            && !rules.breaks(Mutant::CarriedPastPending);
        if !is_same || is_staged {
            continue;
        }
        let shape = match known.entry {
            Some(entry) => Shape::Block {
                unit: 0,
                value: entry.value,
            },
            None => Shape::Zero(1),
        };
        elements.push(Element {
            key: *key,
            shape,
            is_clean: false,
        });
    }
    elements
}

/// Whether it has room, if there is anything left of it.
pub fn may_carry(world: &World, config: &Config, rules: Rules) -> bool {
    may_join(world, config, rules, &carried(world, rules), Class::Rescue)
}

/// It joins a group.
pub fn carry(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    let elements = carried(world, rules);
    world.turn = Turn::None;
    match elements.is_empty() {
        true => Ok(()),
        false => join(
            world,
            config,
            rules,
            Joining::of_pool(elements),
            Class::Rescue,
        ),
    }
}

/// Whether the tail may pass the oldest segment.
pub fn may_release(world: &World, rules: Rules) -> bool {
    let is_clean = dirty_in(world, world.tail).is_empty();
    is_tail_old(world) && (is_clean || rules.breaks(Mutant::SegmentReusedDirty))
}

/// It does: what is there leaves the table.
pub fn release(world: &mut World) {
    for key in 0..KEYS {
        let known = &mut world.known[key];
        if known.entry.is_some_and(|entry| entry.segment == world.tail) {
            known.entry = None;
            world.version[key] += 1;
        }
        known.zeroed = known.zeroed.filter(|zeroed| zeroed.1 != world.tail);
    }
    world.tail += 1;
}

/// Whether nothing else is on its way that would say where the tail is.
pub fn may_stage_tail(world: &World, config: &Config, rules: Rules) -> bool {
    let is_asked = world.tail > world.tail_durable;
    let under_way = world.flights.iter().any(|flight| flight.tail == world.tail);
    is_asked
        && world.queue.is_empty()
        && !under_way
        && may_join(world, config, rules, &[], Class::Tail)
}

/// A record of nothing else.
pub fn stage_tail(world: &mut World, config: &Config, rules: Rules) -> Result<(), Violation> {
    join(
        world,
        config,
        rules,
        Joining::of_pool(Vec::new()),
        Class::Tail,
    )
}
