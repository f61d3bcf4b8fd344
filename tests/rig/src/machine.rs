//! What a served disk stands on, and loses when the power fails: a backing with a volatile cache and, but for
//! controls, a pool in shadow memory or on a shadow device before it. At any moment the power can fail; what that
//! leaves is one of the states that it could leave.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay::{Backing, Pool};
use forebay_log::PAGE_BYTES;
use forebay_log::shadow::{Image, Observer, ShadowDevice, ShadowState};
use forebay_pmem::Region;
use forebay_pmem::shadow::{CrashState, Shadow, ShadowEvent, ShadowHook, ShadowModel};
use forebay_serve::VolumeDevice;
use forebay_volatile::{Content, DiskState, VolatileDisk};

use crate::Result;

/// A disk's sync takes its time, in which the power may fail.
const SYNC_TIME: Duration = Duration::from_millis(2);

/// A disk of which units of so many bytes are durable, each by itself.
#[derive(Clone)]
pub struct Ssd {
    /// The disk.
    pub device: Arc<ShadowDevice>,
    /// Bytes of a unit.
    pub unit_bytes: usize,
}

/// What a pool stands on.
#[derive(Clone)]
pub enum PoolMedium {
    /// There is no pool, or what it stands on keeps everything.
    Kept,
    /// Its memory.
    Memory(Arc<Shadow>),
    /// Its disk.
    Ssd(Ssd),
}

/// What loses something when the power fails.
#[derive(Clone)]
pub struct Medium {
    /// The backing.
    pub store: Arc<VolatileDisk>,
    /// What the pool stands on.
    pub pool: PoolMedium,
}

/// What a power cut could leave of what a pool stands on.
pub enum PoolCut {
    /// Of its memory.
    Memory(CrashState),
    /// Of its disk, whose units have so many bytes.
    Ssd(ShadowState, usize),
}

/// Is called at every moment of a pool's medium, with what takes the cut of that moment.
pub type Watcher = Arc<dyn Fn(&dyn Fn() -> Cut) + Send + Sync>;

/// What a power cut could leave.
pub struct Cut {
    /// Of the pool, if there was one.
    pub media: Option<PoolCut>,
    /// Of the backing.
    pub store: DiskState,
}

impl Medium {
    /// A backing alone.
    pub fn of_disk(size_bytes: u64, content: Content) -> Medium {
        let disk = VolatileDisk::sparse("disk", size_bytes, content);
        Medium {
            store: Arc::new(disk.telling_holes().with_sync_time(SYNC_TIME)),
            pool: PoolMedium::Kept,
        }
    }

    /// An empty backing, and an empty disk for a pool before it.
    pub fn with_ssd(pool_bytes: u64, unit_bytes: usize, disk_bytes: u64) -> (Medium, Ssd) {
        let pages = pool_bytes as usize / PAGE_BYTES;
        let ssd = Ssd::holding(Image::zeroed(pages), unit_bytes);
        let medium = Medium {
            pool: PoolMedium::Ssd(ssd.clone()),
            ..Medium::of_disk(disk_bytes, Content::default())
        };
        (medium, ssd)
    }

    /// An empty backing, and the memory for a pool before it.
    pub fn with_pool(pool_bytes: u64, model: ShadowModel, disk_bytes: u64) -> (Medium, Region) {
        let shadow = Arc::new(Shadow::new(pool_bytes, model));
        let medium = Medium {
            pool: PoolMedium::Memory(Arc::clone(&shadow)),
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
        let store = || self.store.crash_state();
        match &self.pool {
            PoolMedium::Kept => Cut {
                media: None,
                store: store(),
            },
            PoolMedium::Memory(shadow) => Cut::of_memory(shadow, &self.store),
            PoolMedium::Ssd(ssd) => {
                let (state, store) = ssd.device.state_with(store);
                Cut::of_ssd(state, ssd.unit_bytes, store)
            }
        }
    }

    /// Has `watcher` called from now on, by the threads of the pool; or nobody.
    ///
    /// # Panics
    /// What the pool stands on keeps everything.
    pub fn watch(&self, watcher: Option<Watcher>) {
        let store = Arc::clone(&self.store);
        match &self.pool {
            PoolMedium::Kept => panic!("only a shadow is cut"),
            PoolMedium::Memory(shadow) => {
                let weak = Arc::downgrade(shadow);
                let cut = move || {
                    let shadow = weak.upgrade().expect("its thread uses it");
                    Cut::of_memory(&shadow, &store)
                };
                shadow.set_hook(watcher.map(|watcher| {
                    Arc::new(move |_: ShadowEvent<'_>| watcher(&cut)) as ShadowHook
                }));
            }
            PoolMedium::Ssd(ssd) => {
                let unit_bytes = ssd.unit_bytes;
                // The device's lock is held: nothing happens to it before the backing's state is taken as well.
                let tell = move |watcher: &Watcher, state: &ShadowState| {
                    watcher(&|| Cut::of_ssd(state.clone(), unit_bytes, store.crash_state()));
                };
                ssd.device.observe(watcher.map(|watcher| {
                    Box::new(move |state: &ShadowState| tell(&watcher, state)) as Observer
                }));
            }
        }
    }
}

impl Ssd {
    /// A disk that holds `image`, all of it durable.
    pub fn holding(image: Image, unit_bytes: usize) -> Ssd {
        Ssd {
            device: Arc::new(ShadowDevice::new(ShadowState::new(image, unit_bytes))),
            unit_bytes,
        }
    }
}

/// Writes it for people; nothing reads it.
fn write_image(image: &Image, path: &Path) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    (0..image.len()).try_for_each(|page| file.write_all(image.page(page).bytes()))?;
    Ok(file.flush()?)
}

impl Cut {
    fn of_memory(shadow: &Shadow, store: &VolatileDisk) -> Cut {
        let (media, store) = shadow.crash_state_with(|| store.crash_state());
        Cut {
            media: Some(PoolCut::Memory(media)),
            store,
        }
    }

    fn of_ssd(state: ShadowState, unit_bytes: usize, store: DiskState) -> Cut {
        Cut {
            media: Some(PoolCut::Ssd(state, unit_bytes)),
            store,
        }
    }

    /// How many lines or units of the pool and sectors of the backing it may keep or lose.
    pub fn undecided(&self) -> u64 {
        let units = match &self.media {
            None => 0,
            Some(PoolCut::Memory(media)) => media.pending_units(),
            Some(PoolCut::Ssd(state, _)) => state.pending_units(),
        };
        (units + self.store.unsynced_sectors()) as u64
    }

    /// One of the states that the cut could leave; `pool_file` gets the pool's bytes. A pool in memory is to be opened
    /// there as any pool is, one on an SSD on its shadow: the folder of a run is in memory, which has no such pools.
    pub fn sample(&self, rng: &mut Rng, pool_file: &Path) -> Result<Medium> {
        let mut pool = PoolMedium::Kept;
        let content = match &self.media {
            Some(PoolCut::Memory(media)) => {
                std::fs::write(pool_file, media.sample(rng))?;
                self.store.sample(rng)
            }
            Some(PoolCut::Ssd(state, unit_bytes)) => {
                let image = state.cut(rng);
                write_image(&image, pool_file)?;
                pool = PoolMedium::Ssd(Ssd::holding(image, *unit_bytes));
                self.store.sample(rng)
            }
            // A control: it has to tear, so no sector waits for another.
            None => self.store.sample_apart(rng),
        };
        Ok(Medium {
            pool,
            ..Medium::of_disk(self.store.size_bytes(), content)
        })
    }
}
