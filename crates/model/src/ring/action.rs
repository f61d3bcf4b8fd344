//! What may happen next, doing it, and saying it in words.

use super::commit::{self, Class, Joining};
use super::config::{Config, KEYS, Operation};
use super::media::{Element, Shape};
use super::rules::{Mutant, Rules};
use super::world::{Effect, Phase, Reader, Stage, Turn, World};
use super::{maintain, recovery};
use crate::explore::Model;
use crate::world::Violation;

/// A pool on a disk, and the rules that it runs under.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'c> {
    /// How large it is, and what may happen.
    pub config: &'c Config,
    /// What is broken.
    pub rules: Rules,
}

/// One thing that happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// The process dies. What it had under way lands, or does not.
    Kill {
        /// Which of it.
        lands: bool,
    },
    /// An operation of the menu begins.
    Start(usize),
    /// The next group goes out.
    Take,
    /// A write under way returns.
    Returned(usize),
    /// A write under way fails.
    Failed(usize),
    /// A read or a fill ends.
    EndRead,
    /// The flush of a sync returns.
    EndSync,
    /// Blocks are written back; the backing does not take this one.
    Clean(Option<u8>),
    /// The backing is synced.
    Sync {
        /// Whether it succeeds.
        is_good: bool,
    },
    /// What is to be carried forward is read.
    LoadCarried,
    /// It joins a group.
    Carry,
    /// The tail passes the oldest segment.
    Release,
    /// A record of the tail alone joins a group.
    StageTail,
    /// Recovery takes its next step.
    Recover,
    /// Power is lost: how many pending stores each unit keeps, the pool's disk before the backing.
    PowerCut(Vec<u8>),
}

impl Model for Ring<'_> {
    type World = World;
    type Action = Action;

    fn name(&self) -> &'static str {
        self.config.name
    }

    fn begin(&self) -> World {
        World::new(self.config)
    }

    fn possible(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::new();
        if world.left.kills > 0 {
            actions.extend([false, true].map(|lands| Action::Kill { lands }));
        }
        if world.phase != Phase::Running {
            actions.push(Action::Recover);
            return actions;
        }
        if world.reader.is_some() {
            actions.push(Action::EndRead);
        }
        self.writes(world, &mut actions);
        self.maintenance(world, &mut actions);
        let starts = 0..self.config.menu.len();
        actions.extend(
            starts
                .filter(|at| self.may_start(world, *at))
                .map(Action::Start),
        );
        actions
    }

    fn pending(&self, world: &World) -> Option<Vec<u8>> {
        let both = [&world.disk, &world.backing];
        (world.left.power_cuts > 0).then(|| {
            both.iter()
                .flat_map(|memory| memory.pending_counts())
                .collect()
        })
    }

    fn power_cut_matters(&self, world: &World) -> bool {
        match world.phase {
            Phase::Recovering(step, _) => step == 1 || step == 3 || step >= 5,
            Phase::Running => {
                !world.flights.is_empty()
                    || world.syncing.is_some()
                    || matches!(world.turn, Turn::Cleaning { .. })
                    || world.flights.is_empty() && world.queue.is_empty()
            }
        }
    }

    fn power_cut(&self, kept: &[u8]) -> Action {
        Action::PowerCut(kept.to_vec())
    }

    fn apply(&self, world: &mut World, action: &Action) -> Result<(), Violation> {
        let (config, rules) = (self.config, self.rules);
        match action {
            Action::Kill { lands } => kill(world, *lands),
            Action::PowerCut(kept) => {
                world.left.power_cuts -= 1;
                world.lose_process(false);
                let (disk, backing) = kept.split_at(world.disk.pending_counts().len());
                world.disk.power_cut(disk);
                world.backing.power_cut(backing);
            }
            Action::Start(at) => {
                world.left.operations -= 1;
                self.start(world, config.menu[*at])?;
            }
            Action::Take => commit::take(world, config, rules),
            Action::Returned(at) => commit::returned(world, config, rules, *at),
            Action::Failed(at) => {
                world.left.failures -= 1;
                commit::failed(world, rules, *at);
            }
            Action::EndRead => self.end_read(world)?,
            Action::EndSync => commit::end_sync(world, rules),
            Action::Clean(refused) => maintain::clean(world, rules, *refused)?,
            Action::Sync { is_good } => maintain::sync(world, rules, *is_good),
            Action::LoadCarried => maintain::load_carried(world),
            Action::Carry => maintain::carry(world, config, rules)?,
            Action::Release => maintain::release(world),
            Action::StageTail => maintain::stage_tail(world, config, rules)?,
            Action::Recover => recovery::step(world, config, rules)?,
        }
        match world.phase {
            Phase::Running => world.check(),
            Phase::Recovering(..) => Ok(()),
        }
    }

    fn tell(&self, world: &World, action: &Action) -> String {
        match action {
            Action::Start(at) => format!("{:?} begins", self.config.menu[*at]),
            Action::Returned(at) | Action::Failed(at) => {
                let flight = &world.flights[*at];
                let (number, segment, start) = (
                    flight.group.number,
                    flight.group.segment,
                    flight.group.start,
                );
                let what = flight.stage;
                format!(
                    "{action:?}: {what:?} of group {number}, segment {segment}, page {start}, tail {}",
                    flight.tail
                )
            }
            Action::Recover => format!("recovery: {:?}", world.phase),
            Action::PowerCut(_) => format!("{action:?}, of {:?}", world.disk),
            other => format!(
                "{other:?}, tail {} ({} durable)",
                world.tail, world.tail_durable
            ),
        }
    }

    fn is_rare(&self, action: &Action) -> bool {
        matches!(
            action,
            Action::Kill { .. } | Action::Failed(_) | Action::EndRead
        )
    }

    fn may_end(&self, world: &World) -> bool {
        let left = &world.left;
        left.operations == 0 && left.power_cuts == 0 && world.phase == Phase::Running
    }
}

