//! A disk whose power can fail at any moment: a pool in shadow memory over a backing that forgets, or,
//! to compare with, that backing alone.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use forebay::{Backing, BackingStore, Pool, PoolOptions, RuntimeOptions, WriteRun};
use forebay_pmem::Region;
use forebay_pmem::shadow::{CrashState, Shadow, ShadowModel};
use forebay_serve::{BlockDevice, DeviceError, VolumeDevice};

use super::arrivals::Arrivals;
use crate::Result;
use crate::cuts::volatile_store::{VolatileState, VolatileStore};

/// A disk with what it stands on.
pub struct Machine {
    /// The disk.
    pub device: Arc<Arrivals>,
    pool: Option<Pool>,
    store: Arc<VolatileStore>,
    shadow: Option<Arc<Shadow>>,
}

/// What a power cut could leave.
pub struct Cut {
    media: Option<CrashState>,
    store: VolatileState,
}

/// How long a write of the disk alone takes; most moments are then in one.
const PLAIN_WRITE: Duration = Duration::from_millis(10);

/// The backing as a disk of its own: a write is durable when it is answered, and until then any of its
/// sectors may be there.
struct Plain(Arc<VolatileStore>);

impl BlockDevice for Plain {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn block_size(&self) -> u32 {
        4096
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), DeviceError> {
        Ok(self.0.read_at(offset, buffer)?)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
        let results = self.0.write_runs(&[WriteRun { offset, bytes }]);
        results.into_iter().collect::<std::io::Result<()>>()?;
        std::thread::sleep(PLAIN_WRITE);
        Ok(self.0.sync()?)
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        Ok(self.0.zero_range(offset, length)?)
    }

    fn discard(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        self.write_zeroes(offset, length)
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        Ok(self.0.sync()?)
    }
}

impl Machine {
    /// A pool of `pool_bytes` in shadow memory before a disk of `disk_bytes`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn cached(pool_bytes: u64, disk_bytes: u64, page_bytes: usize) -> Result<Machine> {
        let shadow = Arc::new(Shadow::new(pool_bytes, ShadowModel::Lines));
        let options = PoolOptions {
            member_bytes: pool_bytes,
            ..PoolOptions::default()
        };
        let pool = Pool::create_on(vec![Region::on_shadow(Arc::clone(&shadow))], &options)?;
        let store = Arc::new(VolatileStore::new(disk_bytes));
        Self::over(pool, store, Some(shadow), page_bytes)
    }

    /// The disk alone.
    pub fn plain(disk_bytes: u64, page_bytes: usize) -> Machine {
        Self::without_pool(Arc::new(VolatileStore::new(disk_bytes)), page_bytes)
    }

    /// One of the disks that the cut could leave; a pool is recovered by way of the file `pool`.
    ///
    /// # Errors
    /// Recovery refuses what it finds.
    pub fn recover(cut: &Cut, rng: &mut Rng, pool: &Path) -> Result<Machine> {
        let store = Arc::new(cut.store.sample(rng));
        let Some(media) = &cut.media else {
            return Ok(Self::without_pool(store, 0));
        };
        std::fs::write(pool, media.sample(rng))?;
        let pool = Pool::open_with(&[pool], RuntimeOptions::default())?;
        Self::over(pool, store, None, 0)
    }

    fn over(
        pool: Pool,
        store: Arc<VolatileStore>,
        shadow: Option<Arc<Shadow>>,
        page_bytes: usize,
    ) -> Result<Machine> {
        let volume = pool.attach(Backing::from_store(store.clone()))?;
        let device = Arc::new(VolumeDevice::new(volume));
        Ok(Machine {
            device: Arc::new(Arrivals::new(device, page_bytes)),
            pool: Some(pool),
            store,
            shadow,
        })
    }

    fn without_pool(store: Arc<VolatileStore>, page_bytes: usize) -> Machine {
        let device = Arc::new(Plain(Arc::clone(&store)));
        Machine {
            device: Arc::new(Arrivals::new(device, page_bytes)),
            pool: None,
            store,
            shadow: None,
        }
    }

    /// What the power failing now could leave.
    ///
    /// # Panics
    /// Of a recovered pool, whose memory keeps everything.
    pub fn cut(&self) -> Cut {
        let Some(shadow) = &self.shadow else {
            assert!(self.pool.is_none(), "only shadow memory is cut");
            return Cut {
                media: None,
                store: self.store.crash_state(),
            };
        };
        let (media, store) = shadow.crash_state_with(|| self.store.crash_state());
        Cut {
            media: Some(media),
            store,
        }
    }
}
