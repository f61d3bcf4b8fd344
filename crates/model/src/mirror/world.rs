//! The state of one pool of two members, its threads, and what a user was promised.

use super::config::{ALL, Config, KEYS, LANES, MEMBERS, Operation, PAIRS, THREADS};
use super::media::{Element, Entry, Layout, Record, checkpoint, roster, seal};
use crate::memory::{Memory, Word};

/// The thread that changes rosters and rebuilds.
pub const KEEPER: usize = THREADS;

/// Where a key is, as the running pool knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mapped {
    /// Its table position.
    pub position: u8,
    /// Its entry.
    pub entry: Entry,
    /// The members whose half is good, a bit each.
    pub halves: u8,
    /// Checkpoints that had begun when the block became clean.
    pub ticket: u8,
}

/// A key's part in a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The key.
    pub key: u8,
    /// The pair that was staged, and on which members.
    pub staged: Option<(u8, u8)>,
    /// The new content.
    pub value: u8,
    /// The mapping before.
    pub old: Option<Mapped>,
    /// The mapping after.
    pub new: Option<Mapped>,
}

/// What recovery has decided.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Plan {
    /// The incarnation that ends.
    pub incarnation: u8,
    /// The final mapping.
    pub map: [Option<Mapped>; KEYS],
    /// Lines of the table that are to be written, and their words.
    pub lines: Vec<(u8, Word)>,
    /// Blocks that were believed by a half of theirs, and that each half is to hold before anything rests on them.
    pub tested: Vec<(usize, u8)>,
    /// Blocks that are changed in place.
    pub redone: Vec<(usize, u8)>,
    /// The records that were found, each of which every member is to have: lane, place, number.
    pub found: Vec<(u8, u8, Word)>,
    /// Above every sequence that was seen.
    pub sequence: u8,
}

/// The next step of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CommitStep {
    /// Lock the keys, look at the epoch, plan.
    Lock,
    /// Draw the sequence and stream the record.
    Record,
    /// Fence all members.
    Fence,
    /// Store to DRAM, change in place.
    Publish,
    /// Release and unlock.
    Finish,
}

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Job {
    /// Nothing.
    Idle,
    /// A transaction.
    Commit {
        /// The next step.
        step: CommitStep,
        /// What it does.
        operation: Operation,
        /// Its keys.
        parts: [Option<Part>; 2],
        /// The lane it holds.
        lane: u8,
        /// The sequence it drew.
        sequence: u8,
        /// The epoch in which it staged.
        epoch: u8,
    },
    /// A miss.
    Fill {
        /// The key.
        key: u8,
        /// Pair and member of its place.
        place: (u8, u8),
        /// Its reserved position.
        position: u8,
        /// The key's version, and the epoch, when the backing was read.
        seen: (u8, u8),
        /// What was read.
        value: u8,
        /// Whether the fence is done.
        is_fenced: bool,
    },
    /// A write-back.
    WriteBack {
        /// The key.
        key: u8,
        /// The key's version when it was copied.
        version: u8,
        /// What was copied.
        value: u8,
        /// Whether the backing has it.
        is_written: bool,
    },
    /// A checkpoint.
    Checkpoint {
        /// 0: wait and send next, 1: fence next, 2: store S next, 3: fence and release next.
        step: u8,
        /// Its number.
        number: u8,
        /// The next sequence when it began.
        bound: u8,
        /// The lanes' published ends when it began.
        ends: [u8; LANES],
        /// The positions that it sends.
        lines: u16,
    },
}

/// Which members count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Roster {
    /// Rises with every change.
    pub epoch: u8,
    /// Those that have all that was acknowledged, a bit each.
    pub members: u8,
    /// One that is written but does not count yet.
    pub rebuilding: u8,
}

impl Roster {
    /// Those that a commit writes.
    pub fn written(self) -> u8 {
        self.members | self.rebuilding
    }
}

