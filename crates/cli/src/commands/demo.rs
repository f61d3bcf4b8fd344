//! `forebay demo`: the main job without root, over the library alone. A child commits transactions
//! and reports which were acknowledged; it is killed with SIGKILL; what it reported is verified.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay::{Backing, Pool, PoolOptions, Volume};
use forebay_command::{Failure, output};
use serde_json::{Value, json};

use crate::arguments::DemoOptions;
use crate::commands::temporary::TemporaryFiles;

const BLOCK_BYTES: usize = 4096;
/// A transaction writes one block in each of three far-apart places, all with its number.
const PLACES: u64 = 3;
const GROUPS: u64 = 4096;
const POOL_BYTES: u64 = 64 << 20;
/// How long the child runs before it is killed.
const WRITING: Duration = Duration::from_secs(3);
/// Syncs measured on each side.
const SYNCS: u64 = 200;

/// Which group of blocks a transaction writes (a multiplicative hash of its number).
fn group_of(number: u64) -> u64 {
    (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % GROUPS
}

fn content_of(number: u64) -> [u8; BLOCK_BYTES] {
    let mut content = [0; BLOCK_BYTES];
    for (index, word) in content.chunks_exact_mut(8).enumerate() {
        let value = number.wrapping_add((index as u64) << 48);
        word.copy_from_slice(&value.to_le_bytes());
    }
    content
}

/// The number of the transaction that wrote this block, or `None` where it is not one whole block.
fn number_of(content: &[u8; BLOCK_BYTES]) -> Option<u64> {
    let number = u64::from_le_bytes(content[..8].try_into().ok()?);
    (*content == content_of(number)).then_some(number)
}

/// Both sides: the user's command, and the child that it starts and kills.
pub fn run(options: &DemoOptions) -> Result<(), Failure> {
    let backing = options.directory.join("demo.img");
    if options.writer {
        return write_until_killed(&options.pool, &backing);
    }
    if options.pool.exists() {
        return Err(Failure::Arguments(format!(
            "{} is there already, and a demonstration removes its pool afterwards; name another one",
            options.pool.display()
        )));
    }
    let _files = TemporaryFiles::new(vec![
        options.pool.clone(),
        backing.clone(),
        options.directory.join("demo.img.forebay"),
        options.directory.join("demo.bare"),
    ])?;
    show(options, &backing)
}

fn write_until_killed(pool: &Path, backing: &Path) -> Result<(), Failure> {
    let pool = Pool::open(&[pool])?;
    let volume = pool.attach(Backing::file(backing)?)?;
    let mut acknowledged = std::io::stdout().lock();
    for number in 1.. {
        commit(&volume, number)?;
        writeln!(acknowledged, "{number}")?;
    }
    Ok(())
}

fn commit(volume: &Volume, number: u64) -> Result<(), Failure> {
    let content = content_of(number);
    let mut transaction = volume.begin();
    for place in 0..PLACES {
        transaction.write(place * GROUPS + group_of(number), &content)?;
    }
    transaction.commit()?;
    Ok(())
}

fn show(options: &DemoOptions, backing_path: &Path) -> Result<(), Failure> {
    output::line("==> a pool and a backing image, over the library");
    let disk_bytes = PLACES * GROUPS * BLOCK_BYTES as u64;
    // A demonstration that was killed may have left one, with its mark.
    let _ = std::fs::remove_file(backing_path);
    File::create(backing_path)?.set_len(disk_bytes)?;
    let pool = Pool::create(&PoolOptions::new(&options.pool, POOL_BYTES))?;
    let (ours, bare) = measure(&pool, backing_path, &options.directory)?;
    pool.close()?;

    output::line("==> transactions of three blocks; their process is killed after 3 s");
    let last = run_child_and_kill(options)?;
    output::line(&format!("    acknowledged by then: {last} transactions"));
    if last == 0 {
        return Err(Failure::Failed("nothing was acknowledged".into()));
    }

    output::line("==> recovery, and every acknowledged transaction verified");
    let start = Instant::now();
    let pool = Pool::open(&[&options.pool])?;
    let restart_ms = start.elapsed().as_millis();
    let volume = pool.attach(Backing::file(backing_path)?)?;
    verify("the recovered volume", last, |block, out| {
        Ok(volume.read(block, out)?)
    })?;
    volume.flush()?;
    let stats = pool.stats();
    drop(volume);
    pool.close()?;
    let image = File::open(backing_path)?;
    verify("the bare image after a drain", last, |block, out| {
        Ok(image.read_exact_at(out, block * BLOCK_BYTES as u64)?)
    })?;

    let report = json!([
        {"name": "sync_p50_forebay", "value": ours.median_us, "unit": "us"},
        {"name": "sync_p99_forebay", "value": ours.p99_us, "unit": "us"},
        {"name": "sync_p50_bare", "value": bare.median_us, "unit": "us"},
        {"name": "sync_p99_bare", "value": bare.p99_us, "unit": "us"},
        {"name": "transactions_verified", "value": last, "unit": "count"},
        {"name": "restart_after_kill", "value": restart_ms as u64, "unit": "ms"},
        {"name": "blocks_written_back", "value": stats.totals.write_backs, "unit": "count"},
    ]);
    write_report(&options.directory.join("report.json"), &report)
}

fn write_report(path: &PathBuf, report: &Value) -> Result<(), Failure> {
    output::line("==> result");
    for line in report.as_array().into_iter().flatten() {
        output::line(&format!(
            "    {:<28} {} {}",
            line["name"].as_str().unwrap_or_default(),
            line["value"],
            line["unit"].as_str().unwrap_or_default()
        ));
    }
    std::fs::write(path, format!("{report}\n"))?;
    output::line(&format!("    written to {}", path.display()));
    Ok(())
}

/// Starts the writer, reads what it acknowledges, kills it; returns the last number acknowledged.
fn run_child_and_kill(options: &DemoOptions) -> Result<u64, Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["demo", "--writer", "--pool"])
        .arg(&options.pool)
        .arg("--directory")
        .arg(&options.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let Some(stdout) = child.stdout.take() else {
        return Err(Failure::Failed("the writer has no output".into()));
    };
    let reader = std::thread::spawn(move || {
        // A line cut short by the kill was not acknowledged; it has no line end.
        let mut last = 0;
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        while lines.read_line(&mut line).is_ok_and(|length| length > 0) && line.ends_with('\n') {
            last = line.trim().parse().unwrap_or(last);
            line.clear();
        }
        last
    });
    std::thread::sleep(WRITING);
    child.kill()?;
    child.wait()?;
    reader
        .join()
        .map_err(|_| Failure::Failed("the reader of acknowledgements failed".into()))
}

