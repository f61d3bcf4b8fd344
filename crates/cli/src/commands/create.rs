//! `forebay create`: a new pool, and plain words about what its medium survives.

use forebay::{FormatOptions, Pool, PoolOptions};
use serde_json::json;

use crate::arguments::CreateOptions;
use crate::failure::Failure;
use crate::{output, size};

/// Makes the pool.
pub fn run(options: &CreateOptions) -> Result<(), Failure> {
    let block_bytes = u32::try_from(options.block_size)
        .map_err(|_| Failure::Failed("a block has at most 65536 bytes".into()))?;
    let mut pool_options = PoolOptions::new(&options.pool, options.size).force(options.force);
    for member in &options.members {
        pool_options = pool_options.member(member);
    }
    pool_options.format = FormatOptions {
        block_bytes,
        strict: options.strict || options.no_checksums,
        checksums: !options.no_checksums,
        test: options.test,
        ..FormatOptions::default()
    };
    let pool = Pool::create(&pool_options)?;
    let (stats, survives) = (pool.stats(), pool.survives());
    pool.close()?;
    if options.json {
        let result = json!({
            "pool": pool_options.paths,
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
