//! The cases: each measures some rows of the report.

mod bench;
mod cold_reads;
mod commits;
mod content;
mod dax;
mod dax_times;
mod dram;
mod kernels;
mod ladder;
mod lines;
mod mirror;
mod mirror_clients;
mod mirror_raw;
mod mirror_reads;
mod mirror_times;
mod nbd;
mod page_pool;
mod reads;
mod recovery;
mod replacement;
mod rows;
mod scaling;
mod ssd;
mod ssd_reads;
mod stack;

pub use bench::Bench;
pub use nbd::serve as nbd_server;
pub use recovery::victim;

use forebay_harness::Bar::{self, AtLeast, AtLeastGoal, AtMost, AtMostGoal, Reported};
use forebay_harness::{Result, Row, bars};

/// What is asked of a row.
pub fn bar_of(name: &str) -> Option<Bar> {
    let mut all = CASES.iter().flat_map(|case| case.rows);
    all.find(|(known, _)| *known == name).map(|(_, bar)| *bar)
}

/// The rows as lines: those of which something is asked first.
pub fn table(rows: &[Row]) -> String {
    let (asked, others): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| bar_of(&row.name).is_some());
    let all = asked.into_iter().chain(others);
    all.map(|row| bars::line(&row.name, Some(row), bar_of(&row.name)))
        .collect()
}

/// A case: the rows it yields, and how.
pub struct Case {
    /// Names of rows that are looked at, and what is asked of them; `--case` takes any of the names.
    pub rows: &'static [(&'static str, Bar)],
    /// Measures them.
    pub run: fn(&Bench) -> Result<Vec<Row>>,
}

/// Cases that run only by name: they explain, and yield no row of the report.
pub const EXPLANATIONS: &[Case] = &[
    Case {
        rows: &[("commit_1x4k_ladder", Reported)],
        run: ladder::one_block,
    },
    Case {
        rows: &[("scaling", Reported)],
        run: scaling::of_all,
    },
];