/// Every group holds its last acknowledged transaction whole, or whole the one in flight.
fn verify(
    what: &str,
    last: u64,
    mut read: impl FnMut(u64, &mut [u8; BLOCK_BYTES]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut acknowledged = vec![0; GROUPS as usize];
    for number in 1..=last {
        acknowledged[group_of(number) as usize] = number;
    }
    let mut content = [0; BLOCK_BYTES];
    for (group, expected) in acknowledged.iter().enumerate().filter(|(_, n)| **n > 0) {
        let mut found = Vec::new();
        for place in 0..PLACES {
            read(place * GROUPS + group as u64, &mut content)?;
            found.push(number_of(&content));
        }
        let in_flight = last + 1;
        let is_whole = found.iter().all(|number| *number == found[0]);
        let is_right = found[0] == Some(*expected)
            || (found[0] == Some(in_flight) && group_of(in_flight) == group as u64);
        if !is_whole || !is_right {
            return Err(Failure::Damaged(format!(
                "{what}: group {group} should hold transaction {expected} and holds {found:?}"
            )));
        }
    }
    output::line(&format!(
        "    ok: all {last} acknowledged transactions verify on {what}"
    ));
    Ok(())
}

/// How long a durable 4 KiB write takes.
struct Latency {
    median_us: f64,
    p99_us: f64,
}

impl Latency {
    fn of(mut samples_us: Vec<f64>) -> Self {
        samples_us.sort_by(f64::total_cmp);
        let rounded = |index: usize| (samples_us[index] * 10.0).round() / 10.0;
        Latency {
            median_us: rounded(samples_us.len() / 2),
            p99_us: rounded(samples_us.len() * 99 / 100),
        }
    }
}

/// Durable writes in turn: ours, and the bare file's.
fn measure(
    pool: &Pool,
    backing_path: &Path,
    directory: &Path,
) -> Result<(Latency, Latency), Failure> {
    let volume = pool.attach(Backing::file(backing_path)?)?;
    let bare_path = directory.join("demo.bare");
    let bare = File::create(&bare_path)?;
    let (mut ours_us, mut bare_us) = (Vec::new(), Vec::new());
    let content = content_of(0);
    for number in 0..SYNCS {
        let block = group_of(number);
        let start = Instant::now();
        let mut transaction = volume.begin();
        transaction.write(block, &content)?;
        transaction.commit()?;
        ours_us.push(start.elapsed().as_secs_f64() * 1e6);
        let start = Instant::now();
        bare.write_all_at(&content, block * BLOCK_BYTES as u64)?;
        bare.sync_data()?;
        bare_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    std::fs::remove_file(&bare_path)?;
    Ok((Latency::of(ours_us), Latency::of(bare_us)))
}
