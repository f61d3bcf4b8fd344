//! One engine with one workload, as a row.

use serde::Serialize;

use super::Measurement;
use crate::engines::EngineName;

/// One engine with one workload.
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
    /// The same with the cleaner that all designs have in common, as are all that follow.
    pub ops_per_s_cleaner: f64,
    /// [`Measurement::lines_per_write`].
    pub lines_per_write_cleaner: f64,
    /// [`Measurement::fences_per_write`].
    pub fences_per_write_cleaner: f64,
    /// [`Measurement::disk_blocks_per_write`].
    pub disk_blocks_per_write_cleaner: f64,
    /// [`Measurement::hit_ratio`].
    pub hit_ratio_cleaner: f64,
}

impl CountsRow {
    /// The row of a measured cell, and of the same with the cleaner.
    #[must_use]
    pub fn new(
        engine: EngineName,
        workload: &str,
        measured: &Measurement,
        cleaned: &Measurement,
    ) -> CountsRow {
        CountsRow {
            engine: engine.to_string(),
            workload: workload.to_string(),
            lines_per_write: measured.lines_per_write(),
            fences_per_write: measured.fences_per_write(),
            nvm_bytes_per_payload_byte: measured.nvm_bytes_per_payload_byte(),
            disk_blocks_per_write: measured.disk_blocks_per_write(),
            hit_ratio: measured.hit_ratio(),
            ops_per_s: measured.ops_per_s(),
            ops_per_s_cleaner: cleaned.ops_per_s(),
            lines_per_write_cleaner: cleaned.lines_per_write(),
            fences_per_write_cleaner: cleaned.fences_per_write(),
            disk_blocks_per_write_cleaner: cleaned.disk_blocks_per_write(),
            hit_ratio_cleaner: cleaned.hit_ratio(),
        }
    }
}
