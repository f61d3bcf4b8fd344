//! A disk that notes how writes reach it: in pieces of which sizes, and whether those cut pages. It can also
//! be stopped when a page is there in part.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use forebay_serve::{BlockDevice, DeviceError};
use parking_lot::{Mutex, RwLock};

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

/// What is called once, at the moment that was waited for.
pub type Call = Box<dyn FnOnce() + Send>;

/// A call that waits for a page that is there in part.
struct Waiting {
    call: Call,
    /// The page that came last and its version, with how many bytes of that version have come.
    last: Option<(u64, u64)>,
    come_bytes: usize,
}

/// See the [module](self).
pub struct Arrivals {
    inner: Arc<dyn BlockDevice>,
    page_bytes: usize,
    notes: Mutex<Notes>,
    /// Held by every write, and alone by those that may leave a page in part while a call waits for it.
    writes: RwLock<()>,
    waiting: Mutex<Option<Waiting>>,
}

impl Arrivals {
    /// Notes what reaches `inner`, where pages are of `page_bytes`.
    pub fn new(inner: Arc<dyn BlockDevice>, page_bytes: usize) -> Arrivals {
        Arrivals {
            inner,
            page_bytes,
            notes: Mutex::default(),
            writes: RwLock::new(()),
            waiting: Mutex::new(None),
        }
    }

    /// Has `call` called when a write has brought a first part of a page and the rest has not begun: until it
    /// returns nothing else is written.
    pub fn call_within_a_page(&self, call: Call) {
        let waiting = Waiting {
            call,
            last: None,
            come_bytes: 0,
        };
        *self.waiting.lock() = Some(waiting);
    }

    /// A write that begins or ends within a page. While a call waits such writes come one by one, so that the
    /// first piece of a page leaves it in part.
    fn write_piece(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        let _alone = self.writes.write();
        self.inner.write_at(offset, data)?;
        let mut place = self.waiting.lock();
        let Some(waiting) = place.as_mut() else {
            return Ok(());
        };
        let piece = pages::page_and_version(data);
        if waiting.last != piece {
            waiting.last = piece;
            waiting.come_bytes = 0;
        }
        waiting.come_bytes += data.len();
        if piece.is_some()
            && waiting.come_bytes < self.page_bytes
            && let Some(waiting) = place.take()
        {
            (waiting.call)();
        }
        Ok(())
    }

    /// What came since the last time.
    pub fn take(&self) -> Notes {
        std::mem::take(&mut self.notes.lock())
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
        let cuts_a_page = pages::cuts_a_page(data, self.page_bytes);
        let mut notes = self.notes.lock();
        *notes.sizes.entry(data.len() as u64).or_default() += 1;
        notes.cutting += u64::from(cuts_a_page);
        let page_bytes = self.page_bytes as u64;
        let end = offset + data.len() as u64;
        notes.aligned += u64::from([offset, end].iter().all(|at| at.is_multiple_of(page_bytes)));
        drop(notes);
        if cuts_a_page && self.waiting.lock().is_some() {
            return self.write_piece(offset, data);
        }
        let _together = self.writes.read();
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
