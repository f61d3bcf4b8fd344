//! The state of one pool on a disk, its backing, and what a user was promised.

use super::config::{Config, KEYS};
use super::media::{Element, Layout, Page, Pages, Shape};
use crate::memory::Memory;
use crate::world::Violation;

/// Where a block is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// Its page.
    pub unit: u8,
    /// What its check is of.
    pub value: u8,
    /// Of the element that put it there.
    pub sequence: u8,
    /// Where that stands.
    pub segment: u8,
    /// Whether the backing has it.
    pub is_clean: bool,
}

/// The two kinds of what the pool knows of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Known {
    /// Where it is.
    pub entry: Option<Entry>,
    /// Sequence and segment of the range by which it reads as zeroes, until the backing is zeroed.
    pub zeroed: Option<(u8, u8)>,
}

impl Known {
    /// Sequence and segment of what the backing lacks.
    pub fn dirty(&self) -> Option<(u8, u8)> {
        let entry = self.entry.filter(|entry| !entry.is_clean);
        entry
            .map(|entry| (entry.sequence, entry.segment))
            .or(self.zeroed)
    }

    /// What an element of that sequence and segment makes of it.
    pub fn apply(&mut self, element: &Element, sequence: u8, segment: u8) {
        *self = Known::default();
        match element.shape {
            Shape::Block { unit, value } => {
                self.entry = Some(Entry {
                    unit,
                    value,
                    sequence,
                    segment,
                    is_clean: element.is_clean,
                });
            }
            Shape::Zero(_) => self.zeroed = (!element.is_clean).then_some((sequence, segment)),
            Shape::Gone(_) => {}
        }
    }
}

/// What a user's operation does to the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// A whole block, both of whose halves are this number.
    Write(u8, u8),
    /// Both blocks.
    Both(u8),
    /// The first half of a block.
    Half(u8, u8),
    /// Both are zeroes.
    Zero,
}

impl Effect {
    /// What it makes of the blocks.
    pub fn on(self, blocks: &mut [u8; KEYS]) {
        match self {
            Effect::None => {}
            Effect::Write(key, number) => blocks[usize::from(key)] = number * 0x11,
            Effect::Both(number) => *blocks = [number * 0x11; KEYS],
            Effect::Half(key, number) => {
                let block = &mut blocks[usize::from(key)];
                *block = *block & 0xF0 | number;
            }
            Effect::Zero => *blocks = [0; KEYS],
        }
    }
}

/// A transaction in a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Its elements.
    pub elements: Vec<Element>,
    /// The sequence of the first.
    pub first_sequence: u8,
    /// What the user asked for.
    pub effect: Effect,
    /// Whether it keeps what was read.
    pub is_fill: bool,
    /// Whether it is over when readers see it.
    pub is_unsynced: bool,
}

/// What of the published groups is durable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Settled {
    /// What the blocks are by those that are.
    pub blocks: [u8; KEYS],
    /// Those that are not: effects and tail of each.
    pub open: Vec<(Vec<Effect>, u8)>,
}

/// What is in a segment.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contents {
    /// Its number.
    pub segment: u8,
    /// The sequence of its first element.
    pub first_sequence: u8,
    /// The first and the last group.
    pub groups: (u8, u8),
    /// The elements of those that are closed.
    pub elements: Vec<Element>,
}

/// Transactions that become durable by one write.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Group {
    /// Its number.
    pub number: u8,
    /// Where it stands.
    pub segment: u8,
    /// Its first page there.
    pub start: u8,
    /// Sequence of its first element.
    pub first_sequence: u8,
    /// Its transactions.
    pub members: Vec<Member>,
    /// Whether others may join.
    pub is_open: bool,
    /// That of the segment before, if it is the first of its own.
    pub seal: Option<Contents>,
}

impl Group {
    /// Its elements, in order.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        self.members.iter().flat_map(|member| &member.elements)
    }
}

/// A group under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Flight {
    /// Which.
    pub group: Group,
    /// The tail that its record names.
    pub tail: u8,
    /// What of it is under way.
    pub stage: Stage,
    /// How it becomes durable.
    pub settles: Settles,
}

/// What of a group is under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// The flush of what the summary before it lists.
    FlushFirst,
    /// The summary before it.
    Seal,
    /// Its own write.
    Write,
    /// The flush behind that.
    FlushBehind,
    /// Nothing any more.
    Over,
}

