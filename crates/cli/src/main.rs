//! The command `forebay`: makes, serves, inspects and checks pools.
//!
//! Results go to standard output (one JSON object with `--json`), everything else to standard error;
//! the exit codes are listed in [`failure`].

mod arguments;
mod commands;
mod failure;
mod idle_pool;
mod output;
mod pool_report;
mod size;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Create(options) => commands::create::run(&options),
        Command::Info(options) => commands::info::run(&options),
        Command::Serve(options) => commands::serve::run(&options),
        Command::Stat(options) => commands::stat::run(&options),
        Command::Flush(options) => commands::flush::run(&options),
        Command::Check(options) => commands::check::run(&options),
        Command::Recover(options) => commands::recover::run(&options),
        Command::Bench(options) => commands::bench::run(&options),
        Command::Demo(options) => commands::demo::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}
