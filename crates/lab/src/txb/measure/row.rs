//! What was measured, as rows.

use serde::Serialize;

use super::workload::Workload;
use crate::txb::design::Design;

/// One design under one workload. Counts are exact; what is of a transaction is none where there was none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TransactionsRow {
    /// The program and what it did.
    pub workload: Workload,
    /// How checksums and parity were kept.
    pub design: Design,
    /// What was asked of the program.
    pub operations: u64,
    /// Of these, what changed something.
    pub transactions: u64,
    /// Cache lines flushed and streamed, of all files; with passes what they wrote, too.
    pub lines_per_transaction: Option<f64>,
    /// Fences.
    pub fences_per_transaction: Option<f64>,
    /// Bytes read for checksums; passes do not say.
    pub checksum_bytes_per_transaction: Option<f64>,
    /// Bytes of the parity read for its difference; passes make it from whole rows.
    pub parity_bytes_per_transaction: Option<f64>,
    /// Pages that passes covered.
    pub pages_covered_per_transaction: Option<f64>,
    /// Median of the rounds.
    pub ns_per_operation: f64,
    /// Median of the rounds: the time of a round over that of `none` in the same round.
    pub times_none: Option<f64>,
}
