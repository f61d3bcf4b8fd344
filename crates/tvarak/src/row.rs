//! One row of a report: a workload on a design, beside the baseline.

use serde::Serialize;

use crate::figures::measured::Measured;
use crate::measure::{Outcome, Scope};
use crate::parameters::Parameters;

/// A row.
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
    /// Time, energy, accesses.
    #[serde(flatten)]
    pub measured: Measured,
    /// Its time, divided by the baseline's.
    pub runtime_over_baseline: f64,
    /// Its energy by Table 3, divided by the baseline's.
    pub energy_over_baseline: f64,
    /// Reads of NVM.
    pub nvm_reads: u64,
    /// Writes of NVM.
    pub nvm_writes: u64,
    /// What mapping the file accessed, which is in nothing above.
    pub map_accesses: u64,
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
        let measured = Measured::new(parameters, outcome);
        let nvm = &outcome.nvm;
        let of_baseline = Measured::new(parameters, baseline);
        Row {
            workload: scope.workload.as_str(),
            design: scope.design.as_str(),
            seed: scope.seed,
            scale_divisor,
            measured,
            runtime_over_baseline: outcome.cycles as f64 / baseline.cycles as f64,
            energy_over_baseline: measured.energy_pj as f64 / of_baseline.energy_pj as f64,
            nvm_reads: nvm.all_reads(),
            nvm_writes: nvm.all_writes(),
            map_accesses: nvm.file_system,
            wrong_bytes: outcome.wrong_bytes,
            misfitting_pages: outcome.misfitting_pages,
        }
    }
}

/// Rows as a table for a terminal.
pub fn text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<19} {:<15} {:>12} {:>9} {:>9} {:>12} {:>12} {:>12} {:>11} {:>11} {:>11}",
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
            "\n{:<19} {:<15} {:>12} {:>9.3} {:>9.3} {:>12} {:>12} {:>12} {:>11} {:>11} {:>11}",
            row.workload,
            row.design,
            row.measured.runtime_ns / 1000,
            row.runtime_over_baseline,
            row.energy_over_baseline,
            row.measured.nvm_data_accesses,
            row.measured.nvm_redundancy_accesses,
            row.measured.l1_accesses,
            row.measured.l2_accesses,
            row.measured.llc_accesses,
            row.measured.controller_accesses,
        );
    }
    text
}
