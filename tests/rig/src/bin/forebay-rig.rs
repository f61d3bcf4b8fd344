//! `make rig`: Forebay under real kernels.

use std::process::ExitCode;

use clap::Parser;
use forebay_rig::{Result, cuts, failing_disk, torn};

/// Tests and measures Forebay under the kernels of User Mode Linux guests.
#[derive(Debug, Parser)]
enum Command {
    /// Cuts the power and verifies what is left.
    Cuts(cuts::Arguments),
    /// Cuts the power under pages of databases and counts those that are torn.
    Torn(torn::Arguments),
    /// Has the disk under a pool's file fail, opens the pool again, and looks what is left.
    FailingDisk(failing_disk::Arguments),
}

fn main() -> ExitCode {
    match run(&Command::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forebay-rig: {error}");
            ExitCode::FAILURE
        }
    }
}

/// True if all is well.
fn run(command: &Command) -> Result<bool> {
    forebay_harness::catch_signals()?;
    match command {
        Command::Cuts(arguments) => cuts::run(arguments),
        Command::Torn(arguments) => torn::run(arguments),
        Command::FailingDisk(arguments) => failing_disk::run(arguments),
    }
}
