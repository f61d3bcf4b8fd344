//! Crashes the release code of Forebay, or of an engine of the lab, wherever the order of stores can
//! matter, recovers what each crash could leave, and judges it against everything that had been
//! acknowledged.

mod campaign;
mod content;
mod crash_samples;
mod directed;
mod engine;
mod engine_actor;
mod engine_scenario;
mod expected;
mod explore;
mod files;
mod focus;
mod focus_scripts;
mod judge;
mod life;
mod lost;
mod mark;
#[cfg(feature = "mutants")]
mod mutants;
mod oracle;
mod pool;
mod pool_actor;
mod process;
mod report;
mod scenario;
mod scenario_name;
mod scheduler;
mod search;
mod subject;
mod systematic;
#[cfg(test)]
mod toy;
mod trace;
mod world;

use campaign::Limits;
use clap::{Args, Parser, Subcommand};
use explore::Scenario;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use subject::Subject;

#[derive(Parser)]
#[command(version, about, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// What is crashed.
#[derive(Args)]
struct Choice {
    /// forebay, classic, ubj, tinca, spindle, or forebay-engine: Forebay behind the engines' trait.
    #[arg(long, value_name = "ENGINE", default_value = "forebay")]
    engine: Subject,
    /// The paper's protocol exactly as printed.
    #[arg(long)]
    as_printed: bool,
}

/// How far, and from where on.
#[derive(Args)]
struct Search {
    /// Images for each, from each seed.
    #[arg(long, default_value_t = search::IMAGES_MAX)]
    images: u64,
    /// So many of the seeds that each is to be found from.
    #[arg(long, default_value_t = search::SEEDS.len())]
    seeds: usize,
    /// Or from this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Only these.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Searches for mutants at once; one for each processor if not given.
    #[cfg(feature = "mutants")]
    #[arg(long)]
    threads: Option<usize>,
    /// Where to write the report, beside what is there already.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Recovers and judges crash images until there are enough of them.
    Run {
        #[command(flatten)]
        choice: Choice,
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
    /// The same for the durable file buffer, over a real directory.
    Files {
        /// Distinct images to reach.
        #[arg(long, default_value_t = 20_000)]
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
        /// Only this seed, and say what happens.
        #[arg(long, value_name = "SEED")]
        replay: Option<u64>,
        /// The fault that was switched on.
        #[cfg(feature = "mutants")]
        #[arg(long, value_name = "NAME")]
        mutant: Option<String>,
        /// Where to write the report, beside what is there already.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Searches the papers' protocols as printed until each is seen losing data.
    Printed(Search),
    /// Switches each known fault on in turn and searches until it is noticed.
    #[cfg(feature = "mutants")]
    Mutants(Search),
    /// The part of that in a process of its own: one fault, from one seed.
    #[cfg(feature = "mutants")]
    #[command(hide = true)]
    Hunt {
        name: String,
        seed: u64,
        images: u64,
    },
    /// Compares what the first scenarios store, flush and fence with what they did when the baseline was
    /// written: for changes of the code that are to change nothing on the medium.
    Trace {
        /// Scenarios; each hundred of them has a line in the baseline.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// The baseline.
        #[arg(long, value_name = "FILE", default_value = "crates/check/traces.txt")]
        baseline: PathBuf,
        /// Write it anew: the protocol, or the scenarios, have changed on purpose.
        #[arg(long)]
        write: bool,
    },
    /// Runs what a violation named again, and says in words what happens.
    Replay {
        #[command(flatten)]
        choice: Choice,
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

impl Choice {
    fn subject(&self) -> Result<Subject, String> {
        if self.as_printed {
            self.engine.printed()
        } else {
            Ok(self.engine)
        }
    }
}

impl Search {
    fn search(&self) -> search::Search {
        let count = self.seeds.clamp(1, search::SEEDS.len());
        let committed = search::SEEDS[..count].to_vec();
        search::Search {
            seeds: self.seed.map_or(committed, |seed| vec![seed]),
            images: self.images,
            only: self.only.clone(),
        }
    }
}

fn run(command: Command) -> Result<bool, String> {
    match command {
        Command::Run {
            choice,
            images,
            seconds,
            seed,
            threads,
            json,
        } => {
            let limits = Limits {
                subject: choice.subject()?,
                images,
                recoveries: u64::MAX,
                time: Duration::from_secs(seconds),
                seed,
                threads: threads.unwrap_or_else(campaign::default_threads),
                switch: None,
            };
            campaign::run_command(&limits, json.as_deref())
        }
        Command::Files {
            images,
            seconds,
            seed,
            threads,
            replay,
            #[cfg(feature = "mutants")]
            mutant,
            json,
        } => {
            #[cfg(feature = "mutants")]
            mutants::select(mutant.as_deref(), Subject::Pool)?;
            if let Some(seed) = replay {
                return files::replay(seed);
            }
            let limits = files::Limits {
                images,
                recoveries: u64::MAX,
                time: Duration::from_secs(seconds),
                seed,
                threads,
            };
            files::command(&limits, json.as_deref())
        }
        Command::Printed(search) => {
            search::printed_command(&search.search(), search.json.as_deref())
        }
        #[cfg(feature = "mutants")]
        Command::Mutants(search) => {
            let processes = search.threads.unwrap_or_else(campaign::default_threads);
            mutants::command(&search.search(), processes, search.json.as_deref())
        }
        #[cfg(feature = "mutants")]
        Command::Hunt { name, seed, images } => mutants::hunt_command(&name, seed, images),
        Command::Trace {
            seeds,
            baseline,
            write,
        } => trace::command(seeds, &baseline, write),
        Command::Replay {
            choice,
            scenarios,
            #[cfg(feature = "mutants")]
            mutant,
            quiet,
        } => {
            let subject = choice.subject()?;
            #[cfg(feature = "mutants")]
            let subject = mutants::select(mutant.as_deref(), subject)?;
            campaign::replay_command(subject, &scenarios, quiet)
        }
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forebay-check: {error}");
            ExitCode::from(2)
        }
    }
}
