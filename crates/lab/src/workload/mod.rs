//! The papers' workloads: seeded generators that turn what an application does into what a file
//! system then asks of the cache below it.
//!
//! The same specification and seed give the same actions whatever the engine, and every block that an
//! action writes can be checked afterwards: each workload knows what the disk must hold.

mod content;
mod filebench;
mod fio;
mod metadata;
mod teragen;
mod tpcc;
mod trace;

use std::sync::Arc;

use forebay::{ErrorKind, Result};

pub use crate::action::{Action, BLOCK_BYTES};
use crate::filesystem::FileSystem;
pub use filebench::{FilebenchOptions, Personality};
pub use fio::FioOptions;
pub use metadata::MetadataOptions;
pub use teragen::TeraGenOptions;
pub use tpcc::TpccOptions;
pub use trace::{Trace, TraceEvent, TraceFormat, TraceOptions};

/// DRAM of Tinca's machines (§5.1); what else needs some of it is not taken off.
pub const TINCA_PAGES_BYTES: u64 = 4 << 30;

/// DRAM of Spindle's machine less what it takes for its NVM: 98 GB less 8 GB (§5.1). It holds all of
/// every data set (Table 1), so that no read comes to the cache.
pub const SPINDLE_PAGES_BYTES: u64 = 90 << 30;

/// What an application did in one operation, as the papers count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Writes: the unit that lines, fences and disk blocks are divided by.
    pub writes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes that the application gave to its writes.
    pub payload_bytes: u64,
}

/// A source of operations.
pub trait Workload: Send {
    /// What it is called.
    fn name(&self) -> &str;

    /// Appends one application operation's actions. Writes may come with a later operation, when their
    /// transaction commits; a commit always follows the writes of one call.
    fn next(&mut self, actions: &mut Vec<Action>) -> Operation;

    /// Operations after which a cache of `cache_blocks` is full and replaces at its steady rate.
    fn warm_up_operations(&self, cache_blocks: u64) -> u64;

    /// Bytes of the disk that it needs; a multiple of the block size.
    fn disk_bytes(&self) -> u64;

    /// What the disk holds before the first operation; given away once, before that.
    fn take_image(&mut self) -> Vec<u8>;

    /// Appends what brings everything written so far to the cache, with its commit.
    fn settle(&mut self, actions: &mut Vec<Action>);

    /// The blocks of which something is known, ascending.
    fn live_blocks(&self) -> Vec<u64>;

    /// Whether these bytes are what a live block holds after [`Workload::settle`].
    fn is_right(&self, block: u64, bytes: &[u8]) -> bool;
}

/// A source of operations on a file system, which says what the disk holds.
trait FileWorkload: Send {
    fn name(&self) -> &str;
    fn file_system(&self) -> &FileSystem;
    fn file_system_mut(&mut self) -> &mut FileSystem;
    /// As [`Workload::next`].
    fn next(&mut self, actions: &mut Vec<Action>) -> Operation;
    /// As [`Workload::warm_up_operations`].
    fn warm_up_operations(&self, cache_blocks: u64) -> u64;
}

impl<W: FileWorkload> Workload for W {
    fn name(&self) -> &str {
        FileWorkload::name(self)
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        FileWorkload::next(self, actions)
    }

    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        FileWorkload::warm_up_operations(self, cache_blocks)
    }

    fn disk_bytes(&self) -> u64 {
        self.file_system().disk_bytes()
    }

    fn take_image(&mut self) -> Vec<u8> {
        self.file_system_mut().take_image()
    }

    fn settle(&mut self, actions: &mut Vec<Action>) {
        self.file_system_mut().commit(actions);
    }

    fn live_blocks(&self) -> Vec<u64> {
        self.file_system().live_blocks()
    }

    fn is_right(&self, block: u64, bytes: &[u8]) -> bool {
        self.file_system().is_right(block, bytes)
    }
}

/// How much smaller than the papers' everything is: caches and data sets, not blocks and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale(u32);

impl Scale {
    /// 1/64, for figures.
    pub const FULL: Scale = Scale(64);
    /// 1/256, for a quick look.
    pub const QUICK: Scale = Scale(256);

    /// One `divisor`th of the papers' sizes.
    #[must_use]
    pub const fn one_over(divisor: u32) -> Scale {
        Scale(divisor)
    }

    /// What it divides by.
    #[must_use]
    pub const fn divisor(self) -> u32 {
        self.0
    }

