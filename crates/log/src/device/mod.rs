//! What the log lies on: pages that are read, written, and made durable.
//!
//! The rules are those of a disk with a volatile cache. A durable write that returned makes itself durable and
//! nothing else; a plain write is durable when a later flush has returned; of a write that has not, any pages may be
//! there afterwards. No write is tried again after a failure.

mod counters;
mod file;
mod measure;
mod members;
mod private;
mod ring;

pub use counters::{Counters, DeviceCounters};
pub use file::FileDevice;
pub use measure::durable_write_cost;
pub use members::{MemberHealth, MembersHealth};
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
    /// The members, if it is made of some.
    fn members(&self) -> Option<&dyn Members> {
        None
    }
}

/// The members of a device. What is asked of the device itself reaches all that are served.
pub trait Members: Send + Sync {
    /// Those that are served, with their numbers, each as a device of its own.
    fn served(&self) -> Vec<(usize, &dyn Device)>;
    /// Names both as members of a new pool, durably, before it is one. `ids` tell them from others.
    ///
    /// # Errors
    /// One of them fails.
    fn found(&self, uuid: u128, ids: [u64; 2]) -> io::Result<()>;
    /// Takes a member out that failed. When this returns, the other one says so, durably: what it alone has may be acknowledged.
    ///
    /// # Errors
    /// The other one is out already, or fails as well.
    fn expel(&self, member: usize, why: &io::Error) -> io::Result<()>;
    /// A page was written to one of them from the other.
    fn note_repaired(&self);
    /// How both are.
    fn health(&self) -> MembersHealth;
}

/// The devices that each have every page: the members that are served, or the device alone.
pub(crate) fn copies(device: &dyn Device) -> Vec<&dyn Device> {
    match device.members() {
        Some(members) => members.served().into_iter().map(|one| one.1).collect(),
        None => vec![device],
    }
}
