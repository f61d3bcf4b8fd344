//! A disk that pages are written to, whose power can fail at any moment: a pool over a backing that forgets, or,
//! to compare with, that backing alone.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fastrand::Rng;
use forebay::{BackingStore, Pool, PoolOptions, RuntimeOptions, WriteRun};
use forebay_pmem::shadow::ShadowModel;
use forebay_serve::{BlockDevice, DeviceError};
use forebay_volatile::{Content, VolatileDisk};
use parking_lot::Mutex;

use super::arrivals::{Arrivals, Call};
use super::pages;
use crate::Result;
use crate::machine::{Cut, Medium, PoolMedium};

/// A disk with what it stands on.
pub struct PageDisk {
    /// The disk.
    pub device: Arc<Arrivals>,
    pool: Option<Pool>,
    medium: Medium,
    plain: Option<Arc<Plain>>,
}

/// How long a write of the disk alone takes; most moments are then in one.
const PLAIN_WRITE: Duration = Duration::from_millis(10);
/// How long a cut waits for a page that is there in part; writers write pages all the time.
const PAGE_LIMIT: Duration = Duration::from_secs(120);

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
            let call = self.waiting.lock().take();
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

impl PageDisk {
    /// A disk of `disk_bytes` behind a new pool of `pool_bytes`; without one, the disk alone.
    pub fn new(pool_bytes: Option<u64>, disk_bytes: u64, page_bytes: usize) -> Result<PageDisk> {
        let Some(member_bytes) = pool_bytes else {
            let medium = Medium::of_disk(disk_bytes, Content::default());
            return Self::over(None, medium, page_bytes);
        };
        let options = PoolOptions::default();
        let (medium, region) = Medium::with_pool(member_bytes, ShadowModel::Lines, disk_bytes);
        let pool = Pool::create_on(vec![region], &options)?;
        Self::over(Some(pool), medium, page_bytes)
    }

    /// One of the disks that the cut could leave; a pool is recovered by way of the file `pool`.
    pub fn recover(cut: &Cut, rng: &mut Rng, pool: &Path) -> Result<PageDisk> {
        let medium = cut.sample(rng, pool)?;
        let pool = match cut.media {
            Some(_) => Some(Pool::open_with(&[pool], RuntimeOptions::default())?),
            None => None,
        };
        Self::over(pool, medium, 0)
    }

    fn over(pool: Option<Pool>, medium: Medium, page_bytes: usize) -> Result<PageDisk> {
        let mut plain = None;
        let device: Arc<dyn BlockDevice> = match &pool {
            Some(pool) => medium.volume_of(pool)?,
            None => plain
                .insert(Arc::new(Plain {
                    store: Arc::clone(&medium.store),
                    waiting: Mutex::new(None),
                }))
                .clone(),
        };
        Ok(PageDisk {
            device: Arc::new(Arrivals::new(device, page_bytes)),
            pool,
            medium,
            plain,
        })
    }

    /// What the power failing now could leave.
    ///
    /// # Panics
    /// Of a recovered pool, whose memory keeps everything.
    pub fn cut(&self) -> Cut {
        assert!(
            self.pool.is_none() || !matches!(self.medium.pool, PoolMedium::Kept),
            "only a shadow is cut"
        );
        self.medium.cut()
    }

    /// What the power failing could leave while a page is there in part: of a disk that tears pages, such a
    /// moment comes with every page that is written, and is waited for, not hoped for. None within two minutes
    /// is an error.
    pub fn cut_within_a_page(&self) -> Result<Cut> {
        let (sender, receiver) = mpsc::channel();
        let medium = self.medium.clone();
        let call = Box::new(move || {
            // Fails only after the limit, when the receiver is gone.
            let _ = sender.send(medium.cut());
        });
        match &self.plain {
            Some(plain) => *plain.waiting.lock() = Some(call),
            None => self.device.call_within_a_page(call),
        }
        receiver.recv_timeout(PAGE_LIMIT).map_err(|_| {
            let limit_s = PAGE_LIMIT.as_secs();
            format!("no page came in parts within {limit_s} s: the control tears nothing").into()
        })
    }
}
