//! How large a region is and what may happen to it.

/// Most data extents of any world.
pub const WIDTH_MAX: usize = 2;
/// Most extents, the parity's included.
pub const DEVICES_MAX: usize = WIDTH_MAX + 1;
/// Most pages of an extent.
pub const PAGES_MAX: usize = 2;
/// Most data pages of a region.
pub const ALL_MAX: usize = WIDTH_MAX * PAGES_MAX;

/// One world.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name that reports use.
    pub name: &'static str,
    /// Data extents.
    pub width: usize,
    /// Pages of each.
    pub pages: usize,
    /// Stores of the program.
    pub stores: u8,
    /// How often the program flushes and fences all that it stored.
    pub program_fences: u8,
    /// Passes that a clock begins.
    pub passes: u8,
    /// Calls of `sync`.
    pub syncs: u8,
    /// Calls of `verify`, of a row each.
    pub verifies: u8,
    /// Orderly ends.
    pub closes: u8,
    /// How often the region is opened, the first time included.
    pub opens: u8,
    /// Power cuts.
    pub power_cuts: u8,
    /// Kills of our process.
    pub kills: u8,
    /// Extents that die, each with its sidecar.
    pub deaths: u8,
    /// How often a dead one comes back as it was.
    pub returns: u8,
    /// Orderly ends of the keeper, which closes the extent to programs until it starts again.
    pub stops: u8,
    /// Leases that the kernel breaks, because the keeper took too long.
    pub breaks: u8,
    /// How often a program of its own opens the extent.
    pub program_opens: u8,
    /// Flipped pages and lost writes, together.
    pub damages: u8,
    /// The program is a process of its own, and ours a keeper with a lease that compares.
    pub is_foreign: bool,
    /// The file system moves a file's times at a mapped store.
    pub is_evidence_told: bool,
}

impl Config {
    /// A small region with its copy; most things do not happen.
    pub fn small(name: &'static str) -> Self {
        Config {
            name,
            width: 1,
            pages: 1,
            stores: 2,
            program_fences: 1,
            passes: 2,
            syncs: 0,
            verifies: 0,
            closes: 1,
            opens: 3,
            power_cuts: 1,
            kills: 1,
            deaths: 0,
            returns: 0,
            stops: 0,
            breaks: 0,
            program_opens: 0,
            damages: 0,
            is_foreign: false,
            is_evidence_told: true,
        }
    }

    /// Data pages.
    pub fn all(&self) -> usize {
        self.width * self.pages
    }

    /// Extents, the parity's included.
    pub fn devices(&self) -> usize {
        self.width + 1
    }

    /// The row of a data page.
    pub fn row(&self, page: usize) -> usize {
        page % self.pages
    }

    /// The data pages of a row.
    pub fn mates(&self, row: usize) -> impl Iterator<Item = usize> + use<> {
        let pages = self.pages;
        (0..self.width).map(move |extent| extent * pages + row)
    }

    /// The data pages of a row, a bit each.
    pub fn row_bits(&self, row: usize) -> u8 {
        self.mates(row).fold(0, |bits, page| bits | 1 << page)
    }
}
