//! What the checker is told on the command line.

use crate::campaign::{self, Limits};
#[cfg(feature = "mutants")]
use crate::mutants;
use crate::named::Scenario;
use crate::search;
use crate::subject::Subject;
use crate::trace;
use clap::{Args, Subcommand};
use forebay_harness::Result;
#[cfg(not(feature = "mutants"))]
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What is crashed
#[derive(Args, Debug)]
struct Choice {
    /// forebay, forebay-in-dram (its entry table in DRAM), forebay-checksum, forebay-mirror, files, files-ssd (files over a pool on an SSD), classic, ubj,
    /// tinca, spindle, forebay-engine (Forebay behind the engines' trait), ssd (the engine of pools on an SSD), ssd-mirror (the same on two members), or stacked (a pool in memory in front of one on an SSD)
    #[arg(long, value_name = "ENGINE", default_value = "forebay")]
    engine: Subject,
    /// The paper's protocol exactly as printed
    #[arg(long)]
    as_printed: bool,
    /// With the cleaner that the papers' engines can have
    #[arg(long, conflicts_with = "as_printed")]
    cleaner: bool,
}

/// How much is done
#[derive(Args, Debug)]
struct Extent {
    /// Distinct images to reach [default: 100000, of files 20000]
    #[arg(long)]
    images: Option<u64>,
    /// Seconds after which to stop in any case
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// First of the seeds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; one for each processor if not given
    #[arg(long)]
    threads: Option<usize>,
    /// Where the report goes, beside what is there already: a list of {"name", "value", "unit"}
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// How far, and from where on
#[derive(Args, Debug)]
struct Search {
    /// Images for each, from each seed [default: 50000, or the budget that a mutant has of its own]
    #[arg(long)]
    images: Option<u64>,
    /// So many of the seeds that each is to be found from
    #[arg(long, default_value_t = search::SEEDS.len())]
    seeds: usize,
    /// Or from this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Only these
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Searches for mutants at once; one for each processor if not given
    #[cfg(feature = "mutants")]
    #[arg(long)]
    threads: Option<usize>,
    /// Where the report goes, beside what is there already
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What the checker is to do
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Recovers and compares crash images until there are enough of them
    Run {
        #[command(flatten)]
        choice: Choice,
        #[command(flatten)]
        extent: Extent,
    },
    /// The same for the durable file buffer, over a real directory
    Files(Extent),
    /// Searches the papers' protocols as printed until each is seen losing data
    Printed(Search),
    /// Switches each known fault on in turn and searches until it is noticed
    #[cfg(feature = "mutants")]
    Mutants(Search),
    /// Switches each known fault on in turn and searches until it is noticed: the program
    /// forebay-check-mutants
    #[cfg(not(feature = "mutants"))]
    #[command(disable_help_flag = true)]
    Mutants {
        /// As that program takes them; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// The part of that in a process of its own: one fault, from one seed
    #[cfg(feature = "mutants")]
    #[command(hide = true)]
    Hunt {
        name: String,
        seed: u64,
        images: u64,
    },
    /// Compares what the first scenarios store, flush and fence with what they did when the baseline was
    /// written: for changes of the code that are to change nothing on the medium
    Trace {
        /// Scenarios; each hundred of them has a line in the baseline
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// The baseline
        #[arg(long, value_name = "FILE", default_value = "crates/check/traces.txt")]
        baseline: PathBuf,
        /// Write it anew: the protocol, or the scenarios, have changed on purpose
        #[arg(long)]
        write: bool,
    },
    /// Runs what a violation named again, and says in words what happens
    Replay {
        #[command(flatten)]
        choice: Choice,
        /// A seed, or the name of a systematic run
        scenarios: Vec<Scenario>,
        /// The fault that was switched on
        #[cfg(feature = "mutants")]
        #[arg(long, value_name = "NAME")]
        mutant: Option<String>,
        /// Say only whether it is still so
        #[arg(long)]
        quiet: bool,
    },
}

impl Arguments {
    /// Whether it is about mutants, which only the program forebay-check-mutants has.
    #[must_use]
    pub fn is_of_mutants(&self) -> bool {
        matches!(self.command, Command::Mutants { .. })
    }
}

impl Choice {
    fn subject(&self) -> Result<Subject> {
        match self.as_printed {
            true => Ok(self.engine.printed()?),
            false if self.cleaner => Ok(self.engine.cleaned()?),
            false => Ok(self.engine),
        }
    }
}

impl Extent {
    fn run(&self, subject: Subject) -> Result<bool> {
        let usual = if subject.is_of_files() {
            20_000
        } else {
            100_000
        };
        let limits = Limits {
            subject,
            images: self.images.unwrap_or(usual),
            recoveries: u64::MAX,
            time: Duration::from_secs(self.seconds),
            seed: self.seed,
            threads: self.threads.unwrap_or_else(campaign::default_threads),
            switch: None,
        };
        campaign::run_command(&limits, self.report.as_deref())
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

/// Does it; true if all was well.
///
/// # Errors
/// It could not be done.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Run { choice, extent } => extent.run(choice.subject()?),
        Command::Files(extent) => extent.run(Subject::Files),
        Command::Printed(search) => {
            search::printed_command(&search.search(), search.report.as_deref())
        }
        #[cfg(feature = "mutants")]
        Command::Mutants(search) => {
            let processes = search.threads.unwrap_or_else(campaign::default_threads);
            mutants::command(&search.search(), processes, search.report.as_deref())
        }
        #[cfg(not(feature = "mutants"))]
        Command::Mutants { arguments } => run_mutants(arguments),
        #[cfg(feature = "mutants")]
        Command::Hunt { name, seed, images } => mutants::hunt_command(name, *seed, *images),
        Command::Trace {
            seeds,
            baseline,
            write,
        } => trace::command(*seeds, baseline, *write),
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
            campaign::replay_command(subject, scenarios, *quiet)
        }
    }
}

/// In the place of this process: what is linked here has no faults.
#[cfg(not(feature = "mutants"))]
fn run_mutants(arguments: &[OsString]) -> Result<bool> {
    use std::os::unix::process::CommandExt;
    let program = std::env::current_exe()?.with_file_name("forebay-check-mutants");
    let mut command = std::process::Command::new(&program);
    let error = command.arg("mutants").args(arguments).exec();
    let program = program.display();
    Err(format!(
        "{program}: {error}; cargo build --release -p forebay-check --features mutants makes it"
    )
    .into())
}
