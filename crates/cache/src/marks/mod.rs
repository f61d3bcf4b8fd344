//! Marks: what a backing says of the pool that has its newest data. `docs/inside/marks.md` is the protocol.
//!
//! A mark is a few lines of text with a CRC, small enough for an extended attribute. A writer makes
//! it durable before its next step; see [`MarkPlace`](crate::MarkPlace).

mod classify;
mod front;
mod identity;
mod mark;
mod side;
mod steps;
mod text;

pub use classify::{StaleRefusal, classify, next_generation};
pub(crate) use front::Front;
pub use identity::{classify_file, classify_size};
pub use mark::{FoundMark, Mark, MarkState, know_boot};
pub use side::{PoolSide, Stage};
pub(crate) use steps::{Begin, ReadMark, may_be_marked, stale_error, write_mark, write_whole};
pub use text::utc;

use crate::error::Result;
use crate::repeatable;

/// A pool's identity, which no other has.
///
/// # Errors
/// The system has no randomness.
pub fn new_pool_id() -> Result<[u8; 16]> {
    repeatable::fresh_uuid()
}
