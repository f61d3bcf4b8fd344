//! A pool on a plain file: the pages that a commit writes, its speed beside the disk's own, and how long
//! the pool takes to open when nothing of it is in memory.
//!
//! Bytes are counted by the system (`/proc/self/io`), in the process that does nothing else. The disk
//! is the one that the report goes to.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use forebay::{Backing, MediaKind, MemoryStore, Pool, PoolOptions, Region, RegionOptions, Volume};
use forebay_harness::{Result, Row, median};
use rustix::fs::Advice;

use super::Bench;
use crate::contest::Contender;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, commit_one};

/// Commits for each repeat, of all of which the median is reported.
const COMMITS: usize = 200;

/// The counted pool is small: nothing about a commit's pages depends on its size.
const COUNTED_POOL_BYTES: u64 = 64 << 20;

const PAGE_BYTES: f64 = 4096.0;

const OURS: &str = "forebay on a plain file";
const BARE: &str = "pwrite + fdatasync";

/// Where the disk is none, nothing is measured.
fn unmeasured(bench: &Bench, names: &[&str], why: &str) -> Vec<Row> {
    bench.say(&format!("  not measured: {why}"));
    let row = |name: &&str| Row::new(*name, None, "-");
    names.iter().map(row).collect()
}

/// Why there is no plain file to measure, if there is none.
fn without_disk(bench: &Bench) -> Result<Option<&'static str>> {
    let file = bench.scratch.disk_file("probe");
    let region = Region::create(file.path(), PAGE_BYTES as u64, &RegionOptions::default())?;
    Ok((region.kind() != MediaKind::PlainFile)
        .then_some("the report goes to memory, not to a disk"))
}

/// The file system and kernel that the numbers belong to.
fn place(bench: &Bench) -> String {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let kernel: Vec<&str> = release.split('.').take(2).collect();
    let file_system = bench.scratch.disk_file_system();
    format!("{file_system}, Linux {}", kernel.join("."))
}

/// Bytes that this process has made the system write so far.
fn written_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))?;
    line.parse().ok()
}

/// The median of the pages that one-block commits write, and their mean, checkpoints included.
fn count_pages(volume: &Volume, blocks: u64, commits: usize, seed: u64) -> Result<(f64, f64)> {
    let (mut payload, mut random) = (Payload::new(seed), Blocks::new(seed, 0, blocks));
    let written = || written_bytes().ok_or("/proc/self/io tells nothing here");
    let mut counted = Vec::with_capacity(commits);
    for _ in 0..commits {
        let before = written()?;
        commit_one(volume, random.next(), payload.next())?;
        counted.push((written()? - before) as f64 / PAGE_BYTES);
    }
    let mean = counted.iter().sum::<f64>() / commits as f64;
    Ok((median(counted).unwrap_or_default(), mean))
}

/// Pages written by a commit to a pool that was just made, and to one that was opened again.
pub fn pages(bench: &Bench) -> Result<Vec<Row>> {
    const ROWS: [&str; 2] = [
        "page_pool_pages_per_commit",
        "page_pool_pages_per_commit_reopened",
    ];
    if let Some(why) = without_disk(bench)? {
        return Ok(unmeasured(bench, &ROWS, why));
    }
    if written_bytes().is_none() {
        return Ok(unmeasured(bench, &ROWS, "/proc/self/io tells nothing here"));
    }
    let file = bench.scratch.disk_file("pool");
    let options = PoolOptions::new(file.path(), COUNTED_POOL_BYTES).background(false);
    let blocks = COUNTED_POOL_BYTES / BLOCK_BYTES as u64 / 2;
    let store = Arc::new(MemoryStore::new(blocks * BLOCK_BYTES as u64));
    let unit = format!("pages ({})", place(bench));
    let commits = COMMITS * bench.repeats;
    let mut pool = Pool::create(&options)?;
    let mut rows = Vec::new();
    for (name, state) in ROWS.iter().zip(["made", "reopened"]) {
        let volume = pool.attach(Backing::from_store(store.clone()))?;
        let (pages, mean) = count_pages(&volume, blocks, commits, rows.len() as u64 + 81)?;
        bench.say(&format!(
            "  {state}: {pages} pages a commit, {mean:.2} on average"
        ));
        rows.push(Row::new(*name, pages, unit.clone()));
        drop(volume);
        pool.close()?;
        pool = Pool::open_with(&[file.path()], options.runtime_options().clone())?;
    }
    Ok(rows)
}

