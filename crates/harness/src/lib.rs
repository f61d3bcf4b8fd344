//! What the programs that verify and measure Forebay share, each part once: programs started, waited for and
//! ended with everything they started; signals that become errors; reports as rows and as pages with plots.
//!
//! It imports nothing of ours: what is tested runs behind it, as a program.

pub mod choice;
pub mod files;
mod machine;
mod medium;
pub mod nbd;
mod options;
mod processes;
mod report;
pub mod stores;
mod test_env;
mod tools;
mod watched;

pub use machine::{Machine, OthersWatch, date};
pub use medium::PoolMedium;
pub use options::{RunOptions, SeedOption, SubjectOptions, exit_code, json, progress_bar};

pub use processes::{
    Daemon, Group, Output, OwnTime, catch_signals, check_interrupt, output, processor_time, run,
    sleep, tail, tail_of, thread_time, wait_for,
};
pub use report::{
    Bar, Chart, Page, Row, Section, Series, Shape, Table, TextTable, bars, digits, median, rows,
    write_file,
};
pub use tempfile::TempDir;
pub use test_env::{TestEnv, memory_folder, mount_obstacle, temporary_folder};
pub use tools::{LoopDevice, find_program, must};
pub use watched::{run_watched, watch_parent};

/// Whatever went wrong, in words.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
/// A result with such a failure.
pub type Result<T> = std::result::Result<T, Failure>;
