//! Volumes come and go: attached to their backing, detached from the pool for good.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use crate::backing::{Backing, BackingIdentity};
use crate::entry::BLOCK_BITS;
use crate::error::{Error, Result};
use crate::health::Health;
use crate::pool::Pool;
use crate::volume::{Volume, VolumeState};
use crate::volumes::{self, Description};

impl Pool {
    /// Attaches a backing: the volume that it was before, or a new one.
    ///
    /// Errors: no room in the volume table; the backing changed its size since.
    pub fn attach(&self, backing: Backing) -> Result<Volume> {
        let _one_at_a_time = self.attach.lock().unwrap_or_else(|e| e.into_inner());
        let core = &self.core;
        let identity = backing.identity();
        check_size(&identity, core.block_bytes())?;
        let known = volumes::read_attached(&core.media)
            .into_iter()
            .find(|known| known.identity.path == identity.path);
        if let Some(known) = known {
            return self.attach_again(&known, identity, backing);
        }
        let (place, before) = (0..core.media.geometry.volumes)
            .map(|place| (place, volumes::read(&core.media, place)))
            .find(|(_, found)| !found.as_ref().is_some_and(|found| found.attached))
            .ok_or_else(|| {
                Error::Volume(format!(
                    "{}: the pool's table of {} volumes is full; detach one",
                    identity.path.display(),
                    core.media.geometry.volumes
                ))
            })?;
        sync_backing(&backing, &identity)?;
        let id = volumes::next_id(place, before.as_ref());
        volumes::write(&core.media, place, id, &identity, true)?;
        let state = Arc::new(VolumeState {
            id,
            path: identity.path,
            size_bytes: identity.size_bytes,
            backing: OnceLock::from(backing),
            health: Health::default(),
            zeroings: AtomicU32::new(0),
        });
        self.set_volume(place, Some(state.clone()));
        core.live.add(id);
        Ok(Volume {
            core: core.clone(),
            state,
        })
    }

    fn attach_again(
        &self,
        known: &volumes::Description,
        identity: BackingIdentity,
        backing: Backing,
    ) -> Result<Volume> {
        if known.identity != identity {
            return Err(Error::Volume(format!(
                "{}: this pool caches a backing of that name with {} bytes (inode {}), but found {} \
                 bytes (inode {}); bring the old one back, or detach it first",
                identity.path.display(),
                known.identity.size_bytes,
                known.identity.inode,
                identity.size_bytes,
                identity.inode
            )));
        }
        let state = self.core.volume(known.id).ok_or_else(|| {
            Error::Volume(format!("{}: it is being detached", identity.path.display()))
        })?;
        sync_backing(&backing, &identity)?;
        state.backing.set(backing).map_err(|_| {
            Error::Volume(format!(
                "{}: it is attached already",
                identity.path.display()
            ))
        })?;
        // Its dirty blocks were passed over while it had no backing.
        state.health.succeeded();
        self.core.announce_dirty(state.id);
        self.core.bell.ring_work();
        Ok(Volume {
            core: self.core.clone(),
            state,
        })
    }

    /// The volumes that the pool knows, with or without an attached backing.
    pub fn volumes(&self) -> Vec<Volume> {
        let volumes = self.core.volumes.read().unwrap_or_else(|e| e.into_inner());
        let known = volumes.iter().flatten();
        known
            .map(|state| Volume {
                core: self.core.clone(),
                state: state.clone(),
            })
            .collect()
    }

    /// Writes everything of a volume back, drops its blocks and forgets it. Writes through other
    /// clones of the volume fail from some moment on; what was acknowledged before is in the backing.
    ///
    /// Errors: the backing failed; the volume is still attached then and nothing is lost.
    pub fn detach(&self, volume: Volume) -> Result<()> {
        let _one_at_a_time = self.attach.lock().unwrap_or_else(|e| e.into_inner());
        let core = &self.core;
        let found = volumes::read_attached(&core.media)
            .into_iter()
            .find(|found| found.id == volume.id() && Arc::ptr_eq(core, &volume.core))
            .ok_or_else(|| Error::Volume(format!("{volume:?} is not attached to this pool")))?;
        // While it is still in use, so that little is left for later.
        volume.flush()?;
        core.live.remove(found.id);
        core.index.wait_for_holders();
        let gone = self.forget(&volume, &found);
        if gone.is_err() {
            core.live.add(found.id);
        }
        gone
    }

    /// Nobody changes the volume any more: its last blocks go, then its place is free.
    fn forget(&self, volume: &Volume, found: &Description) -> Result<()> {
        volume.flush()?;
        self.core.drop_volume_blocks(&volume.state)?;
        // The tombstones must be in the table before the id may be used again.
        self.core.checkpoint()?;
        let Description { place, id, .. } = *found;
        volumes::write(&self.core.media, place, id, &found.identity, false)?;
        self.set_volume(place, None);
        Ok(())
    }

    fn set_volume(&self, place: u32, state: Option<Arc<VolumeState>>) {
        let mut volumes = self.core.volumes.write().unwrap_or_else(|e| e.into_inner());
        volumes[place as usize] = state;
    }
}

/// A killed process, ours or another, may have written what it did not sync; a clean block stands on
/// durable bytes only (I7).
fn sync_backing(backing: &Backing, identity: &BackingIdentity) -> Result<()> {
    backing.sync().map_err(|source| Error::Backing {
        path: identity.path.clone(),
        source,
    })
}

fn check_size(identity: &BackingIdentity, block_bytes: usize) -> Result<()> {
    let blocks = identity.size_bytes.div_ceil(block_bytes as u64);
    if blocks == 0 || blocks > 1 << BLOCK_BITS {
        return Err(Error::Volume(format!(
            "{}: {} bytes; a volume has 1 to 2^{BLOCK_BITS} blocks",
            identity.path.display(),
            identity.size_bytes
        )));
    }
    Ok(())
}