/// One-block commits from one thread, in turn with writes of as much to a file of the same size on the
/// same file system, each synced.
pub fn against_bare(bench: &Bench) -> Result<Vec<Row>> {
    const ROWS: [&str; 1] = ["page_pool_commit_vs_bare"];
    if let Some(why) = without_disk(bench)? {
        return Ok(unmeasured(bench, &ROWS, why));
    }
    let (file, bare) = (
        bench.scratch.disk_file("pool"),
        bench.scratch.disk_file("bare"),
    );
    let pool = pools::half_full(&pools::options(file.path(), bench.pool_bytes))?;
    let bare = prefilled(bare.path(), bench.pool_bytes)?;
    let outcome = bench.contest("1 x 4 KiB", 1, |_| {
        vec![
            commits(&pool.volume, Blocks::new(83, 0, pool.blocks)),
            writes(&bare, bench.pool_bytes / BLOCK_BYTES as u64),
        ]
    })?;
    Ok(vec![
        Row::new(
            ROWS[0],
            outcome.ratio(OURS, BARE),
            format!("ratio ({})", place(bench)),
        ),
        Row::new("page_pool_commits_per_second", outcome.rate(OURS), "1/s"),
    ])
}

fn commits(volume: &Volume, mut blocks: Blocks) -> Contender<'_> {
    let mut payload = Payload::new(83);
    Contender::new(OURS, move || {
        commit_one(volume, blocks.next(), payload.next())?;
        Ok(1)
    })
}

fn writes(file: &File, blocks: u64) -> Contender<'_> {
    let (mut payload, mut blocks) = (Payload::new(84), Blocks::new(84, 0, blocks));
    Contender::new(BARE, move || {
        file.write_all_at(payload.next(), blocks.next() * BLOCK_BYTES as u64)?;
        file.sync_data()?;
        Ok(1)
    })
}

/// A file of which every block was written, and none is in memory.
fn prefilled(path: &Path, bytes: u64) -> Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    let mut payload = Payload::new(85);
    for block in 0..bytes / BLOCK_BYTES as u64 {
        file.write_all_at(payload.next(), block * BLOCK_BYTES as u64)?;
    }
    drop_from_memory(&file)?;
    Ok(file)
}

fn drop_from_memory(file: &File) -> Result<()> {
    file.sync_all()?;
    Ok(rustix::fs::fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Opening a full, dirty pool whose log was not emptied, with nothing of it in memory.
pub fn cold_open(bench: &Bench) -> Result<Vec<Row>> {
    const ROWS: [&str; 1] = ["page_pool_cold_open_ms_per_gib"];
    if let Some(why) = without_disk(bench)? {
        return Ok(unmeasured(bench, &ROWS, why));
    }
    let file = bench.scratch.disk_file("pool");
    let options = pools::dirty_options(file.path(), bench.pool_bytes);
    let pool = Pool::create(&options)?;
    let blocks = pool.stats().slots * pools::FULL_PER_MILLE / 1000;
    let store = Arc::new(MemoryStore::new(blocks * BLOCK_BYTES as u64));
    let volume = pool.attach(Backing::from_store(store.clone()))?;
    pools::fill(&volume, blocks)?;
    drop((volume, pool));
    let mut per_gib = Vec::new();
    bench.progress.set_length(bench.repeats as u64);
    for repeat in 0..bench.repeats {
        bench.progress.set_position(repeat as u64);
        drop_from_memory(&File::open(file.path())?)?;
        let start = Instant::now();
        let pool = Pool::open_with(&[file.path()], options.runtime_options().clone())?;
        let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
        let (stats, report) = (pool.stats(), pool.recovery_report());
        bench.say(&format!(
            "  opened in {elapsed_ms:.1} ms: {} dirty blocks, {} records replayed",
            stats.dirty_blocks, report.records
        ));
        per_gib.push(elapsed_ms / (bench.pool_bytes as f64 / f64::from(1 << 30)));
        // The next one finds a log, too.
        let volume = pool.attach(Backing::from_store(store.clone()))?;
        pools::fill(&volume, blocks / 8)?;
    }
    let unit = format!("ms/GiB ({})", place(bench));
    Ok(vec![Row::new(ROWS[0], median(per_gib), unit)])
}
