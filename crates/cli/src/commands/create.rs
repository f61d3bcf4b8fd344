//! `forebay create`: a new pool, and a statement of what its medium survives.

use std::borrow::Cow;
use std::path::PathBuf;

use forebay::{Pool, PoolOptions};
use forebay_command::{Failure, output, private_directory, size};
use serde_json::json;

use crate::arguments::CreateOptions;

/// Makes the pool.
pub fn run(options: &CreateOptions) -> Result<(), Failure> {
    for path in std::iter::once(&options.pool).chain(&options.members) {
        private_directory::make_for(path)?;
    }
    let block_bytes = u32::try_from(options.block_size)
        .map_err(|_| Failure::Failed("a block has at most 65536 bytes".into()))?;
    let pool_options = PoolOptions::new(&options.pool, options.size)
        .members(&options.members)
        .force(options.force)
        .block_bytes(block_bytes)
        .strict(options.strict || options.no_checksums)
        .checksums(!options.no_checksums)
        .test_pool(options.test)
        .runtime(options.trust.runtime());
    let pool = Pool::create(&pool_options)?;
    let (stats, survives) = (pool.stats(), pool.survives());
    pool.close()?;
    if options.json {
        let result = json!({
            "pool": shown(pool_options.paths()),
            "survives": survives,
            "block_bytes": stats.block_bytes,
            "slots": stats.slots,
        });
        output::object(&result, true);
        return Ok(());
    }
    output::line(&format!(
        "created {}: room for {} blocks of {}",
        options.pool.display(),
        stats.slots,
        size::shown(u64::from(stats.block_bytes))
    ));
    output::line(&format!("what is acknowledged there {survives}"));
    Ok(())
}

/// Paths as text for messages and JSON; the caller that creates the pool has their exact bytes.
fn shown(paths: &[PathBuf]) -> Vec<Cow<'_, str>> {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}
