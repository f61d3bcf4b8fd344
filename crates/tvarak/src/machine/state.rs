//! What the machine is made of.
//!
//! The caches are inclusive: what a first cache of a core has, its second one has, and what that has, the shared
//! one has, whose directory knows by whom. The bytes of a line are those of the shared cache, unless a core has it modified: then they are
//! those of that core's second cache. The first ones point into it.

use crate::array::Array;
use crate::banks::Banks;
use crate::clock::CoreClock;
use crate::controller::state::{Controllers, Loss};
use crate::counts::Counts;
use crate::dram::Dram;
use crate::line::Words;
use crate::nvm::Nvm;

/// How a core's caches have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// Others may have it, too.
    Shared,
    /// No other core has it.
    Exclusive,
    /// And it differs from the shared cache.
    Modified,
}

/// A core.
#[derive(Debug)]
pub struct Core {
    /// The first cache of data.
    pub(in crate::machine) l1d: Array,
    pub(in crate::machine) l1d_sets: u32,
    /// For each of its slots, the slot of the second cache.
    pub(in crate::machine) l1d_below: Vec<u32>,
    /// Whether a store hit it since it came.
    pub(in crate::machine) l1d_dirty: Vec<bool>,
    /// The cache of instructions.
    pub(in crate::machine) l1i: Array,
    pub(in crate::machine) l1i_sets: u32,
    /// The second cache.
    pub(in crate::machine) l2: Array,
    pub(in crate::machine) l2_sets: u32,
    pub(in crate::machine) l2_held: Vec<Held>,
    /// The bytes of those that are modified.
    pub(in crate::machine) l2_data: Vec<Words>,
    /// For each of its slots, the slot of the shared cache; and the one of the first cache of data that has the line, if one does.
    pub(in crate::machine) l2_below: Vec<u32>,
    pub(in crate::machine) l2_above: Vec<u32>,
    /// Its time.
    pub clock: CoreClock,
    /// Bytes of instructions fetched of the program's loop.
    pub(in crate::machine) fetched_bytes: u64,
    /// Lines of the program's loop, and how many of them the cache of instructions has.
    pub(in crate::machine) code_lines: u32,
    /// It fetches what a trace says: any line may be in the cache of instructions.
    pub(in crate::machine) is_traced: bool,
    pub(in crate::machine) code_lines_held: u32,
}

/// What the shared cache knows of a line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    /// A bit for each core that has it.
    pub(in crate::machine) sharers: u16,
    /// The one that does has it exclusive or modified.
    pub(in crate::machine) is_owned: bool,
    /// It differs from memory.
    pub(in crate::machine) is_dirty: bool,
}

/// The application's part of the shared cache.
#[derive(Debug)]
pub struct Llc {
    pub(in crate::machine) array: Array,
    /// Ways of all partitions.
    pub(in crate::machine) ways: u32,
    pub(in crate::machine) entries: Vec<Entry>,
    pub(in crate::machine) data: Vec<Words>,
    pub(in crate::machine) banks: Banks,
}

/// The latencies of the caches.
#[derive(Clone, Copy, Debug)]
pub struct CacheTimes {
    pub(in crate::machine) l1d_cycles: u64,
    pub(in crate::machine) l1i_cycles: u64,
    pub(in crate::machine) l2_cycles: u64,
    pub(in crate::machine) llc_cycles: u64,
    pub(in crate::machine) bytes_per_instruction: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// The cores.
    pub cores: Vec<Core>,
    pub(in crate::machine) llc: Llc,
    pub(in crate::machine) times: CacheTimes,
    /// The redundancy controllers.
    pub controllers: Controllers,
    /// NVM.
    pub nvm: Nvm,
    /// DRAM.
    pub dram: Dram,
    /// What the caches counted; those of the controllers are theirs.
    pub(in crate::machine) counts: Counts,
    /// Pages that could not be written back, for what they held before is lost.
    pub losses: Vec<Loss>,
    /// The first line of DRAM beyond what programs have.
    pub(in crate::machine) scratch_line: u32,
}
