//! The engine of pools on an SSD: everything acknowledged is in a log of segments, which is a ring.
//!
//! A transaction joins a *group*; a group is one write, record and blocks together, that is durable when it returns, and
//! then readers see it. Segments are filled one after the other and reused oldest first, when their blocks are
//! overwritten, on their backings, or carried forward. Which page has which block is known in DRAM alone, 21.4 bytes a block;
//! recovery reads it from the segments' summaries. The protocol, its invariants, and what each write orders: `docs/inside/ssd.md`.
//! Which backing a volume's number stands for is in the volume table, before the first segment.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod backing;
mod device;
mod engine;
mod error;
mod media;
mod mirror;
#[doc(hidden)]
pub mod mutants;
mod page;
pub mod shadow;
mod state;
mod transaction;

pub use backing::Backing;
pub use device::{
    Came, Counters, Device, DeviceCounters, FileDevice, MemberHealth, Members, MembersHealth,
    PageRead, PrivateDevice, durable_write_cost,
};
pub use engine::{
    Flight, Fold, Found, Known, Log, Options, Outcome, Reading, Recycling, Room, Round, Tallies,
    Ticket, begins_as_pool, clear, create, draw_id, has_room_for_a_pool, look, open,
};
pub use error::{LogError, Result};
pub use media::VolumeRow;
pub use mirror::{MirrorDevice, Request, Together, Way, is_member, readd, was_other_member};
pub use page::{PAGE_BYTES, Pages};
pub use transaction::Transaction;
