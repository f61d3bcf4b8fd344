//! A disk whose power can fail at any moment: a pool in shadow memory over a backing that forgets, or,
//! to compare with, that backing alone.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use fastrand::Rng;
use forebay::{Backing, BackingStore, Pool, PoolOptions, RuntimeOptions, WriteRun};
use forebay_pmem::Region;
use forebay_pmem::shadow::{CrashState, Shadow, ShadowModel};
use forebay_serve::{BlockDevice, DeviceError, VolumeDevice};
use forebay_volatile::{Content, DiskState, VolatileDisk};

use super::arrivals::{Arrivals, Call};
use super::pages;
use crate::Result;
use crate::cuts::shadow_machine::SYNC_TIME;

/// A disk with what it stands on.
pub struct Machine {
    /// The disk.
    pub device: Arc<Arrivals>,
    pool: Option<Pool>,
    parts: Parts,
    plain: Option<Arc<Plain>>,
}

/// What loses something when the power fails.
#[derive(Clone)]
struct Parts {
    store: Arc<VolatileDisk>,
    shadow: Option<Arc<Shadow>>,
}

/// What a power cut could leave.
pub struct Cut {
    media: Option<CrashState>,
    store: DiskState,
}

/// How long a write of the disk alone takes; most moments are then in one.
const PLAIN_WRITE: Duration = Duration::from_millis(10);
/// How long a cut waits for a page that is there in part; writers write pages all the time.
const PAGE_LIMIT: Duration = Duration::from_secs(120);

fn disk(size_bytes: u64, content: Content) -> Arc<VolatileDisk> {
    let disk = VolatileDisk::sparse("disk", size_bytes, content);
    Arc::new(disk.telling_holes().with_sync_time(SYNC_TIME))
}

/// The backing as a disk of its own: a write is durable when it is answered, and until then any of its
/// sectors may be there.
struct Plain {
    store: Arc<VolatileDisk>,
    /// Called in the middle of the next write of a page.
    waiting: Mutex<Option<Call>>,
}

impl BlockDevice for Plain {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }

    fn block_size(&self) -> u32 {
        4096
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), DeviceError> {
        Ok(self.store.read_at(offset, buffer)?)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
        let results = self.store.write_runs(&[WriteRun { offset, bytes }]);
        results.into_iter().collect::<std::io::Result<()>>()?;
        if pages::page_and_version(bytes).is_some() {
            let call = self
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            call.into_iter().for_each(|call| call());
        }
        std::thread::sleep(PLAIN_WRITE);
        Ok(self.store.sync()?)
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        Ok(self.store.zero_range(offset, length)?)
    }

    fn discard(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        self.write_zeroes(offset, length)
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        Ok(self.store.sync()?)
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
        let store = disk(disk_bytes, Content::default());
        Self::over(pool, store, Some(shadow), page_bytes)
    }

    /// The disk alone.
    pub fn plain(disk_bytes: u64, page_bytes: usize) -> Machine {
        Self::without_pool(disk(disk_bytes, Content::default()), page_bytes)
    }

    /// One of the disks that the cut could leave; a pool is recovered by way of the file `pool`.
    ///
    /// # Errors
    /// Recovery refuses what it finds.
    pub fn recover(cut: &Cut, rng: &mut Rng, pool: &Path) -> Result<Machine> {
        let Some(media) = &cut.media else {
            // A control: it has to tear, so no sector waits for another.
            let store = disk(cut.store.size_bytes(), cut.store.sample_apart(rng));
            return Ok(Self::without_pool(store, 0));
        };
        let store = disk(cut.store.size_bytes(), cut.store.sample(rng));
        std::fs::write(pool, media.sample(rng))?;
        let pool = Pool::open_with(&[pool], RuntimeOptions::default())?;
        Self::over(pool, store, None, 0)
    }

    fn over(
        pool: Pool,
        store: Arc<VolatileDisk>,
        shadow: Option<Arc<Shadow>>,
        page_bytes: usize,
    ) -> Result<Machine> {
        let volume = pool.attach(Backing::from_store(store.clone()))?;
        let device = Arc::new(VolumeDevice::new(volume));
        Ok(Machine {
            device: Arc::new(Arrivals::new(device, page_bytes)),
            pool: Some(pool),
            parts: Parts { store, shadow },
            plain: None,
        })
    }

    fn without_pool(store: Arc<VolatileDisk>, page_bytes: usize) -> Machine {
        let plain = Arc::new(Plain {
            store: Arc::clone(&store),
            waiting: Mutex::new(None),
        });
        Machine {
            device: Arc::new(Arrivals::new(Arc::clone(&plain) as _, page_bytes)),
            pool: None,
            parts: Parts {
                store,
                shadow: None,
            },
            plain: Some(plain),
        }
    }

    /// What the power failing now could leave.
    ///
    /// # Panics
    /// Of a recovered pool, whose memory keeps everything.
    pub fn cut(&self) -> Cut {
        assert!(
            self.pool.is_none() || self.parts.shadow.is_some(),
            "only shadow memory is cut"
        );
        self.parts.cut()
    }

    /// What the power failing could leave while a page is there in part: of a disk that tears pages, such a
    /// moment comes with every page that is written, and is waited for, not hoped for.
    ///
    /// # Errors
    /// No page comes, or all come whole.
    pub fn cut_within_a_page(&self) -> Result<Cut> {
        let (sender, receiver) = mpsc::channel();
        let parts = self.parts.clone();
        let call = Box::new(move || {
            // Fails only after the limit, when the receiver is gone.
            let _ = sender.send(parts.cut());
        });
        match &self.plain {
            Some(plain) => {
                *plain.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
            }
            None => self.device.call_within_a_page(call),
        }
        receiver.recv_timeout(PAGE_LIMIT).map_err(|_| {
            let limit_s = PAGE_LIMIT.as_secs();
            format!("no page came in parts within {limit_s} s: the control tears nothing").into()
        })
    }
}

impl Parts {
    fn cut(&self) -> Cut {
        let Some(shadow) = &self.shadow else {
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
