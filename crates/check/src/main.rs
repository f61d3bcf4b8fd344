//! Crashes the release code of Forebay wherever the order of stores can matter, recovers what each
//! crash could leave, and judges it against everything the pool had acknowledged.

mod campaign;
mod explore;
mod judge;
mod life;
#[cfg(feature = "mutants")]
mod mutants;
mod oracle;
mod pool;
mod report;
mod scenario;
mod scheduler;
mod store;
mod systematic;
mod world;

use clap::{Parser, Subcommand};
use explore::Scenario;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(version, about, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Recovers and judges crash images until there are enough of them.
    Run {
        /// Distinct images to reach.
        #[arg(long, default_value_t = 100_000)]
        images: u64,
        /// Seconds after which to stop in any case.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
        /// First of the seeds.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Threads; one for each processor if not given.
        #[arg(long)]
        threads: Option<usize>,
        /// Where to write the report: a list of {"name", "value", "unit"}.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Switches each known fault on in turn and searches until it is noticed.
    #[cfg(feature = "mutants")]
    Mutants {
        /// Seconds for each fault.
        #[arg(long, default_value_t = 30)]
        seconds: u64,
        /// First of the seeds.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Only these.
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Threads; one for each processor if not given.
        #[arg(long)]
        threads: Option<usize>,
        /// Where to write the report, beside what is there already.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Runs what a violation named again, and says in words what happens.
    Replay {
        /// A seed, or the name of a systematic run.
        scenarios: Vec<Scenario>,
        /// The fault that was switched on.
        #[cfg(feature = "mutants")]
        #[arg(long, value_name = "NAME")]
        mutant: Option<String>,
        /// Say only whether it is still so.
        #[arg(long)]
        quiet: bool,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Run {
            images,
            seconds,
            seed,
            threads,
            json,
        } => campaign::run_command(
            &campaign::Limits {
                images,
                time: Duration::from_secs(seconds),
                seed,
                threads: threads.unwrap_or_else(campaign::default_threads),
            },
            json.as_deref(),
        ),
        #[cfg(feature = "mutants")]
        Command::Mutants {
            seconds,
            seed,
            only,
            threads,
            json,
        } => {
            let threads = threads.unwrap_or_else(campaign::default_threads);
            mutants::command(
                Duration::from_secs(seconds),
                seed,
                &only,
                threads,
                json.as_deref(),
            )
        }
        #[cfg(feature = "mutants")]
        Command::Replay {
            scenarios,
            mutant,
            quiet,
        } => mutants::select(mutant.as_deref())
            .and_then(|()| campaign::replay_command(&scenarios, quiet)),
        #[cfg(not(feature = "mutants"))]
        Command::Replay { scenarios, quiet } => campaign::replay_command(&scenarios, quiet),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forebay-check: {error}");
            ExitCode::from(2)
        }
    }
}
