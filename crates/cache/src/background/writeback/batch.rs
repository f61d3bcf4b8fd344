//! What a round did.

use std::collections::BTreeSet;

use crate::backing::FaultDomain;
use crate::error::Error;

/// What one round did.
#[derive(Debug, Default)]
pub(crate) struct WritebackBatch {
    /// Blocks that are clean now.
    pub(crate) cleaned: u64,
    /// Blocks that changed during the round, and are dirty still.
    pub(crate) redirtied: u64,
    /// Blocks whose fault domain failed.
    pub(crate) failed: u64,
    /// These domains, of the last volume that had any.
    pub(super) failed_domains: BTreeSet<FaultDomain>,
    /// Dirty blocks whose only copy does not match its check.
    pub(crate) corrupt: u64,
    /// Whether the next round has other blocks than this one had, or would treat them otherwise.
    pub(crate) more: bool,
    /// The first failure, in full.
    pub(crate) error: Option<Error>,
}

impl WritebackBatch {
    /// Whether blocks became clean, or would have if no thread had changed them.
    pub(crate) fn progressed(&self) -> bool {
        self.cleaned + self.redirtied > 0
    }

    pub(super) fn note(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }
}
