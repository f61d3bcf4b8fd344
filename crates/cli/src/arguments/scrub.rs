//! Options of `forebay scrub`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_command::size;

use crate::arguments::DaemonArgument;

/// What to do about a scrub.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay scrub start /mnt/pmem0/pool --rate 200M
  forebay scrub status /mnt/pmem0/pool
  forebay scrub stop /mnt/pmem0/pool

A scrub reads every copy of every block and compares it with its checksum, while the disks are served. What is wrong in one \
copy of a mirror is written again from one that is right. Of an idle pool, forebay check verifies every block.")]
pub struct ScrubArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: ScrubAction,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum ScrubAction {
    /// Begin a scrub, and return at once; one that is under way goes on.
    #[command(after_help = "Example:
  forebay scrub start /mnt/pmem0/pool --rate 200M")]
    Start(ScrubStartOptions),
    /// End the scrub that is under way.
    #[command(after_help = "Example:
  forebay scrub stop /mnt/pmem0/pool")]
    Stop(DaemonArgument),
    /// Show how far the scrub is, or what the last one found; exit code 3 if blocks are lost.
    #[command(after_help = "Example:
  forebay scrub status /mnt/pmem0/pool --json")]
    Status(DaemonArgument),
}

/// How to scrub.
#[derive(Debug, Args)]
pub struct ScrubStartOptions {
    /// First member of the pool.
    pub pool: PathBuf,
    /// Bytes a second that are read at most, like 200M [default: no limit].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub rate: Option<u64>,
    /// Begin anew, and not where one was stopped, or a daemon ended in it.
    #[arg(long)]
    pub restart: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}
