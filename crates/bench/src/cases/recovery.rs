//! Opening a pool whose process was killed while it committed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use forebay::{Backing, Pool};
use forebay_harness::{Daemon, Result, Row, median};

use super::Bench;
use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools;

/// How long it may take until the pool is full.
const FILL_TIMEOUT: Duration = Duration::from_secs(120);

/// Commits for so long after the pool is full, so that the log is anywhere between empty and full.
const COMMIT_FOR: Duration = Duration::from_millis(300);

/// Kills a process that keeps a full, dirty pool busy, and times opening the pool.
pub fn after_sigkill(bench: &Bench) -> Result<Vec<Row>> {
    let bytes = bench.pool_bytes * 2;
    let mut per_gib = Vec::new();
    bench.progress.set_length(bench.repeats as u64);
    for repeat in 0..bench.repeats {
        bench.progress.set_position(repeat as u64);
        let file = bench.scratch.file("pool");
        kill_one(bench, file.path(), bytes)?;
        let options = pools::dirty_options(file.path(), bytes);
        let options = options.runtime_options().clone();
        let start = Instant::now();
        let pool = Pool::open_with(&[file.path()], options)?;
        let elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
        let (stats, report) = (pool.stats(), pool.recovery_report());
        bench.say(&format!(
            "  opened in {elapsed_ms:.1} ms: {} blocks, {} dirty, {} of {} slots free, {} records \
             replayed",
            stats.cached_blocks, stats.dirty_blocks, stats.free_slots, stats.slots, report.records
        ));
        if stats.dirty_blocks < stats.slots * (pools::FULL_PER_MILLE - 1) / 1000 {
            return Err("the pool was not full and dirty when it was opened".into());
        }
        per_gib.push(elapsed_ms / (bytes as f64 / f64::from(1 << 30)));
    }
    Ok(vec![Row::new(
        "recovery_ms_per_gib",
        median(per_gib),
        "ms/GiB",
    )])
}

fn kill_one(bench: &Bench, path: &Path, bytes: u64) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("victim").arg(path).arg(bytes.to_string());
    let victim = Daemon::start_ready(&mut command, bench.scratch.file("log").path(), FILL_TIMEOUT)?;
    forebay_harness::sleep(COMMIT_FOR)?;
    victim.kill()
}

/// The process to be killed: fills a pool, says so, and commits until then.
pub fn victim(path: &Path, bytes: u64) -> Result<()> {
    // It must not outlive a parent that is killed itself.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let options = pools::dirty_options(path, bytes);
    let pool = Pool::create(&options)?;
    let blocks = pool.stats().slots * pools::FULL_PER_MILLE / 1000;
    let volume = pool.attach(Backing::memory(blocks * BLOCK_BYTES as u64))?;
    pools::fill(&volume, blocks)?;
    println!("ready");
    std::thread::scope(|scope| {
        let volume = &volume;
        let commits = |seed| {
            move || -> Result<()> {
                let (mut payload, mut random) = (Payload::new(seed), Blocks::new(seed, 0, blocks));
                loop {
                    pools::commit_one(volume, random.next(), payload.next())?;
                }
            }
        };
        let other = scope.spawn(commits(52));
        let ours = commits(51)();
        other.join().unwrap_or(Ok(())).and(ours)
    })
}
