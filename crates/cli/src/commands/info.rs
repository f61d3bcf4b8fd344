//! `forebay info`: what an idle pool holds. Nothing is changed: it is opened on a private copy.

use crate::arguments::PoolArgument;
use crate::failure::Failure;
use crate::{idle_pool, output, pool_report};

/// Shows the pool.
pub fn run(options: &PoolArgument) -> Result<(), Failure> {
    let pool = idle_pool::open_private(&options.pool, options.trust)?;
    let mut report = pool_report::stat(&pool);
    report["survives"] = pool.survives().into();
    report["recovery"] = pool_report::recovery(&pool);
    output::object(&report, options.json);
    Ok(())
}
