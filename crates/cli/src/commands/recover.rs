//! `forebay recover`: what opening does anyway, on request, and with `--dry-run` on a private copy.

use forebay::Pool;

use crate::arguments::RecoverOptions;
use crate::failure::Failure;
use crate::{idle_pool, output, pool_report};

/// Recovers the pool, or says what that would find.
pub fn run(options: &RecoverOptions) -> Result<(), Failure> {
    let pool = if options.dry_run {
        idle_pool::open_private(&options.pool)?
    } else {
        Pool::open(&options.pool)?
    };
    let mut report = pool_report::recovery(&pool);
    report["changed"] = (!options.dry_run).into();
    if !options.dry_run {
        pool.close()?;
    }
    output::object(&report, options.json);
    Ok(())
}
