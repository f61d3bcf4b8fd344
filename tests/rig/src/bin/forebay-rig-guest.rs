//! Runs inside guests: the first process, and their workloads.

fn main() -> std::process::ExitCode {
    forebay_rig::run_inside()
}
