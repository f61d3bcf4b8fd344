//! What the log lies on: pages that are read, written, and made durable.
//!
//! The rules are those of a disk with a volatile cache. A durable write that returned makes itself durable and
//! nothing else; a plain write is durable when a later flush has returned; of a write that has not, any pages may be
//! there afterwards. No write is tried again after a failure.

mod counters;
mod file;
mod measure;
mod private;
mod ring;

pub use counters::{Counters, DeviceCounters};
pub use file::FileDevice;
pub use measure::durable_write_cost;
pub use private::PrivateDevice;

use crate::page::PAGE_BYTES;
use std::io;
use std::path::Path;

/// One of several reads: whole pages from `page` on.
pub struct PageRead<'o> {
    /// The first page.
    pub page: u64,
    /// Where they go, aligned to a page.
    pub out: &'o mut [u8],
}

/// Is told of one of several reads that it was read whole: its number, and its bytes.
pub type Came<'c> = dyn FnMut(usize, &[u8]) + 'c;

impl PageRead<'_> {
    pub(crate) fn offset(&self) -> u64 {
        self.page * PAGE_BYTES as u64
    }
}

/// Makes several reads one after the other.
fn read_each(
    read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    reads: &mut [PageRead<'_>],
    came: &mut Came<'_>,
) {
    for (number, one) in reads.iter_mut().enumerate() {
        if read(one.page, one.out).is_ok() {
            came(number, one.out);
        }
    }
}

/// A file, a block device, or its shadow.
pub trait Device: Send + Sync {
    /// What errors call it.
    fn path(&self) -> &Path;
    /// How many pages it has.
    fn pages(&self) -> u64;
    /// Reads whole pages from `page` on.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, page: u64, out: &mut [u8]) -> io::Result<()>;
    /// Several reads, as many at once as the device does well. `came` is told the number and the bytes of each that was read whole,
    /// while others are under way. Those that it is not told of are to be read again, by themselves: then each says why not.
    fn read_many(&self, reads: &mut [PageRead<'_>], came: &mut Came<'_>) {
        read_each(&mut |page, out| self.read(page, out), reads, came);
    }
    /// Writes `parts`, whole aligned pages, one after the other from `page` on. When it returns, they are durable; nothing that
    /// was written before is durable by it.
    ///
    /// # Errors
    /// The system's. Then any of the pages may have been written.
    fn write_durable(&self, page: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// The same, durable only when a [`Device::flush`] that begins later has returned.
    ///
    /// # Errors
    /// As above.
    fn write(&self, page: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// Makes durable what had been written when it was called.
    ///
    /// # Errors
    /// The system's. Then nothing is known of what had been written.
    fn flush(&self) -> io::Result<()>;
    /// What it was asked so far.
    fn counters(&self) -> DeviceCounters;
}