    /// A size of the papers', scaled and rounded down to whole blocks; at least one block.
    #[must_use]
    pub const fn bytes(self, paper_bytes: u64) -> u64 {
        let blocks = paper_bytes / self.0 as u64 / BLOCK_BYTES as u64;
        if blocks == 0 {
            return BLOCK_BYTES as u64;
        }
        blocks * BLOCK_BYTES as u64
    }

    /// Bytes of the cache, 8 GB in both papers (Tinca §5.1, Spindle §5.1).
    #[must_use]
    pub const fn cache_bytes(self) -> u64 {
        self.bytes(8 << 30)
    }

    /// Blocks of a transaction at most: JBD2's quarter of a journal of 128 MiB, scaled. Tinca's
    /// Figure 13 shows transactions of that size, 8,000 blocks.
    #[must_use]
    pub const fn transaction_blocks_max(self) -> u64 {
        let blocks = self.bytes(32 << 20) / BLOCK_BYTES as u64;
        if blocks < 32 { 32 } else { blocks }
    }
}

impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "1/{}", self.0)
    }
}

/// What to generate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum WorkloadSpec {
    /// Random reads and writes of 4 KiB.
    Fio(FioOptions),
    /// A personality of Filebench.
    Filebench(FilebenchOptions),
    /// Sequential writes of rows.
    TeraGen(TeraGenOptions),
    /// Pages of a database.
    Tpcc(TpccOptions),
    /// Inodes alone.
    Metadata(MetadataOptions),
    /// A block trace of a real machine.
    Trace {
        /// Its requests.
        trace: Arc<Trace>,
        /// Blocks of a transaction at most: a larger request becomes several.
        transaction_blocks_max: u64,
    },
}

impl WorkloadSpec {
    /// The workloads that `counts` runs, by name, in its order.
    pub const NAMES: [&'static str; 10] = [
        "fio-rw30",
        "fio-rw50",
        "fio-rw70",
        "fio-w100",
        "fileserver",
        "webproxy",
        "varmail",
        "teragen",
        "tpcc",
        "metadata",
    ];

    /// The workload of that name at its papers' sizes times `scale`.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(name: &str, scale: Scale) -> Result<WorkloadSpec> {
        let filebench =
            |personality| WorkloadSpec::Filebench(FilebenchOptions::new(scale, personality));
        let fio = |read_percent| WorkloadSpec::Fio(FioOptions::of_spindle(scale, read_percent));
        Ok(match name {
            "fio-rw30" => fio(30),
            "fio-rw50" => fio(50),
            "fio-rw70" => fio(70),
            "fio-w100" => fio(0),
            "fileserver" => filebench(Personality::Fileserver),
            "webproxy" => filebench(Personality::Webproxy),
            "varmail" => filebench(Personality::Varmail),
            "teragen" => WorkloadSpec::TeraGen(TeraGenOptions::new(scale, 1)),
            "tpcc" => WorkloadSpec::Tpcc(TpccOptions::new(scale, 20)),
            "metadata" => WorkloadSpec::Metadata(MetadataOptions::new(scale)),
            _ => {
                return Err(ErrorKind::Options(format!(
                    "there is no workload {name}; there are {}",
                    WorkloadSpec::NAMES.join(", ")
                ))
                .into());
            }
        })
    }

    /// A trace at its own size; `scale` bounds its transactions only.
    #[must_use]
    pub fn trace(trace: Trace, scale: Scale) -> WorkloadSpec {
        WorkloadSpec::Trace {
            trace: Arc::new(trace),
            transaction_blocks_max: scale.transaction_blocks_max(),
        }
    }

    /// A generator at its beginning.
    #[must_use]
    pub fn build(&self, seed: u64) -> Box<dyn Workload> {
        match self {
            WorkloadSpec::Fio(options) => Box::new(fio::Fio::new(options, seed)),
            WorkloadSpec::Filebench(options) => Box::new(filebench::Filebench::new(options, seed)),
            WorkloadSpec::TeraGen(options) => Box::new(teragen::TeraGen::new(options, seed)),
            WorkloadSpec::Tpcc(options) => Box::new(tpcc::Tpcc::new(options, seed)),
            WorkloadSpec::Metadata(options) => Box::new(metadata::Metadata::new(options, seed)),
            WorkloadSpec::Trace {
                trace,
                transaction_blocks_max,
            } => Box::new(trace::Replay::new(trace, *transaction_blocks_max, seed)),
        }
    }
}
