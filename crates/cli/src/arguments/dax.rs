//! Options of `forebay dax`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_command::{Trust, size};

/// What to do with the mapped regions of a pool.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay dax create /mnt/pmem0/pool counters --size 64M
  forebay dax list /mnt/pmem0/pool
  forebay dax seal /mnt/pmem0/pool counters

A region is a file that programs map and store into, /mnt/pmem0/pool.dax/counters say. Checksums and parity beside \
it follow behind. POOL is the first member that the daemon was started with, which is asked where one serves the pool; \
of an idle pool name each other member with --member. Regions need files: a member that is a device has none.")]
pub struct DaxOptions {
    /// What to do.
    #[command(subcommand)]
    pub action: DaxAction,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum DaxAction {
    /// Make a region of zeroes, and say what it survives.
    #[command(after_help = "Example:
  forebay dax create /mnt/pmem0/pool counters --size 64M
  forebay dax create /mnt/pmem0/pool wide --size 1G --width 2 --member /mnt/pmem1/pool --member /mnt/pmem2/pool

Of width 1 a region is one file, which any program can map, and a copy. Wider, it is several files, which the library \
maps as one run of bytes, and a parity beside one member more; its size is a multiple of the width times 2M.")]
    Create(DaxCreateOptions),
    /// Show the regions and how each stands; exit code 3 if one is damaged.
    #[command(after_help = "Example:
  forebay dax list /mnt/pmem0/pool --json

While a daemon keeps the regions, it says how: whether it holds a lease, its passes, and what keeps a region from \
being sealed.")]
    List(DaxPoolArguments),
    /// Mark a region as open, so that a program may map it while no daemon keeps it.
    #[command(after_help = "Example:
  forebay dax open /mnt/pmem0/pool counters
  ./program /mnt/pmem0/pool.dax/counters
  forebay dax seal /mnt/pmem0/pool counters

A daemon does that by itself, before the first store. Where no daemon runs, only the file's times tell that a sealed \
region was stored to.")]
    Open(DaxRegionOptions),
    /// Compare every page of a region with its sum, and mark it as sealed; no program may have it open.
    #[command(after_help = "Example:
  forebay dax seal /mnt/pmem0/pool counters

A daemon that serves the pool seals by itself what no program has open: it is waited for.")]
    Seal(DaxRegionOptions),
    /// Compare every page of a region with its sum and the parity, and repair what is wrong; exit code 3 if pages are
    /// damaged for good.
    #[command(after_help = "Example:
  forebay dax verify /mnt/pmem0/pool counters --json

A region that is sealed is sealed again afterwards.")]
    Verify(DaxRegionOptions),
    /// Take an operator's word that pages are right which a crash left in doubt, or that were lost: they are named no more.
    #[command(after_help = "Example:
  forebay dax verify /mnt/pmem0/pool counters
  forebay dax accept /mnt/pmem0/pool counters --offset 28672 --bytes 4096

After an end without order nothing tells a page that a program stored to from one that is damaged, and a file that was \
made anew has its pages as of their last pass. `verify` names them, until they were looked at and are accepted; without \
--offset all of them are.")]
    Accept(DaxAcceptOptions),
    /// Make files of a region anew that are gone for good, from what the others and the parity give.
    #[command(after_help = "Example:
  forebay dax rebuild /mnt/pmem0/pool counters
  forebay dax rebuild /mnt/pmem0/pool counters --accept-loss

Pages that cannot be had again are named, and nothing is changed, until --accept-loss says that they may read as zeroes.")]
    Rebuild(DaxRebuildOptions),
}

/// Which pages.
#[derive(Debug, Args)]
pub struct DaxAcceptOptions {
    #[command(flatten)]
    pub region: DaxRegionOptions,
    /// The first byte.
    #[arg(long, value_name = "BYTE", requires = "bytes")]
    pub offset: Option<u64>,
    /// How many bytes; pages that they touch count as a whole.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, requires = "offset")]
    pub bytes: Option<u64>,
}

/// A pool, served or idle; it is not opened.
#[derive(Debug, Args)]
pub struct DaxPoolArguments {
    /// First member of the pool.
    pub pool: PathBuf,
    /// File of a further member, of a pool that no daemon serves.
    #[arg(long = "member", value_name = "PATH")]
    pub members: Vec<PathBuf>,
    /// Which owner's pool is accepted.
    #[command(flatten)]
    pub trust: Trust,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl DaxPoolArguments {
    /// All members that were named, the first one first.
    pub fn paths(&self) -> Vec<PathBuf> {
        let first = std::iter::once(&self.pool);
        first.chain(&self.members).cloned().collect()
    }
}

/// A region to make.
#[derive(Debug, Args)]
pub struct DaxCreateOptions {
    /// The pool.
    #[command(flatten)]
    pub of: DaxPoolArguments,
    /// The region's name: letters, digits, dots, hyphens and underscores.
    pub name: String,
    /// Bytes that programs see, like 64M.
    #[arg(long, value_parser = size::parse)]
    pub size: u64,
    /// Files that the bytes are spread over, each beside a member of its own.
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub width: u32,
}

/// A region.
#[derive(Debug, Args)]
pub struct DaxRegionOptions {
    /// The pool.
    #[command(flatten)]
    pub of: DaxPoolArguments,
    /// The region's name.
    pub name: String,
}

/// A region to rebuild.
#[derive(Debug, Args)]
pub struct DaxRebuildOptions {
    /// The pool.
    #[command(flatten)]
    pub of: DaxPoolArguments,
    /// The region's name.
    pub name: String,
    /// Pages that cannot be had again read as zeroes from now on.
    #[arg(long)]
    pub accept_loss: bool,
}
