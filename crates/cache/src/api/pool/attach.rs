//! Attach: a backing becomes the volume that it was before, or a new one.

use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use crate::api::pool::MemoryPool;
use crate::api::pool::marks::Row;
use crate::api::volume::MemoryVolume;
use crate::background::volume_state::VolumeState;
use crate::backing::{Backing, BackingIdentity};
use crate::error::{ErrorKind, Result, refused};
use crate::marks::{Begin, classify_file, classify_size, may_be_marked, stale_error};
use crate::media::entry::BLOCK_BITS;
use crate::media::volumes::{self, Description, Standing};
use crate::mutants::{Mutant, mutated};

impl MemoryPool {
    /// Attaches a backing: the volume that it was before, or a new one. A backing that has grown since
    /// keeps its volume's size until [`MemoryPool::grow_volume`].
    ///
    /// # Errors
    /// [`ErrorKind::Volume`]: it is attached or being detached, or the table of volumes is full.
    /// [`ErrorKind::Stale`]: it and this pool are not of the same moment, or it shrank or is another file since.
    /// [`ErrorKind::Refused`]: a new one is a pool's file. [`ErrorKind::Mark`], [`ErrorKind::Backing`],
    /// [`ErrorKind::Media`]: the mark, the backing or the pool's medium failed.
    pub fn attach(&self, backing: Backing) -> Result<MemoryVolume> {
        self.attach_as(backing, self.accepts_stale())
    }

    /// As `attach`, of a backing that was in use with another pool meanwhile, or whose newest data is lost.
    /// What the pool has dirty of it counts as newer than the backing; its clean blocks are dropped. Another
    /// file of the volume's name is its backing from then on.
    ///
    /// # Errors
    /// As `attach`; of [`ErrorKind::Stale`] only that the backing is smaller than the volume.
    pub fn attach_stale(&self, backing: Backing) -> Result<MemoryVolume> {
        self.attach_as(backing, true)
    }

    fn attach_as(&self, backing: Backing, accept_stale: bool) -> Result<MemoryVolume> {
        let _one_at_a_time = self.lock_table();
        let pipeline = &self.pipeline;
        let identity = backing.identity();
        check_size(&identity, pipeline.engine().block_bytes())?;
        let known = volumes::read_attached(pipeline.media())
            .into_iter()
            .find(|known| known.identity.path == identity.path);
        if let Some(known) = known {
            return self.attach_again(&known, identity, backing, accept_stale);
        }
        refuse_pool(&backing, &identity)?;
        let (place, before) = (0..pipeline.media().geometry.volumes)
            .map(|place| (place, volumes::read(pipeline.media(), place)))
            .find(|(_, found)| !found.as_ref().is_some_and(|found| found.attached))
            .ok_or_else(|| {
                ErrorKind::Volume(format!(
                    "{}: the pool's table of {} volumes is full; detach one",
                    identity.path.display(),
                    pipeline.media().geometry.volumes
                ))
            })?;
        let row = Row {
            place,
            id: volumes::next_id(place, before.as_ref()),
            identity: &identity,
            standing: Standing::default(),
        };
        let begin = self.classify_mark(&backing, &row, accept_stale)?;
        let id = row.id;
        let state = Arc::new(VolumeState::new(id, &identity));
        state.sync_unsynced(&backing)?;
        self.begin_mark(&backing, &row, begin).inspect_err(|_| {
            if may_be_marked(&backing, self.pool_uuid, id) {
                // As after a crash: the next attempt goes on from there.
                self.pipeline.set_volume(place, Some(state.clone()));
                pipeline.table().live().add(id);
            } else {
                // The next attempt is to find the place free. If that fails too, or a fence did, the next process finds
                // the volume, without a block.
                let _ = pipeline
                    .engine()
                    .write_volume(place, id, &identity, row.standing, false);
            }
        })?;
        self.know_rounds(&backing);
        self.distrust_cached(&state, &backing, 0..identity.size_bytes);
        state.set_backing(backing, identity.size_bytes)?;
        self.pipeline.set_volume(place, Some(state.clone()));
        pipeline.table().live().add(id);
        Ok(self.volume_of(state))
    }

