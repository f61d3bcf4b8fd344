//! What this program does as a child of itself, under `forebay run` or beside a server: it writes, and
//! prints what it measured as a line of JSON.

mod attributes;
mod buffered;
mod git;
mod maildir;
mod names;
pub mod small_writes;
mod sqlite;
mod stores;
mod stream;
pub mod sync_4k;
mod target;
pub mod ycsb;

use std::path::PathBuf;
use std::process::Command;

use forebay_harness::Result;
use serde::{Deserialize, Serialize};

pub use stores::Kind;

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Task {
    /// Appends and writes at random, by threads with private files.
    SmallWrites(small_writes::Plan),
    /// One file appended from its beginning to its end.
    Stream {
        /// The file.
        file: PathBuf,
        /// How long it gets.
        bytes: u64,
        /// Whether each piece is durable before the next.
        is_synced: bool,
    },
    /// Small writes that are not synced.
    Buffered {
        /// The file.
        file: PathBuf,
        /// How long it gets before writing begins anew.
        file_bytes: u64,
        /// How long to write.
        seconds: f64,
    },
    /// Rows, each a transaction of its own.
    Sqlite {
        /// The database.
        file: PathBuf,
        /// `delete` or `wal`.
        journal: String,
        /// How long to write.
        seconds: f64,
    },
    /// Small files that are created and removed.
    Names {
        /// Where; it is empty.
        directory: PathBuf,
        /// How many.
        files: usize,
    },
    /// Mail that is delivered.
    Maildir {
        /// The maildir; it is empty.
        directory: PathBuf,
        /// How long to deliver.
        seconds: f64,
    },
    /// Syncs after attributes were changed.
    Attributes {
        /// The file.
        file: PathBuf,
        /// How long to write.
        seconds: f64,
    },
    /// Blocks anywhere in a file that is there, each durable before the next.
    Sync4k {
        /// The file.
        file: PathBuf,
        /// How long to write.
        seconds: f64,
    },
    /// Commits of git.
    Git {
        /// The program.
        program: PathBuf,
        /// What is made.
        repository: PathBuf,
        /// How long to commit.
        seconds: f64,
    },
    /// Workloads over key-value stores.
    Ycsb(ycsb::Plan),
}

impl Task {
    /// Does it and prints what was measured.
    ///
    /// # Errors
    /// A write fails, or something else than what was written is read.
    pub fn run(self) -> Result<()> {
        let outcome = match self {
            Task::SmallWrites(plan) => small_writes::run(&plan)?,
            Task::Stream {
                file,
                bytes,
                is_synced,
            } => stream::run(&file, bytes, is_synced)?,
            Task::Buffered {
                file,
                file_bytes,
                seconds,
            } => buffered::run(&file, file_bytes, seconds)?,
            Task::Sqlite {
                file,
                journal,
                seconds,
            } => sqlite::run(&file, &journal, seconds)?,
            Task::Names { directory, files } => names::run(&directory, files)?,
            Task::Maildir { directory, seconds } => maildir::run(&directory, seconds)?,
            Task::Attributes { file, seconds } => attributes::run(&file, seconds)?,
            Task::Git {
                program,
                repository,
                seconds,
            } => git::run(&program, &repository, seconds)?,
            Task::Sync4k { file, seconds } => sync_4k::run(&file, seconds)?,
            Task::Ycsb(plan) => ycsb::run(&plan)?,
        };
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    }

    /// The command, which runs this program, with the task.
    pub fn given_to(&self, mut program: Command) -> Result<Command> {
        program.arg("apps-task").arg(serde_json::to_string(self)?);
        Ok(program)
    }
}