/// All other cases, in the order of the report.
pub const CASES: &[Case] = &[
    Case {
        rows: &[
            ("commit_1x4k_fences", AtMost(1.1)),
            ("commit_1x4k_lines", AtMost(66.5)),
        ],
        run: lines::one_block,
    },
    Case {
        rows: &[("commit_16x4k_lines_per_block", AtMost(65.4))],
        run: lines::sixteen_blocks,
    },
    Case {
        rows: &[("delta_256b_lines", AtMost(11.0))],
        run: lines::delta,
    },
    Case {
        rows: &[("insert_evict_lines", AtMost(67.5))],
        run: lines::insert_evict,
    },
    Case {
        rows: &[
            ("stream_crc_vs_stream_avx2", AtLeast(0.88)),
            ("read_crc_vs_memcpy_avx2", AtLeast(0.75)),
            ("kernel_order_stream", AtLeast(0.97)),
            ("kernel_order_read", AtLeast(0.97)),
        ],
        run: kernels::of_all,
    },
    Case {
        rows: &[
            ("commit_1x4k_vs_raw", AtLeastGoal(0.60, 0.75)),
            ("commit_1x4k_vs_raw_avx2", AtLeast(0.40)),
            ("commit_1x4k_vs_libpmemblk", AtLeast(1.8)),
        ],
        run: commits::one_block,
    },
    Case {
        rows: &[
            ("commit_16x4k_vs_raw", AtLeastGoal(0.78, 0.88)),
            ("commit_16x4k_vs_raw_avx2", AtLeast(0.55)),
            ("commit_16x4k_vs_libpmemobj", AtLeast(5.0)),
        ],
        run: commits::sixteen_blocks,
    },
    Case {
        rows: &[
            ("commit_2threads_vs_raw_2threads", AtLeast(0.60)),
            ("commit_2threads_vs_raw_2threads_avx2", AtLeast(0.30)),
        ],
        run: commits::two_threads,
    },
    Case {
        rows: &[
            ("read_hit_4k_vs_memcpy", AtLeastGoal(0.62, 0.75)),
            ("read_hit_4k_unverified_vs_memcpy", AtLeast(0.80)),
            ("read_hit_4k_vs_memcpy_avx2", AtLeast(0.57)),
        ],
        run: reads::hits,
    },
    Case {
        rows: &[
            ("duplicate_lookup_cost", Reported),
            ("duplicate_lookup_dram_bytes_per_mib", Reported),
        ],
        run: content::nothing_to_find,
    },
    Case {
        rows: &[
            ("compare_gain_dram", Reported),
            ("compare_gain_pcm", Reported),
        ],
        run: content::few_lines_change,
    },
    Case {
        rows: &[("dram_bytes_per_block", AtMostGoal(40.0, 24.0))],
        run: dram::per_block,
    },
    Case {
        rows: &[("recovery_ms_per_gib", AtMost(60.0))],
        run: recovery::after_sigkill,
    },
    Case {
        rows: &[
            ("page_pool_pages_per_commit", AtMost(10.0)),
            ("page_pool_pages_per_commit_reopened", AtMost(6.0)),
        ],
        run: page_pool::pages,
    },
    Case {
        rows: &[("page_pool_commit_vs_bare", AtLeast(0.5))],
        run: page_pool::against_bare,
    },
    Case {
        rows: &[("page_pool_cold_open_ms_per_gib", Reported)],
        run: page_pool::cold_open,
    },
    Case {
        rows: &[
            ("ssd_append_256_device_pages", AtMost(1.10)),
            ("ssd_1x4k_device_pages", AtMost(2.05)),
            ("ssd_1x4k_flushes", AtMost(1.01)),
            ("ssd_16x4k_pages_per_block", AtMost(1.10)),
            ("ssd_bare_write_us", Reported),
            ("ssd_bare_17_pages_vs_1", Reported),
            ("ssd_commit_1x4k_vs_bare", AtLeastGoal(0.75, 0.90)),
            ("ssd_commit_16x4k_vs_bare_4k", AtLeastGoal(0.75, 0.85)),
            ("ssd_commit_4threads_vs_bare", AtLeastGoal(0.9, 1.1)),
            ("ssd_commit_16threads_vs_bare", AtLeastGoal(1.2, 2.0)),
        ],
        run: ssd::commits,
    },
    Case {
        rows: &[
            ("ssd_read_qd1_vs_pread", AtLeast(0.90)),
            ("ssd_read_qd32_vs_uring", AtLeast(0.85)),
            ("ssd_read_32threads_vs_uring", Reported),
        ],
        run: ssd_reads::reads,
    },
    Case {
        rows: &[
            ("stack_commit_lines_vs_nvm", AtMost(1.0)),
            ("stack_commit_vs_nvm", AtLeast(0.95)),
        ],
        run: stack::commits,
    },
    Case {
        rows: &[
            ("mirror_1x4k_fences", AtMost(1.1)),
            ("mirror_1x4k_lines", AtMost(132.0)),
        ],
        run: mirror::one_block,
    },
    Case {
        rows: &[("mirror_16x4k_lines_per_block", AtMost(130.5))],
        run: mirror::sixteen_blocks,
    },
    Case {
        rows: &[
            ("mirror_delta_256b_lines", AtMost(19.8)),
            ("mirror_append_256b_lines", AtMost(19.8)),
        ],
        run: mirror::small_changes,
    },
    Case {
        rows: &[("mirror_fill_lines", AtMost(65.8))],
        run: mirror::fills,
    },
    Case {
        rows: &[("checkpoint_fences", AtMost(2.0))],
        run: mirror::checkpoints,
    },
    Case {
        rows: &[("dram_bytes_per_block_mirror", AtMost(46.0))],
        run: mirror::dram,
    },
    Case {
        rows: &[
            ("mirror_1x4k_vs_none", AtLeast(0.55)),
            ("mirror_16x4k_vs_none", AtLeast(0.58)),
            ("mirror_append_256b_vs_none", AtLeast(0.60)),
        ],
        run: mirror_times::commits,
    },
    Case {
        rows: &[
            ("rows3_16x4k_fences", AtMost(1.1)),
            ("rows3_16x4k_lines_per_block", AtMost(91.0)),
            ("rows4_16x4k_lines_per_block", AtMost(83.0)),
        ],
        run: rows::sixteen_blocks,
    },
    Case {
        rows: &[("rows_first_delta_lines", AtMost(133.0))],
        run: rows::first_changes,
    },
    Case {
        rows: &[("rows3_16x4k_vs_none", AtLeast(0.60))],
        run: rows::commits,
    },
    Case {
        rows: &[("raw_pair_16x4k_vs_raw", Reported)],
        run: mirror_raw::sixteens,
    },
    Case {
        rows: &[
            ("checksum_1x4k_vs_none", AtLeast(0.95)),
            ("checksum_16x4k_vs_none", AtLeast(0.95)),
        ],
        run: mirror_times::checksum_commits,
    },
    Case {
        rows: &[("verified_read_vs_unverified", AtLeast(0.75))],
        run: mirror_reads::hits,
    },
    Case {
        rows: &[("scrub_vs_raw_read", AtLeast(0.7))],
        run: mirror_reads::scrub,
    },
    Case {
        rows: &[
            ("p99_scrub_vs_idle", AtMost(1.2)),
            ("scrub_loaded_mib_s", AtLeast(20.0)),
        ],
        run: mirror_clients::beside_scrub,
    },
    Case {
        rows: &[
            ("p99_rebuild_vs_idle", AtMost(1.2)),
            ("rebuild_loaded_mib_s", AtLeast(100.0)),
        ],
        run: mirror_clients::beside_rebuild,
    },
    Case {
        rows: &[("recovery_mirror_vs_none", AtMost(1.6))],
        run: mirror_times::recovery,
    },
    Case {
        rows: &[
            ("member_fail_to_ack_ms", AtMost(50.0)),
            ("rebuild_1gib_s", AtMost(3.0)),
        ],
        run: mirror_times::rebuild,
    },
    Case {
        rows: &[("dax_space_percent", AtMost(0.4))],
        run: dax::space,
    },
    Case {
        rows: &[
            ("dax_sync_4k_lines", AtMost(130.0)),
            ("dax_sync_4k_fences", AtMost(2.0)),
            ("dax_pass_lines_per_page", AtMost(130.0)),
        ],
        run: dax::lines,
    },
    Case {
        rows: &[("dax_10k_vs_none", AtLeast(0.95))],
        run: dax_times::beside_none,
    },
    Case {
        rows: &[("dax_window_p99_periods", AtMost(1.5))],
        run: dax_times::windows,
    },
    Case {
        rows: &[("replacement_hit_ratio_vs_lru", AtLeast(1.0))],
        run: replacement::against_lru,
    },
    Case {
        rows: &[
            ("nbd_read_qd1_vs_qsd", AtLeast(1.0)),
            ("nbd_read_qd32_vs_qsd", AtLeast(1.0)),
            ("nbd_write_qd1_vs_qsd", AtLeast(1.0)),
            ("nbd_write_qd32_vs_qsd", AtLeast(1.0)),
        ],
        run: nbd::against_qemu,
    },
    Case {
        rows: &[
            ("cold_read_1m_fuse_vs_raw", AtLeast(0.85)),
            ("cold_read_1m_nbd_vs_raw", AtLeast(0.85)),
            ("cold_randread_qd1_fuse_vs_raw", AtLeast(0.75)),
            ("cold_randread_qd32_fuse_vs_raw", AtLeast(0.9)),
            ("cold_randread_qd32_nbd_vs_raw", AtLeast(0.9)),
        ],
        run: cold_reads::beside_raw,
    },
];