    fn attach_again(
        &self,
        known: &Description,
        identity: BackingIdentity,
        backing: Backing,
        accept_stale: bool,
    ) -> Result<MemoryVolume> {
        let stale = |refusal| stale_error(&identity.path, refusal);
        classify_size(&known.identity, &identity).map_err(stale)?;
        let is_same_file = match classify_file(&known.identity, &identity) {
            Err(refusal) if !accept_stale => return Err(stale(refusal)),
            found => found.is_ok(),
        };
        let Some(state) = self.pipeline.volume(known.id) else {
            // An attach whose fence failed leaves the volume's line.
            self.pipeline.engine().check_writable()?;
            let path = identity.path.display();
            return Err(ErrorKind::Volume(format!("{path}: it is being detached")).into());
        };
        if state.backing.get().is_some() {
            return Err(state.attached_already());
        }
        let size_bytes = known.identity.size_bytes;
        let row = Row {
            place: known.place,
            id: known.id,
            // Of the volume's size still, until it is grown.
            identity: &BackingIdentity {
                size_bytes,
                ..identity
            },
            standing: known.standing,
        };
        if !is_same_file {
            // They are the other file's. Gone durably, before the line says that this file is the volume's.
            self.pipeline.engine().drop_clean_blocks(known.id)?;
        }
        let begin = self.classify_mark(&backing, &row, accept_stale)?;
        state.sync_unsynced(&backing)?;
        if begin != Begin::AsItIs || !is_same_file {
            self.begin_mark(&backing, &row, begin)?;
        }
        self.know_rounds(&backing);
        self.distrust_cached(&state, &backing, 0..size_bytes);
        state.set_backing(backing, size_bytes)?;
        // Its dirty blocks were passed over while it had no backing.
        state.health.forget();
        self.pipeline.announce_dirty(state.id);
        self.pipeline.engine().wakeup().notify_work();
        Ok(self.volume_of(state))
    }

    /// What the system keeps in memory of these bytes of the backing may be what an earlier incarnation could
    /// not sync: zeroes of a discard that failed, of which only that process knew. They are dropped, so
    /// that what is read and brought in is what the medium has (I7), and what stays is not brought in.
    /// The caller has synced the backing; nothing has written to these bytes since.
    pub(super) fn distrust_cached(
        &self,
        state: &VolumeState,
        backing: &Backing,
        bytes: Range<u64>,
    ) {
        if mutated(Mutant::ZeroingsForgotten) {
            return;
        }
        let block_bytes = self.pipeline.engine().block_bytes() as u64;
        for kept in backing.forget_cached() {
            let (start, end) = (kept.start.max(bytes.start), kept.end.min(bytes.end));
            if start < end {
                let blocks = start / block_bytes..end.div_ceil(block_bytes);
                state.zeroings.distrust(blocks);
            }
        }
    }

    fn know_rounds(&self, backing: &Backing) {
        if backing.prefers_long_rounds() {
            self.pipeline.write_back().prefer_long_rounds();
        }
    }

    /// The volumes that the pool knows, with or without an attached backing.
    pub fn volumes(&self) -> Vec<MemoryVolume> {
        let known = self.pipeline.volumes().into_iter();
        known.map(|state| self.volume_of(state)).collect()
    }

    /// The volume with this id.
    pub fn volume(&self, id: u32) -> Option<MemoryVolume> {
        self.pipeline.volume(id).map(|state| self.volume_of(state))
    }

    fn volume_of(&self, state: Arc<VolumeState>) -> MemoryVolume {
        MemoryVolume {
            pipeline: self.pipeline.clone(),
            state,
        }
    }

    /// The volume table changes under this lock. Nothing of a volume's size is done under it: others
    /// come and go meanwhile.
    pub(super) fn lock_table(&self) -> MutexGuard<'_, ()> {
        // Held across fences, at which a checker may switch threads.
        forebay_pmem::lock_or_yield(&self.attach)
    }

    /// What the table says of a volume of this pool.
    pub(super) fn description(&self, volume: &MemoryVolume) -> Result<Description> {
        volumes::read_attached(self.pipeline.media())
            .into_iter()
            .find(|found| found.id == volume.id() && Arc::ptr_eq(&self.pipeline, &volume.pipeline))
            .ok_or_else(|| {
                ErrorKind::Volume(format!("{volume:?} is not attached to this pool")).into()
            })
    }
}

/// A pool's file is no disk. Asked of new volumes only: a known one's user may have made a pool in it.
pub(crate) fn refuse_pool(backing: &Backing, identity: &BackingIdentity) -> Result<()> {
    if !backing.holds_pool() {
        return Ok(());
    }
    Err(refused(
        &identity.path,
        "it begins as a Forebay pool does, and to serve it as a disk would overwrite that",
        "name the disk; if it was a pool and is needed no more, overwrite its first 4096 bytes",
    ))
}

pub(crate) fn check_size(identity: &BackingIdentity, block_bytes: usize) -> Result<()> {
    let blocks = identity.size_bytes.div_ceil(block_bytes as u64);
    if blocks == 0 || blocks > 1 << BLOCK_BITS {
        return Err(ErrorKind::Volume(format!(
            "{}: {} bytes; a volume has 1 to 2^{BLOCK_BITS} blocks",
            identity.path.display(),
            identity.size_bytes
        ))
        .into());
    }
    Ok(())
}