/// What is happening to the roster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// Nothing.
    None,
    /// The line is stored, and waits for its fence.
    Stored {
        /// What it says.
        next: Roster,
        /// On a member that it adds, too; on the others it has been fenced.
        is_told: bool,
    },
    /// A member is being rebuilt; checkpoints that had begun when it joined.
    Rebuilding(u8),
}

/// What the pool is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Serving.
    Running,
    /// Down, with these members at hand.
    Down(u8),
    /// The next step of recovery.
    Recovering(u8),
    /// It did not open, rightly.
    Refused,
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
    /// Deaths of members.
    pub deaths: u8,
    /// Rebuilds.
    pub rebuilds: u8,
    /// Lost stores.
    pub losses: u8,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// The members' memory; of one that is away what it will come back with.
    pub members: [Memory; MEMBERS],
    /// Those that answer, a bit each.
    pub up: u8,
    /// What the backing has of each key.
    pub backing: [u8; KEYS],
    /// Every record ever written, by number.
    pub records: Vec<Record>,
    /// Serving or not.
    pub phase: Phase,
    /// What recovery has decided to write.
    pub plan: Option<Box<Plan>>,
    /// Who counts.
    pub roster: Roster,
    /// Who counts by the last roster that was fenced: what a reader of the story knows, also while the pool is down.
    pub called_in: u8,
    /// What is happening to that.
    pub change: Change,
    /// The incarnation.
    pub incarnation: u8,
    /// The checkpoint line to write next.
    pub next_checkpoint_line: u8,
    /// The index.
    pub map: [Option<Mapped>; KEYS],
    /// Changes of a key so far.
    pub version: [u8; KEYS],
    /// The thread that holds a key, plus 1.
    pub locked: [u8; KEYS],
    /// Write-backs of a key under way.
    pub writing_back: [u8; KEYS],
    /// When a key entered limbo first: for a mutant.
    pub limbo: [u8; KEYS],
    /// Places of each pair that are taken, a bit for each member.
    pub taken: [u8; PAIRS],
    /// Free positions, a bit each.
    pub free_positions: u16,
    /// Positions, and pairs, that the next checkpoint sends.
    pub marked: (u16, u16),
    /// Lanes: absolute head, tail and published end.
    pub lanes: [(u8, u8, u8); LANES],
    /// The thread that holds a lane, plus 1.
    pub lane_owner: [u8; LANES],
    /// Lower bound of the sequence in flight in a lane, 0 for none.
    pub in_flight: [u8; LANES],
    /// The next sequence.
    pub next_sequence: u8,
    /// Checkpoints begun, and the number of the last that ended.
    pub checkpoints: (u8, u8),
    /// Whether a checkpoint runs.
    pub is_checkpointing: bool,
    /// The threads.
    pub threads: [Job; THREADS],
    /// The next fresh value.
    pub next_value: u8,
    /// What each key must read as.
    pub promised: [u8; KEYS],
    /// What a crash left open: keys and what they would read as.
    pub doubts: Vec<Vec<(u8, u8)>>,
    /// How often something may still happen.
    pub left: Left,
}

impl World {
    /// A fresh pool over a backing with a value of its own for each key.
    pub fn new(config: &Config) -> Self {
        let layout = Layout::new(config);
        let mut memory = Memory::new(layout.units());
        memory.format(layout.roster(1), roster(1, ALL));
        memory.format(layout.incarnation(1), checkpoint(1, 0));
        for position in 0..config.positions as u8 {
            memory.format(layout.seal(position), seal(0, 0));
        }
        let backing = std::array::from_fn(|key| 10 + key as u8);
        World {
            backing,
            phase: Phase::Running,
            roster: Roster {
                epoch: 1,
                members: ALL,
                rebuilding: 0,
            },
            called_in: ALL,
            incarnation: 1,
            free_positions: (1 << config.positions) - 1,
            next_sequence: 1,
            next_value: 32,
            promised: backing,
            left: Left {
                operations: config.operations,
                power_cuts: config.power_cuts,
                kills: config.kills,
                deaths: config.deaths,
                rebuilds: config.rebuilds,
                losses: config.losses,
            },
            ..World::down([memory.clone(), memory], ALL)
        }
    }

