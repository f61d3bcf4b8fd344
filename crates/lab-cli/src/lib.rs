//! The command `forebay-lab`: measures the papers' figures over the published NVM caches and ours, serves
//! each of those caches as a disk, and simulates TVARAK's controllers.
//!
//! Results go to standard output (JSON with `--json`), everything else to standard error; the exit codes are
//! those of `forebay`.

mod arguments;
mod ask;
mod create;
mod dax;
mod delays;
mod engine_device;
mod figures;
mod files;
mod measuring;
mod region;
mod serve;
mod tvarak;
mod verdicts;

use std::process::ExitCode;

use clap::Parser;
use forebay_command::requests::{Flush, Stat};
use forebay_command::{Failure, manual, output};

use crate::arguments::{Arguments, Command};
use crate::delays::{SetDelays, Turn};

pub use engine_device::EngineDevice;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    output::name_program("forebay-lab");
    let arguments = Arguments::parse();
    if let Err(error) = forebay_pmem::Kernel::chosen() {
        return forebay_command::end_with(Err(Failure::Arguments(error.to_string())));
    }
    forebay_command::end_with(match arguments.command {
        Command::List(options) => {
            figures::list(&options);
            Ok(())
        }
        Command::Run(options) => figures::measure(&options),
        Command::Verdicts(options) => verdicts::print(&options),
        Command::Trace(options) => figures::replay(&options),
        Command::Dax(options) => dax::run(&options),
        Command::Files(options) => files::run(&options),
        Command::Tvarak(options) => tvarak::run(&options),
        Command::Create(options) => create::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Stat(options) => ask::run(&Stat {}, (&options.memory, options.json)),
        Command::Flush(options) => {
            ask::run(&Flush { volume: None }, (&options.memory, options.json))
        }
        Command::Delays(options) => {
            let are_on = options.turn == Turn::On;
            ask::run(&SetDelays { are_on }, (&options.memory, options.json))
        }
        Command::Completions(options) => manual::completions::<Arguments>(options.shell),
        Command::Man(options) => manual::man::<Arguments>(&options.directory),
    })
}