/// How a group becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Settles {
    /// By its own write.
    ByItself,
    /// By a flush behind that.
    ByFlush,
    /// By some flush later on.
    Later,
}

/// A read under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reader {
    /// The block.
    pub key: u8,
    /// What was known of it when it began.
    pub known: Known,
    /// Its version then.
    pub version: u8,
    /// What the backing had then, of a fill.
    pub filled: Option<u8>,
    /// What it may return: all that was published since.
    pub allowed: Vec<u8>,
}

/// What maintains the ring, one at a time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Turn {
    /// Nothing does.
    None,
    /// These were written to the backing, which is to be synced: blocks with the sequence that was written.
    Cleaning {
        /// Those that it took.
        items: Vec<(u8, u8)>,
        /// One that it did not take.
        refused: Option<u8>,
    },
    /// These were read, to be carried forward.
    Carrying(Vec<(u8, Known)>),
}

/// What recovery has found.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Plan {
    /// What is known of the blocks.
    pub known: [Known; KEYS],
    /// The oldest segment.
    pub tail: u8,
    /// The clean point.
    pub point: u8,
    /// The next segment, group and sequence.
    pub next: (u8, u8, u8),
    /// The summary that the newest segment lacks.
    pub seal: Option<(u8, Page)>,
}

/// What the pool is doing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Serving.
    Running,
    /// The next step of recovery, and what it has found.
    Recovering(u8, Option<Box<Plan>>),
}

/// How often something may still happen.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Left {
    /// Operations.
    pub operations: u8,
    /// Power cuts.
    pub power_cuts: u8,
    /// Kills.
    pub kills: u8,
    /// Writes of the pool that fail.
    pub failures: u8,
    /// Writes and syncs of the backing that fail.
    pub troubles: u8,
    /// What is carried forward.
    pub carries: u8,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// The disk of the pool.
    pub disk: Memory,
    /// What was ever written to it.
    pub pages: Pages,
    /// The disk behind.
    pub backing: Memory,
    /// Serving or not.
    pub phase: Phase,
    /// The incarnation.
    pub incarnation: u8,
    /// The table, and the ranges of zeroes.
    pub known: [Known; KEYS],
    /// Changes of a block so far.
    pub version: [u8; KEYS],
    /// Groups that are not under way yet; the last may be open.
    pub queue: Vec<Group>,
    /// Groups under way, in order.
    pub flights: Vec<Flight>,
    /// What is in the newest segment, and its next free page.
    pub head: Option<(Contents, u8)>,
    /// The next segment.
    pub next_segment: u8,
    /// The next group.
    pub next_group: u8,
    /// The next sequence.
    pub next_sequence: u8,
    /// What of the published groups is durable.
    pub settled: Settled,
    /// A sync under way: so many of the open groups are durable when it returns.
    pub syncing: Option<usize>,
    /// All sequences below were published.
    pub published: u8,
    /// The oldest segment that has anything.
    pub tail: u8,
    /// The oldest one by a durable record.
    pub tail_durable: u8,
    /// All sequences up to it are on the backing.
    pub point: u8,
    /// A write has failed.
    pub is_poisoned: bool,
    /// What maintains the ring.
    pub turn: Turn,
    /// A read, or a fill.
    pub reader: Option<Reader>,
    /// What was acknowledged.
    pub acknowledged: [u8; KEYS],
    /// While the pool is down: what it may come back with after a kill, and after a power cut.
    pub possible: (Vec<[u8; KEYS]>, Vec<[u8; KEYS]>),
    /// Whether only the first of these is.
    pub is_killed: bool,
    /// The next number that is written.
    pub next_number: u8,
    /// What may still happen.
    pub left: Left,
}

/// What the backing has of a block at first.
const OF_OLD: u8 = 0x11;

