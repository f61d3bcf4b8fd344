//! One row of a report: a workload on a design, beside the baseline.

use serde::Serialize;

use crate::measure::{Outcome, Scope};
use crate::nvm::layout::Class;
use crate::parameters::Parameters;

/// A row. Accesses to caches are look-ups of all of their kind; those of the first caches include what a program
/// accesses of its own, which is counted and not simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: &'static str,
    /// The design.
    pub design: &'static str,
    /// The seed.
    pub seed: u64,
    /// By how much caches and work are smaller than the paper's.
    pub scale_divisor: u64,
    /// Time until the last core was done.
    pub runtime_ns: u64,
    /// The same, divided by the baseline's.
    pub runtime_over_baseline: f64,
    /// Energy by Table 3: caches, controllers, NVM.
    pub energy_pj: u64,
    /// The same, divided by the baseline's.
    pub energy_over_baseline: f64,
    /// With what is reconstructed of DRAM and cores.
    pub energy_with_cores_pj: u64,
    /// Reads and writes of data in NVM.
    pub nvm_data_accesses: u64,
    /// Those of redundancy.
    pub nvm_redundancy_accesses: u64,
    /// Reads of NVM.
    pub nvm_reads: u64,
    /// Writes of NVM.
    pub nvm_writes: u64,
    /// Look-ups of the first caches.
    pub l1_accesses: u64,
    /// Of the second ones.
    pub l2_accesses: u64,
    /// Of the shared one, by the application and by the controllers.
    pub llc_accesses: u64,
    /// Of those on the controllers.
    pub controller_accesses: u64,
    /// What mapping the file accessed, which is in nothing above.
    pub map_accesses: u64,
    /// Instructions of all cores.
    pub instructions: u64,
    /// Bytes that are not what the programs made them; absent where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong_bytes: Option<u64>,
    /// Pages whose checksum or parity is wrong; absent where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub misfitting_pages: Option<u64>,
}

impl Row {
    /// A row of an outcome beside that of the baseline.
    pub fn new(
        parameters: &Parameters,
        scope: &Scope,
        scale_divisor: u64,
        outcome: &Outcome,
        baseline: &Outcome,
    ) -> Row {
        let counts = &outcome.counts;
        let energy = outcome.energy(parameters);
        let nvm = &outcome.nvm;
        let data = Class::Data as usize;
        let nvm_data_accesses = nvm.reads[data] + nvm.writes[data];
        Row {
            workload: scope.workload.as_str(),
            design: scope.design.as_str(),
            seed: scope.seed,
            scale_divisor,
            runtime_ns: outcome.runtime_ns(parameters),
            runtime_over_baseline: outcome.cycles as f64 / baseline.cycles as f64,
            energy_pj: energy.table3_pj(),
            energy_over_baseline: energy.table3_pj() as f64
                / baseline.energy(parameters).table3_pj() as f64,
            energy_with_cores_pj: energy.all_pj(),
            nvm_data_accesses,
            nvm_redundancy_accesses: nvm.all_reads() + nvm.all_writes() - nvm_data_accesses,
            nvm_reads: nvm.all_reads(),
            nvm_writes: nvm.all_writes(),
            l1_accesses: counts.l1d.all() + counts.l1d_own_hits + counts.l1i.all(),
            l2_accesses: counts.l2.all(),
            llc_accesses: counts.llc.all() + counts.llc_redundancy.all(),
            controller_accesses: counts.controller.all(),
            map_accesses: nvm.file_system,
            instructions: counts.instructions,
            wrong_bytes: outcome.wrong_bytes,
            misfitting_pages: outcome.misfitting_pages,
        }
    }
}

/// Rows as a table for a terminal.
pub fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<15} {:<10} {:>12} {:>9} {:>9} {:>12} {:>12} {:>12} {:>11} {:>11} {:>11}",
        "workload",
        "design",
        "runtime_us",
        "x base",
        "energy x",
        "nvm_data",
        "nvm_redund.",
        "l1",
        "l2",
        "llc",
        "controller",
    );
    for row in rows {
        text += &format!(
            "\n{:<15} {:<10} {:>12} {:>9.3} {:>9.3} {:>12} {:>12} {:>12} {:>11} {:>11} {:>11}",
            row.workload,
            row.design,
            row.runtime_ns / 1000,
            row.runtime_over_baseline,
            row.energy_over_baseline,
            row.nvm_data_accesses,
            row.nvm_redundancy_accesses,
            row.l1_accesses,
            row.l2_accesses,
            row.llc_accesses,
            row.controller_accesses,
        );
    }
    text
}
