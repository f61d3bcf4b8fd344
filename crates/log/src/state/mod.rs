//! What is known in DRAM: nothing of it lies on the device, and recovery makes it anew.

mod patches;
mod pending;
mod progress;
mod recent;
mod repairs;
mod segments;
mod settled;
mod table;
mod versions;
mod zeroed;

pub(crate) use patches::{Held, Patch, Patches};
pub(crate) use pending::{Newest, Pending};
pub(crate) use progress::Progress;
pub(crate) use recent::{Recent, RecentBlock};
pub(crate) use repairs::Repairs;
pub(crate) use segments::LiveCounts;
pub(crate) use settled::{Flushed, Settled};
pub(crate) use table::{Entry, Table};
pub(crate) use versions::Versions;
pub(crate) use zeroed::{ZeroRange, Zeroed, take_pieces};
