//! How large a world is and what may happen in it.

/// Most keys of any world.
pub const KEYS: usize = 3;
/// Most lanes of any world.
pub const LANES: usize = 3;
/// Most slots of any world.
pub const SLOTS: usize = 6;
/// Most threads of any world.
pub const THREADS: usize = 3;

/// What a transaction does to one key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// A new whole block.
    Block,
    /// A new block of which only the first half is valid.
    Short,
    /// New bytes for one half, redone from the record.
    Delta {
        /// Which half, 0 or 1.
        half: u8,
    },
    /// The second half of a short block.
    Append,
    /// The block reads as zeroes.
    Zero,
    /// The key takes the slot of another key.
    Share {
        /// Whose slot.
        from: u8,
    },
    /// A clean block leaves the cache.
    Evict,
    /// Any block leaves the cache, and what it reads as is undefined.
    Discard,
}

/// What a thread may begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A transaction of one or two keys.
    Commit(&'static [(u8, Change)]),
    /// A miss brings a key in.
    Fill(u8),
    /// A key goes out to the backing.
    WriteBack(u8),
    /// A checkpoint of the whole pool.
    Checkpoint,
}

/// One world.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name that reports use.
    pub name: &'static str,
    /// Keys in use.
    pub keys: usize,
    /// Lanes in use.
    pub lanes: usize,
    /// Records that fit a lane.
    pub places: usize,
    /// Slots.
    pub slots: usize,
    /// Entry table positions.
    pub positions: usize,
    /// Threads.
    pub threads: usize,
    /// Whether a second fence makes a commit word durable, which replaces classification.
    pub strict: bool,
    /// Whether entries are in DRAM while the pool runs, and the table is written by checkpoints alone.
    pub entries_in_dram: bool,
    /// What threads may begin.
    pub menu: Vec<Operation>,
    /// How many operations may begin, all incarnations together.
    pub operations: u8,
    /// How many power cuts there may be.
    pub power_cuts: u8,
    /// How many times the process may be killed.
    pub kills: u8,
    /// How many syncs of the backing may fail.
    pub sync_failures: u8,
}

impl Config {
    /// A small world with two of everything and nothing on its menu.
    pub fn small(name: &'static str) -> Self {
        Config {
            name,
            keys: 2,
            lanes: 2,
            places: 2,
            slots: 4,
            positions: 2,
            threads: 2,
            strict: false,
            entries_in_dram: false,
            menu: Vec::new(),
            operations: 3,
            power_cuts: 1,
            kills: 0,
            sync_failures: 0,
        }
    }
}
