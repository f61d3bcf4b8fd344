//! What the daemon can be asked: the parameters of the commands of its control socket. Those of `set` are [`crate::config::Tunables`].

use clap::Subcommand;
use forebay_command::disks::UblkNumber;
pub use forebay_command::requests::{Flush, FrontEnds, Stat};
use forebay_serve::control::Parameters;
use serde::{Deserialize, Serialize};

use crate::drills::Inject;

/// Samples for a screen, as progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Between two of them; a second, if it is not said.
    pub interval_ms: Option<u64>,
    /// How many; without it, as long as the client stays.
    pub count: Option<u64>,
}

impl Parameters for Sample {
    const COMMAND: &'static str = "sample";
}

/// Serves one more disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Its backing's path.
    pub backing: String,
    /// What it is called.
    pub name: Option<String>,
    /// The directory it is mounted on.
    pub fuse: Option<String>,
    /// The block device that it is to be.
    pub ublk: Option<UblkNumber>,
    /// The path of its vhost-user socket.
    pub vhost_user: Option<String>,
    /// Also where its newest data is in another pool.
    #[serde(default)]
    pub accept_stale: bool,
}

impl Parameters for Attach {
    const COMMAND: &'static str = "attach";
}

/// Drains a disk and takes it away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detach {
    /// Its name.
    pub volume: String,
    /// Gives up what was not written: `volume` is the path of an image that is not served.
    #[serde(default)]
    pub discard_unwritten: bool,
}

impl Parameters for Detach {
    const COMMAND: &'static str = "detach";
}

/// Gives a disk the size that its backing has now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrowVolume {
    /// Its name.
    pub volume: String,
}

impl Parameters for GrowVolume {
    const COMMAND: &'static str = "grow-volume";
}

/// The members, and how each stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Members {}

impl Parameters for Members {
    const COMMAND: &'static str = "members";
}

/// Takes a member of a mirror out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailMember {
    /// Its number or path.
    pub member: String,
}

impl Parameters for FailMember {
    const COMMAND: &'static str = "fail-member";
}

/// Rebuilds a member of a mirror that is out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplaceMember {
    /// Its number or path.
    pub member: String,
    /// The file or device to rebuild it on; its own, if it is not said.
    pub path: Option<String>,
    /// Overwrites what is there.
    #[serde(default)]
    pub force: bool,
    /// Bytes a second that it copies at most.
    pub rate: Option<u64>,
}

impl Parameters for ReplaceMember {
    const COMMAND: &'static str = "replace-member";
}

/// Gives a mirror a witness, or takes it away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetWitness {
    /// The new file; none if it is not said.
    pub path: Option<String>,
}

impl Parameters for SetWitness {
    const COMMAND: &'static str = "set-witness";
}

/// Begins a scrub of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubStart {
    /// Bytes a second that it reads at most.
    pub rate: Option<u64>,
    /// Begins anew, and not where one ended that was not whole.
    #[serde(default)]
    pub restart: bool,
}

impl Parameters for ScrubStart {
    const COMMAND: &'static str = "scrub-start";
}

/// Ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubStop {}

impl Parameters for ScrubStop {
    const COMMAND: &'static str = "scrub-stop";
}

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScrubStatus {}

impl Parameters for ScrubStatus {
    const COMMAND: &'static str = "scrub-status";
}

/// The mapped regions beside the pool, and how each stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Regions {}

impl Parameters for Regions {
    const COMMAND: &'static str = "regions";
}

/// Breaks something in a test pool: also the faults of the command line.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Have one member do something wrong, to see what the pool does about it.
    #[command(after_help = "Example:
  forebay fault /dev/shm/test inject bit-flip --disk disk.img --block 7
  forebay fault /dev/shm/test inject poison --member 1 --area table
  forebay fault /dev/shm/test inject lost-write --disk disk.img --block 7 --wait 60
  forebay fault /dev/shm/test inject dead-member --member 1
  forebay fault /dev/shm/other inject stale-member --save /dev/shm/other.old
  forebay fault /dev/shm/other inject stale-member --restore /dev/shm/other.old

A bit flip and a page that fails are there at once. A write that is lost, torn or misdirected is the next one that \
programs make: the command waits for it, and says what it did. A stale member is the last two commands, each on \
an idle pool, with some use of the pool between them.")]
    Inject(Inject),
    /// Flip one bit of a cached block, as a failing memory would.
    FlipBit {
        /// The disk's name.
        volume: String,
        /// The block's number.
        #[arg(long)]
        block: u64,
        /// Which bit of the block.
        #[arg(long, default_value_t = 0)]
        #[serde(default)]
        bit: u64,
    },
    /// Have the next requests to a backing fail with EIO; numbers not given are not changed.
    FailBacking {
        /// The disk's name.
        volume: String,
        /// Reads that fail.
        #[arg(long, value_name = "NUMBER")]
        reads: Option<u64>,
        /// Writes that fail.
        #[arg(long, value_name = "NUMBER")]
        writes: Option<u64>,
        /// Syncs that fail.
        #[arg(long, value_name = "NUMBER")]
        syncs: Option<u64>,
    },
    /// Have every request to a backing take longer from now on, as a slower disk's would.
    DelayBacking {
        /// The disk's name.
        volume: String,
        /// Microseconds that each takes more; 0 for none.
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(0..=10_000_000))]
        microseconds: u64,
    },
    /// What the sandbox forbids; asked for by tests alone.
    #[command(skip)]
    TryForbidden {
        /// The disk's name.
        volume: String,
    },
    /// What landlock forbids; asked for by tests alone.
    #[command(skip)]
    TryFiles {
        /// The disk's name.
        volume: String,
    },
}

impl Parameters for Fault {
    const COMMAND: &'static str = "fault";
}
