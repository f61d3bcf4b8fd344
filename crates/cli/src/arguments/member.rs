//! Options of `forebay member`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use forebay_command::size;

use crate::arguments::pool::Opening;

/// What to do with the members of a mirrored pool.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  forebay member list /mnt/pmem0/pool
  forebay member fail /mnt/pmem0/pool /mnt/pmem1/pool
  forebay member replace /mnt/pmem0/pool 1 /mnt/pmem2/pool
  forebay member readd /mnt/pmem0/pool 1

POOL is the first member that the daemon was started with, and NAME a member's number or path, as list shows \
them. A daemon that serves the pool is asked, and serves on meanwhile; of an idle pool name each other member \
with --member. Each command can be repeated: what is done already stays as it is.")]
pub struct MemberOptions {
    /// What to do.
    #[command(subcommand)]
    pub action: MemberAction,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub enum MemberAction {
    /// Show the members and how each stands; exit code 9 while one is out.
    #[command(after_help = "Example:
  forebay member list /mnt/pmem0/pool --json
  forebay member list /mnt/pmem0/pool --member /mnt/pmem1/pool     an idle pool")]
    List(MemberPool),
    /// Take a member out, as if it had died: the pool goes on with the others.
    #[command(after_help = "Example:
  forebay member fail /mnt/pmem0/pool 1

While one is out no other can be taken out. One that is out is brought back with readd, or replaced.")]
    Fail(FailOptions),
    /// Rebuild a member that is out on another file or device.
    #[command(after_help = "Example:
  forebay member replace /mnt/pmem0/pool 1 /mnt/pmem2/pool
  forebay member replace /mnt/pmem0/pool 1 /mnt/pmem2/pool --rate 200M

The pool is used meanwhile; one on SSDs is not: end its daemon first, and name the members that are in with --member. Ctrl-C ends the rebuild (exit code 7): the member is out as before, and the command \
can be repeated.")]
    Replace(ReplaceOptions),
    /// Rebuild a member that is out where it was: it came back, or was taken out by hand.
    #[command(after_help = "Example:
  forebay member readd /mnt/pmem0/pool 1
  forebay member readd /mnt/pmem0/pool /mnt/pmem1/pool
  forebay member readd /srv/ssd0/pool 1 --member /srv/ssd1/pool     a pool on SSDs, its daemon ended

As replace with the member's own path. A pool that was opened without the member does not know that: name it.")]
    Readd(ReaddOptions),
    /// Have a file beside the disk be a third vote, or none: with it a member opens without the other one after a
    /// power loss.
    #[command(after_help = "Example:
  forebay member witness /mnt/pmem0/pool /srv/pool.witness
  forebay member witness /mnt/pmem0/pool --none

The file must not be there yet, and is made on another device than the members. Each change of which members count is \
written there first: while that cannot be, no member is taken out, and one that dies ends all writes. A witness \
that is lost is given up with --none, or replaced by naming another file, while both members are in.")]
    Witness(WitnessOptions),
}

/// A pool, served or idle.
#[derive(Debug, Args)]
pub struct MemberPool {
    /// First member of the pool.
    pub pool: PathBuf,
    /// File or device of a further member, of a pool that no daemon serves.
    #[arg(long = "member", value_name = "PATH")]
    pub members: Vec<PathBuf>,
    /// How the pool is opened where no daemon serves it.
    #[command(flatten)]
    pub opening: Opening,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

impl MemberPool {
    /// All members that were named, the first one first.
    pub fn paths(&self) -> Vec<PathBuf> {
        let first = std::iter::once(&self.pool);
        first.chain(&self.members).cloned().collect()
    }
}

/// A member to take out.
#[derive(Debug, Args)]
pub struct FailOptions {
    /// The pool.
    #[command(flatten)]
    pub of: MemberPool,
    /// The member's number or path.
    pub name: PathBuf,
}

/// How a member is rebuilt.
#[derive(Clone, Copy, Debug, Args)]
pub struct RebuildArguments {
    /// Overwrite what is there, also if it is not that member, or went on without the others.
    #[arg(long)]
    pub force: bool,
    /// Bytes a second that are copied at most, like 200M [default: no limit]; a pool on SSDs has none.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub rate: Option<u64>,
}

/// A member to rebuild elsewhere.
#[derive(Debug, Args)]
pub struct ReplaceOptions {
    /// The pool.
    #[command(flatten)]
    pub of: MemberPool,
    /// The member's number or path.
    pub name: PathBuf,
    /// The file, which is made, or the device to rebuild it on.
    pub path: PathBuf,
    /// How.
    #[command(flatten)]
    pub how: RebuildArguments,
}

/// A member to rebuild where it was.
#[derive(Debug, Args)]
pub struct ReaddOptions {
    /// The pool.
    #[command(flatten)]
    pub of: MemberPool,
    /// The member's number or path.
    pub name: PathBuf,
    /// How.
    #[command(flatten)]
    pub how: RebuildArguments,
}

/// A witness to have.
#[derive(Debug, Args)]
pub struct WitnessOptions {
    /// The pool.
    #[command(flatten)]
    pub of: MemberPool,
    /// The new file.
    #[arg(required_unless_present = "none", conflicts_with = "none")]
    pub path: Option<PathBuf>,
    /// Give the witness up.
    #[arg(long)]
    pub none: bool,
}
