//! How one request is made to both members.

use crate::device::Device;
use std::io;

/// What both members are asked.
#[derive(Clone, Copy)]
pub enum Request<'r> {
    /// A write, as those of [`Device`].
    Write {
        /// The first page.
        page: u64,
        /// Whole aligned pages.
        parts: &'r [&'r [u8]],
        /// Whether it is durable when it returns.
        is_durable: bool,
    },
    /// A flush.
    Flush,
}

impl Request<'_> {
    /// Makes it to one of them.
    ///
    /// # Errors
    /// The system's.
    pub fn make(&self, device: &dyn Device) -> io::Result<()> {
        match *self {
            Request::Write {
                page,
                parts,
                is_durable: true,
            } => device.write_durable(page, parts),
            Request::Write { page, parts, .. } => device.write(page, parts),
            Request::Flush => device.flush(),
        }
    }
}

/// Makes requests to both members. It returns when both have ended, and says of each how.
pub trait Together: Send + Sync {
    /// Makes one request each.
    fn make(&self, members: [&dyn Device; 2], requests: [&Request<'_>; 2]) -> [io::Result<()>; 2];
}

/// Which way that is done.
pub enum Way {
    /// At the same time: a thread makes those to the second member.
    AtOnce,
    /// One after the other, where nothing waits for a disk.
    InTurn,
    /// Another way, of a caller that has its own.
    Other(Box<dyn Together>),
}

/// One after the other.
pub(super) struct InTurn;

impl Together for InTurn {
    fn make(&self, members: [&dyn Device; 2], requests: [&Request<'_>; 2]) -> [io::Result<()>; 2] {
        [0, 1].map(|member: usize| requests[member].make(members[member]))
    }
}
