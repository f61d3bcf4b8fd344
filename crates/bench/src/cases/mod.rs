//! The cases: each measures some rows of the report.

mod commits;
mod content;
mod dram;
mod kernels;
mod ladder;
mod lines;
mod nbd;
mod page_pool;
mod queue;
mod reads;
mod recovery;
mod replacement;

pub use nbd::serve as nbd_server;
pub use recovery::victim;

use std::time::Duration;

use indicatif::ProgressBar;

use crate::Result;
use crate::contest::{Outcome, Pace};
use crate::report::Row;
use crate::scratch::Scratch;

/// A slice that had a processor for less than this share of its time is no good measure of it.
const BUSY_SHARE: f64 = 0.95;

/// What a case runs with.
pub struct Bench {
    /// Where its files go.
    pub scratch: Scratch,
    /// Slices of the timed cases.
    pub pace: Pace,
    /// The least duration of the counting cases.
    pub count_for: Duration,
    /// Bytes of the pools, half of them for reads.
    pub pool_bytes: u64,
    /// How often things that cannot be sliced are repeated.
    pub repeats: usize,
    /// Shown while a case runs.
    pub progress: ProgressBar,
}

impl Bench {
    /// Says something above the progress bar.
    pub fn say(&self, text: &str) {
        self.progress.suspend(|| eprintln!("{text}"));
    }

    /// Says where other processes had the processors, so that such rates are read with care.
    fn say_share(&self, outcome: &Outcome) {
        if outcome.processor_share < BUSY_SHARE {
            self.say(&format!(
                "  note: the machine is busy; slices had a processor for {:.0} % of their time",
                outcome.processor_share * 100.0
            ));
        }
    }
}

/// A case: the rows it yields, and how.
pub struct Case {
    /// Names of its rows that have a bar; `--case` takes any of them.
    pub rows: &'static [&'static str],
    /// Measures them.
    pub run: fn(&Bench) -> Result<Vec<Row>>,
}

/// Cases that run only by name: they explain, and yield no row of the report.
pub const EXPLANATIONS: &[Case] = &[Case {
    rows: &["commit_1x4k_ladder"],
    run: ladder::one_block,
}];

/// All other cases, in the order of the report.
pub const CASES: &[Case] = &[
    Case {
        rows: &["commit_1x4k_fences", "commit_1x4k_lines"],
        run: lines::one_block,
    },
    Case {
        rows: &["commit_16x4k_lines_per_block"],
        run: lines::sixteen_blocks,
    },
    Case {
        rows: &["delta_256b_lines"],
        run: lines::delta,
    },
    Case {
        rows: &["insert_evict_lines"],
        run: lines::insert_evict,
    },
    Case {
        rows: &[
            "stream_crc_vs_stream_avx2",
            "read_crc_vs_memcpy_avx2",
            "kernel_order_stream",
            "kernel_order_read",
        ],
        run: kernels::of_all,
    },
    Case {
        rows: &[
            "commit_1x4k_vs_raw",
            "commit_1x4k_vs_raw_avx2",
            "commit_1x4k_vs_libpmemblk",
        ],
        run: commits::one_block,
    },
    Case {
        rows: &[
            "commit_16x4k_vs_raw",
            "commit_16x4k_vs_raw_avx2",
            "commit_16x4k_vs_libpmemobj",
        ],
        run: commits::sixteen_blocks,
    },
    Case {
        rows: &[
            "commit_2threads_vs_raw_2threads",
            "commit_2threads_vs_raw_2threads_avx2",
        ],
        run: commits::two_threads,
    },
    Case {
        rows: &[
            "read_hit_4k_vs_memcpy",
            "read_hit_4k_unverified_vs_memcpy",
            "read_hit_4k_vs_memcpy_avx2",
        ],
        run: reads::hits,
    },
    Case {
        rows: &[
            "duplicate_lookup_cost",
            "duplicate_lookup_dram_bytes_per_mib",
        ],
        run: content::nothing_to_find,
    },
    Case {
        rows: &["compare_gain_dram", "compare_gain_pcm"],
        run: content::few_lines_change,
    },
    Case {
        rows: &["queue_vs_array_queue", "queue_2threads_vs_array_queue"],
        run: queue::against_array_queue,
    },
    Case {
        rows: &["dram_bytes_per_block"],
        run: dram::per_block,
    },
    Case {
        rows: &["recovery_ms_per_gib"],
        run: recovery::after_sigkill,
    },
    Case {
        rows: &[
            "page_pool_pages_per_commit",
            "page_pool_pages_per_commit_reopened",
        ],
        run: page_pool::pages,
    },
    Case {
        rows: &["page_pool_commit_vs_bare"],
        run: page_pool::against_bare,
    },
    Case {
        rows: &["page_pool_cold_open_ms_per_gib"],
        run: page_pool::cold_open,
    },
    Case {
        rows: &["replacement_hit_ratio_vs_lru"],
        run: replacement::against_lru,
    },
    Case {
        rows: &[
            "nbd_read_qd1_vs_qsd",
            "nbd_read_qd32_vs_qsd",
            "nbd_write_qd1_vs_qsd",
            "nbd_write_qd32_vs_qsd",
        ],
        run: nbd::against_qemu,
    },
];
