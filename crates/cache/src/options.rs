//! What a caller can choose: when a pool is made, and each time it is opened.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_pmem::RegionOptions;

/// What is fixed when a pool is created. `None` means a default that fits the size.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Bytes of a block: a power of two from 4096 to 65536 (from 128 for tests).
    pub block_bytes: u32,
    /// Two fences a commit, recovery trusts only the commit word.
    pub strict: bool,
    /// CRC32C of every block. A pool without is always strict.
    pub checksums: bool,
    /// How many threads can commit at the same time.
    pub lanes: Option<u32>,
    /// Bytes of one lane's log.
    pub lane_bytes: Option<u64>,
    /// How many volumes the pool can hold.
    pub volumes: u32,
    /// Distance between metadata lines that are written in turn; a page, smaller only for tests.
    pub unit_bytes: u32,
    /// The pool is for tests and may be broken on purpose.
    pub test: bool,
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
        }
    }
}

/// When a read compares the data with its check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VerifyPolicy {
    /// Every read.
    #[default]
    Always,
    /// Only write-back, partial updates and `check`.
    Never,
}

/// Which blocks leave first when space is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplacementPolicy {
    /// The default: whichever measures best, see `docs/measured/performance.md`.
    #[default]
    Sieve,
    /// Least recently used, as the papers have it.
    Lru,
}

/// What can differ each time a pool is opened.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// How the members are mapped.
    pub region: RegionOptions,
    /// When reads verify.
    pub verify: VerifyPolicy,
    /// Which blocks are evicted.
    pub replacement: ReplacementPolicy,
    /// Run flusher and reclaimer threads. Without, the caller drives them.
    pub background: bool,
    /// At this many per mille of the slots dirty, writers go as fast as the backing takes blocks.
    pub dirty_high_per_mille: u32,
    /// Write-back works, and writers are slowed, while more than this many per mille are dirty. Both
    /// can be changed later: [`Pool::set_watermarks`](crate::Pool::set_watermarks).
    pub dirty_low_per_mille: u32,
    /// Reclaim keeps at least this many per mille of the slots free.
    pub free_low_per_mille: u32,
    /// How long a writer waits for a free slot before it gets an error.
    pub throttle_deadline: Duration,
    /// A backing that has not answered for so long counts as degraded.
    pub answer_deadline: Duration,
    /// Bring blocks into the pool when a read misses.
    pub fill_on_read: bool,
    /// A whole block whose bytes the pool holds already shares their slot.
    pub share_duplicates: bool,
    /// A whole block of which few bytes are new, or not zero, is stored as these.
    pub compare_writes: bool,
    /// Look for both at every write, not only where it has paid lately: for tests.
    pub always_compare: bool,
    /// Write the blocks of file systems' journals back last, since they are overwritten soon. Can be
    /// changed later: [`Pool::set_defer_journal`](crate::Pool::set_defer_journal).
    pub defer_journal: bool,
    /// Serve what is left of a damaged pool.
    pub accept_loss: bool,
    /// Attach backings whose marks say that they and this pool are not of the same moment; see
    /// [`Pool::attach_stale`](crate::Pool::attach_stale).
    pub accept_stale: bool,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        RuntimeOptions {
            region: RegionOptions::default(),
            verify: VerifyPolicy::Always,
            replacement: ReplacementPolicy::Sieve,
            background: true,
            dirty_high_per_mille: 900,
            dirty_low_per_mille: 500,
            free_low_per_mille: 20,
            throttle_deadline: Duration::from_secs(30),
            answer_deadline: Duration::from_secs(5),
            fill_on_read: true,
            share_duplicates: true,
            compare_writes: true,
            always_compare: false,
            defer_journal: true,
            accept_loss: false,
            accept_stale: false,
        }
    }
}

/// Everything `Pool::create` needs.
#[derive(Clone, Debug, Default)]
pub struct PoolOptions {
    /// One file or device for each member.
    pub paths: Vec<PathBuf>,
    /// Bytes of each member.
    pub member_bytes: u64,
    /// Overwrite a file that is already there.
    pub force: bool,
    /// The format.
    pub format: FormatOptions,
    /// This opening.
    pub runtime: RuntimeOptions,
}

impl PoolOptions {
    /// A pool with one member of `member_bytes` bytes at `path`.
    pub fn new(path: impl AsRef<Path>, member_bytes: u64) -> PoolOptions {
        PoolOptions {
            paths: vec![path.as_ref().to_path_buf()],
            member_bytes,
            ..PoolOptions::default()
        }
    }
    /// Adds a member; all members have the same size.
    pub fn member(mut self, path: impl AsRef<Path>) -> PoolOptions {
        self.paths.push(path.as_ref().to_path_buf());
        self
    }
    /// Overwrites what is there.
    pub fn force(mut self, force: bool) -> PoolOptions {
        self.force = force;
        self
    }
}
