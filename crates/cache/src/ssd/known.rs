//! A volume that the pool knows: as it stands on the device, and in use.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use forebay_log::{Log, VolumeRow};

use crate::background::volume_state::VolumeState;
use crate::backing::BackingIdentity;
use crate::error::Result;
use crate::marks::{PoolSide, Stage};

/// A volume that the pool knows.
pub(crate) struct Known {
    /// Its number in the log.
    pub(super) number: u32,
    pub(super) state: Arc<VolumeState>,
    /// As it stands on the device.
    pub(super) row: Mutex<VolumeRow>,
    /// Held shared by every call that reads or changes the volume; a detach takes it, and then nobody does. Its holders may wait for a
    /// turn of the log, so no thread waits for it in its own turn (asserted).
    pub(super) gate: RwLock<()>,
}

impl Known {
    pub(super) fn new(row: VolumeRow, state: Arc<VolumeState>) -> Arc<Known> {
        Arc::new(Known {
            number: row.number,
            state,
            row: Mutex::new(row),
            gate: RwLock::new(()),
        })
    }

    pub(super) fn row(&self) -> VolumeRow {
        let row = self.row.lock().unwrap_or_else(PoisonError::into_inner);
        row.clone()
    }

    pub(super) fn set_row(&self, row: VolumeRow) {
        *self.row.lock().unwrap_or_else(PoisonError::into_inner) = row;
    }

    /// Begins a call on the volume.
    ///
    /// # Errors
    /// It was detached.
    pub(super) fn enter(&self, log: &Log) -> Result<RwLockReadGuard<'_, ()>> {
        refuse_turn(log);
        let entered = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        self.state.check_here()?;
        Ok(entered)
    }

    /// Waits until nobody uses the volume, and keeps it so.
    pub(super) fn shut(&self, log: &Log) -> RwLockWriteGuard<'_, ()> {
        refuse_turn(log);
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Volumes come before turns.
fn refuse_turn(log: &Log) {
    assert!(
        !log.is_maintained_here(),
        "a thread waits for a volume before its turn, never in it"
    );
}

/// Which backing a row stands for.
pub(super) fn identity_of(row: &VolumeRow) -> BackingIdentity {
    BackingIdentity {
        path: row.path.clone(),
        inode: row.inode,
        size_bytes: row.size_bytes,
    }
}

/// What a row says of a volume.
pub(super) fn side_of(pool: [u8; 16], row: &VolumeRow, is_kept_for_a_boot: bool) -> PoolSide {
    PoolSide {
        pool,
        volume: row.id,
        generation: row.generation,
        // A stage of no number is of a later program; nothing is known then but that it is in use.
        stage: Stage::of_number(row.stage).unwrap_or(Stage::Open),
        is_kept_for_a_boot,
    }
}
