//! `forebay-lab create`: the cache of a published design, and a statement of what its medium survives.

use forebay_command::{Failure, output, private_directory, size};
use serde_json::json;

use crate::arguments::CreateOptions;
use crate::region;

/// Makes the cache.
pub fn run(options: &CreateOptions) -> Result<(), Failure> {
    private_directory::make_for(&options.memory)?;
    let (name, memory) = (options.engine, &options.memory);
    let (engine, kind) = region::create(
        name,
        memory,
        options.size,
        (options.force, options.trust),
        &options.backing,
        options.accept_stale,
    )?;
    let (slots, block_bytes) = (engine.stats().slots, engine.block_bytes() as u64);
    let survives = kind.survives();
    if options.json {
        let result = json!({
            "memory": memory.to_string_lossy(),
            "engine": name.as_str(),
            "survives": survives,
            "block_bytes": block_bytes,
            "slots": slots,
        });
        output::object(&result, true);
        return Ok(());
    }
    output::line(&format!(
        "created {} for the engine {name}: room for {slots} blocks of {}",
        memory.display(),
        size::shown(block_bytes)
    ));
    output::line(&format!("what is acknowledged there {survives}"));
    Ok(())
}
