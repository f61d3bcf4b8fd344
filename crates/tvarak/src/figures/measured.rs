//! What a cell took, as it is kept.

use serde::{Deserialize, Serialize};

use crate::claims::Metric;
use crate::measure::Outcome;
use crate::nvm::layout::Class;
use crate::parameters::Parameters;

/// Time, energy and accesses. Of caches, all look-ups of their kind; those of the first ones include what a program accesses of its
/// own, which is counted and not simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Time until the last core was done.
    pub runtime_ns: u64,
    /// Energy by Table 3: caches, controllers, NVM.
    pub energy_pj: u64,
    /// With what is reconstructed of DRAM and cores.
    pub energy_with_cores_pj: u64,
    /// Reads and writes of data in NVM.
    pub nvm_data_accesses: u64,
    /// Those of redundancy.
    pub nvm_redundancy_accesses: u64,
    /// Look-ups of the first caches.
    pub l1_accesses: u64,
    /// Of the second ones.
    pub l2_accesses: u64,
    /// Of the shared one, by the application and by the controllers.
    pub llc_accesses: u64,
    /// Of those on the controllers.
    pub controller_accesses: u64,
    /// Instructions of all cores.
    pub instructions: u64,
}

impl Measured {
    /// What an outcome has.
    pub fn new(parameters: &Parameters, outcome: &Outcome) -> Measured {
        let (counts, nvm) = (&outcome.counts, &outcome.nvm);
        let energy = outcome.energy(parameters);
        let data = Class::Data as usize;
        let nvm_data_accesses = nvm.reads[data] + nvm.writes[data];
        Measured {
            runtime_ns: outcome.runtime_ns(parameters),
            energy_pj: energy.table3_pj(),
            energy_with_cores_pj: energy.all_pj(),
            nvm_data_accesses,
            nvm_redundancy_accesses: nvm.all_reads() + nvm.all_writes() - nvm_data_accesses,
            l1_accesses: outcome.first_look_ups() + counts.l1d_own_hits,
            l2_accesses: counts.l2.all(),
            llc_accesses: counts.llc.all() + counts.llc_redundancy.all(),
            controller_accesses: counts.controller.all(),
            instructions: counts.instructions,
        }
    }

    /// One number; none for what no run measures.
    pub fn of(&self, metric: Metric) -> Option<f64> {
        let number = match metric {
            Metric::Runtime => self.runtime_ns,
            Metric::Energy => self.energy_pj,
            Metric::EnergyWithCores => self.energy_with_cores_pj,
            Metric::NvmAccesses => self.nvm_data_accesses + self.nvm_redundancy_accesses,
            Metric::CacheAccesses => {
                self.l1_accesses + self.l2_accesses + self.llc_accesses + self.controller_accesses
            }
            Metric::LinesRead | Metric::LinesBesides | Metric::LinesWritten | Metric::Area => {
                return None;
            }
        };
        Some(number as f64)
    }

    /// The part of it that is application data: of accesses to NVM those to data, of accesses to caches those of the
    /// first ones.
    pub fn part_of(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::NvmAccesses => Some(self.nvm_data_accesses as f64),
            Metric::CacheAccesses => Some(self.l1_accesses as f64),
            _ => None,
        }
    }
}
