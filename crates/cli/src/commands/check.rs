//! `forebay check`: every cached block against its checksum, on a private copy of an idle pool.

use serde_json::json;

use crate::arguments::PoolArgument;
use crate::failure::Failure;
use crate::{idle_pool, output};

/// Verifies the pool; damage is exit code 3.
pub fn run(options: &PoolArgument) -> Result<(), Failure> {
    let pool = idle_pool::open_private(&options.pool, options.trust)?;
    let (good, bad) = pool.check(|_, _| ());
    let bad_blocks: Vec<_> = bad
        .iter()
        .map(|(volume, block)| json!({"volume": volume, "block": block}))
        .collect();
    let report = json!({"good_blocks": good, "bad_blocks": bad_blocks});
    output::object(&report, options.json);
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::Damaged(format!(
        "{} blocks do not match their checksums; overwrite them or restore them from a backup",
        bad.len()
    )))
}
