//! What a round has written and not synced yet.

use std::sync::Arc;

use super::merge::InFlightBlock;
use crate::background::health::SyncEpoch;
use crate::background::volume_state::VolumeState;
use crate::backing::{FailedDomains, FaultDomain};

/// Blocks of one volume that its backing was given, claimed until they are retired.
pub(super) struct WrittenGroup {
    pub(super) volume: Arc<VolumeState>,
    pub(super) in_flight: Vec<InFlightBlock>,
    /// Domains that took not all of it.
    pub(super) failed: FailedDomains,
    /// The domains of those that are a journal's.
    pub(super) journal: Vec<FaultDomain>,
    /// From before the first of them was written.
    pub(super) epoch: SyncEpoch,
    /// Syncs of rounds that had ended by then.
    pub(super) syncs_ended: u64,
}