/// What lets go of blocks may begin a segment that others may not.
fn class_of(operation: Operation) -> Class {
    match operation {
        Operation::Forget(_) => Class::Rescue,
        _ => Class::User,
    }
}

/// The process dies and the machine does not: what was under way may land until the disk's lock is free.
fn kill(world: &mut World, lands: bool) {
    world.left.kills -= 1;
    if !lands {
        let units: Vec<usize> = world.disk.pending_units().collect();
        let under_way = units
            .into_iter()
            .filter(|unit| world.disk.has_unfenced_stream(*unit));
        for unit in under_way.collect::<Vec<_>>() {
            world.disk.lose(unit);
        }
    }
    world.lose_process(true);
    world.disk.kill();
    world.backing.kill();
}

impl Ring<'_> {
    fn writes(&self, world: &World, actions: &mut Vec<Action>) {
        if commit::may_take(world, self.config, self.rules) {
            actions.push(Action::Take);
        }
        if world.syncing.is_some() && !world.is_poisoned {
            actions.push(Action::EndSync);
        }
        if world.is_poisoned {
            return;
        }
        for (at, flight) in world.flights.iter().enumerate() {
            if flight.stage == Stage::Over {
                continue;
            }
            if world.left.failures > 0 {
                actions.push(Action::Failed(at));
            }
            actions.push(Action::Returned(at));
        }
    }

    fn maintenance(&self, world: &World, actions: &mut Vec<Action>) {
        let (config, rules) = (self.config, self.rules);
        match &world.turn {
            Turn::Cleaning { .. } => {
                if world.left.troubles > 0 {
                    actions.push(Action::Sync { is_good: false });
                }
                actions.push(Action::Sync { is_good: true });
                return;
            }
            Turn::Carrying(_) => {
                if maintain::may_carry(world, config, rules) {
                    actions.push(Action::Carry);
                }
                return;
            }
            Turn::None => {}
        }
        let cleanable = maintain::cleanable(world, rules);
        if world.left.troubles > 0 {
            actions.extend(cleanable.iter().map(|key| Action::Clean(Some(*key))));
        }
        if !cleanable.is_empty() {
            actions.push(Action::Clean(None));
        }
        if !maintain::carriable(world).is_empty() {
            actions.push(Action::LoadCarried);
        }
        if maintain::may_release(world, rules) {
            actions.push(Action::Release);
        }
        if maintain::may_stage_tail(world, config, rules) {
            actions.push(Action::StageTail);
        }
    }

    /// The elements of an operation that joins a group, what it does, and whether it may.
    fn elements(&self, world: &World, operation: Operation) -> Option<(Vec<Element>, Effect)> {
        let number = world.next_number;
        let block = |key, value| Element {
            key,
            shape: Shape::Block { unit: 0, value },
            is_clean: false,
        };
        let whole = number * 0x11;
        Some(match operation {
            Operation::Write(key) | Operation::Unsynced(key) => {
                (vec![block(key, whole)], Effect::Write(key, number))
            }
            Operation::Both => {
                let each = (0..KEYS as u8).map(|key| block(key, whole));
                (each.collect(), Effect::Both(number))
            }
            Operation::Half(key) => {
                let value = self.base(world, key)? & 0xF0 | number;
                (vec![block(key, value)], Effect::Half(key, number))
            }
            Operation::Zero if self.rules.breaks(Mutant::DiscardWithoutRecord) => {
                (Vec::new(), Effect::Zero)
            }
            Operation::Zero => {
                let shape = Shape::Zero(KEYS as u8);
                (
                    vec![Element {
                        key: 0,
                        shape,
                        is_clean: false,
                    }],
                    Effect::Zero,
                )
            }
            Operation::Forget(key) => {
                let at = usize::from(key);
                let known = &world.known[at];
                let is_free = known.dirty().is_none() && world.newest_staged(at).is_none();
                known.entry.filter(|_| is_free)?;
                let shape = Shape::Gone(1);
                (
                    vec![Element {
                        key,
                        shape,
                        is_clean: true,
                    }],
                    Effect::None,
                )
            }
            Operation::Fill(_) | Operation::Read(_) | Operation::Sync => return None,
        })
    }

    /// What a part is merged with: the newest staged version, else the published one.
    fn base(&self, world: &World, key: u8) -> Option<u8> {
        let key = usize::from(key);
        let is_asked = !self.rules.breaks(Mutant::PendingIgnored);
        match world
            .newest_staged(key)
            .filter(|_| is_asked)
            .map(|one| one.shape)
        {
            Some(Shape::Block { value, .. }) => Some(value),
            Some(Shape::Zero(_)) => Some(0),
            // It is stale as soon as that is published.
            Some(Shape::Gone(_)) => None,
            None => world.view(key).ok(),
        }
    }

    fn may_start(&self, world: &World, at: usize) -> bool {
        if world.left.operations == 0 {
            return false;
        }
        let operation = self.config.menu[at];
        match operation {
            Operation::Read(_) => world.reader.is_none(),
            Operation::Sync => {
                world.syncing.is_none() && !world.settled.open.is_empty() && !world.is_poisoned
            }
            Operation::Fill(key) => {
                let key = usize::from(key);
                let is_new = world.known[key].entry.is_none() && world.known[key].zeroed.is_none();
                world.reader.is_none() && is_new && world.newest_staged(key).is_none()
            }
            _ => {
                let class = class_of(operation);
                self.elements(world, operation)
                    .is_some_and(|(elements, _)| {
                        commit::may_join(world, self.config, self.rules, &elements, class)
                    })
            }
        }
    }

    fn start(&self, world: &mut World, operation: Operation) -> Result<(), Violation> {
        if operation == Operation::Sync {
            commit::begin_sync(world);
            return Ok(());
        }
        if let Operation::Read(key) | Operation::Fill(key) = operation {
            let at = usize::from(key);
            let is_fill = matches!(operation, Operation::Fill(_));
            world.reader = Some(Reader {
                key,
                known: world.known[at],
                version: world.version[at],
                filled: is_fill.then(|| world.backing.view(at) as u8),
                allowed: vec![world.acknowledged[at]],
            });
            return Ok(());
        }
        let (elements, effect) = self.elements(world, operation).expect("it was asked");
        let class = class_of(operation);
        world.next_number += u8::from(effect != Effect::None);
        commit::join(
            world,
            self.config,
            self.rules,
            Joining {
                elements,
                effect,
                is_fill: false,
                is_unsynced: matches!(operation, Operation::Unsynced(_)),
            },
            class,
        )
    }

    fn end_read(&self, world: &mut World) -> Result<(), Violation> {
        let reader = world.reader.take().expect("there is one");
        let key = usize::from(reader.key);
        let is_same = world.version[key] == reader.version;
        if let Some(value) = reader.filled {
            return self.end_fill(world, &reader, value, is_same);
        }
        // It looks again.
        if !is_same && !self.rules.breaks(Mutant::ReadWithoutVersion) {
            return Ok(());
        }
        let found = match (reader.known.entry, reader.known.zeroed) {
            (Some(entry), _) => world.block_in(entry.unit),
            (None, Some(_)) => Some(0),
            (None, None) => Some(world.backing.view(key) as u8),
        };
        match found.is_some_and(|found| reader.allowed.contains(&found)) {
            true => Ok(()),
            false => Err(Violation(format!(
                "block {key} is read as {found:x?}, and was {:x?} meanwhile",
                reader.allowed
            ))),
        }
    }

    fn end_fill(
        &self,
        world: &mut World,
        reader: &Reader,
        value: u8,
        is_same: bool,
    ) -> Result<(), Violation> {
        let key = usize::from(reader.key);
        let known = world.known[key];
        let is_new = is_same
            && known.entry.is_none()
            && known.zeroed.is_none()
            && world.newest_staged(key).is_none();
        let element = Element {
            key: reader.key,
            shape: Shape::Block { unit: 0, value },
            is_clean: true,
        };
        let elements = vec![element];
        let has_room = commit::may_join(world, self.config, self.rules, &elements, Class::User);
        match has_room && (is_new || self.rules.breaks(Mutant::FillRacesWrite)) {
            true => commit::join(
                world,
                self.config,
                self.rules,
                Joining {
                    is_fill: true,
                    ..Joining::of_pool(elements)
                },
                Class::User,
            ),
            false => Ok(()),
        }
    }
}
