//! What a caller can choose: when a pool is made, and each time it is opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_pmem::RegionOptions;

use crate::error::{ErrorKind, Result};

/// What is fixed when a pool is created. `None` means a default that fits the size.
#[derive(Clone, Debug)]
pub(crate) struct FormatOptions {
    pub(crate) block_bytes: u32,
    pub(crate) strict: bool,
    pub(crate) checksums: bool,
    pub(crate) lanes: Option<u32>,
    pub(crate) lane_bytes: Option<u64>,
    pub(crate) volumes: u32,
    pub(crate) unit_bytes: u32,
    pub(crate) test: bool,
    pub(crate) redundancy: Redundancy,
}

/// What a pool lies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Medium {
    /// Memory that is mapped: persistent memory, a DAX file, /dev/shm; a plain file, page by page.
    #[default]
    Memory,
    /// A file on an SSD, or an SSD itself, that is written in groups and never mapped: durable by the disk's own flush, and
    /// larger than the machine's memory. One member, blocks of 4096 bytes.
    Ssd,
}

/// How many members hold what must not be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Redundancy {
    /// Each byte is on one member: if one of them dies, so does the pool.
    #[default]
    None,
    /// Every block that its backing lacks is on two members, and all metadata on each: all members but one are enough. A
    /// commit still waits for one fence. Blocks that the backing has are on one.
    Mirror,
    /// As a mirror, on three members and more, but blocks that one transaction writes whole share a parity: of *n* members each *n* - 1
    /// of them take *n* places, where a mirror takes two for each. What is left over, and what is changed in part, is on two.
    Parity,
    /// Each byte is on one member, and nothing that a member returns wrong is believed: also a line of the pool's table
    /// that was lost on its way, or went elsewhere, is found by its seal. What is wrong is an error, or fetched again if
    /// the backing has it.
    Checksum,
}

impl Redundancy {
    /// Whether all metadata is on each member, and what the backing lacks survives the death of any one.
    pub fn is_mirrored(self) -> bool {
        matches!(self, Redundancy::Mirror | Redundancy::Parity)
    }

    /// Refuses a mode that rests on the blocks' checksums.
    pub(crate) fn check_without_checksums(self) -> Result<()> {
        let cannot = match self {
            Redundancy::None => return Ok(()),
            Redundancy::Mirror | Redundancy::Parity => {
                "a mirror without checksums could not tell which half of a block is right"
            }
            Redundancy::Checksum => {
                "a pool that is to find what is wrong needs the blocks' checksums"
            }
        };
        Err(ErrorKind::Options(cannot.into()).into())
    }
}

impl Default for FormatOptions {
    fn default() -> Self {
        FormatOptions {
            block_bytes: 4096,
            strict: false,
            checksums: true,
            lanes: None,
            lane_bytes: None,
            volumes: 64,
            unit_bytes: 4096,
            test: false,
            redundancy: Redundancy::None,
        }
    }
}

/// When a read compares the data with its check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum VerifyPolicy {
    /// Every read.
    #[default]
    Always,
    /// One read in 16, and what `Never` verifies.
    Sampled,
    /// As `Never`; scrubs are to find what is wrong. A daemon that serves the pool does them by itself.
    Scrub,
    /// Only write-back, partial updates and `check`.
    Never,
}

/// Which blocks leave first when space is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ReplacementPolicy {
    /// The default: the one that measures best, see `docs/measured/performance.md`.
    #[default]
    Sieve,
    /// Least recently used, as the papers have it.
    Lru,
}

impl fmt::Display for VerifyPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            VerifyPolicy::Always => "always",
            VerifyPolicy::Sampled => "sampled",
            VerifyPolicy::Scrub => "scrub",
            VerifyPolicy::Never => "never",
        })
    }
}

impl fmt::Display for ReplacementPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ReplacementPolicy::Sieve => "sieve",
            ReplacementPolicy::Lru => "lru",
        })
    }
}

