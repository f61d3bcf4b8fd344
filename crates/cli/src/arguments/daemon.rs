//! Options of the daemon and of the commands that ask it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay_command::disks::DiskSettings;
use forebay_command::{LogFormat, LogLevel, Trust, size};

use crate::arguments::pool::Opening;
use crate::config::{Settings, Switch, TransportName, Tunables};
use crate::requests::Fault;

/// A daemon to run.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  mkdir -p /mnt/forebay
  forebay serve --pool /dev/shm/forebay/pool --backing disk.img --fuse /mnt/forebay --nbd unix:/run/forebay.nbd
  forebay serve --pool /dev/shm/forebay/pool --backing disk.img --fuse /mnt/forebay --transport io-uring
  forebay serve --config /etc/forebay/forebay.toml

A config file has the same names as the flags, and a [[volume]] table for each further disk; a flag \
wins over the file. The first SIGTERM, SIGHUP or Ctrl-C ends it in order, and waits for disks that are in use \
until the deadline; the second ends at once. Nothing acknowledged is lost either way; what is dirty stays in the \
pool, and forebay flush writes it back.")]
pub struct ServeOptions {
    /// TOML file with the settings.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Go on although the marks say that the newest data of the backing is elsewhere: what that pool had
    /// is given up.
    #[arg(long)]
    pub accept_stale: bool,
    /// Open a mirrored pool without a member that is gone for good: if it comes back, it has to be
    /// rebuilt with forebay member readd.
    #[arg(long)]
    pub without_missing: bool,
    /// The settings on the command line.
    #[command(flatten)]
    pub settings: Settings,
}

/// What is done with a directory whose newest data is in a pool that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PoolIsLost {
    /// It is not served: exit code 8.
    Refuse,
    /// Its content is set aside, as DATA.stale-SECONDS beside it, and it is served empty.
    Empty,
}

/// A directory to serve.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay create /dev/shm/forebay/pool --size 1G
  mkdir -p /srv/data /mnt/data
  forebay mount /srv/data /mnt/data --pool /dev/shm/forebay/pool
  forebay mount /srv/data /mnt/data --pool /dev/shm/forebay/pool --transport io-uring

Programs use /mnt/data and nothing else while it is mounted. umount, SIGTERM or Ctrl-C ends it and \
brings /srv/data up to date; files in use are waited for until the deadline, or until the second \
signal. Nothing acknowledged is lost if the daemon is killed: mount again, or run forebay recover.")]
pub struct MountArguments {
    /// The directory with the files.
    pub data: PathBuf,
    /// Existing directory to mount it on.
    pub directory: PathBuf,
    /// The pool, which then belongs to this directory.
    #[arg(long, value_name = "FILE")]
    pub pool: PathBuf,
    /// Which owner's pool is accepted.
    #[command(flatten)]
    pub trust: Trust,
    /// Threads that serve requests.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// What brings the kernel's requests; io-uring needs Linux 6.18.3 and enable_uring of its module fuse.
    #[arg(long, value_enum, default_value_t = TransportName::Auto)]
    pub transport: TransportName,
    /// Let the kernel keep buffered writes until they are synced: faster, but a write of several
    /// blocks may then survive a crash in part.
    #[arg(long)]
    pub writeback_cache: bool,
    /// Let idle cores sleep while programs wait for one request after the other: saves power, but each
    /// request takes longer.
    #[arg(long)]
    pub cores_may_sleep: bool,
    /// Files and directories that each user may have open at once, the daemon's own user apart [default: an
    /// eighth of the daemon's descriptors].
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub open_files_per_user: Option<u32>,
    /// What is done where the newest data of the files is in a pool that is lost. `empty` is for members of engines that rebuild what an
    /// empty one lacks, HDFS's data nodes say: never for etcd or NATS, whose members must not forget their votes.
    #[arg(long, value_enum, default_value_t = PoolIsLost::Refuse, conflicts_with = "accept_stale")]
    pub when_pool_is_lost: PoolIsLost,
    /// Give up system calls that the daemon never needs; without root it stays off [default: on].
    #[arg(long, value_enum, value_name = "SWITCH")]
    pub sandbox: Option<Switch>,
    /// Go on although the marks say that the newest data of the files is elsewhere: what that pool had is
    /// given up.
    #[arg(long)]
    pub accept_stale: bool,
    /// Seconds to wait for disks that are in use before ending at once [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=86400))]
    pub shutdown_deadline: Option<u64>,
    /// Format of log lines on standard error [default: text].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
    /// Least important events that are logged [default: info].
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
}

