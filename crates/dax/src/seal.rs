//! Sealing a region that no program has open.

use crate::error::Result;
use crate::pool::DaxPool;
use crate::region;
use crate::report::Sealed;

/// Seals a region: every page is compared with its sum, what differs is taken as written, and the parity made to fit.
///
/// # Errors
/// A program has it open or mapped; what [`DaxRegion::open`](crate::DaxRegion::open) and [`DaxRegion::close`](crate::DaxRegion::close) say.
pub fn seal(pool: &DaxPool, name: &str) -> Result<Sealed> {
    region::seal(pool, name)
}
