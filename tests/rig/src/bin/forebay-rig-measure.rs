//! Measures in guests: `make rig-grid`, and the ratios and double writes of `make rig`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use forebay_rig::measure::grid::{self, Contender, Figure};
use forebay_rig::{Daemon, Result, Scratch, guest, interrupt};

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
    if let Some(why) = guest::obstacle() {
        println!("skipped rig: {why}");
        return Ok(());
    }
    interrupt::watch()?;
    match arguments.command {
        Command::Grid(arguments) => run_grid(arguments),
    }
}

fn run_grid(arguments: GridArguments) -> Result<()> {
    let logs = Scratch::new()?;
    let daemon = Daemon {
        forebay: std::path::absolute(&arguments.forebay)?,
        log: logs.path("daemon.log"),
    };
    let options = grid::Options {
        is_quick: arguments.quick,
        figures: arguments.figures,
        contenders: arguments.contenders,
        folder: arguments.out,
    };
    let rows = grid::run(&daemon, &options)?;
    forebay_report::rows::print(&rows, arguments.json)?;
    println!("{}", options.folder.join("grid.html").display());
    Ok(())
}
