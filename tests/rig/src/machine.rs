//! What a served disk stands on, and loses when the power fails: a backing with a volatile cache and, but for
//! controls, a pool in shadow memory before it. At any moment the power can fail; what that leaves is one of the
//! states that it could leave.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay::{Backing, Pool};
use forebay_pmem::Region;
use forebay_pmem::shadow::{CrashState, Shadow, ShadowModel};
use forebay_serve::VolumeDevice;
use forebay_volatile::{Content, DiskState, VolatileDisk};

use crate::Result;

/// A disk's sync takes its time, in which the power may fail.
const SYNC_TIME: Duration = Duration::from_millis(2);

/// What loses something when the power fails.
#[derive(Clone)]
pub struct Medium {
    /// The backing.
    pub store: Arc<VolatileDisk>,
    /// The pool's memory; none without a pool, and of a recovered one, whose memory keeps everything.
    pub shadow: Option<Arc<Shadow>>,
}

/// What a power cut could leave.
pub struct Cut {
    /// Of the pool, if there was one.
    pub media: Option<CrashState>,
    /// Of the backing.
    pub store: DiskState,
}

impl Medium {
    /// A backing alone.
    pub fn of_disk(size_bytes: u64, content: Content) -> Medium {
        let disk = VolatileDisk::sparse("disk", size_bytes, content);
        Medium {
            store: Arc::new(disk.telling_holes().with_sync_time(SYNC_TIME)),
            shadow: None,
        }
    }

    /// An empty backing, and the memory for a pool before it.
    pub fn with_pool(pool_bytes: u64, model: ShadowModel, disk_bytes: u64) -> (Medium, Region) {
        let shadow = Arc::new(Shadow::new(pool_bytes, model));
        let medium = Medium {
            shadow: Some(Arc::clone(&shadow)),
            ..Medium::of_disk(disk_bytes, Content::default())
        };
        (medium, Region::on_shadow(shadow))
    }

    /// The backing, to be attached.
    pub fn backing(&self) -> Backing {
        Backing::from_store(self.store.clone())
    }

    /// The backing as a disk that `pool` caches.
    pub fn volume_of(&self, pool: &Pool) -> Result<Arc<VolumeDevice>> {
        Ok(Arc::new(VolumeDevice::new(pool.attach(self.backing())?)))
    }

    /// What the power failing now could leave.
    pub fn cut(&self) -> Cut {
        match &self.shadow {
            Some(shadow) => {
                let (media, store) = shadow.crash_state_with(|| self.store.crash_state());
                Cut {
                    media: Some(media),
                    store,
                }
            }
            None => Cut {
                media: None,
                store: self.store.crash_state(),
            },
        }
    }
}

impl Cut {
    /// How many lines or sectors of the pool and sectors of the backing it may keep or lose.
    pub fn undecided(&self) -> u64 {
        let lines = self.media.as_ref().map_or(0, CrashState::pending_units);
        (lines + self.store.unsynced_sectors()) as u64
    }

    /// One of the states that the cut could leave; `pool_file` gets the pool's bytes, to be opened as any pool is.
    pub fn sample(&self, rng: &mut Rng, pool_file: &Path) -> Result<Medium> {
        let content = match &self.media {
            Some(media) => {
                std::fs::write(pool_file, media.sample(rng))?;
                self.store.sample(rng)
            }
            // A control: it has to tear, so no sector waits for another.
            None => self.store.sample_apart(rng),
        };
        Ok(Medium::of_disk(self.store.size_bytes(), content))
    }
}
