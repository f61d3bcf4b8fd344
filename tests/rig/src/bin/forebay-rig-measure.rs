//! Measures in guests: `make rig-grid`, and the ratios and double writes of `make rig`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use forebay_harness::{Row, rows};
use forebay_rig::measure::grid::{self, Contender, Figure};
use forebay_rig::measure::{ratios, writer, writes};
use forebay_rig::{Daemon, Result, Scratch, guest};
use indicatif::{ProgressBar, ProgressStyle};

/// Measurements of Forebay in guests with real kernels.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The block cache study's grid: grid.json, grid.csv and grid.html.
    Grid(GridArguments),
    /// Ours beside other servers and caches, as ratios; merged into report.json.
    Ratios(RowsArguments),
    /// How often ext4's bytes are written; merged into report.json.
    Writes(RowsArguments),
    /// Runs inside the guest: writes, and prints how many bytes.
    #[command(hide = true)]
    Writer(writer::Order),
}

#[derive(Debug, Args)]
struct RowsArguments {
    /// The command forebay.
    #[arg(long, value_name = "PATH")]
    forebay: PathBuf,
    /// Less of everything: shows that it works.
    #[arg(long)]
    quick: bool,
    /// Only rows with this in their names; may be repeated.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Fail where a counted row misses its bar.
    #[arg(long)]
    check: bool,
    /// The report that the rows go into.
    #[arg(long, value_name = "FILE", default_value = "target/rig/report.json")]
    report: PathBuf,
    /// Print the rows as JSON instead of lines.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct GridArguments {
    /// The command forebay.
    #[arg(long, value_name = "PATH")]
    forebay: PathBuf,
    /// Few points, once, briefly.
    #[arg(long)]
    quick: bool,
    /// Only this figure; may be repeated.
    #[arg(long = "figure", value_enum, value_name = "NAME")]
    figures: Vec<Figure>,
    /// Only this contender; may be repeated.
    #[arg(long = "contender", value_enum, value_name = "NAME")]
    contenders: Vec<Contender>,
    /// Where the files go.
    #[arg(long, value_name = "FOLDER", default_value = "target/rig")]
    out: PathBuf,
    /// Print the rows as JSON instead of lines.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("forebay-rig-measure: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    if let Command::Writer(order) = &arguments.command {
        println!("{}", writer::write(order)?);
        return Ok(());
    }
    if let Some(why) = guest::obstacle() {
        println!("skipped rig: {why}");
        return Ok(());
    }
    forebay_harness::catch_signals()?;
    match arguments.command {
        Command::Grid(arguments) => run_grid(arguments),
        Command::Ratios(arguments) => run_rows(&arguments, ratios::run),
        Command::Writes(arguments) => run_rows(&arguments, writes::run),
        Command::Writer(_) => Ok(()),
    }
}

/// The daemon, whether it is to be quick, parts of the names of the rows wanted.
type Measurement = fn(&Daemon, bool, &[String], &ProgressBar) -> Result<Vec<Row>>;

fn run_rows(arguments: &RowsArguments, measure: Measurement) -> Result<()> {
    let logs = Scratch::new()?;
    let daemon = daemon(&arguments.forebay, &logs)?;
    let progress = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    progress.enable_steady_tick(Duration::from_millis(200));
    let rows = measure(&daemon, arguments.quick, &arguments.only, &progress)?;
    progress.finish_and_clear();
    rows::merge(&arguments.report, &rows)?;
    rows::print(&rows, arguments.json)?;
    let missed = writes::missed(&rows, arguments.quick);
    match arguments.check && !missed.is_empty() {
        true => Err(missed.join("; ").into()),
        false => Ok(()),
    }
}

fn daemon(forebay: &Path, logs: &Scratch) -> Result<Daemon> {
    Ok(Daemon {
        forebay: std::path::absolute(forebay)?,
        log: logs.path("daemon.log"),
    })
}

fn run_grid(arguments: GridArguments) -> Result<()> {
    let logs = Scratch::new()?;
    let daemon = daemon(&arguments.forebay, &logs)?;
    let options = grid::Options {
        is_quick: arguments.quick,
        figures: arguments.figures,
        contenders: arguments.contenders,
        folder: arguments.out,
    };
    let rows = grid::run(&daemon, &options)?;
    rows::print(&rows, arguments.json)?;
    println!("{}", options.folder.join("grid.html").display());
    Ok(())
}