/// One line for each setting of an opening: its documentation, name, type and default. [`PoolOptions`]
/// has the same setters, for the opening that a creation is.
macro_rules! runtime_options {
    ($($(#[$meta:meta])* $name:ident: $type:ty = $default:expr,)+) => {
        /// What can differ each time a pool is opened. Each setter takes the options and returns them
        /// changed; [`Pool::open_with`](crate::Pool::open_with) refuses what does not fit together.
        ///
        /// ```
        /// # use std::time::Duration;
        /// let options = forebay::RuntimeOptions::default()
        ///     .fill_on_read(false)
        ///     .throttle_deadline(Duration::from_secs(5));
        /// ```
        #[derive(Clone, Debug)]
        pub struct RuntimeOptions {
            $(pub(crate) $name: $type,)+
        }

        impl Default for RuntimeOptions {
            fn default() -> Self {
                RuntimeOptions { $($name: $default,)+ }
            }
        }

        impl RuntimeOptions {
            $(
                $(#[$meta])*
                #[must_use]
                pub fn $name(mut self, $name: $type) -> RuntimeOptions {
                    self.$name = $name;
                    self
                }
            )+
        }

        impl PoolOptions {
            $(
                $(#[$meta])*
                #[must_use]
                pub fn $name(mut self, $name: $type) -> PoolOptions {
                    self.runtime.$name = $name;
                    self
                }
            )+
        }
    };
}

runtime_options! {
    /// How the members are mapped.
    region: RegionOptions = RegionOptions::default(),
    /// When reads verify; every time by default. Can be changed later:
    /// [`Pool::set_verify`](crate::Pool::set_verify).
    verify: VerifyPolicy = VerifyPolicy::Always,
    /// Which blocks are evicted; SIEVE by default. Can be changed later:
    /// [`Pool::set_replacement`](crate::Pool::set_replacement).
    replacement: ReplacementPolicy = ReplacementPolicy::Sieve,
    /// Runs flusher and reclaimer threads, as is the default. Without, the caller drives them
    /// ([`Pool::write_back_once`](crate::Pool::write_back_once),
    /// [`Pool::reclaim_once`](crate::Pool::reclaim_once)).
    background: bool = true,
    /// At this many per mille of the slots dirty, writers go as fast as the backing takes blocks; 900 by
    /// default, 1000 at most.
    dirty_high_per_mille: u32 = 900,
    /// Write-back works, and writers are slowed, while more than this many per mille are dirty; 500 by
    /// default. More than the high one means as many as that. Both can be changed later:
    /// [`Pool::set_watermarks`](crate::Pool::set_watermarks).
    dirty_low_per_mille: u32 = 500,
    /// Reclaim begins when fewer than this many per mille of the slots are free, and frees twice as many; 20
    /// by default, 500 at most.
    free_low_per_mille: u32 = 20,
    /// How long a writer waits for a free slot before it gets an error; 30 s by default. In a pool on an SSD it counts anew
    /// whenever a backing takes something or a segment comes free.
    throttle_deadline: Duration = Duration::from_secs(30),
    /// A backing that has not answered for so long counts as degraded; 5 s by default.
    answer_deadline: Duration = Duration::from_secs(5),
    /// Brings blocks into the pool when a read misses, as is the default.
    fill_on_read: bool = true,
    /// Whether a pool on an SSD may read several blocks by an io_uring. Threads make these as they need them, and each takes a descriptor:
    /// not for a process whose program may close descriptors that it does not know.
    read_rings: bool = true,
    /// Misses of reads that follow one another pass the pool by once these have come to more than this many bytes: they are not
    /// brought in. 0, the default, brings in all. Can be changed later:
    /// [`Pool::set_sequential_cutoff`](crate::Pool::set_sequential_cutoff).
    sequential_cutoff_bytes: u64 = 0,
    /// Reads ahead of reads that follow one another, so many bytes at most, 64 MiB if it is more; they lie in memory apart. 0,
    /// the default, reads nothing ahead. Can be changed later: [`Pool::set_read_ahead`](crate::Pool::set_read_ahead).
    read_ahead_bytes: u64 = 0,
    /// A whole block whose bytes the pool holds already shares their slot, as is the default. Can be
    /// changed later: [`Pool::set_share_duplicates`](crate::Pool::set_share_duplicates).
    share_duplicates: bool = true,
    /// A whole block of which few bytes are new, or not zero, is stored as these, as is the default. Can
    /// be changed later: [`Pool::set_compare_writes`](crate::Pool::set_compare_writes).
    compare_writes: bool = true,
    /// Looks for both at every write, not only where it has paid lately: for tests.
    #[doc(hidden)]
    always_compare: bool = false,
    /// Keeps the entry table in DRAM while the pool is open, 18 bytes a slot, and has checkpoints write the
    /// medium's. What reads brought in since the last of them does not survive a kill then. A mirror's
    /// are there always. For tests.
    #[doc(hidden)]
    entries_in_dram: bool = false,
    /// Writes the blocks of file systems' journals back last, since they are overwritten soon, as is the
    /// default. Can be changed later: [`Pool::set_defer_journal`](crate::Pool::set_defer_journal).
    defer_journal: bool = true,
    /// Serves what is left of a damaged pool. Off by default.
    accept_loss: bool = false,
    /// Attaches backings whose marks say that they and this pool are not of the same moment; see
    /// [`Pool::attach_stale`](crate::Pool::attach_stale). Off by default.
    accept_stale: bool = false,
    /// Opens a mirrored pool without members that are missing, for good: when one comes back it is not used. Off by
    /// default: then such a pool is refused.
    without_missing: bool = false,
    /// Where a mirror's witness is: a file on another device than its members, with whose vote a member opens without
    /// the other one. A new pool gets one made there; of one that has a witness this says where it is now, if not where it
    /// was made.
    witness: Option<PathBuf> = None,
}

impl RuntimeOptions {
    /// How the members are to be mapped.
    #[must_use]
    pub fn region_options(&self) -> &RegionOptions {
        &self.region
    }
    /// The low and the high watermark of dirty slots, as they were given.
    #[must_use]
    pub fn watermarks_per_mille(&self) -> (u32, u32) {
        (self.dirty_low_per_mille, self.dirty_high_per_mille)
    }
    /// Whether the pool is to have background threads.
    #[must_use]
    pub fn has_background(&self) -> bool {
        self.background
    }
    /// Whether what is left of a damaged pool is to be served.
    #[must_use]
    pub fn accepts_loss(&self) -> bool {
        self.accept_loss
    }

    /// Refuses shares that cannot be kept to.
    pub(crate) fn check(&self) -> Result<()> {
        let shares = [
            ("dirty_high_per_mille", self.dirty_high_per_mille, 1000),
            // Reclaim frees twice as many.
            ("free_low_per_mille", self.free_low_per_mille, 500),
        ];
        match shares.into_iter().find(|(_, share, most)| share > most) {
            Some((name, share, most)) => {
                Err(ErrorKind::Options(format!("{name} is {share}; the most is {most}")).into())
            }
            None => Ok(()),
        }
    }
}

/// Everything that [`Pool::create`](crate::Pool::create) needs: where the pool is to be, its format,
/// which stays, and the settings of its first opening. Each setter takes the options and returns them changed;
/// `create` refuses what does not fit together or is no format.
///
/// ```
/// let options = forebay::PoolOptions::new("/dev/shm/pool", 256 << 20)
///     .block_bytes(16384)
///     .volumes(4)
///     .fill_on_read(false);
/// ```
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) member_bytes: u64,
    pub(crate) force: bool,
    pub(crate) medium: Medium,
    pub(crate) format: FormatOptions,
    pub(crate) runtime: RuntimeOptions,
}

impl PoolOptions {
    /// A pool with one member, a file or a device of `member_bytes` bytes at `path`.
    #[must_use]
    pub fn new(path: impl AsRef<Path>, member_bytes: u64) -> PoolOptions {
        PoolOptions::default()
            .member(path)
            .member_bytes(member_bytes)
    }
    /// Adds a member, a file or a device; all members have the same size.
    #[must_use]
    pub fn member(mut self, path: impl AsRef<Path>) -> PoolOptions {
        self.paths.push(path.as_ref().to_path_buf());
        self
    }
    /// Adds members.
    #[must_use]
    pub fn members<P: AsRef<Path>>(self, paths: impl IntoIterator<Item = P>) -> PoolOptions {
        paths.into_iter().fold(self, PoolOptions::member)
    }
    /// Bytes of each member.
    #[must_use]
    pub fn member_bytes(mut self, member_bytes: u64) -> PoolOptions {
        self.member_bytes = member_bytes;
        self
    }
    /// What the pool lies on; memory by default. When it is opened again, what is there says it.
    #[must_use]
    pub fn medium(mut self, medium: Medium) -> PoolOptions {
        self.medium = medium;
        self
    }
    /// Overwrites what is there. Off by default.
    #[must_use]
    pub fn force(mut self, force: bool) -> PoolOptions {
        self.force = force;
        self
    }
    /// Bytes of a block: a power of two from 4096, the default, to 65536 (from 128 for tests).
    #[must_use]
    pub fn block_bytes(mut self, block_bytes: u32) -> PoolOptions {
        self.format.block_bytes = block_bytes;
        self
    }
    /// Two fences a commit, and recovery trusts only the commit word. Off by default.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> PoolOptions {
        self.format.strict = strict;
        self
    }
    /// CRC32C of every block, as is the default. A pool without is always strict.
    #[must_use]
    pub fn checksums(mut self, checksums: bool) -> PoolOptions {
        self.format.checksums = checksums;
        self
    }
    /// How many threads can commit at the same time; by default what fits the size.
    #[must_use]
    pub fn lanes(mut self, lanes: u32) -> PoolOptions {
        self.format.lanes = Some(lanes);
        self
    }
    /// Bytes of one lane's log; by default what fits the size.
    #[must_use]
    pub fn lane_bytes(mut self, lane_bytes: u64) -> PoolOptions {
        self.format.lane_bytes = Some(lane_bytes);
        self
    }
    /// How many volumes the pool can hold; 64 by default.
    #[must_use]
    pub fn volumes(mut self, volumes: u32) -> PoolOptions {
        self.format.volumes = volumes;
        self
    }
    /// Distance between metadata lines that are written in turn, in bytes; a page, smaller only for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn unit_bytes(mut self, unit_bytes: u32) -> PoolOptions {
        self.format.unit_bytes = unit_bytes;
        self
    }
    /// The pool is for tests and may be broken on purpose. Off by default.
    #[must_use]
    pub fn test_pool(mut self, test: bool) -> PoolOptions {
        self.format.test = test;
        self
    }
    /// How many members hold what must not be lost; one by default. A mirror has two to eight members.
    #[must_use]
    pub fn redundancy(mut self, redundancy: Redundancy) -> PoolOptions {
        self.format.redundancy = redundancy;
        self
    }
    /// All settings of the first opening at once.
    #[must_use]
    pub fn runtime(mut self, runtime: RuntimeOptions) -> PoolOptions {
        self.runtime = runtime;
        self
    }

    /// The members' files or devices.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
    /// The settings of the first opening, for a later one.
    #[must_use]
    pub fn runtime_options(&self) -> &RuntimeOptions {
        &self.runtime
    }
}