impl World {
    /// A new pool.
    pub fn new(config: &Config) -> Self {
        let mut world = World {
            disk: Memory::new(Layout::new(config).units()),
            pages: Pages::default(),
            backing: Memory::new(KEYS),
            phase: Phase::Running,
            incarnation: 1,
            known: [Known::default(); KEYS],
            version: [0; KEYS],
            queue: Vec::new(),
            flights: Vec::new(),
            head: None,
            next_segment: 0,
            next_group: 1,
            next_sequence: 1,
            settled: Settled {
                blocks: [OF_OLD; KEYS],
                open: Vec::new(),
            },
            syncing: None,
            published: 1,
            tail: 0,
            tail_durable: 0,
            point: 0,
            is_poisoned: false,
            turn: Turn::None,
            reader: None,
            acknowledged: [OF_OLD; KEYS],
            possible: (Vec::new(), Vec::new()),
            is_killed: false,
            next_number: 2,
            left: Left {
                operations: config.operations,
                power_cuts: config.power_cuts,
                kills: config.kills,
                failures: config.failures,
                troubles: config.troubles,
                carries: config.carries,
            },
        };
        let line = world.pages.word(Page::Line {
            incarnation: 1,
            first_segment: 0,
        });
        world.disk.format(1, line);
        (0..KEYS).for_each(|key| world.backing.format(key, OF_OLD.into()));
        world
    }

    /// Every transaction that has joined and is not published, in order.
    pub fn staged(&self) -> impl DoubleEndedIterator<Item = &Member> {
        let under_way = self.flights.iter().map(|flight| &flight.group);
        under_way
            .chain(&self.queue)
            .flat_map(|group| &group.members)
    }

    /// The newest staged element of a block.
    pub fn newest_staged(&self, key: usize) -> Option<&Element> {
        let mut elements = self.staged().flat_map(|member| &member.elements);
        elements.rfind(|one| one.keys().contains(&key))
    }

    /// What is read from a page that should have a block.
    pub fn block_in(&self, unit: u8) -> Option<u8> {
        match self.pages.read(&self.disk, unit) {
            Some(Page::Block(value)) => Some(*value),
            _ => None,
        }
    }

    /// What a user reads of a block.
    pub fn view(&self, key: usize) -> Result<u8, Violation> {
        let known = &self.known[key];
        match (known.entry, known.zeroed) {
            (Some(entry), _) if self.block_in(entry.unit) == Some(entry.value) => Ok(entry.value),
            (Some(entry), _) => Err(Violation(format!(
                "block {key} is not in its page {}",
                entry.unit
            ))),
            (None, Some(_)) => Ok(0),
            (None, None) => Ok(self.backing.view(key) as u8),
        }
    }

    /// Nothing but what was acknowledged is read.
    pub fn check(&self) -> Result<(), Violation> {
        for key in 0..KEYS {
            let found = self.view(key)?;
            let wanted = self.acknowledged[key];
            if found != wanted {
                return Err(Violation(format!(
                    "block {key} reads {found:#x}, and {wanted:#x} was acknowledged"
                )));
            }
        }
        Ok(())
    }

    /// The first so many open groups are durable.
    pub fn settle(&mut self, groups: usize) {
        for (effects, tail) in self.settled.open.drain(..groups) {
            let blocks = &mut self.settled.blocks;
            effects.into_iter().for_each(|effect| effect.on(blocks));
            self.tail_durable = self.tail_durable.max(tail);
        }
        let left = self.syncing.map(|open| open.saturating_sub(groups));
        self.syncing = left;
    }

    /// The process ends, by a kill or with the machine.
    pub fn lose_process(&mut self, is_killed: bool) {
        if self.phase == Phase::Running {
            let staged: Vec<Effect> = self.staged().map(|member| member.effect).collect();
            let open = self.settled.open.iter();
            let published = open.flat_map(|(effects, _)| effects.iter().copied());
            let all: Vec<Effect> = published.chain(staged.iter().copied()).collect();
            self.possible = (
                each_prefix(self.acknowledged, &staged),
                each_prefix(self.settled.blocks, &all),
            );
            self.is_killed = true;
        }
        // What a kill left visible a power cut may take, until recovery has made it durable.
        self.is_killed &= is_killed;
        self.phase = Phase::Recovering(0, None);
        self.known = [Known::default(); KEYS];
        self.version = [0; KEYS];
        (self.queue, self.flights, self.head) = (Vec::new(), Vec::new(), None);
        (self.turn, self.reader, self.is_poisoned) = (Turn::None, None, false);
        self.syncing = None;
    }
}

/// What the blocks are after each prefix of these.
fn each_prefix(mut blocks: [u8; KEYS], effects: &[Effect]) -> Vec<[u8; KEYS]> {
    let mut all = vec![blocks];
    for effect in effects {
        effect.on(&mut blocks);
        all.push(blocks);
    }
    all
}