/// A pool that a daemon serves.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay stat /dev/shm/forebay/pool --json")]
pub struct DaemonArgument {
    /// First member of the pool.
    pub pool: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A further disk to serve.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay attach /dev/shm/forebay/pool --backing second.img --name second --fuse /mnt/second

Where the daemon listens for NBD clients, the disk is exported there under its name.")]
pub struct AttachOptions {
    /// First member of the pool.
    pub pool: PathBuf,
    /// The disk.
    #[command(flatten)]
    pub disk: DiskSettings,
    /// Go on although the marks say that the newest data of the backing is elsewhere: what that pool had
    /// is given up.
    #[arg(long)]
    pub accept_stale: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A disk to detach.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay detach /dev/shm/forebay/pool second
  forebay detach /dev/shm/forebay/pool /srv/lost.img --discard-unwritten

What is dirty goes to the backing first, with progress; Ctrl-C leaves the disk served. A disk that \
is in use is refused (exit code 4).

A disk that is not served because its image is lost is given up with --discard-unwritten: what was written to \
it and is not in the image is gone for good. It is named by the path of the image, as forebay info POOL \
shows it; the pool may be idle or serve other disks.")]
pub struct DetachOptions {
    /// First member of the pool.
    pub pool: PathBuf,
    /// The disk's name; with --discard-unwritten the path that its image had.
    pub volume: String,
    /// Give up a disk that is not served, with everything that the pool has of it and its image lacks.
    #[arg(long)]
    pub discard_unwritten: bool,
    /// File or device of a further member, of a pool that no daemon serves.
    #[arg(long = "member", value_name = "PATH", requires = "discard_unwritten")]
    pub members: Vec<PathBuf>,
    /// How the pool is opened.
    #[command(flatten)]
    pub opening: Opening,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What to watch.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay top /dev/shm/forebay/pool
  forebay top /dev/shm/forebay/pool --once

Keys: q or Esc ends.")]
pub struct TopOptions {
    /// First member of the pool.
    pub pool: PathBuf,
    /// Seconds between two samples.
    #[arg(long, default_value_t = 1.0, value_parser = parse_interval)]
    pub interval: f64,
    /// Print one screen of text after one interval, and end.
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object after one interval, and end.
    #[arg(long)]
    pub json: bool,
}

fn parse_interval(text: &str) -> Result<f64, String> {
    let range = 0.1..=60.0;
    match text.parse() {
        Ok(seconds) if range.contains(&seconds) => Ok(seconds),
        _ => Err(format!(
            "'{text}' is not a number of seconds from 0.1 to 60"
        )),
    }
}

/// What to drain.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay flush /dev/shm/forebay/pool                        asks the daemon that serves it
  forebay flush /dev/shm/forebay/pool --volume second        one disk of it
  forebay flush /dev/shm/forebay/pool --backing disk.img     an idle pool")]
pub struct FlushOptions {
    /// Members of the pool, the first one first.
    #[arg(required = true)]
    pub pool: Vec<PathBuf>,
    /// Only this disk of the daemon's.
    #[arg(long, value_name = "NAME", conflicts_with = "backing")]
    pub volume: Option<String>,
    /// The backing to drain to, where no daemon has it.
    #[arg(long, value_name = "PATH")]
    pub backing: Option<PathBuf>,
    /// The pool on an SSD between the pool and the backing, as serve had it.
    #[arg(long, value_name = "POOL", requires = "backing")]
    pub behind: Option<PathBuf>,
    /// How the pool is opened.
    #[command(flatten)]
    pub opening: Opening,
    /// Go on although the marks say that the newest data of the backing is elsewhere: what that pool had
    /// is given up.
    #[arg(long)]
    pub accept_stale: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What to change.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay set /dev/shm/forebay/pool --dirty-low 30 --dirty-high 50
  forebay set /dev/shm/forebay/pool --flush-rate 100M
  forebay set /dev/shm/forebay/pool --sequential-cutoff 4M

Without options it shows the settings. They last until the daemon ends; the config file keeps them.")]
pub struct SetOptions {
    /// First member of the pool.
    pub pool: PathBuf,
    /// The settings.
    #[command(flatten)]
    pub tunables: Tunables,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What to grow.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay resize /dev/shm/forebay/pool --size 2G
  truncate -s 20G disk.img && forebay resize /dev/shm/forebay/pool --volume disk.img

A pool grows while no process serves it; what is dirty goes to the backings first. A disk grows while it \
is served, to the size that its backing has now. Nothing shrinks.")]
pub struct ResizeOptions {
    /// Members of the pool, the first one first.
    #[arg(required = true)]
    pub pool: Vec<PathBuf>,
    /// The new size of each member, like 2G.
    #[arg(long, value_parser = size::parse, required_unless_present = "volume", conflicts_with = "volume")]
    pub size: Option<u64>,
    /// The disk that follows its backing.
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// What to break.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay create /dev/shm/test --member /dev/shm/other --size 64M --test
  forebay fault /dev/shm/test fail-backing disk.img --writes 10
  forebay fault /dev/shm/test flip-bit disk.img --block 7
  forebay fault /dev/shm/test inject bit-flip --member 1 --area table

Pools that were not made with --test are refused.")]
pub struct FaultOptions {
    /// First member of the pool.
    pub pool: PathBuf,
    /// What to break.
    #[command(subcommand)]
    pub fault: Fault,
    /// Print one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Which shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay completions bash > /etc/bash_completion.d/forebay")]
pub struct CompletionsOptions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Where the man pages go.
#[derive(Debug, Args)]
pub struct ManOptions {
    /// The directory; it is made where it is missing.
    pub directory: PathBuf,
}

/// What may be unmounted on request.
#[derive(Debug, Args)]
pub struct UnmounterOptions {
    /// The device numbers of what is mounted there, in the same order, each as major:minor.
    #[arg(long = "device", num_args = 1..)]
    pub devices: Vec<String>,
    /// The mount points.
    pub mounts: Vec<PathBuf>,
}
