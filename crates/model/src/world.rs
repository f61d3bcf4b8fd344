//! The state of one pool, its backing, its threads, and what a user was promised.

use crate::config::{Change, Config, KEYS, LANES, Operation, SLOTS, THREADS};
use crate::media::{Content, Entry, Layout, Record, ZERO, line_word};
use crate::memory::Memory;
use crate::rules::Rules;

/// What went wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

/// Where a key is, as the running pool knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mapped {
    /// Its table position.
    pub position: u8,
    /// Its entry.
    pub entry: Entry,
}

/// What recovery has decided.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Plan {
    /// The incarnation line it trusts: which, incarnation, salt.
    pub incarnation: (u8, u8, u8),
    /// The checkpoint line it trusts.
    pub checkpoint_line: Option<u8>,
    /// The final mapping.
    pub map: [Option<Mapped>; KEYS],
    /// Positions to clear: named or torn, and unmapped now.
    pub cleared: Vec<u8>,
    /// Positions whose entry is to be written.
    pub written: Vec<u8>,
    /// Redo bytes to apply: slot, half, value.
    pub redone: Vec<(u8, u8, u8)>,
    /// The records it found: lane, place.
    pub found: Vec<(u8, u8)>,
    /// Slots whose bytes were believed because they match a check.
    pub tested: Vec<u8>,
}

/// A key's part in a transaction under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Part {
    /// The key.
    pub key: u8,
    /// What happens to it.
    pub change: Change,
    /// The slot reserved for it.
    pub staged: Option<u8>,
    /// The new bytes.
    pub value: u8,
    /// The mapping before.
    pub old: Option<Mapped>,
    /// The mapping after.
    pub new: Option<Mapped>,
    /// What the key reads as after, unless that is undefined.
    pub content: Option<Content>,
}

/// The next step of a commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CommitStep {
    /// Lock the keys and note the lower bound.
    Lock,
    /// Draw the sequence and stream the record.
    Record,
    /// Fence.
    Fence,
    /// In strict mode: store the lane's commit word.
    Word,
    /// In strict mode: the second fence.
    WordFence,
    /// Store entries and deltas.
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
        /// Its keys.
        parts: [Option<Part>; 2],
        /// The lane it holds.
        lane: u8,
        /// The sequence it drew.
        sequence: u8,
    },
    /// A miss.
    Fill {
        /// Whether the fence is done.
        fenced: bool,
        /// The key.
        key: u8,
        /// Its reserved slot.
        slot: u8,
        /// Its reserved position.
        position: u8,
        /// The key's version when the backing was read.
        version: u8,
        /// What was read.
        content: Content,
    },
    /// A write-back.
    WriteBack {
        /// 0: write next, 1: sync next, 2: mark next.
        step: u8,
        /// The key.
        key: u8,
        /// The key's version when it was copied.
        version: u8,
        /// What was copied.
        content: Content,
        /// Syncs of the backing that had failed when it was written.
        failures: u8,
    },
    /// A checkpoint.
    Checkpoint {
        /// 0: wait and flush next, 1: fence next, 2: store S next, 3: fence and reuse next.
        step: u8,
        /// The next sequence when it began.
        bound: u8,
        /// The lanes' published ends when it began.
        ends: [u8; LANES],
    },
}

/// What the pool is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Serving.
    Running,
    /// Recovering: the next step of recovery.
    Down(u8),
}

/// A transaction that a crash caught before its fence: present or absent, but whole.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Doubt {
    /// Keys and what they would read as.
    pub keys: Vec<(u8, Option<Content>)>,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct World {
    /// The pool's memory.
    pub memory: Memory,
    /// The backing: two halves a key.
    pub backing: Memory,
    /// Every record ever written, by number.
    pub records: Vec<Record>,
    /// Serving or recovering.
    pub phase: Phase,
    /// What recovery has decided to write.
    pub plan: Option<Box<Plan>>,
    /// The incarnation line in force: which, incarnation, salt.
    pub incarnation: (u8, u8, u8),
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
    /// How many keys and transactions under way hold each slot; none means free.
    pub references: [u8; SLOTS],
    /// Free positions, a bit each.
    pub free_positions: u16,
    /// Slots and positions touched since a checkpoint took them, a bit each.
    pub marked: (u16, u16),
    /// Lanes: absolute head, tail and published end.
    pub lanes: [(u8, u8, u8); LANES],
    /// The thread that holds a lane, plus 1.
    pub lane_owner: [u8; LANES],
    /// Lower bound of the sequence in flight in a lane, 0 for none.
    pub in_flight: [u8; LANES],
    /// The next sequence.
    pub next_sequence: u8,
    /// Whether a checkpoint runs.
    pub checkpointing: bool,
    /// Failed syncs so far.
    pub failures: u8,
    /// The threads.
    pub threads: [Job; THREADS],
    /// The next fresh value.
    pub next_value: u8,
    /// What each key must read as, unless that is undefined.
    pub promised: [Option<Content>; KEYS],
    /// What a crash left open.
    pub doubts: Vec<Doubt>,
    /// Operations, power cuts, kills and sync failures still allowed.
    pub left: (u8, u8, u8, u8),
}

