//! What the papers' engines have in common, so that they differ only where their designs do.

mod header;
mod lru;
mod medium;
mod transaction;

pub(crate) use header::{HEADER_BYTES, Header};
pub(crate) use lru::Lru;
pub(crate) use medium::{check_medium, fence};
pub(crate) use transaction::{BufferedTransaction, ChangedBlock, CommitBlocks, check_block};
