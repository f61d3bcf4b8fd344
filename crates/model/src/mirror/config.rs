//! How large a world is and what may happen in it.

/// Members of a pool.
pub const MEMBERS: usize = 2;
/// Both.
pub const ALL: u8 = 0b11;
/// Most keys of any world.
pub const KEYS: usize = 2;
/// Most lanes of any world.
pub const LANES: usize = 2;
/// Most pairs of any world.
pub const PAIRS: usize = 4;
/// Most threads of any world.
pub const THREADS: usize = 2;

/// What a thread may begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A new whole block of a key.
    Block(u8),
    /// New whole blocks of both keys.
    Blocks,
    /// A change of a key's block in place.
    Delta(u8),
    /// A clean block leaves the cache.
    Evict(u8),
    /// A miss brings a key in.
    Fill(u8),
    /// A key goes out to the backing.
    WriteBack(u8),
    /// A clean block's copy is let go.
    LetGo(u8),
    /// A checkpoint.
    Checkpoint,
}

impl Operation {
    /// The keys that a transaction changes; none if it is none.
    pub fn keys(self) -> &'static [u8] {
        const EACH: [[u8; 1]; KEYS] = [[0], [1]];
        match self {
            Operation::Block(key) | Operation::Delta(key) | Operation::Evict(key) => {
                &EACH[key as usize]
            }
            Operation::Blocks => &[0, 1],
            _ => &[],
        }
    }
}

/// One world.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name that reports use.
    pub name: &'static str,
    /// Lanes in use.
    pub lanes: usize,
    /// Records that fit a lane.
    pub places: usize,
    /// Pairs.
    pub pairs: usize,
    /// Entry table positions.
    pub positions: usize,
    /// Threads.
    pub threads: usize,
    /// What threads may begin.
    pub menu: Vec<Operation>,
    /// How many operations may begin, all incarnations together.
    pub operations: u8,
    /// How many power cuts there may be.
    pub power_cuts: u8,
    /// How many times the process may be killed.
    pub kills: u8,
    /// How many members may die.
    pub deaths: u8,
    /// How many members may be replaced, or come back, and be rebuilt.
    pub rebuilds: u8,
    /// How many stores may be lost behind a good fence.
    pub losses: u8,
}

impl Config {
    /// A small world with nothing on its menu.
    pub fn small(name: &'static str) -> Self {
        Config {
            name,
            lanes: 1,
            places: 2,
            pairs: 3,
            positions: 2,
            threads: 1,
            menu: Vec::new(),
            operations: 3,
            power_cuts: 1,
            kills: 0,
            deaths: 1,
            rebuilds: 0,
            losses: 0,
        }
    }
}
