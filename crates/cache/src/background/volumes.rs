//! The volumes that a pool knows, by their places in its volume table.

use std::sync::{Arc, PoisonError, RwLockReadGuard};

use super::Pipeline;
use super::volume_state::VolumeState;
use crate::media::volumes;

impl Pipeline {
    fn read_volumes(&self) -> RwLockReadGuard<'_, Vec<Option<Arc<VolumeState>>>> {
        self.volumes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, as they are now.
    pub(crate) fn volumes(&self) -> Vec<Arc<VolumeState>> {
        self.read_volumes().iter().flatten().cloned().collect()
    }

    /// Shows all of them, none of which is held on to.
    pub(super) fn each_volume(&self, visit: impl Fn(&VolumeState)) {
        self.read_volumes()
            .iter()
            .flatten()
            .for_each(|one| visit(one));
    }

    /// The volume with this id.
    pub(crate) fn volume(&self, id: u32) -> Option<Arc<VolumeState>> {
        let volumes = self.read_volumes();
        volumes
            .iter()
            .flatten()
            .find(|volume| volume.id == id)
            .cloned()
    }

    /// Puts a volume at its place of the table, or nothing.
    pub(crate) fn set_volume(&self, place: u32, state: Option<Arc<VolumeState>>) {
        let mut volumes = self.volumes.write().unwrap_or_else(PoisonError::into_inner);
        volumes[place as usize] = state;
    }

    /// Makes the volumes of the table known, still without their backings.
    pub(super) fn know_volumes(&self) {
        for known in volumes::read_attached(self.media()) {
            self.table().live().add(known.id);
            let state = VolumeState::new(known.id, &known.identity);
            self.set_volume(known.place, Some(Arc::new(state)));
        }
    }
}
