//! What is counted: look-ups of every cache, and the instructions of the cores.

/// Look-ups of one kind of cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookUps {
    /// Those that found the line.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
}

impl LookUps {
    /// Counts one.
    #[inline]
    pub fn note(&mut self, is_hit: bool) {
        self.hits += u64::from(is_hit);
        self.misses += u64::from(!is_hit);
    }

    /// All.
    pub fn all(&self) -> u64 {
        self.hits + self.misses
    }
}

/// What the cores and their caches did. A line that a cache gives to the next one counts there as a hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions of all cores.
    pub instructions: u64,
    /// The caches of data next to the cores, simulated look-ups.
    pub l1d: LookUps,
    /// Those of a program's own state, which are counted and not simulated: they hit.
    pub l1d_own_hits: u64,
    /// The caches of instructions.
    pub l1i: LookUps,
    /// The second caches.
    pub l2: LookUps,
    /// The shared cache, by the application.
    pub llc: LookUps,
    /// The shared cache, by the redundancy controllers: redundancy and diffs.
    pub llc_redundancy: LookUps,
    /// The caches on the controllers.
    pub controller: LookUps,
    /// Reads of DRAM.
    pub dram_reads: u64,
    /// Writes of DRAM.
    pub dram_writes: u64,
}
