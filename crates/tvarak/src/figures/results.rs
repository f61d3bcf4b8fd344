//! What was measured of cells, and what it comes to beside each other.

use std::collections::HashMap;

use crate::change::Change;
use crate::claims::Metric;
use crate::design::Design;
use crate::figures::cell::Cell;
use crate::figures::measured::Measured;
use crate::figures::plan::{noticed, seeds_of};
use crate::name::Workload;

/// A design with what is changed.
pub type Side = (Design, Change);

/// A number over several seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The root mean square of what each is away from it.
    pub rms: f64,
    /// Of how many.
    pub seeds: usize,
}

impl Spread {
    /// Of these numbers; none of none.
    pub fn of(numbers: &[f64]) -> Option<Spread> {
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let square = numbers
            .iter()
            .map(|number| (number - mean).powi(2))
            .sum::<f64>()
            / count;
        (!numbers.is_empty()).then(|| Spread {
            mean,
            rms: square.sqrt(),
            seeds: numbers.len(),
        })
    }
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct Results {
    cells: HashMap<String, Measured>,
    seeds: u64,
}

impl Results {
    /// Nothing yet, of so many seeds.
    pub fn new(seeds: u64) -> Results {
        Results {
            cells: HashMap::new(),
            seeds,
        }
    }

    /// Adds a cell.
    pub fn put(&mut self, cell: &Cell, measured: Measured) {
        self.cells.insert(cell.name(), measured);
    }

    /// What a cell took.
    pub fn get(&self, cell: &Cell) -> Option<&Measured> {
        self.cells.get(&cell.name())
    }

    /// What a design took under a workload with a seed.
    fn of(&self, workload: Workload, (design, change): Side, seed: u64) -> Option<&Measured> {
        self.get(&Cell {
            workload,
            design,
            change: noticed(design, change),
            vary: None,
            seed,
        })
    }

    /// A number of one side divided by one of another under the same workload, over the seeds that both have.
    fn over_seeds(
        &self,
        workload: Workload,
        [of, over]: [Side; 2],
        divided: impl Fn(&Measured, &Measured) -> Option<f64>,
    ) -> Option<Spread> {
        let ratio = |seed| {
            let (ours, theirs) = (self.of(workload, of, seed)?, self.of(workload, over, seed)?);
            divided(ours, theirs)
        };
        let ratios = seeds_of(workload, self.seeds).filter_map(ratio);
        Spread::of(&ratios.collect::<Vec<f64>>())
    }

    /// A number of one side divided by that of another.
    pub fn ratio(&self, workload: Workload, sides: [Side; 2], metric: Metric) -> Option<Spread> {
        self.over_seeds(workload, sides, |ours, theirs| {
            Some(ours.of(metric)? / theirs.of(metric)?)
        })
    }

    /// The same of the part of a number that is application data, over the whole of the other's.
    pub fn part(&self, workload: Workload, sides: [Side; 2], metric: Metric) -> Option<f64> {
        let parts = self.over_seeds(workload, sides, |ours, theirs| {
            Some(ours.part_of(metric)? / theirs.of(metric)?)
        });
        Some(parts?.mean)
    }
}
