//! `forebay check`: every cached block against its checksum, on a private copy of an idle pool.

use forebay_command::{Failure, output};
use serde_json::{Value, json};

use crate::arguments::PoolArgument;
use crate::idle_pool;

/// Verifies the pool; damage is exit code 3.
pub fn run(options: &PoolArgument) -> Result<(), Failure> {
    let (report, failure) = report(options)?;
    output::object(&report, options.json);
    failure.map_or(Ok(()), Err)
}

/// What is shown, and what it says of damage.
pub fn report(options: &PoolArgument) -> Result<(Value, Option<Failure>), Failure> {
    let pool = idle_pool::open_private(&options.pool, options.opening)?;
    let (good, bad) = pool.check(|_, _| ());
    let bad_blocks: Vec<_> = bad
        .iter()
        .map(|(volume, block)| json!({"volume": volume, "block": block}))
        .collect();
    let report = json!({"good_blocks": good, "bad_blocks": bad_blocks});
    let failure = (!bad.is_empty()).then(|| {
        Failure::Damaged(format!(
            "{} blocks do not match their checksums; overwrite them or restore them from a backup",
            bad.len()
        ))
    });
    Ok((report, failure))
}
