//! What recovery tells: counts, and damage.

use std::time::Duration;

use crate::error::{ErrorKind, Result};

/// What recovery found and did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The incarnation that was recovered.
    pub incarnation: u64,
    /// S: records up to it were in the table already.
    pub checkpoint_sequence: u64,
    /// Whole records found after S.
    pub records: u64,
    /// Records that were committed for certain, whatever their data looks like.
    pub records_proven: u64,
    /// Last records of lanes, classified by the checks of their data.
    pub records_tested: u64,
    /// Records of transactions that were never acknowledged, dropped whole.
    pub records_dropped: u64,
    /// Deltas applied again.
    pub deltas_applied: u64,
    /// Blocks in the pool afterwards.
    pub blocks: u64,
    /// Of these, blocks that the backing does not have.
    pub dirty_blocks: u64,
    /// Entries that a crash tore and that held nothing acknowledged.
    pub torn_entries: u64,
    /// Damage of the media, in words. Empty unless loss was accepted.
    pub damage: Vec<String>,
    /// Another process was serving the pool while a dry run looked at it: it was read while it
    /// changed, so these numbers are rough, and damage cannot be told from work in progress.
    pub in_use: bool,
    /// How long it took.
    pub took: Duration,
}

/// What recovery notes on its way: counts, and damage that it may or may not accept.
pub(crate) struct Notes {
    pub(crate) report: RecoveryReport,
    pub(super) accept_loss: bool,
    pub(super) path: std::path::PathBuf,
}

impl Notes {
    /// Damage that may have cost acknowledged data: an error, unless the caller accepts loss.
    pub(crate) fn damage(&mut self, found: String) -> Result<()> {
        if !self.accept_loss {
            return Err(ErrorKind::Damaged {
                path: self.path.clone(),
                found,
            }
            .into());
        }
        self.report.damage.push(found);
        Ok(())
    }
}
