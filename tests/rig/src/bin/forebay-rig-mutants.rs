//! The rig with a fault in the pool: a program of its own, so that no other one has it.

use std::process::ExitCode;

use clap::Parser;
use forebay_harness::{catch_signals, exit_code};

/// Proves that power cuts notice a commit without its fence: what `forebay-verify power` does, with that fault
#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    arguments: forebay_rig::Arguments,
}

fn main() -> ExitCode {
    let Program { arguments } = Program::parse();
    let outcome = catch_signals().and_then(|_| forebay_rig::run(&arguments));
    exit_code("forebay-rig-mutants", outcome)
}
