//! What the papers' engines have in common, so that they differ only where their designs do.

mod content;
mod disk;
mod header;
mod in_flight;
pub(crate) mod marks;
mod medium;
mod read;
mod transaction;

pub(crate) use content::ContentBy;
pub(crate) use disk::Disk;
pub(crate) use header::{HEADER_BYTES, Header};
pub(crate) use in_flight::InFlight;
pub(crate) use medium::{check_alive, check_medium, fence, refused};
pub(crate) use read::{ReadThrough, check_blocks, read_through};
pub(crate) use transaction::{BufferedTransaction, ChangedBlock, CommitBlocks};
