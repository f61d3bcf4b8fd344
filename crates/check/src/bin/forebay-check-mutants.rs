//! The crash checker with faults in the code that it crashes: a program of its own, so that no other one has them.

use clap::Parser;
use std::process::ExitCode;

/// Proves that the crash checker notices: what `forebay-verify crash` does, with faults that can be switched on
#[derive(Parser)]
#[command(version)]
struct Program {
    #[command(flatten)]
    arguments: forebay_check::Arguments,
}

fn main() -> ExitCode {
    let outcome = forebay_check::run(&Program::parse().arguments);
    forebay_harness::exit_code("forebay-check-mutants", outcome)
}
