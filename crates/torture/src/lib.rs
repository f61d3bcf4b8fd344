//! Whether files behind Forebay behave as files should: used at random, checked against POSIX, with
//! programs and daemons killed in the middle, and on bad days of the disk.

mod bad_days;
mod database;
mod disk;
mod exercise;
mod form;
mod fsx;
mod kill;
mod place;
mod posix;
mod report;
mod settings;
mod task;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay_harness::{PoolMedium, Result, RunOptions, SeedOption, SubjectOptions};

use crate::form::Form;
use crate::report::Report;
use crate::settings::Settings;

pub use task::Task;

/// How files are tortured.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Only these parts [default: all]
    #[arg(value_enum)]
    parts: Vec<Part>,
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    seed: SeedOption,
    #[command(flatten)]
    run: RunOptions,
    /// A directory on a disk, under which the files are made
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,
    /// What pools lie on; those that lie on a disk are made below the directory of --disk
    #[arg(long, value_enum, default_value_t)]
    medium: PoolMedium,
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
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    /// Random use of a file, compared with a model
    Fsx,
    /// What POSIX says of names, modes, owners and times
    Posix,
    /// Programs and daemons killed while they work
    Kill,
    /// The same with the power of the disk cut
    Power,
    /// SQLite killed while it commits
    Database,
    /// A disk that is full, stops or is gone; directories and pools that do not go together
    BadDays,
}

impl Part {
    fn run(self, settings: &Settings, report: &mut Report) -> Result<()> {
        match self {
            Part::Fsx => fsx::run(settings, report),
            Part::Posix => posix::run(settings, report),
            Part::Kill => kill::run(settings, report),
            Part::Power => kill::run_power_cuts(settings, report),
            Part::Database => database::run(settings, report),
            Part::BadDays => bad_days::run(settings, report),
        }
    }
}

/// Runs the parts, whose progress is said line by line; true if nothing was wrong.
///
/// # Errors
/// It cannot be done here, or a signal came.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let quick_or = |quick, whole| arguments.run.pick(quick, whole);
    let own = std::env::current_exe()?;
    let settings = Settings {
        forebay: arguments.subject.forebay()?,
        disk: std::path::absolute(&arguments.disk)?,
        medium: arguments.medium,
        seed: arguments.seed.seed("torture"),
        fsx_operations: arguments.operations.unwrap_or(quick_or(8000, 100_000)),
        kill_rounds: arguments.rounds.unwrap_or(quick_or(24, 150)),
        database_rounds: arguments.rounds.unwrap_or(quick_or(3, 20)),
        forms: arguments.forms.clone(),
        keep: arguments.keep.clone(),
        tools: tools(&own),
        own,
    };
    let mut report = Report::default();
    let parts = match arguments.parts.as_slice() {
        [] => Part::value_variants(),
        chosen => chosen,
    };
    for part in parts {
        part.run(&settings, &mut report)?;
    }
    report.finish(&arguments.run)
}

/// Does what `Task::program` starts this program for.
///
/// # Errors
/// A call fails, or something else than what was written is found.
pub fn run_task(task: Task) -> Result<()> {
    match task {
        Task::Exercise {
            directory,
            operations,
            seed,
            with_mappings,
        } => {
            let done = exercise::run(&directory, operations, seed, with_mappings)?;
            println!("{done}");
            Ok(())
        }
        Task::Work {
            directory,
            socket,
            threads,
        } => kill::worker::run(&directory, &socket, threads),
        Task::Fill { path, count, pause } => bad_days::blocks::run(&path, count, pause.as_deref()),
        Task::Ledger { path, journal } => database::ledger::run(&path, journal),
    }
}

/// Where setup puts programs: beside the folders of what is built.
fn tools(own: &std::path::Path) -> Vec<PathBuf> {
    let above = own.ancestors().skip(1).take(3);
    let mut places: Vec<PathBuf> = above.map(|folder| folder.join("tools/bin")).collect();
    places.push("target/tools/bin".into());
    places
}
