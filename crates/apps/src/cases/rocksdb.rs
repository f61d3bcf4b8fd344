//! RocksDB's own `db_bench`: each write synced before it returns.

use crate::cases::tools::number_after;
use crate::context::program;
use crate::outcome::Outcome;
use crate::place::Session;
use forebay_harness::Result;

/// So many that the time is over first.
const KEYS: u64 = 10_000_000;

/// `fillrandom` with `sync=1`, by one thread.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let mut command = session.command(&program("db_bench")?, 0)?;
    let seconds = session.context.pace.seconds.ceil();
    command
        .arg(format!("--db={}", session.data().join("db").display()))
        .args(["--benchmarks=fillrandom", "--sync=1", "--threads=1"])
        .arg(format!("--num={KEYS}"))
        .arg(format!("--duration={seconds}"));
    let printed = session.output(command)?;
    let micros = number_after(&printed, "fillrandom   :")?;
    Ok(Outcome::rate(
        "rocksdb_fillrandom",
        1e6 / micros,
        "writes/s",
    ))
}