impl World {
    /// A fresh pool over a backing with a value of its own for each key.
    pub fn new(config: &Config) -> Self {
        let layout = Layout::new(config);
        let mut memory = Memory::new(layout.units());
        for unit in layout.incarnation_line(0) {
            memory.format(unit, line_word([1, 1]));
        }
        for slot in 0..config.slots {
            for unit in layout.slot(slot) {
                memory.format(unit, 0xee);
            }
        }
        let mut backing = Memory::new(2 * KEYS);
        let mut promised = [None; KEYS];
        for (key, promise) in promised.iter_mut().enumerate() {
            let value = 10 + key as u8;
            backing.format(2 * key, value.into());
            backing.format(2 * key + 1, value.into());
            *promise = Some([value; 2]);
        }
        World {
            memory,
            backing,
            records: Vec::new(),
            phase: Phase::Running,
            plan: None,
            incarnation: (0, 1, 1),
            next_checkpoint_line: 0,
            map: [None; KEYS],
            version: [0; KEYS],
            locked: [0; KEYS],
            writing_back: [0; KEYS],
            references: [0; SLOTS],
            free_positions: (1 << config.positions) - 1,
            marked: (0, 0),
            lanes: [(0, 0, 0); LANES],
            lane_owner: [0; LANES],
            in_flight: [0; LANES],
            next_sequence: 1,
            checkpointing: false,
            failures: 0,
            threads: [Job::Idle; THREADS],
            next_value: 32,
            promised,
            doubts: Vec::new(),
            left: (
                config.operations,
                config.power_cuts,
                config.kills,
                config.sync_failures,
            ),
        }
    }

    /// What the backing reads as.
    pub fn backing_content(&self, key: u8) -> Content {
        [
            self.backing.view(2 * key as usize) as u8,
            self.backing.view(2 * key as usize + 1) as u8,
        ]
    }

    /// The visible bytes of a slot, as the entry lays them out.
    pub fn entry_content(&self, layout: Layout, entry: Entry) -> Content {
        let Some(slot) = entry.slot else {
            return [ZERO; 2];
        };
        let [first, second] = layout
            .slot(slot as usize)
            .map(|unit| self.memory.view(unit) as u8);
        [first, if entry.partial { ZERO } else { second }]
    }

    /// How many slots are free.
    pub fn free_slots(&self, config: &Config) -> usize {
        self.references[..config.slots]
            .iter()
            .filter(|&&references| references == 0)
            .count()
    }

    /// Takes the first free slot.
    pub fn reserve_slot(&mut self) -> u8 {
        let slot = self
            .references
            .iter()
            .position(|&references| references == 0)
            .expect("a slot is free");
        self.references[slot] = 1;
        slot as u8
    }

    /// Gives one reference back.
    pub fn release_slot(&mut self, slot: u8) {
        self.references[slot as usize] -= 1;
    }

    /// A value that was never written before.
    pub fn fresh_value(&mut self) -> u8 {
        self.next_value += 1;
        self.next_value
    }

    /// Changes the entry at a position: in the table, or in DRAM, where the next checkpoint finds it marked.
    pub fn store_position(
        &mut self,
        config: &Config,
        rules: Rules,
        position: u8,
        entry: Option<Entry>,
    ) {
        if config.entries_in_dram {
            self.marked.1 |= 1 << position;
        } else {
            self.store_in_table(Layout::new(config), rules, position, entry);
        }
    }

    /// Stores an entry, or nothing, in the table: each half that changes is one cached store.
    pub fn store_in_table(
        &mut self,
        layout: Layout,
        rules: Rules,
        position: u8,
        entry: Option<Entry>,
    ) {
        let words = entry.map_or([0, 0], |entry| entry.encode(rules));
        for (unit, word) in layout.position(position as usize).into_iter().zip(words) {
            if self.memory.view(unit) != word {
                self.memory.store(unit, word);
            }
        }
    }

    /// The process is gone: all that DRAM held is forgotten, and what was under way is in doubt.
    pub fn lose_process(&mut self) {
        for job in self.threads {
            if let Job::Commit {
                step: CommitStep::Fence | CommitStep::Word | CommitStep::WordFence,
                parts,
                ..
            } = job
            {
                let keys = parts
                    .iter()
                    .flatten()
                    .map(|part| (part.key, part.content))
                    .collect();
                self.doubts.push(Doubt { keys });
            }
        }
        self.doubts.sort_by_key(|doubt| doubt.keys[0].0);
        self.threads = [Job::Idle; THREADS];
        self.phase = Phase::Down(0);
        self.plan = None;
        self.map = [None; KEYS];
        self.version = [0; KEYS];
        self.locked = [0; KEYS];
        self.writing_back = [0; KEYS];
        self.references = [0; SLOTS];
        self.free_positions = 0;
        self.marked = (0, 0);
        self.lanes = [(0, 0, 0); LANES];
        self.lane_owner = [0; LANES];
        self.in_flight = [0; LANES];
        self.next_sequence = 0;
        self.checkpointing = false;
        self.failures = 0;
    }
}

/// The keys that an operation locks.
pub fn locked_keys(changes: &[(u8, Change)]) -> impl Iterator<Item = u8> + '_ {
    changes.iter().flat_map(|&(key, change)| {
        let other = if let Change::Share { from } = change {
            Some(from)
        } else {
            None
        };
        std::iter::once(key).chain(other)
    })
}

/// The operation in words.
pub fn describe(operation: Operation) -> String {
    match operation {
        Operation::Commit(changes) => {
            let words: Vec<String> = changes
                .iter()
                .map(|(key, change)| format!("{change:?} of key {key}"))
                .collect();
            words.join(" and ")
        }
        Operation::Fill(key) => format!("fill of key {key}"),
        Operation::WriteBack(key) => format!("write-back of key {key}"),
        Operation::Checkpoint => "checkpoint".to_string(),
    }
}
