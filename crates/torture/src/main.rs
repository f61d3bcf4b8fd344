//! Whether files behind Forebay behave as files should: used at random, checked against POSIX, with
//! programs and daemons killed in the middle, and on bad days of the disk.
//!
//! Prints a list of named numbers. Exit code 1 if anything was wrong.

mod bad_days;
mod database;
mod disk;
mod exercise;
mod fsx;
mod kill;
mod place;
mod posix;
mod report;
mod settings;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::place::Form;
use crate::report::Report;
use crate::settings::Settings;

/// Whatever went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result with such a failure.
pub type Result<T> = std::result::Result<T, Failure>;

/// Tortures files behind Forebay.
#[derive(Debug, Parser)]
#[command(after_help = "Example:
  forebay-torture all --quick --forebay target/release/forebay")]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Random use of a file, compared with a model
    Fsx(Options),
    /// What POSIX says of names, modes, owners and times
    Posix(Options),
    /// Programs and daemons killed while they work
    Kill(Options),
    /// A disk that is full, stops or is gone; directories and pools that do not go together
    BadDays(Options),
    /// The same with the power of the disk cut
    Power(Options),
    /// SQLite killed while it commits
    Database(Options),
    /// All of it
    All(Options),
    /// Random use of a file in a directory; prints how many operations were clean
    #[command(hide = true)]
    Exercise(ExerciseOptions),
    /// Does what a socket tells it, in a directory
    #[command(hide = true)]
    Work(WorkOptions),
    /// Writes blocks to a file until no more are taken; prints how many were, and the error's number
    #[command(hide = true)]
    Fill(FillOptions),
    /// Makes transactions in a database until it is killed
    #[command(hide = true)]
    Ledger(LedgerOptions),
}

#[derive(Debug, Args)]
struct Options {
    /// The command to test; the library to preload is beside it
    #[arg(long, default_value = "target/release/forebay")]
    forebay: PathBuf,
    /// A directory on a disk, under which the files are made
    #[arg(long, default_value = "/var/tmp")]
    disk: PathBuf,
    /// A bounded share of everything
    #[arg(long)]
    quick: bool,
    /// Operations of the exerciser in each form [default: 100000, quick: 8000]
    #[arg(long)]
    operations: Option<u64>,
    /// Rounds that end in a kill [default: 150, quick: 24]
    #[arg(long)]
    rounds: Option<u64>,
    /// What stands between programs and files; plain is nothing, to test the test itself
    #[arg(long, value_enum, value_delimiter = ',',
          default_values_t = [Form::Preload, Form::Mount, Form::MountWriteback])]
    forms: Vec<Form>,
    /// Where a kill that lost something leaves pool and files, as they were before they were brought back
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Repeats the choices [default: any]
    #[arg(long)]
    seed: Option<u64>,
    /// Print the numbers as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ExerciseOptions {
    directory: PathBuf,
    #[arg(long)]
    operations: u64,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    mappings: bool,
}

#[derive(Debug, Args)]
struct WorkOptions {
    directory: PathBuf,
    socket: PathBuf,
    threads: usize,
}

#[derive(Debug, Args)]
struct FillOptions {
    path: PathBuf,
    #[arg(long)]
    count: usize,
    #[arg(long)]
    pause: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct LedgerOptions {
    path: PathBuf,
    #[arg(long, value_enum)]
    journal: database::Journal,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().part {
        Part::Exercise(options) => exercise(options),
        Part::Work(options) => {
            kill::worker::run(&options.directory, &options.socket, options.threads).map(|()| true)
        }
        Part::Ledger(options) => {
            database::run_ledger(&options.path, options.journal).map(|()| true)
        }
        Part::Fill(options) => {
            bad_days::blocks::run(&options.path, options.count, options.pause.as_deref())
                .map(|()| true)
        }
        Part::Database(options) => torture(&options, &[database::run]),
        Part::BadDays(options) => torture(&options, &[bad_days::run]),
        Part::Power(options) => torture(&options, &[kill::run_power_cuts]),
        Part::Kill(options) => torture(&options, &[kill::run]),
        Part::Fsx(options) => torture(&options, &[fsx::run]),
        Part::Posix(options) => torture(&options, &[posix::run]),
        Part::All(options) => torture(&options, ALL),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forebay-torture: {error}");
            ExitCode::FAILURE
        }
    }
}

fn exercise(options: ExerciseOptions) -> Result<bool> {
    let done = exercise::run(&exercise::Settings {
        directory: options.directory,
        operations: options.operations,
        seed: options.seed,
        with_mappings: options.mappings,
    })?;
    println!("{done}");
    Ok(true)
}

type Run = fn(&Settings, &mut Report) -> Result<()>;

const ALL: &[Run] = &[
    fsx::run,
    posix::run,
    kill::run,
    kill::run_power_cuts,
    database::run,
    bad_days::run,
];

/// Runs the parts; true if nothing was wrong.
fn torture(options: &Options, parts: &[Run]) -> Result<bool> {
    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    eprintln!("torture: seed {seed}");
    forebay_harness::catch_signals()?;
    let pick = |quick, whole| if options.quick { quick } else { whole };
    let own = std::env::current_exe()?;
    let settings = Settings {
        forebay: std::path::absolute(&options.forebay)?,
        disk: std::path::absolute(&options.disk)?,
        seed,
        fsx_operations: options.operations.unwrap_or(pick(8000, 100_000)),
        kill_rounds: options.rounds.unwrap_or(pick(24, 150)),
        database_rounds: options.rounds.unwrap_or(pick(3, 20)),
        forms: options.forms.clone(),
        keep: options.keep.clone(),
        tools: tools(&own),
        own,
    };
    let mut report = Report::default();
    for part in parts {
        part(&settings, &mut report)?;
    }
    report.finish(options.json)
}

/// Where setup puts programs: beside the folders of what is built.
fn tools(own: &std::path::Path) -> Vec<PathBuf> {
    let above = own.ancestors().skip(1).take(3);
    let mut places: Vec<PathBuf> = above.map(|folder| folder.join("tools/bin")).collect();
    places.push("target/tools/bin".into());
    places
}
