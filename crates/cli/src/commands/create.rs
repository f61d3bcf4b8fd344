//! `forebay create`: a new pool, and a statement of what its medium survives.

use std::borrow::Cow;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use forebay::{FormatOptions, Pool, PoolOptions};
use forebay_lab::engines::EngineName;
use serde_json::json;

use crate::arguments::CreateOptions;
use crate::engine_region;
use forebay_command::Failure;
use forebay_command::{output, size};

/// Where pools in memory lie best: no other user can create names there.
const PRIVATE_DIRECTORY: &str = "/dev/shm/forebay";

/// Makes the pool, or the cache of a published design.
pub fn run(options: &CreateOptions) -> Result<(), Failure> {
    for path in std::iter::once(&options.pool).chain(&options.members) {
        make_private_directory(path)?;
    }
    if options.engine != EngineName::Forebay {
        return run_design(options);
    }
    if options.backing.is_some() {
        return Err(Failure::Arguments(
            "--backing is for the published designs; a pool takes its disks when it is served"
                .into(),
        ));
    }
    let block_bytes = u32::try_from(options.block_size)
        .map_err(|_| Failure::Failed("a block has at most 65536 bytes".into()))?;
    let mut pool_options = PoolOptions::new(&options.pool, options.size).force(options.force);
    for member in &options.members {
        pool_options = pool_options.member(member);
    }
    pool_options.runtime = options.trust.runtime();
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
            "pool": shown(&pool_options.paths),
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

/// Makes the directory that pools in memory are recommended to lie in, where it is named and missing:
/// `/dev/shm/forebay`, or `/dev/shm/forebay-UID` of a user other than root.
fn make_private_directory(pool: &Path) -> Result<(), Failure> {
    let user = nix::unistd::geteuid();
    let named = match user.is_root() {
        true => String::from(PRIVATE_DIRECTORY),
        false => format!("{PRIVATE_DIRECTORY}-{user}"),
    };
    let directory = std::path::absolute(pool)?;
    if directory.parent() != Some(Path::new(&named)) {
        return Ok(());
    }
    match DirBuilder::new().mode(0o700).create(&named) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Failure::Failed(format!("{named}: {error}")))
        }
        _ => Ok(()),
    }
}

fn run_design(options: &CreateOptions) -> Result<(), Failure> {
    let name = options.engine;
    let own = [
        ("--member", !options.members.is_empty()),
        ("--block-size", options.block_size != 4096),
        ("--strict", options.strict),
        ("--no-checksums", options.no_checksums),
        ("--test", options.test),
    ];
    if let Some((flag, _)) = own.iter().find(|(_, is_set)| *is_set) {
        return Err(Failure::Arguments(format!(
            "{flag} belongs to the engine forebay; the engine {name} has nothing of the kind, leave it out"
        )));
    }
    let Some(backing) = &options.backing else {
        return Err(Failure::Arguments(format!(
            "the engine {name} keeps one disk for good; name it with --backing"
        )));
    };
    let (region, size_bytes) = (&options.pool, options.size);
    let (engine, kind) = engine_region::create(
        name,
        region,
        size_bytes,
        (options.force, options.trust),
        backing,
        options.accept_stale,
    )?;
    let (slots, block_bytes) = (engine.stats().slots, engine.block_bytes() as u64);
    let survives = kind.survives();
    if options.json {
        let result = json!({
            "pool": shown(std::slice::from_ref(region)),
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
        region.display(),
        size::shown(block_bytes)
    ));
    output::line(&format!("what is acknowledged there {survives}"));
    Ok(())
}

/// Paths as text for messages and JSON; the caller that creates the pool has their exact bytes.
fn shown(paths: &[PathBuf]) -> Vec<Cow<'_, str>> {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}
