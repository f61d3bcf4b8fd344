//! Opening a pool only to see what that finds.

use std::path::Path;

use forebay_pmem::Region;

use crate::api::pool::MemoryPool;
use crate::api::stats::Stats;
use crate::error::Result;
use crate::options::RuntimeOptions;
use crate::recovery::RecoveryReport;

impl MemoryPool {
    /// What opening would find and do, without changing the files. Of a pool that another process
    /// serves it is a rough picture, and the report says so.
    ///
    /// # Errors
    /// As `open`.
    pub fn dry_run<P: AsRef<Path>>(paths: &[P]) -> Result<(RecoveryReport, Stats)> {
        let regions = paths
            .iter()
            .map(|path| Ok(Region::open_read_only(path.as_ref())?))
            .collect::<Result<Vec<_>>>()?;
        let in_use = regions.iter().any(Region::is_open_elsewhere);
        let options = RuntimeOptions {
            background: false,
            accept_loss: true,
            ..RuntimeOptions::default()
        };
        let mut pool = MemoryPool::open_on(regions, options)?;
        if in_use {
            // What was read while it was being changed tells of no damage.
            pool.recovery.in_use = true;
            pool.recovery.damage.clear();
        }
        Ok((pool.recovery.clone(), pool.stats()))
    }
}
