//! What the rig is told on the command line.

use std::time::Duration;

use clap::{Args, Subcommand};
use forebay_harness::{Row, RunOptions, SubjectOptions, rows};
use indicatif::{ProgressBar, ProgressStyle};

use crate::measure::{grid, layers, ratios, rivals, writes};
use crate::{Daemon, Result, Scratch, cuts, failing_disk, guest, torn};

/// What is done under the kernels of guests
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Cuts the power of guests and daemons, and verifies what is left
    Cuts(cuts::Arguments),
    /// Cuts the power of a node of etcd, its page cache gone, and looks for every key that it acknowledged
    Etcd(cuts::etcd::Arguments),
    /// Cuts the power under pages of databases and counts those that are torn
    Torn(torn::Arguments),
    /// Has the disk under a pool's file fail, opens the pool again, and looks what is left
    FailingDisk(failing_disk::Arguments),
    /// The block cache study's grid: grid.json, grid.csv and grid.html
    Grid(GridArguments),
    /// Where requests' time goes, layer by layer, and the requests of each device, the study's figures 1, 4, 6 and 10:
    /// layers.json, layers.csv and layers.html
    Layers(LayersArguments),
    /// Ours beside other servers and caches, as ratios
    Ratios(RowsArguments),
    /// A pool on an SSD beside dm-writecache, bcache and dm-cache over such files, as ratios
    Rivals(RowsArguments),
    /// How often ext4's bytes are written
    Writes(RowsArguments),
}

#[derive(Args, Debug)]
struct RowsArguments {
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    run: RunOptions,
    /// Only rows with this in their names; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Fail where a counted row misses its bar
    #[arg(long)]
    check: bool,
}

#[derive(Args, Debug)]
struct GridArguments {
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    options: grid::Options,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct LayersArguments {
    #[command(flatten)]
    subject: SubjectOptions,
    #[command(flatten)]
    options: layers::Options,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

/// Does it; true if all is well.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.command {
        Command::Cuts(arguments) => cuts::run(arguments),
        Command::Etcd(arguments) => cuts::etcd::run(arguments),
        Command::Torn(arguments) => torn::run(arguments),
        Command::FailingDisk(arguments) => failing_disk::run(arguments),
        Command::Grid(_)
        | Command::Layers(_)
        | Command::Ratios(_)
        | Command::Rivals(_)
        | Command::Writes(_)
            if has_no_guests() =>
        {
            Ok(true)
        }
        Command::Grid(arguments) => run_grid(arguments),
        Command::Layers(arguments) => run_layers(arguments),
        Command::Ratios(arguments) => run_rows(arguments, ratios::run),
        Command::Rivals(arguments) => run_rows(arguments, rivals::run),
        Command::Writes(arguments) => run_rows(arguments, writes::run),
    }
}

fn has_no_guests() -> bool {
    let why = guest::obstacle();
    if let Some(why) = &why {
        println!("skipped rig: {why}");
    }
    why.is_some()
}

/// The daemon, whether it is to be quick, parts of the names of the rows wanted.
type Measurement = fn(&Daemon, bool, &[String], &ProgressBar) -> Result<Vec<Row>>;

fn run_rows(arguments: &RowsArguments, measure: Measurement) -> Result<bool> {
    let RowsArguments {
        subject, run, only, ..
    } = arguments;
    let logs = Scratch::new()?;
    let daemon = daemon(subject, &logs)?;
    let progress = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    progress.enable_steady_tick(Duration::from_millis(200));
    let list = measure(&daemon, run.quick, only, &progress)?;
    progress.finish_and_clear();
    rows::merge(&run.report("rig"), &list)?;
    rows::print(&list, run.json)?;
    let missed = writes::missed(&list, run.quick);
    match arguments.check && !missed.is_empty() {
        true => Err(missed.join("; ").into()),
        false => Ok(true),
    }
}

fn daemon(subject: &SubjectOptions, logs: &Scratch) -> Result<Daemon> {
    Ok(Daemon {
        forebay: subject.forebay()?,
        log: logs.path("daemon.log"),
    })
}

fn run_grid(arguments: &GridArguments) -> Result<bool> {
    let logs = Scratch::new()?;
    let daemon = daemon(&arguments.subject, &logs)?;
    let list = grid::run(&daemon, &arguments.options)?;
    rows::print(&list, arguments.json)?;
    if !arguments.json {
        println!("{}", arguments.options.out.join("grid.html").display());
    }
    Ok(true)
}

fn run_layers(arguments: &LayersArguments) -> Result<bool> {
    let logs = Scratch::new()?;
    let daemon = daemon(&arguments.subject, &logs)?;
    let list = layers::run(&daemon, &arguments.options)?;
    rows::print(&list, arguments.json)?;
    if !arguments.json {
        println!("{}", arguments.options.out.join("layers.html").display());
    }
    Ok(true)
}
