//! `make bench`: Forebay's release build through its public API, with checksums, index and locks
//! on, in turn with its references in one run.
//!
//! Prints a table of the rows, their bars and goals, and writes them as `report.json`. What is
//! measured how is said in the files of `cases`, and in `docs/measured/performance.md`.

mod allocator;
mod cases;
mod contest;
mod counts;
mod nvml;
mod payload;
mod pools;
mod regions;
mod scratch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use forebay_harness::{
    Result, RunOptions, check_interrupt, exit_code, progress_bar, rows, run_watched, watch_parent,
};
use forebay_pmem::Kernel;

use crate::cases::{Bench, CASES, Case, EXPLANATIONS};
use crate::contest::{Clock, Pace};
use crate::scratch::Scratch;

#[global_allocator]
static ALLOCATOR: allocator::CountingAllocator = allocator::CountingAllocator;

/// Measures Forebay against raw memory and libpmem.
#[derive(Parser)]
struct Arguments {
    /// Pools on a plain file are measured on the disk that the report goes to
    #[command(flatten)]
    run: RunOptions,
    /// Only the case that yields this row
    #[arg(long)]
    case: Option<String>,
    /// Seconds that each side of a comparison runs
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// MiB of the pools; read hits and recovery use twice that
    #[arg(long, default_value_t = 1024)]
    pool_mib: u64,
    /// What throughput is by; `processor` for a machine that others use at the same time
    #[arg(long, value_enum, default_value_t = Clock::Wall)]
    clock: Clock,
    /// Ends when its input does
    #[arg(long, hide = true)]
    watched: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Counts instructions under valgrind and compares them with the committed table
    Counts {
        /// Writes the table anew, from what was counted
        #[arg(long)]
        update: bool,
    },
    /// The process that a case kills
    #[command(hide = true)]
    Victim { pool: PathBuf, bytes: u64 },
    /// The process that serves a pool over NBD
    #[command(hide = true)]
    NbdServer {
        pool: PathBuf,
        socket: PathBuf,
        bytes: u64,
    },
    /// The process that `counts` runs under valgrind
    #[command(hide = true)]
    CountLoop {
        operation: String,
        times: u64,
        pool: PathBuf,
    },
}

const SLICE: Duration = Duration::from_millis(200);
const QUICK_SLICE: Duration = Duration::from_millis(20);
const QUICK_SECONDS: f64 = 0.1;
const QUICK_POOL_MIB: u64 = 64;

fn main() -> ExitCode {
    nvml::force_pmem();
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        _ if forebay::internals::mutants::IN_BUILD || forebay_pmem::mutants::IN_BUILD => {
            Err("built with the feature mutants: what ships is measured without".into())
        }
        Some(Command::Counts { update }) => counts::run(*update),
        Some(Command::Victim { pool, bytes }) => cases::victim(pool, *bytes),
        Some(Command::NbdServer {
            pool,
            socket,
            bytes,
        }) => cases::nbd_server(pool, socket, *bytes),
        Some(Command::CountLoop {
            operation,
            times,
            pool,
        }) => counts::count_loop(operation, *times, pool),
        None if arguments.watched => watch_parent().and_then(|()| measure(&arguments)),
        None => match run_watched("--watched") {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
    };
    exit_code("forebay-bench", result.map(|()| true))
}

fn measure(arguments: &Arguments) -> Result<()> {
    let chosen = chosen(arguments.case.as_deref())?;
    let bench = prepare(arguments)?;
    let kernel = Kernel::chosen()?;
    bench.say(&format!("processor: {}; kernel: {kernel}", processor()));
    let mut measured = Vec::new();
    for case in chosen {
        check_interrupt()?;
        let names: Vec<&str> = case.rows.iter().map(|(name, _)| *name).collect();
        bench.progress.reset();
        bench.progress.set_message(names[0]);
        bench.say(&format!("{}:", names.join(", ")));
        let rows = (case.run)(&bench).map_err(|error| format!("{}: {error}", names[0]))?;
        measured.extend(rows);
    }
    bench.progress.finish_and_clear();
    match arguments.run.json {
        true => rows::print(&measured, true)?,
        false => print!("{}", cases::table(&measured)),
    }
    let report = arguments.run.report("bench");
    rows::write(&report, &measured)?;
    eprintln!("written to {}", report.display());
    Ok(())
}

/// The processor in the kernel's words: figures are nothing without it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let found = text.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        });
        found.unwrap_or("unknown")
    };
    let (family, model) = (field("cpu family"), field("model"));
    format!("{}, family {family}, model {model}", field("model name"))
}

fn chosen(name: Option<&str>) -> Result<Vec<&'static Case>> {
    let Some(name) = name else {
        return Ok(CASES.iter().collect());
    };
    let all = CASES.iter().chain(EXPLANATIONS);
    let found: Vec<&Case> = all
        .clone()
        .filter(|case| case.rows.iter().any(|(row, _)| *row == name))
        .collect();
    if found.is_empty() {
        let known = all.flat_map(|case| case.rows.iter().map(|(row, _)| *row));
        let known: Vec<&str> = known.collect();
        return Err(format!("there is no case {name:?}; one of {}", known.join(", ")).into());
    }
    Ok(found)
}

fn prepare(arguments: &Arguments) -> Result<Bench> {
    let (slice, seconds, pool_mib) = if arguments.run.quick {
        (QUICK_SLICE, QUICK_SECONDS, QUICK_POOL_MIB)
    } else {
        (SLICE, arguments.seconds, arguments.pool_mib)
    };
    let report = std::path::absolute(arguments.run.report("bench"))?;
    let disk = report.parent().ok_or("the report has no folder")?;
    std::fs::create_dir_all(disk)?;
    Ok(Bench {
        scratch: Scratch::new(disk)?,
        pace: Pace {
            slice,
            rounds: (seconds / slice.as_secs_f64()).ceil() as usize,
            clock: arguments.clock,
        },
        count_for: Duration::from_secs_f64(seconds),
        pool_bytes: pool_mib << 20,
        repeats: if arguments.run.quick { 1 } else { 5 },
        progress: progress_bar(1),
    })
}
