//! Instructions of single operations, counted by valgrind's callgrind: the same from run to run,
//! so that a commit that grew is seen where seconds are too noisy to tell.
//!
//! Valgrind offers a processor without AVX-512 and its carry-less multiply on vectors, so one kernel
//! that it can run is forced, [`KERNEL`]. A run is made twice with different numbers of operations;
//! what the longer one took more is the operations' own, without start and end.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use forebay::Volume;
use forebay_pmem::{KERNEL_VARIABLE, Kernel};
use serde_json::{Value, json};

use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, commit_one};
use crate::scratch::Scratch;
use forebay_harness::Result;

/// How far a count may be from the table's, as a share of it. Within one compiler the counts do not
/// move by themselves; this leaves room for changes that do not matter.
const TOLERANCE: f64 = 0.03;

/// A pool that valgrind fills in a moment, and that still checkpoints while it is counted.
const POOL_BYTES: u64 = 8 << 20;

/// Numbers of operations of the two runs.
const FEW: u64 = 100;
const MANY: u64 = 1100;

const OPERATIONS: [&str; 4] = ["commit_1x4k", "commit_16x4k", "delta_256b", "read_hit_4k"];

/// The compiler that built this: counts of another compiler or profile are other numbers.
const COMPILER: &str = env!("FOREBAY_COMPILER");
const PROFILE: &str = env!("FOREBAY_PROFILE");

/// The kernel that is counted.
const KERNEL: Kernel = Kernel::Avx2Crc32;

/// Counts everything and compares with the table, or writes it.
pub fn run(update: bool) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.json");
    let mut table = read_table(&path)?;
    let expected = table[PROFILE].clone();
    if !update && expected["compiler"] != json!(COMPILER) {
        println!(
            "skipped instruction counts: {} has none for {COMPILER} and profile {PROFILE} \
             (forebay-bench counts --update adds them)",
            path.display()
        );
        return Ok(());
    }
    if Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        println!("skipped instruction counts: valgrind is missing; install the package valgrind");
        return Ok(());
    }
    if !KERNEL.is_supported() {
        println!("skipped instruction counts: this processor lacks what kernel {KERNEL} needs");
        return Ok(());
    }
    let counted = count_all()?;
    if !update {
        return compare(&counted, &expected["instructions"]);
    }
    table[PROFILE] = json!({"compiler": COMPILER, "instructions": counted});
    std::fs::write(&path, serde_json::to_string_pretty(&table)? + "\n")?;
    println!("{counted:?}\nwritten to {}", path.display());
    Ok(())
}

fn read_table(path: &Path) -> Result<Value> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| format!("{}: not a table of counts: {error}", path.display()).into()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(json!({})),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Says how each count stands; an error where one left the tolerance, down as well as up: a table
/// that is too high would let the next change pass.
fn compare(counted: &BTreeMap<&str, u64>, expected: &Value) -> Result<()> {
    let mut is_good = true;
    for (operation, count) in counted {
        let Some(wanted) = expected[operation].as_u64() else {
            return Err(format!("{operation}: not in the table; run counts --update").into());
        };
        let change = *count as f64 / wanted as f64 - 1.0;
        let is_within = change.abs() <= TOLERANCE;
        is_good &= is_within;
        println!(
            "{}: {operation} takes {count} instructions, the table says {wanted} ({:+.2} %)",
            if is_within { "  ok" } else { "  CHANGED" },
            change * 100.0
        );
    }
    if is_good {
        return Ok(());
    }
    Err(format!(
        "instruction counts moved by more than {} %; if that is meant, run forebay-bench counts \
         --update with each profile and commit the table",
        TOLERANCE * 100.0
    )
    .into())
}

fn count_all() -> Result<BTreeMap<&'static str, u64>> {
    let scratch = Scratch::new(&std::env::temp_dir())?;
    OPERATIONS
        .into_iter()
        .map(|operation| {
            let few = count_run(&scratch, operation, FEW)?;
            let many = count_run(&scratch, operation, MANY)?;
            Ok((operation, (many - few) / (MANY - FEW)))
        })
        .collect()
}

/// Instructions of a whole process that does an operation so many times.
fn count_run(scratch: &Scratch, operation: &str, times: u64) -> Result<u64> {
    let (pool, profile) = (scratch.file("pool"), scratch.file("callgrind.out"));
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", profile.path().display()))
        .arg(std::env::current_exe()?)
        .args(["count-loop", operation, &times.to_string()])
        .arg(pool.path())
        .env(KERNEL_VARIABLE, KERNEL.name())
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{operation} under valgrind failed: {said}").into());
    }
    let text = std::fs::read_to_string(profile.path())?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total
        .and_then(|total| total.trim().parse().ok())
        .ok_or_else(|| format!("{operation}: callgrind wrote no totals").into())
}

/// The counted process: a pool without background threads, and the operation so many times.
pub fn count_loop(operation: &str, times: u64, path: &Path) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let mut options = pools::options(path, POOL_BYTES);
    options.runtime.background = false;
    let cached = pools::half_full(&options)?;
    let mut blocks = Blocks::new(71, 0, cached.blocks);
    let mut payload = Payload::new(71);
    let mut out = vec![0; BLOCK_BYTES];
    for _ in 0..times {
        once(
            operation,
            &cached.volume,
            &mut blocks,
            &mut payload,
            &mut out,
        )?;
    }
    Ok(())
}

fn once(
    operation: &str,
    volume: &Volume,
    blocks: &mut Blocks,
    payload: &mut Payload,
    out: &mut [u8],
) -> Result<()> {
    match operation {
        "commit_1x4k" => commit_one(volume, blocks.next(), payload.next()),
        "commit_16x4k" => {
            let mut transaction = volume.begin();
            for block in blocks.next_distinct::<16>() {
                transaction.write(block, payload.next())?;
            }
            Ok(transaction.commit()?)
        }
        "delta_256b" => {
            let mut transaction = volume.begin();
            let at = blocks.next() * BLOCK_BYTES as u64 + 1024;
            transaction.write_at(at, &payload.next()[..256])?;
            Ok(transaction.commit()?)
        }
        "read_hit_4k" => Ok(volume.read(blocks.next(), out)?),
        unknown => Err(format!("no operation {unknown}").into()),
    }
}
