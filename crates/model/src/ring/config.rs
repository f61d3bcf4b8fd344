//! How large a world is and what may happen in it.

/// Blocks of the volume.
pub const KEYS: usize = 2;
/// Transactions that one group takes.
pub const MEMBERS_MAX: usize = 2;

/// What a thread may begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A whole block is written.
    Write(u8),
    /// Both blocks are.
    Both,
    /// The first half of a block is.
    Half(u8),
    /// A range of both blocks is zeroed.
    Zero,
    /// A miss brings a block in.
    Fill(u8),
    /// The pool lets go of a block that is clean.
    Forget(u8),
    /// A block is read.
    Read(u8),
    /// A whole block is written, which is over when readers see it.
    Unsynced(u8),
    /// All of that is made durable.
    Sync,
}

/// One world.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name that reports use.
    pub name: &'static str,
    /// Places of segments.
    pub places: u8,
    /// Pages of a segment before its summary.
    pub pages: u8,
    /// Groups that may be under way.
    pub depth: u8,
    /// What threads may begin.
    pub menu: Vec<Operation>,
    /// How many operations may begin, all incarnations together.
    pub operations: u8,
    /// How many power cuts there may be.
    pub power_cuts: u8,
    /// How many times the process may be killed.
    pub kills: u8,
    /// How many writes of the pool may fail.
    pub failures: u8,
    /// How many blocks the backing may not take.
    pub troubles: u8,
    /// How many times something is carried forward.
    pub carries: u8,
}

impl Config {
    /// A small world with nothing on its menu: a segment has room for one group of one block.
    pub fn small(name: &'static str) -> Self {
        Config {
            name,
            places: 4,
            pages: 3,
            depth: 1,
            menu: Vec::new(),
            operations: 3,
            power_cuts: 1,
            kills: 0,
            failures: 0,
            troubles: 0,
            carries: 0,
        }
    }
}