    /// A pool of which no process knows anything, with these members up.
    fn down(members: [Memory; MEMBERS], up: u8) -> World {
        World {
            members,
            up,
            backing: [0; KEYS],
            records: Vec::new(),
            phase: Phase::Down(up),
            plan: None,
            roster: Roster {
                epoch: 0,
                members: 0,
                rebuilding: 0,
            },
            called_in: 0,
            change: Change::None,
            incarnation: 0,
            next_checkpoint_line: 0,
            map: [None; KEYS],
            version: [0; KEYS],
            locked: [0; KEYS],
            writing_back: [0; KEYS],
            limbo: [0; KEYS],
            taken: [0; PAIRS],
            free_positions: 0,
            marked: (0, 0),
            lanes: [(0, 0, 0); LANES],
            lane_owner: [0; LANES],
            in_flight: [0; LANES],
            next_sequence: 0,
            checkpoints: (0, 0),
            is_checkpointing: false,
            threads: [Job::Idle; THREADS],
            next_value: 0,
            promised: [0; KEYS],
            doubts: Vec::new(),
            left: Left::default(),
        }
    }

    /// The numbers of these members.
    pub fn each(members: u8) -> impl Iterator<Item = usize> {
        (0..MEMBERS).filter(move |member| members & 1 << member != 0)
    }

    /// Those that are written now.
    pub fn reached(&self) -> u8 {
        self.roster.written() & self.up
    }

    /// Whether a member that is to be written does not answer: then no fence is believed.
    pub fn has_silent_member(&self) -> bool {
        self.roster.written() & !self.up != 0
    }

    /// A non-temporal store to each of these members.
    pub fn stream(&mut self, members: u8, thread: usize, unit: usize, value: Word) {
        for member in World::each(members) {
            self.members[member].stream(thread, unit, value);
        }
    }

    /// A cached store to each of these members.
    pub fn store(&mut self, members: u8, unit: usize, value: Word) {
        for member in World::each(members) {
            self.members[member].store(unit, value);
        }
    }

    /// A flush of each of these members' unit.
    pub fn flush(&mut self, members: u8, thread: usize, unit: usize) {
        for member in World::each(members) {
            self.members[member].flush(thread, unit);
        }
    }

    /// A fence of each of these members.
    pub fn fence(&mut self, members: u8, thread: usize) {
        for member in World::each(members) {
            self.members[member].fence(thread);
        }
    }

    /// A value that was never written before.
    pub fn fresh_value(&mut self) -> u8 {
        self.next_value += 1;
        self.next_value
    }

    /// The process is gone: all that DRAM held is forgotten, and what was under way is in doubt.
    pub fn lose_process(&mut self) {
        for job in self.threads {
            if let Job::Commit {
                step: CommitStep::Fence,
                parts,
                operation,
                ..
            } = job
                && !matches!(operation, Operation::Evict(_))
            {
                let keys = parts.iter().flatten();
                self.doubts
                    .push(keys.map(|part| (part.key, part.value)).collect());
            }
        }
        self.doubts.sort();
        *self = World {
            called_in: self.called_in,
            backing: self.backing,
            records: std::mem::take(&mut self.records),
            promised: self.promised,
            next_value: self.next_value,
            doubts: std::mem::take(&mut self.doubts),
            left: self.left,
            ..World::down(self.members.clone(), self.up)
        };
    }
}

/// What a record says of a part.
pub fn element(part: &Part, is_delta: bool) -> Element {
    let mapped = part.new.or(part.old);
    Element {
        key: part.key,
        position: mapped.expect("before or after").position,
        entry: part.new.map(|new| new.entry),
        is_delta,
    }
}
