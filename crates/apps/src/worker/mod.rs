//! What this program does as a child of itself, under `forebay run` or beside a server: it writes, and
//! prints what it measured as a line of JSON.

mod buffered;
mod choice;
mod processor_time;
mod small_writes;
mod sqlite;
mod stores;
mod stream;
mod target;
mod ycsb;

use std::path::PathBuf;

use clap::Subcommand;

use crate::Result;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Task {
    /// Appends and writes at random, by threads with private files
    SmallWrites {
        /// Where the files are made
        #[arg(long)]
        directory: PathBuf,
        /// How long each pattern runs
        #[arg(long)]
        seconds: f64,
        /// Most bytes appended by all threads
        #[arg(long)]
        append_bytes: u64,
        /// Bytes of a file that is written at random
        #[arg(long)]
        file_bytes: u64,
        /// Numbers of threads
        #[arg(long, value_delimiter = ',')]
        threads: Vec<usize>,
        /// Never sync
        #[arg(long)]
        unsynced: bool,
        /// Copy to memory instead of writing to files
        #[arg(long)]
        raw: bool,
        /// A process whose time counts too
        #[arg(long)]
        server: Option<u32>,
    },
    /// One file appended from its beginning to its end
    Stream {
        /// The file
        #[arg(long)]
        file: PathBuf,
        /// How long it gets
        #[arg(long)]
        bytes: u64,
        /// Sync once, at the end
        #[arg(long)]
        unsynced: bool,
    },
    /// Small writes that are not synced
    Buffered {
        /// The file
        #[arg(long)]
        file: PathBuf,
        /// How long it gets before writing begins anew
        #[arg(long)]
        file_bytes: u64,
        /// How long to write
        #[arg(long)]
        seconds: f64,
    },
    /// Rows, each a transaction of its own
    Sqlite {
        /// The database
        #[arg(long)]
        file: PathBuf,
        /// `delete` or `wal`
        #[arg(long)]
        journal: String,
        /// How long to write
        #[arg(long)]
        seconds: f64,
    },
    /// The workloads A to F, or the letters given
    Ycsb {
        /// What is measured
        #[command(flatten)]
        store: stores::StoreArguments,
        /// Records before the workloads begin
        #[arg(long)]
        records: u64,
        /// How long each workload runs
        #[arg(long)]
        seconds: f64,
        /// Clients at once
        #[arg(long)]
        clients: usize,
        /// Workloads, in order; `u` only updates
        #[arg(long)]
        workloads: String,
    },
}

/// Does it and prints what was measured.
///
/// Errors: a write fails, or something else than what was written is read.
pub fn run(task: &Task) -> Result<()> {
    let outcome = match task {
        Task::SmallWrites {
            directory,
            seconds,
            append_bytes,
            file_bytes,
            threads,
            unsynced,
            raw,
            server,
        } => small_writes::run(&small_writes::Plan {
            directory: directory.clone(),
            seconds: *seconds,
            append_bytes: *append_bytes,
            file_bytes: *file_bytes,
            thread_counts: threads.clone(),
            is_synced: !unsynced,
            is_raw: *raw,
            server: *server,
        })?,
        Task::Stream {
            file,
            bytes,
            unsynced,
        } => stream::run(file, *bytes, !unsynced)?,
        Task::Buffered {
            file,
            file_bytes,
            seconds,
        } => buffered::run(file, *file_bytes, *seconds)?,
        Task::Sqlite {
            file,
            journal,
            seconds,
        } => sqlite::run(file, journal, *seconds)?,
        Task::Ycsb {
            store,
            records,
            seconds,
            clients,
            workloads,
        } => ycsb::run(
            &ycsb::Plan {
                records: *records,
                seconds: *seconds,
                clients: *clients,
                workloads: workloads.clone(),
            },
            store,
        )?,
    };
    println!("{}", outcome.to_json());
    Ok(())
}
