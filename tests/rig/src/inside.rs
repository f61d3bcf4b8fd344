//! What runs inside guests: the first process, and their workloads.

use std::process::ExitCode;

use crate::measure::writer;
use crate::torn::pages::{MakePages, VerifyPages, WritePages};
use crate::workload::load::Load;
use crate::workload::pool::{VerifyPool, WritePool};
use crate::workload::verify::Verify;
use crate::{Result, agent};
use clap::Parser;

/// What runs inside the guests of forebay-rig.
#[derive(Debug, Parser)]
enum Command {
    /// Changes files and syncs them until the power fails, reporting what was acknowledged.
    Load(Load),
    /// Compares files with what had been acknowledged; exit status 1 where something is lost.
    Verify(Verify),
    /// Makes a file of pages that tell whether they are whole.
    MakePages(MakePages),
    /// Writes such pages, over and over.
    WritePages(WritePages),
    /// Counts those that are torn; exit status 1 where there are any.
    VerifyPages(VerifyPages),
    /// Makes a pool, writes blocks, and has its disk fail.
    WritePool(WritePool),
    /// Compares the blocks of such a pool; exit status 1 where one is lost.
    VerifyPool(VerifyPool),
    /// Writes files, and prints how many bytes.
    Writer(writer::Order),
}

/// Something acknowledged is lost, or something is there that was never written.
const EXIT_LOST: u8 = 1;
/// It could not be done.
const EXIT_FAILED: u8 = 2;

/// The program forebay-rig-guest.
#[must_use]
pub fn run_inside() -> ExitCode {
    if agent::is_first_process() {
        agent::live();
    }
    match run(&Command::parse()) {
        Ok(losses) if losses.is_empty() => ExitCode::SUCCESS,
        Ok(losses) => {
            println!("{}", losses.join("\n"));
            ExitCode::from(EXIT_LOST)
        }
        Err(error) => {
            eprintln!("forebay-rig-guest: {error}");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn run(command: &Command) -> Result<Vec<String>> {
    match command {
        Command::Load(load) => load.run().map(|()| Vec::new()),
        Command::Verify(verify) => verify.run(),
        Command::MakePages(make) => make.run().map(|()| Vec::new()),
        Command::WritePages(write) => write.run().map(|()| Vec::new()),
        Command::VerifyPages(verify) => verify.run(),
        Command::WritePool(write) => write.run().map(|()| Vec::new()),
        Command::VerifyPool(verify) => verify.run(),
        Command::Writer(order) => {
            println!("{}", writer::write(order)?);
            Ok(Vec::new())
        }
    }
}
