//! Options of the commands that look at a pool by itself.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use forebay::{Medium, Redundancy, RuntimeOptions};
use forebay_command::{Trust, size};

/// How a command opens a pool.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Opening {
    /// Which owner's pool is accepted.
    #[command(flatten)]
    pub trust: Trust,
    /// Open a mirrored pool without a member that is gone for good: if it comes back, it has to be
    /// rebuilt with forebay member readd.
    #[arg(long)]
    pub without_missing: bool,
}

impl Opening {
    /// For a pool.
    pub fn runtime(self) -> RuntimeOptions {
        let runtime = self.trust.runtime();
        runtime.without_missing(self.without_missing)
    }
}

/// How what must not be lost is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RedundancyMode {
    /// What the disk does not have yet on two members, what says where it is on all: one of them may die.
    Mirror,
    /// As a mirror, of three members and more, but what one transaction writes shares a parity and takes less room and fewer stores.
    Parity,
    /// Nothing twice, but nothing wrong is believed: also the pool's own table has checksums.
    Checksum,
    /// Nothing twice: blocks are spread over the members, and the pool is lost with any of them.
    None,
}

impl RedundancyMode {
    /// The cache's name for it.
    pub fn redundancy(self) -> Redundancy {
        match self {
            RedundancyMode::Mirror => Redundancy::Mirror,
            RedundancyMode::Parity => Redundancy::Parity,
            RedundancyMode::Checksum => Redundancy::Checksum,
            RedundancyMode::None => Redundancy::None,
        }
    }
}

/// What a pool lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MediumMode {
    /// Memory that is mapped: persistent memory, a DAX file, /dev/shm; a plain file is mapped too, page by page.
    Page,
    /// A file on an SSD, or an SSD itself: written in groups with one flush each, and never mapped. One member, blocks of 4096
    /// bytes.
    Ssd,
}

impl MediumMode {
    /// The cache's name for it.
    pub fn medium(self) -> Medium {
        match self {
            MediumMode::Page => Medium::Memory,
            MediumMode::Ssd => Medium::Ssd,
        }
    }
}

/// A pool to make.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay create /dev/shm/forebay/pool --size 1G
  forebay create /mnt/pmem0/pool --size 64G --strict
  forebay create /srv/ssd/pool --size 64G
  forebay create /mnt/pmem0/pool --member /mnt/pmem1/pool --size 64G
  forebay create /mnt/pmem0/pool --member /mnt/pmem1/pool --size 64G --witness /srv/pool.witness

The third one is a plain file, so it is a pool on an SSD: a log that is durable by that disk's own flush, survives a power loss, and \
needs 29.4 bytes of memory for each 4 KiB. --medium page maps the file, page by page, as pools on plain files were before; so are \
those that ask for what only a mapped pool has (further members, --redundancy, --block-size, --strict, --no-checksums), that are \
smaller than 9 MiB, or lie on btrfs, bcachefs or ZFS, and create says so. \
The last one is a mirror: what is acknowledged is on two members, and the pool goes on when one of them dies. \
If one of two is missing when the pool is opened, after a power loss say, the pool is refused until \
--without-missing says that it is gone for good, or a witness that nobody went on without it; a mirror of three and more opens without one by itself. \
--redundancy none spreads the blocks over the members instead.")]
pub struct CreateOptions {
    /// File or device of the first member.
    pub pool: PathBuf,
    /// Size of each member, like 512M or 1G.
    #[arg(long, value_parser = size::parse)]
    pub size: u64,
    /// What the pool lies on; what is there says it when the pool is opened again [default: ssd on a plain file or a block
    /// device, page on memory and DAX].
    #[arg(long, value_enum)]
    pub medium: Option<MediumMode>,
    /// File or device of a further member, of the same size; with --medium ssd one, which holds the same as the first.
    #[arg(long = "member", value_name = "PATH")]
    pub members: Vec<PathBuf>,
    /// A new file on another device, beside the disk say, that is the third vote of a mirror of two: after a power loss a
    /// member then opens without the other one.
    #[arg(long, value_name = "FILE")]
    pub witness: Option<PathBuf>,
    /// What the members keep twice, and what is checked [default: mirror with two members and more, else none].
    #[arg(long, value_enum)]
    pub redundancy: Option<RedundancyMode>,
    /// Bytes of a block: 4096 to 65536, a power of two.
    #[arg(long, default_value = "4096", value_parser = size::parse)]
    pub block_size: u64,
    /// Two fences a commit: recovery trusts the commit word alone.
    #[arg(long)]
    pub strict: bool,
    /// Do not keep checksums of blocks; the pool is then strict.
    #[arg(long)]
    pub no_checksums: bool,
    /// Make a pool for tests: forebay fault may break it, or of one on an SSD the disk behind it.
    #[arg(long)]
    pub test: bool,
    /// Overwrite what is there.
    #[arg(long)]
    pub force: bool,
    /// Which owner's pool is accepted.
    #[command(flatten)]
    pub trust: Trust,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A pool, or a backing, to examine.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay info /dev/shm/forebay/pool --json
  forebay info --backing disk.img

With --backing it says in one line how that stands: whole (it has everything, or never had a pool), open \
(its pool is there and has the rest), or stale since a moment (that pool is not there any more, or is an \
old copy; exit code 8). It looks for the pool where the mark says, unless one is named.")]
pub struct InfoOptions {
    /// Files or devices of the pool, every member.
    #[arg(required_unless_present = "backing")]
    pub pool: Vec<PathBuf>,
    /// Say of this image, device or directory whether it has its newest data.
    #[arg(long, value_name = "PATH")]
    pub backing: Option<PathBuf>,
    /// How the pool is opened.
    #[command(flatten)]
    pub opening: Opening,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// A pool to examine.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay check /dev/shm/forebay/pool --json")]
pub struct PoolArgument {
    /// Files or devices of the pool, every member.
    #[arg(required = true)]
    pub pool: Vec<PathBuf>,
    /// How the pool is opened.
    #[command(flatten)]
    pub opening: Opening,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// How to recover.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay recover --dry-run /dev/shm/forebay/pool
  forebay recover --dry-run --accept-loss /dev/shm/forebay/pool

The second one says in damage what of a refused pool would be given up.")]
pub struct RecoverOptions {
    /// Members of the pool.
    #[arg(required = true)]
    pub pool: Vec<PathBuf>,
    /// Only say what recovery would find and do; change nothing. Of a pool of files, only whose it is.
    #[arg(long)]
    pub dry_run: bool,
    /// Save the data of files that are gone, though not removed through Forebay, beside the pool.
    #[arg(long)]
    pub save_lost: bool,
    /// Go on with what is left of a pool that is refused because its log or its table is damaged: of what that had, the
    /// disk keeps what is there.
    #[arg(long)]
    pub accept_loss: bool,
    /// How the pool is opened.
    #[command(flatten)]
    pub opening: Opening,
    /// Go on although the marks say that the newest data of the files is elsewhere: what that pool had is
    /// given up.
    #[arg(long)]
    pub accept_stale: bool,
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
