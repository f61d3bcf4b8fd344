//! The crash checker as a program.

use clap::Parser;
use std::process::ExitCode;

/// Crashes the release code of Forebay and compares what it recovers with what was acknowledged
#[derive(Parser)]
#[command(version)]
struct Program {
    #[command(flatten)]
    arguments: forebay_check::Arguments,
}

fn main() -> ExitCode {
    match forebay_check::run(&Program::parse().arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("forebay-check: {error}");
            ExitCode::from(2)
        }
    }
}
