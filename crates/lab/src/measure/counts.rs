//! One engine with one workload, as a row.

use forebay_harness::median;
use serde::Serialize;

use super::Measurement;
use crate::engines::EngineName;

/// One engine with one workload, the middle of its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CountsRow {
    /// The engine's name.
    pub engine: String,
    /// The workload's name.
    pub workload: String,
    /// [`Measurement::lines_per_write`].
    pub lines_per_write: f64,
    /// [`Measurement::fences_per_write`].
    pub fences_per_write: f64,
    /// [`Measurement::nvm_bytes_per_payload_byte`].
    pub nvm_bytes_per_payload_byte: f64,
    /// [`Measurement::disk_blocks_per_write`].
    pub disk_blocks_per_write: f64,
    /// [`Measurement::hit_ratio`].
    pub hit_ratio: f64,
    /// [`Measurement::ops_per_s`].
    pub ops_per_s: f64,
    /// The lowest of the runs.
    pub ops_per_s_least: f64,
    /// The highest of the runs.
    pub ops_per_s_most: f64,
    /// How many runs there were.
    pub runs: usize,
    /// Others used the processors meanwhile, so that the throughput says little.
    pub is_loaded: bool,
}

impl CountsRow {
    /// The row of a cell that was measured so often: of each number the middle. None if it never was.
    #[must_use]
    pub fn new(engine: EngineName, workload: &str, runs: &[&Measurement]) -> Option<CountsRow> {
        let all = |number: fn(&Measurement) -> f64| -> Vec<f64> {
            runs.iter().map(|measured| number(measured)).collect()
        };
        let middle = |number| median(all(number));
        let speeds = all(Measurement::ops_per_s);
        Some(CountsRow {
            engine: engine.to_string(),
            workload: workload.to_string(),
            lines_per_write: middle(Measurement::lines_per_write)?,
            fences_per_write: middle(Measurement::fences_per_write)?,
            nvm_bytes_per_payload_byte: middle(Measurement::nvm_bytes_per_payload_byte)?,
            disk_blocks_per_write: middle(Measurement::disk_blocks_per_write)?,
            hit_ratio: middle(Measurement::hit_ratio)?,
            ops_per_s_least: speeds.iter().copied().reduce(f64::min)?,
            ops_per_s_most: speeds.iter().copied().reduce(f64::max)?,
            ops_per_s: median(speeds)?,
            runs: runs.len(),
            is_loaded: false,
        })
    }
}
