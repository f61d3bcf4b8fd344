//! What the papers' engines have in common, so that they differ only where their designs do.

mod content;
mod disk;
mod header;
pub(crate) mod marks;
mod medium;
mod read;
mod transaction;

pub(crate) use content::ContentBy;
pub(crate) use disk::Disk;
pub(crate) use header::{HEADER_BYTES, Header};
pub(crate) use medium::{check_alive, check_medium, fence, refused};
pub(crate) use read::{check_blocks, read_blocks};
pub(crate) use transaction::{BufferedTransaction, ChangedBlock, CommitBlocks};
