//! The command `forebay`: makes, serves, inspects, changes and checks pools.
//!
//! Results go to standard output (one JSON object with `--json`), everything else to standard error;
//! the exit codes are listed in [`failure`].

mod arguments;
mod commands;
pub mod config;
mod control;
mod daemon;
mod engine_region;
pub mod failure;
mod idle_pool;
pub mod inspection;
mod json_path;
mod output;
pub mod plain;
mod pool_report;
mod size;
mod top;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = forebay_pmem::Kernel::chosen() {
        let failure = failure::Failure::Arguments(error.to_string());
        output::error(&failure.to_string());
        return ExitCode::from(failure.exit_code());
    }
    let result = match arguments.command {
        Command::Create(options) => commands::create::run(&options),
        Command::Info(options) => commands::info::run(&options),
        Command::Serve(options) => daemon::run(&options),
        Command::Mount(options) => daemon::mount::run(&options),
        Command::Attach(options) => commands::attach::run(&options),
        Command::Detach(options) => commands::detach::run(&options),
        Command::Run(options) => match commands::run::run(&options) {
            Ok(code) => return ExitCode::from(code),
            Err(failure) => Err(failure),
        },
        Command::Stat(options) => commands::stat::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Flush(options) => commands::flush::run(&options),
        Command::Set(options) => commands::set::run(&options),
        Command::Resize(options) => commands::resize::run(&options),
        Command::Fault(options) => commands::fault::run(&options),
        Command::Check(options) => commands::check::run(&options),
        Command::Recover(options) => commands::recover::run(&options),
        Command::Bench(options) => commands::bench::run(&options),
        Command::Demo(options) => commands::demo::run(&options),
        Command::Lab(options) => commands::lab::run(&options),
        Command::Completions(options) => commands::manual::completions(&options),
        Command::Man(options) => commands::manual::man(&options),
        Command::Unmounter(options) => daemon::unmounter::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}
