//! Runs inside guests: the first process, and their workloads.

use std::process::ExitCode;

use forebay_rig::agent;

fn main() -> ExitCode {
    if agent::is_first_process() {
        agent::live();
    }
    eprintln!("forebay-rig-guest: this is for guests of forebay-rig");
    ExitCode::FAILURE
}
