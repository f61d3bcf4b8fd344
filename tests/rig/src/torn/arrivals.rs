//! A disk that notes how writes reach it: in pieces of which sizes, and whether those cut pages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_serve::{BlockDevice, DeviceError};

use super::pages;

const SIZES_SHOWN: usize = 5;

/// What reached a disk.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// How many writes of each size in bytes.
    sizes: BTreeMap<u64, u64>,
    /// Writes that begin or end within a marked page.
    pub cutting: u64,
    /// Writes that begin and end where pages of any program do, in file systems that align them.
    pub aligned: u64,
}

/// See the [module](self).
pub struct Arrivals {
    inner: Arc<dyn BlockDevice>,
    page_bytes: usize,
    notes: Mutex<Notes>,
}

impl Arrivals {
    /// Notes what reaches `inner`, where pages are of `page_bytes`.
    pub fn new(inner: Arc<dyn BlockDevice>, page_bytes: usize) -> Arrivals {
        Arrivals {
            inner,
            page_bytes,
            notes: Mutex::default(),
        }
    }

    /// What came since the last time.
    pub fn take(&self) -> Notes {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockDevice for Arrivals {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let mut notes = self.lock();
        *notes.sizes.entry(data.len() as u64).or_default() += 1;
        notes.cutting += u64::from(pages::cuts_a_page(data, self.page_bytes));
        let page_bytes = self.page_bytes as u64;
        let end = offset + data.len() as u64;
        notes.aligned += u64::from([offset, end].iter().all(|at| at.is_multiple_of(page_bytes)));
        drop(notes);
        self.inner.write_at(offset, data)
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.inner.write_zeroes(offset, length)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, length)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }
}

impl fmt::Display for Notes {
    /// Sizes with how often they came, the most frequent first, and what they cut.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list: Vec<_> = self.sizes.iter().collect();
        list.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (bytes, count) in list.iter().take(SIZES_SHOWN) {
            write!(formatter, "{bytes}: {count}, ")?;
        }
        let writes: u64 = self.sizes.values().sum();
        let Notes {
            cutting, aligned, ..
        } = self;
        write!(
            formatter,
            "{cutting} of {writes} cut a marked page, {aligned} are aligned"
        )
    }
}
