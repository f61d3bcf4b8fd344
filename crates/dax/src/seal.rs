//! Sealing a region that no program has open.

use crate::error::Result;
use crate::options::OpenOptions;
use crate::pool::DaxPool;
use crate::region::DaxRegion;
use crate::report::Sealed;

/// Seals a region: every page is compared with its sum, what differs is taken as written, and the parity made to fit.
///
/// # Errors
/// A program has it open or mapped; what [`DaxRegion::open`] and [`DaxRegion::close`] say.
pub fn seal(pool: &DaxPool, name: &str) -> Result<Sealed> {
    DaxRegion::open(pool, name, &OpenOptions::default())?.close()
}
