//! Instructions of single operations, counted by valgrind's callgrind: the same from run to run,
//! so that a commit that grew is seen where seconds are too noisy to tell.
//!
//! Valgrind offers a processor without AVX-512 and its carry-less multiply on vectors, so one kernel
//! that it can run is forced, [`KERNEL`]. A run is made twice with different numbers of operations;
//! what the longer one took more is the operations' own, without start and end.
//!
//! Beside whole operations stands their bookkeeping (`bookkeeping`): what they take per block besides
//! copying and summing its bytes, in instructions and in stores.

mod bookkeeping;
mod callgrind;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use forebay::Volume;
use serde_json::{Value, json};

use crate::payload::{BLOCK_BYTES, Blocks, Payload};
use crate::pools::{self, commit_one};
use crate::scratch::Scratch;
use callgrind::{FEW, KERNEL, Loop};
use forebay_harness::Result;

/// How far a count may be from the table's, as a share of it. Within one compiler the counts do not
/// move by themselves; this leaves room for changes that do not matter.
const TOLERANCE: f64 = 0.03;

/// A count may be this far from the table's whatever its size: a change of code far from the
/// commit moves what the compiler inlines, and a small count by more than its share.
const ALWAYS_TOLERATED: u64 = 10;

/// A pool that valgrind fills in a moment, and that still checkpoints while it is counted.
const POOL_BYTES: u64 = 8 << 20;

/// Operations of the longer of the two runs.
const MANY: u64 = 1100;

const OPERATIONS: [&str; 4] = ["commit_1x4k", "commit_16x4k", "delta_256b", "read_hit_4k"];

/// The compiler that built this: counts of another compiler or profile are other numbers.
const COMPILER: &str = env!("FOREBAY_COMPILER");
const PROFILE: &str = env!("FOREBAY_PROFILE");

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
        return compare(&counted, &expected["counts"]);
    }
    table[PROFILE] = json!({"compiler": COMPILER, "counts": counted});
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
fn compare(counted: &BTreeMap<String, u64>, expected: &Value) -> Result<()> {
    let mut is_good = true;
    for (operation, count) in counted {
        let Some(wanted) = expected[operation].as_u64() else {
            return Err(format!("{operation}: not in the table; run counts --update").into());
        };
        let change = *count as f64 / wanted as f64 - 1.0;
        let is_within = change.abs() <= TOLERANCE || count.abs_diff(wanted) <= ALWAYS_TOLERATED;
        is_good &= is_within;
        println!(
            "{}: {operation} takes {count}, the table says {wanted} ({:+.2} %)",
            if is_within { "  ok" } else { "  CHANGED" },
            change * 100.0
        );
    }
    if is_good {
        return Ok(());
    }
    Err(format!(
        "counts moved by more than {} % and {ALWAYS_TOLERATED}; if that is meant, run forebay-bench counts \
         --update with each profile and commit the table",
        TOLERANCE * 100.0
    )
    .into())
}

fn count_all() -> Result<BTreeMap<String, u64>> {
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let total = |operation: &str, times| {
        let asked = Loop {
            operation,
            times,
            counted_function: None,
        };
        Result::Ok(callgrind::run(&scratch, &asked)?.total())
    };
    let mut counted = BTreeMap::new();
    for operation in OPERATIONS {
        let instructions = total(operation, MANY)? - total(operation, FEW)?;
        counted.insert(operation.to_owned(), instructions / (MANY - FEW));
    }
    bookkeeping::count(&scratch, &mut counted)?;
    Ok(counted)
}

/// The counted process: a pool without background threads, and the operation so many times.
pub fn count_loop(operation: &str, times: u64, path: &Path) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let options = pools::options(path, POOL_BYTES).background(false);
    let cached = pools::half_full(&options)?;
    let mut blocks = Blocks::new(71, 0, cached.blocks);
    let mut payload = Payload::new(71);
    if let Some(operation) = bookkeeping::Operation::named(operation) {
        return operation.repeat(times, &cached.volume, &mut blocks, &mut payload);
    }
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
