//! The papers' workloads: seeded generators that turn what an application does into what a file
//! system then asks of the cache below it.
//!
//! The same specification and seed give the same actions whatever the engine, and every block that an
//! action writes can be checked afterwards: each workload knows what the disk must hold.

mod content;
mod filebench;
mod fio;
mod metadata;
mod source;
mod teragen;
mod tpcc;
mod trace;

use std::sync::Arc;

use forebay::{ErrorKind, Result};

pub use crate::action::{Action, BLOCK_BYTES};
pub use filebench::{FilebenchOptions, Personality};
pub use fio::FioOptions;
pub use metadata::MetadataOptions;
use source::FileWorkload;
pub use source::{Operation, SPINDLE_PAGES_BYTES, Scale, TINCA_PAGES_BYTES, Workload};
pub use teragen::TeraGenOptions;
pub use tpcc::TpccOptions;
pub use trace::{Trace, TraceEvent, TraceFormat, TraceOptions};

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
    pub const NAMES: [&'static str; 14] = [
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
        "fio-miss30",
        "fio-miss50",
        "fio-miss70",
        "webproxy-miss",
    ];

    /// The workload of that name at its papers' sizes times `scale`.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn named(name: &str, scale: Scale) -> Result<WorkloadSpec> {
        let filebench =
            |personality| WorkloadSpec::Filebench(FilebenchOptions::new(scale, personality));
        let fio = |read_percent| WorkloadSpec::Fio(FioOptions::of_spindle(scale, read_percent));
        // With Tinca's DRAM, which holds a part of the data: reads come to the cache.
        let missing = |read_percent| WorkloadSpec::Fio(FioOptions::of_tinca(scale, read_percent));
        Ok(match name {
            "fio-miss30" => missing(30),
            "fio-miss50" => missing(50),
            "fio-miss70" => missing(70),
            "webproxy-miss" => WorkloadSpec::Filebench(FilebenchOptions {
                page_cache_bytes: scale.bytes(TINCA_PAGES_BYTES),
                ..FilebenchOptions::new(scale, Personality::Webproxy)
            }),
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
