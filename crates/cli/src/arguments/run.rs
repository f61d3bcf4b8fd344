//! Options of `forebay run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use forebay_command::Trust;

/// A program to run.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay create /dev/shm/forebay/pool --size 1G
  cd /srv/redis && forebay run --pool /dev/shm/forebay/pool -- redis-server redis.conf
  forebay run --pool /dev/shm/forebay/pool --cover '/srv/db/**' --cover '/srv/log/*.log' -- program
  forebay run --pool /dev/shm/forebay/pool --shared . -- make -j8")]
pub struct RunOptions {
    /// The pool, made by forebay create. One process of the tree has it at a time.
    #[arg(long)]
    pub pool: PathBuf,
    /// For a program of many processes: they and no others see this directory through one more process, which has the
    /// pool; what is in it is up to date when the command ends.
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["cover", "log", "library"])]
    pub shared: Option<PathBuf>,
    /// A glob of paths whose files are buffered; again for more. Default: all below this directory.
    #[arg(long, value_name = "GLOB")]
    pub cover: Vec<String>,
    /// A file to which the library appends its messages.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Go on although the marks say that the newest data of the files is elsewhere: what that pool had is
    /// given up.
    #[arg(long)]
    pub accept_stale: bool,
    /// libforebay_preload.so; found beside this command, or in ../lib.
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Which owner's pool is accepted.
    #[command(flatten)]
    pub trust: Trust,
    /// Print neither warnings beforehand nor the summary at the end.
    #[arg(long)]
    pub quiet: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

/// The process that has the pool of a program of many. Its standard input is the socket to the process that becomes the
/// program, its standard output the one to the command.
#[derive(Debug, Args)]
pub struct BrokerOptions {
    /// The pool.
    #[arg(long)]
    pub pool: PathBuf,
    /// The directory.
    #[arg(long)]
    pub shared: PathBuf,
    /// Go on although the marks say that the newest data of the directory is elsewhere.
    #[arg(long)]
    pub accept_stale: bool,
    /// Which owner's pool is accepted.
    #[command(flatten)]
    pub trust: Trust,
}

/// The process that becomes the program, within its own view of the directory.
#[derive(Debug, Args)]
pub struct WithinOptions {
    /// The directory, resolved.
    #[arg(long)]
    pub shared: PathBuf,
    /// The directory's device, as the process says that has the pool.
    #[arg(long)]
    pub device: u64,
    /// And its inode there.
    #[arg(long)]
    pub inode: u64,
    /// The descriptor of the socket to the process that has the pool.
    #[arg(long)]
    pub socket: i32,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}
