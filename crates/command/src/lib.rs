//! What the commands `forebay` and `forebay-lab` share: exit codes, what goes to the terminal, log lines,
//! how a daemon starts and ends.

pub mod disks;
pub mod end;
pub mod failure;
pub mod json_path;
pub mod log_writer;
mod logging;
pub mod manual;
pub mod notify;
pub mod output;
pub mod plain;
pub mod private_directory;
pub mod progress;
pub mod requests;
pub mod size;
pub mod start;
mod trust;

use std::process::ExitCode;

pub use failure::Failure;
pub use logging::{LogFormat, LogLevel};
pub use trust::Trust;

/// The end of a command: says on standard error why it failed, if it did.
pub fn end_with(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) if output::is_lost() => end_with(Err(Failure::Failed(String::from(
            "the result could not be written to standard output",
        )))),
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure.to_string());
            ExitCode::from(failure.exit_code())
        }
    }
}
