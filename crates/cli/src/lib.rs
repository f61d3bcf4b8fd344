//! The command `forebay`: makes, serves, inspects, changes and checks pools.
//!
//! Results go to standard output (one JSON object with `--json`), everything else to standard error;
//! the exit codes are listed in [`forebay_command::failure`].

mod arguments;
mod commands;
pub mod config;
mod control;
mod daemon;
pub mod drills;
mod handover;
mod idle_pool;
pub mod inspection;
mod members;
mod pool_report;
mod regions;
pub mod requests;
mod stack;
mod top;

use std::process::ExitCode;

use clap::Parser;
use forebay_command::{Failure, manual};

use crate::arguments::{Arguments, Command};

/// Whether faults can be switched on in what is linked here, for the crash checker alone: cargo builds a package
/// once for all that are built together, so one that asks for them gives them to all.
const HAS_MUTANTS: bool = forebay::internals::mutants::IN_BUILD
    || forebay_files::mutants::IN_BUILD
    || forebay_pmem::mutants::IN_BUILD;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if HAS_MUTANTS {
        let why = "this program was built with the faults of the feature mutants in it; `make build` builds it without";
        return forebay_command::end_with(Err(Failure::Failed(why.into())));
    }
    if let Err(error) = forebay_pmem::Kernel::chosen() {
        return forebay_command::end_with(Err(Failure::Arguments(error.to_string())));
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
        Command::Member(options) => commands::member::run(&options.action),
        Command::Scrub(options) => commands::scrub::run(&options.action),
        Command::Dax(options) => commands::dax::run(&options.action),
        Command::Fault(options) => commands::fault::run(&options),
        Command::Check(options) => commands::check::run(&options),
        Command::Recover(options) => commands::recover::run(&options),
        Command::Bench(options) => commands::bench::run(&options),
        Command::Demo(options) => commands::demo::run(&options),
        Command::Completions(options) => manual::completions::<Arguments>(options.shell),
        Command::Man(options) => manual::man::<Arguments>(&options.directory),
        Command::Unmounter(options) => daemon::unmounter::run(&options),
        Command::Broker(options) => daemon::broker::run(&options),
        Command::Within(options) => match commands::within::run(&options) {
            Ok(code) => return ExitCode::from(code),
            Err(failure) => Err(failure),
        },
    };
    forebay_command::end_with(result)
}
