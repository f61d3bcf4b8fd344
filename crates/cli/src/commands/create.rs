//! `forebay create`: a new pool, and a statement of what its medium survives.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use forebay::{Medium, Pool, PoolOptions, SsdStats};
use forebay_command::{Failure, output, private_directory, size};
use forebay_dax::DaxPool;
use serde_json::json;

use crate::arguments::{CreateOptions, RedundancyMode};
use crate::{members, pool_report};

/// A file of so many bytes takes a while to write.
const LONG_TO_WRITE_BYTES: u64 = 1 << 30;

/// Makes the pool.
pub fn run(options: &CreateOptions) -> Result<(), Failure> {
    for path in std::iter::once(&options.pool).chain(&options.members) {
        private_directory::make_for(path)?;
    }
    let block_bytes = u32::try_from(options.block_size)
        .map_err(|_| Failure::Failed("a block has at most 65536 bytes".into()))?;
    let redundancy = redundancy_of(options);
    if options.witness.is_some() && !matches!(redundancy, RedundancyMode::Mirror) {
        return Err(Failure::Arguments(String::from(
            "a witness is the third vote of a mirror of two; name the second member with --member, or leave the witness out",
        )));
    }
    let pool_options = PoolOptions::new(&options.pool, options.size)
        .members(&options.members)
        .force(options.force)
        .block_bytes(block_bytes)
        .strict(options.strict || options.no_checksums)
        .checksums(!options.no_checksums)
        .test_pool(options.test)
        .redundancy(redundancy.redundancy())
        .runtime(options.trust.runtime())
        .witness(options.witness.clone());
    let (medium, why_mapped) = match options.medium {
        Some(medium) => (medium.medium(), None),
        None => Pool::usual_medium(&pool_options)?,
    };
    let pool_options = pool_options.medium(medium);
    if medium == Medium::Ssd {
        note_that_it_is_written(options);
    }
    let pool = Pool::create(&pool_options)?;
    let (stats, survives) = (pool.stats(), pool.survives());
    let witness = members::witness_report(&pool);
    let regions = DaxPool::new(pool_options.paths(), pool.uuid());
    pool.close()?;
    note_foreign_regions(&regions);
    if options.json {
        let mut result = json!({
            "pool": shown(pool_options.paths()),
            "medium": pool_report::medium_word(&stats),
            "survives": survives,
            "redundancy": members::redundancy_word(redundancy.redundancy()),
            "witness": witness,
            "block_bytes": stats.block_bytes,
            "slots": stats.slots,
            "why_mapped": why_mapped,
        });
        if let Some(ssd) = &stats.ssd {
            result["dram_bytes"] = stats.dram_bytes.into();
            result["durable_write_us"] = flush_us(ssd).into();
        }
        output::object(&result, true);
        return Ok(());
    }
    output::line(&format!(
        "created {}: room for {} blocks of {}",
        named(&options.pool),
        stats.slots,
        size::shown(u64::from(stats.block_bytes))
    ));
    output::line(&format!("what is acknowledged there {survives}"));
    if let Some(ssd) = &stats.ssd {
        say_costs(ssd, stats.dram_bytes);
    }
    if let Some(why) = why_mapped {
        output::line(&format!(
            "it is mapped page by page, as --medium page has it, since {why}"
        ));
    }
    let has_witness = options.witness.is_some();
    if let Some(line) = on_a_death(redundancy, pool_options.paths().len(), has_witness) {
        output::line(&line);
    }
    Ok(())
}

/// The pool as it was named; of a name of a disk that is a link, also the disk that it leads to.
fn named(pool: &Path) -> String {
    match pool.is_symlink().then(|| pool.canonicalize()) {
        Some(Ok(disk)) => format!("{} ({})", pool.display(), disk.display()),
        _ => pool.display().to_string(),
    }
}

/// A new file of an SSD pool is written once, which takes a while if it is large.
fn note_that_it_is_written(options: &CreateOptions) {
    let found = std::fs::metadata(&options.pool);
    let is_made = found.map_or(true, |found| found.is_file() && options.force);
    if is_made && options.size >= LONG_TO_WRITE_BYTES {
        output::note("the file is written once now, all of it");
    }
}

/// What a pool on an SSD costs.
fn say_costs(ssd: &SsdStats, dram_bytes: u64) {
    let memory = size::shown(dram_bytes);
    output::line(&format!("it takes {memory} of memory while it is open"));
    if let Some(cost_us) = flush_us(ssd) {
        output::line(&format!(
            "a durable write of one block takes about {cost_us} us on that disk"
        ));
    }
}

/// What a commit of one block costs, as it was measured.
fn flush_us(ssd: &SsdStats) -> Option<u64> {
    ssd.flush_cost.map(|cost| cost.as_micros() as u64)
}

/// What an earlier pool of these names left beside its members: its regions are no other pool's.
fn note_foreign_regions(made: &DaxPool) {
    let has_any = |directory: &PathBuf| {
        std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some())
    };
    for directory in made.directories().filter(has_any) {
        output::note(&format!(
            "{} has mapped regions of an earlier pool, which are not this one's; move it away",
            directory.display()
        ));
    }
}

/// A mirror has several members, and needs the checksums of blocks.
fn redundancy_of(options: &CreateOptions) -> RedundancyMode {
    let can_mirror = !options.members.is_empty() && !options.no_checksums;
    options.redundancy.unwrap_or(match can_mirror {
        true => RedundancyMode::Mirror,
        false => RedundancyMode::None,
    })
}

/// What the death of a member does to a pool of several.
fn on_a_death(redundancy: RedundancyMode, members: usize, has_witness: bool) -> Option<String> {
    match redundancy {
        RedundancyMode::Mirror if has_witness => Some(String::from(
            "it is a mirror with a witness: when one of the three is gone, also after a power loss, it goes on with the other \
             two, and nothing acknowledged is lost; without the witness no member may die",
        )),
        RedundancyMode::Parity => Some(format!(
            "it has rows with parity: when one of the {members} members dies, it goes on with the others, and nothing \
             acknowledged is lost; it also opens without one, after a power loss say, but never without two"
        )),
        RedundancyMode::Mirror if members > 2 => Some(format!(
            "it is a mirror: when one of the {members} members dies, it goes on with the others, and nothing acknowledged is \
             lost; it also opens without one, after a power loss say, but never without two"
        )),
        RedundancyMode::Mirror => Some(String::from(
            "it is a mirror: when one of the two members dies, it goes on with the other one, and nothing acknowledged is \
             lost; if a member is gone when it is opened, after a power loss say, that takes --without-missing",
        )),
        RedundancyMode::None | RedundancyMode::Checksum if members > 1 => Some(format!(
            "it is no mirror: when one of its {members} members dies, the pool is lost"
        )),
        RedundancyMode::None | RedundancyMode::Checksum => None,
    }
}

/// Paths as text for messages and JSON; the caller that creates the pool has their exact bytes.
fn shown(paths: &[PathBuf]) -> Vec<Cow<'_, str>> {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}
