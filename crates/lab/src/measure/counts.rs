//! One engine with one workload, as a row.

use forebay_harness::median;
use serde::Serialize;

use super::{Measurement, Spread};
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
    /// The same with the cleaner that all designs have in common, as are all that follow.
    pub ops_per_s_cleaner: f64,
    /// The lowest of the runs.
    pub ops_per_s_cleaner_least: f64,
    /// The highest of the runs.
    pub ops_per_s_cleaner_most: f64,
    /// [`Measurement::lines_per_write`].
    pub lines_per_write_cleaner: f64,
    /// [`Measurement::fences_per_write`].
    pub fences_per_write_cleaner: f64,
    /// [`Measurement::disk_blocks_per_write`].
    pub disk_blocks_per_write_cleaner: f64,
    /// [`Measurement::hit_ratio`].
    pub hit_ratio_cleaner: f64,
    /// How many runs there were of each.
    pub runs: usize,
    /// Others used the processors meanwhile, so that the throughput says little.
    pub is_loaded: bool,
}

impl CountsRow {
    /// The row of a cell that was measured so often, and of the same with the cleaner: of each number the middle. None if one
    /// of the two never was.
    #[must_use]
    pub fn new(
        engine: EngineName,
        workload: &str,
        printed: &[&Measurement],
        cleaned: &[&Measurement],
    ) -> Option<CountsRow> {
        let speed = speeds(printed)?;
        let cleaned_speed = speeds(cleaned)?;
        Some(CountsRow {
            engine: engine.to_string(),
            workload: workload.to_string(),
            lines_per_write: middle(printed, Measurement::lines_per_write)?,
            fences_per_write: middle(printed, Measurement::fences_per_write)?,
            nvm_bytes_per_payload_byte: middle(printed, Measurement::nvm_bytes_per_payload_byte)?,
            disk_blocks_per_write: middle(printed, Measurement::disk_blocks_per_write)?,
            hit_ratio: middle(printed, Measurement::hit_ratio)?,
            ops_per_s: speed.median,
            ops_per_s_least: speed.least,
            ops_per_s_most: speed.most,
            ops_per_s_cleaner: cleaned_speed.median,
            ops_per_s_cleaner_least: cleaned_speed.least,
            ops_per_s_cleaner_most: cleaned_speed.most,
            lines_per_write_cleaner: middle(cleaned, Measurement::lines_per_write)?,
            fences_per_write_cleaner: middle(cleaned, Measurement::fences_per_write)?,
            disk_blocks_per_write_cleaner: middle(cleaned, Measurement::disk_blocks_per_write)?,
            hit_ratio_cleaner: middle(cleaned, Measurement::hit_ratio)?,
            runs: printed.len(),
            is_loaded: false,
        })
    }
}

fn middle(runs: &[&Measurement], number: fn(&Measurement) -> f64) -> Option<f64> {
    median(runs.iter().map(|measured| number(measured)).collect())
}

fn speeds(runs: &[&Measurement]) -> Option<Spread> {
    Spread::of(runs.iter().map(|measured| measured.ops_per_s()).collect())
}
