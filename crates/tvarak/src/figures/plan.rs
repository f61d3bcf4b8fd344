//! Which cells a figure needs.

use crate::change::Change;
use crate::design::Design;
use crate::figures::cell::Cell;
use crate::name::Workload;
use crate::programs::application::{Application, NStoreLoad, TreeLoad};
use crate::programs::trees::TreeKind;
use crate::workload::fio::Access;
use crate::workload::stream::Kernel;

/// A figure of the paper, or what its §4.8 says without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Figure 8: all workloads.
    Fig8,
    /// Figure 9: what each of TVARAK's parts brings.
    Fig9,
    /// Figure 10: how many ways of the LLC.
    Fig10,
    /// Eight DIMMs, §4.8.
    Dimms,
    /// NVM as fast as DRAM, §4.8.
    Technology,
}

/// The ways of Figure 10, of redundancy (a) and of diffs (b).
pub const WAYS: [u64; 5] = [1, 2, 4, 6, 8];
/// What Table 3 has of each.
pub const REDUNDANCY_WAYS: u64 = 2;
/// What Table 3 has of diffs.
pub const DIFF_WAYS: u64 = 1;
/// Twice as many DIMMs of NVM as in Table 3.
pub const MORE_DIMMS: u64 = 8;

/// Those that §4.7 and §4.8 present, one of each program.
pub const PRESENTED: [Workload; 5] = [
    Workload::Program(Application::RedisSet),
    Workload::Program(Application::Tree(TreeKind::CTree, TreeLoad::Insert)),
    Workload::Program(Application::NStore(NStoreLoad::Balanced)),
    Workload::Fio(Access::RandomWrite),
    Workload::Stream(Kernel::Triad),
];

impl Figure {
    /// All, in the paper's order.
    pub const ALL: [Figure; 5] = [
        Figure::Fig8,
        Figure::Fig9,
        Figure::Fig10,
        Figure::Dimms,
        Figure::Technology,
    ];

    /// The name, as the command takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Figure::Fig8 => "fig8",
            Figure::Fig9 => "fig9",
            Figure::Fig10 => "fig10",
            Figure::Dimms => "dimms",
            Figure::Technology => "technology",
        }
    }

    /// Its workloads.
    pub fn workloads(self) -> Vec<Workload> {
        match self {
            Figure::Fig8 => Workload::all().into_iter().filter(is_shown).collect(),
            // Those that §4.7 presents, and those of which it says that they are alike.
            Figure::Fig9 => {
                let is_alike = |workload: &Workload| match workload {
                    Workload::Program(Application::Tree(_, load)) => *load == TreeLoad::Insert,
                    Workload::Stream(_) => true,
                    Workload::Fio(access) => {
                        matches!(access, Access::SequentialRead | Access::SequentialWrite)
                    }
                    Workload::Program(_) => false,
                };
                let all = Workload::all().into_iter();
                all.filter(|workload| PRESENTED.contains(workload) || is_alike(workload))
                    .collect()
            }
            Figure::Fig10 => PRESENTED.to_vec(),
            Figure::Dimms | Figure::Technology => {
                let all = Workload::all().into_iter();
                all.filter(|workload| {
                    PRESENTED.contains(workload) || matches!(workload, Workload::Stream(_))
                })
                .collect()
            }
        }
    }

    /// Its designs, those that are compared and the baseline.
    pub fn designs(self) -> Vec<Design> {
        let is_part = |design: &Design| match self {
            Figure::Fig8 => !is_step(*design),
            Figure::Fig9 => {
                *design == Design::Baseline || design.has_controller() && !design.is_adaptive()
            }
            // What divides its ways by itself is not told how.
            Figure::Fig10 => {
                *design == Design::Baseline || design.has_diffs() && !design.is_adaptive()
            }
            Figure::Dimms | Figure::Technology => {
                !is_step(*design) && design.is_of_the_evaluation()
            }
        };
        Design::ALL.into_iter().filter(is_part).collect()
    }

    /// What it changes, one after the other.
    pub fn changes(self) -> Vec<Change> {
        match self {
            Figure::Fig8 | Figure::Fig9 => vec![Change::Nothing],
            Figure::Fig10 => {
                let redundancy = WAYS.map(redundancy_ways);
                redundancy.into_iter().chain(WAYS.map(diff_ways)).collect()
            }
            Figure::Dimms => vec![Change::Dimms(MORE_DIMMS)],
            Figure::Technology => vec![Change::AsDram],
        }
    }

    /// The cells, with so many seeds.
    pub fn cells(self, seeds: u64) -> Vec<Cell> {
        let mut cells = Vec::new();
        for workload in self.workloads() {
            for change in self.changes() {
                for design in self.designs() {
                    // Of the asynchronous design the paper has no bars; it costs the most.
                    let seeds = if design == Design::Passes { 1 } else { seeds };
                    for seed in seeds_of(workload, seeds) {
                        let cell = Cell {
                            workload,
                            design,
                            change: noticed(design, change),
                            vary: None,
                            seed,
                        };
                        if !cells.contains(&cell) {
                            cells.push(cell);
                        }
                    }
                }
            }
        }
        cells
    }
}

/// Those of the trees whose bars the paper shows; of the others it says that their trends are the same.
fn is_shown(workload: &Workload) -> bool {
    !matches!(
        workload,
        Workload::Program(Application::Tree(_, TreeLoad::Update | TreeLoad::Read))
    )
}

/// Designs on the way to TVARAK, of Figure 9 alone.
fn is_step(design: Design) -> bool {
    matches!(design, Design::Naive | Design::LineSums | Design::Cached)
}

/// A change of the redundancy's ways, and none where they are as they were.
pub fn redundancy_ways(ways: u64) -> Change {
    match ways {
        REDUNDANCY_WAYS => Change::Nothing,
        ways => Change::RedundancyWays(ways),
    }
}

/// The same of the ways of diffs.
pub fn diff_ways(ways: u64) -> Change {
    match ways {
        DIFF_WAYS => Change::Nothing,
        ways => Change::DiffWays(ways),
    }
}

/// What of a change a design notices: without a controller the ways are the application's.
pub fn noticed(design: Design, change: Change) -> Change {
    match change.is_of_nvm() || design.has_controller() {
        true => change,
        false => Change::Nothing,
    }
}

/// The seeds that are run: stream and sequential accesses are the same with each, and of N-Store the paper presents a single
/// run (§4.4).
pub fn seeds_of(workload: Workload, seeds: u64) -> std::ops::RangeInclusive<u64> {
    let has_several = match workload {
        Workload::Fio(access) => matches!(access, Access::RandomRead | Access::RandomWrite),
        Workload::Stream(_) | Workload::Program(Application::NStore(_)) => false,
        Workload::Program(_) => true,
    };
    1..=if has_several { seeds } else { 1 }
}

/// The cells of several figures, each once: all of one seed before the next one.
pub fn cells(figures: &[Figure], seeds: u64) -> Vec<Cell> {
    let mut all: Vec<Cell> = Vec::new();
    for figure in figures {
        for cell in figure.cells(seeds) {
            if !all.contains(&cell) {
                all.push(cell);
            }
        }
    }
    all.sort_by_key(|cell| cell.seed);
    all
}
