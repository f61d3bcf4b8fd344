//! What came of a cell.

use forebay_harness::median;
use serde::Serialize;

use super::scope::Cell;
use super::stand::Contender;

/// Shares of all writes, in per cent, whose latencies are told.
pub const SHARES: [f64; 13] = [
    1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0,
];

/// What one contender did in one round.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) writes: u64,
    pub(super) writes_s: f64,
    pub(super) latencies_ns: Vec<u32>,
    pub(super) thread_lines: u64,
    pub(super) thread_fences: u64,
    pub(super) lines: u64,
    pub(super) fences: u64,
    pub(super) user_ns: f64,
    pub(super) kernel_ns: f64,
}

/// One contender in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FilesRow {
    /// The contender that wrote.
    pub contender: Contender,
    /// `append`, `uniform` or `zipf`.
    pub pattern: &'static str,
    /// Of a write.
    pub unit_bytes: usize,
    /// At once.
    pub threads: usize,
    /// Writes a second, of all threads together: the median of the rounds.
    pub writes_s: f64,
    /// In the slowest round.
    pub writes_s_least: f64,
    /// In the fastest.
    pub writes_s_most: f64,
    /// Of all rounds together.
    pub mean_ns: f64,
    /// Latency that so much of all writes had at most: per cent and ns.
    pub latencies: Vec<(f64, u32)>,
    /// Cache lines that the writing threads persisted, a write; none without a region.
    pub lines_per_write: Option<f64>,
    /// Their fences.
    pub fences_per_write: Option<f64>,
    /// Cache lines of the region, those of stages behind the writers included.
    pub all_lines_per_write: Option<f64>,
    /// Fences, likewise.
    pub all_fences_per_write: Option<f64>,
    /// Processors' time of a write, stages included, outside the kernel.
    pub user_ns: f64,
    /// In the kernel.
    pub kernel_ns: f64,
}

impl FilesRow {
    pub(super) fn new(contender: Contender, cell: Cell, mut rounds: Vec<Measured>) -> FilesRow {
        let mut latencies: Vec<u32> = Vec::new();
        for round in &mut rounds {
            latencies.append(&mut round.latencies_ns);
        }
        latencies.sort_unstable();
        let writes = rounds.iter().map(|round| round.writes).sum::<u64>().max(1) as f64;
        let sum = |of: fn(&Measured) -> f64| rounds.iter().map(of).sum::<f64>() / writes;
        let counted = |of: fn(&Measured) -> f64| contender.has_region().then(|| sum(of));
        let rates: Vec<f64> = rounds.iter().map(|round| round.writes_s).collect();
        let all_ns: f64 = latencies.iter().map(|ns| f64::from(*ns)).sum();
        FilesRow {
            contender,
            pattern: cell.pattern.as_str(),
            unit_bytes: cell.unit.bytes,
            threads: cell.threads,
            writes_s_least: rates.iter().copied().fold(f64::INFINITY, f64::min),
            writes_s_most: rates.iter().copied().fold(0.0, f64::max),
            writes_s: median(rates).unwrap_or_default(),
            mean_ns: all_ns / latencies.len().max(1) as f64,
            latencies: SHARES.map(|share| (share, at(&latencies, share))).into(),
            lines_per_write: counted(|round| round.thread_lines as f64),
            fences_per_write: counted(|round| round.thread_fences as f64),
            all_lines_per_write: counted(|round| round.lines as f64),
            all_fences_per_write: counted(|round| round.fences as f64),
            user_ns: sum(|round| round.user_ns),
            kernel_ns: sum(|round| round.kernel_ns),
        }
    }

    /// Bytes written in a second.
    #[must_use]
    pub fn bytes_s(&self) -> f64 {
        self.writes_s * self.unit_bytes as f64
    }

    /// The latency of so many per cent of all writes, one of those that are told.
    #[must_use]
    pub fn latency_ns(&self, share: f64) -> Option<u32> {
        let mut told = self.latencies.iter();
        told.find(|(of, _)| *of == share).map(|(_, ns)| *ns)
    }
}

/// What so many per cent of sorted numbers do not exceed.
fn at(sorted: &[u32], share: f64) -> u32 {
    let place = (sorted.len() as f64 * share / 100.0).ceil() as usize;
    sorted.get(place.max(1) - 1).copied().unwrap_or_default()
}
