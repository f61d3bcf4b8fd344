//! The command line: every option, with an example for each command.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::size;

/// A crash-consistent persistent-memory cache in front of disks and files.
#[derive(Debug, Parser)]
#[command(
    name = "forebay",
    version,
    after_help = "Exit codes: 0 done; 1 failed; 2 wrong arguments; 3 the pool or its data is damaged or \
foreign; 4 another process owns the pool; 5 no daemon serves the pool.

Example, a disk with fast fsync in front of an image file:
  forebay create /dev/shm/pool --size 512M
  forebay serve --pool /dev/shm/pool --backing disk.img --fuse /mnt/forebay
  losetup --find --show /mnt/forebay/disk"
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a pool, and say what its medium survives.
    Create(CreateOptions),
    /// Show a pool's format and content, without changing it.
    Info(PoolArgument),
    /// Put a pool in front of a backing and serve the disk until told to stop.
    Serve(ServeOptions),
    /// Ask a running daemon for its counters.
    Stat(DaemonArgument),
    /// Write everything dirty back to the backing and sync it.
    Flush(FlushOptions),
    /// Verify every block of an idle pool, without changing it.
    Check(PoolArgument),
    /// Recover an idle pool after a crash; serve does the same by itself.
    Recover(RecoverOptions),
    /// Measure this machine and the library on it.
    Bench(BenchOptions),
    /// Commit, kill, recover, verify: the main job without root, over the library alone.
    Demo(DemoOptions),
}

/// A pool to make.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay create /dev/shm/pool --size 1G
  forebay create /mnt/pmem0/pool --size 64G --strict")]
pub struct CreateOptions {
    /// File or device of the first member.
    pub pool: PathBuf,
    /// Size of each member, like 512M or 1G.
    #[arg(long, value_parser = size::parse)]
    pub size: u64,
    /// File or device of a further member, of the same size.
    #[arg(long = "member", value_name = "PATH")]
    pub members: Vec<PathBuf>,
    /// Bytes of a block: 4096 to 65536, a power of two.
    #[arg(long, default_value = "4096", value_parser = size::parse)]
    pub block_size: u64,
    /// Two fences a commit: recovery trusts the commit word alone.
    #[arg(long)]
    pub strict: bool,
    /// Do not keep checksums of blocks; the pool is then strict.
    #[arg(long)]
    pub no_checksums: bool,
    /// Overwrite what is there.
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A pool to look at.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay info /dev/shm/pool --json")]
pub struct PoolArgument {
    /// Files or devices of the pool, every member.
    #[arg(required = true)]
    pub pool: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A pool that a daemon serves.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay stat /dev/shm/pool --json")]
pub struct DaemonArgument {
    /// First member of the pool.
    pub pool: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What to drain.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay flush /dev/shm/pool                        asks the daemon that serves it
  forebay flush /dev/shm/pool --backing disk.img     an idle pool")]
pub struct FlushOptions {
    /// Members of the pool, the first one first.
    #[arg(required = true)]
    pub pool: Vec<PathBuf>,
    /// The backing to drain to, where no daemon has it.
    #[arg(long)]
    pub backing: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A daemon to run.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mkdir -p /mnt/forebay
  forebay serve --pool /dev/shm/pool --backing disk.img --fuse /mnt/forebay
The disk is then the file /mnt/forebay/disk. The first SIGTERM or Ctrl-C unmounts and ends, or says \
that the disk is in use; the second ends at once. Nothing acknowledged is lost either way.")]
pub struct ServeOptions {
    /// A member of the pool; once for each member.
    #[arg(long = "pool", required = true, value_name = "PATH")]
    pub pool: Vec<PathBuf>,
    /// The image file or block device behind the disk.
    #[arg(long)]
    pub backing: PathBuf,
    /// Existing directory to mount the disk in.
    #[arg(long)]
    pub fuse: PathBuf,
    /// Threads that serve requests.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Let every user of this machine reach the mount.
    #[arg(long)]
    pub allow_other: bool,
}

/// How to recover.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay recover --dry-run /dev/shm/pool")]
pub struct RecoverOptions {
    /// Members of the pool.
    #[arg(required = true)]
    pub pool: Vec<PathBuf>,
    /// Only say what recovery would find and do; change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What to measure.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay bench --directory /dev/shm --seconds 3")]
pub struct BenchOptions {
    /// Where the pool to measure is made, and removed afterwards.
    #[arg(long, default_value = "/dev/shm")]
    pub directory: PathBuf,
    /// Size of that pool.
    #[arg(long, default_value = "256M", value_parser = size::parse)]
    pub size: u64,
    /// Seconds a case.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Where to show it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay demo --pool /dev/shm/demo-pool --directory .")]
pub struct DemoOptions {
    /// The pool to make, and to remove afterwards.
    #[arg(long)]
    pub pool: PathBuf,
    /// Where the backing is made, and removed afterwards, and report.json is left.
    #[arg(long)]
    pub directory: PathBuf,
    /// Be the process that is killed.
    #[arg(long, hide = true)]
    pub writer: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
