//! The bench itself: every row is there, and the instruction counts are what the table says.

use std::io::Write as _;
use std::process::Command;

const BENCH: &str = env!("CARGO_BIN_EXE_forebay-bench");

const ROWS: [&str; 57] = [
    "commit_1x4k_fences",
    "commit_1x4k_lines",
    "commit_16x4k_lines_per_block",
    "delta_256b_lines",
    "insert_evict_lines",
    "commit_1x4k_vs_raw",
    "commit_16x4k_vs_raw",
    "commit_2threads_vs_raw_2threads",
    "read_hit_4k_vs_memcpy",
    "read_hit_4k_unverified_vs_memcpy",
    "kernel_order_stream",
    "kernel_order_read",
    "stream_crc_vs_stream_avx2",
    "stream_crc_vs_stream_avx512",
    "stream_crc_vs_stream_avx2_vpclmul",
    "stream_crc_vs_stream_avx2_crc32",
    "stream_crc_vs_stream_sse",
    "stream_crc_vs_stream_portable",
    "read_crc_vs_memcpy_avx2",
    "read_crc_vs_memcpy_avx512",
    "read_crc_vs_memcpy_avx2_vpclmul",
    "read_crc_vs_memcpy_avx2_crc32",
    "read_crc_vs_memcpy_sse",
    "read_crc_vs_memcpy_portable",
    "commit_1x4k_vs_raw_avx2",
    "commit_1x4k_vs_raw_avx2_vpclmul",
    "commit_1x4k_vs_raw_avx2_crc32",
    "commit_16x4k_vs_raw_avx2",
    "commit_16x4k_vs_raw_avx2_vpclmul",
    "commit_16x4k_vs_raw_avx2_crc32",
    "commit_2threads_vs_raw_2threads_avx2",
    "commit_2threads_vs_raw_2threads_avx2_vpclmul",
    "commit_2threads_vs_raw_2threads_avx2_crc32",
    "read_hit_4k_vs_memcpy_avx2",
    "read_hit_4k_vs_memcpy_avx2_vpclmul",
    "read_hit_4k_vs_memcpy_avx2_crc32",
    "commit_1x4k_vs_libpmemblk",
    "commit_16x4k_vs_libpmemobj",
    "duplicate_lookup_cost",
    "duplicate_lookup_dram_bytes_per_mib",
    "compare_gain_dram",
    "compare_gain_pcm",
    "dram_bytes_per_block",
    "recovery_ms_per_gib",
    "page_pool_pages_per_commit",
    "page_pool_pages_per_commit_reopened",
    "page_pool_commit_vs_bare",
    "page_pool_cold_open_ms_per_gib",
    "ssd_append_256_device_pages",
    "ssd_1x4k_device_pages",
    "ssd_1x4k_flushes",
    "ssd_16x4k_pages_per_block",
    "replacement_hit_ratio_vs_lru",
    "nbd_read_qd1_vs_qsd",
    "nbd_read_qd32_vs_qsd",
    "nbd_write_qd1_vs_qsd",
    "nbd_write_qd32_vs_qsd",
];

/// Counts do not depend on the machine; where they pass a bar here they pass it everywhere.
const COUNTED_AT_MOST: [(&str, f64); 9] = [
    ("commit_1x4k_fences", 1.1),
    ("commit_1x4k_lines", 66.5),
    ("commit_16x4k_lines_per_block", 65.4),
    ("delta_256b_lines", 11.0),
    ("insert_evict_lines", 67.5),
    ("ssd_append_256_device_pages", 1.10),
    ("ssd_1x4k_device_pages", 2.05),
    ("ssd_1x4k_flushes", 1.01),
    ("ssd_16x4k_pages_per_block", 1.10),
];

#[test]
fn a_quick_run_reports_every_row_and_the_counted_ones_hold() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.json");
    let output = Command::new(BENCH)
        .args(["--quick", "--report"])
        .arg(&path)
        .output()
        .expect("the bench runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = std::fs::read_to_string(&path).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let rows = report.as_array().expect("a list");
    let value = |name: &str| {
        let row = rows.iter().find(|row| row["name"] == name);
        row.unwrap_or_else(|| panic!("{name} is missing"))["value"].clone()
    };
    for name in ROWS {
        let found = value(name);
        let absent = ["libpmem", "qsd", "avx", "_sse"];
        let may_be_absent = absent.iter().any(|part| name.contains(part));
        // A difference of two times is below zero where the machine is busier in one of them.
        let least = if name == "duplicate_lookup_cost" {
            -1.0
        } else {
            0.0
        };
        assert!(
            found.as_f64().is_some_and(|value| value > least) || (may_be_absent && found.is_null()),
            "{name}: {found}"
        );
    }
    for (name, limit) in COUNTED_AT_MOST {
        let found = value(name).as_f64().expect("a number");
        assert!(found <= limit, "{name}: {found}, at most {limit}");
    }
    assert!(value("replacement_hit_ratio_vs_lru").as_f64() >= Some(1.0));
    assert!(value("commit_hash").is_string());
}

#[test]
fn an_unknown_case_is_refused_with_the_known_ones() {
    let output = Command::new(BENCH)
        .args(["--case", "nonsense"])
        .output()
        .expect("the bench runs");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("nonsense") && said.contains("commit_1x4k_vs_raw"),
        "{said}"
    );
}

#[test]
fn a_kernel_that_valgrinds_processor_lacks_is_refused_and_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let command = |kernel: &str| {
        let mut command = Command::new("valgrind");
        command.args(["--tool=none", BENCH, "count-loop", "read_hit_4k", "1"]);
        command.arg(folder.path().join(kernel));
        command.env("FOREBAY_KERNEL", kernel).output()
    };
    let Ok(refused) = command("avx512") else {
        eprintln!("skipped kernels under valgrind: valgrind is missing");
        return;
    };
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    let words = "FOREBAY_KERNEL: this processor cannot run kernel avx512";
    assert!(said.contains(words), "{said}");
    let ran = command("portable").expect("valgrind is there");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn instruction_counts_are_those_of_the_table() {
    let output = Command::new(BENCH)
        .arg("counts")
        .output()
        .expect("the bench runs");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    // Past the test harness, which hides what a passing test prints: `make test` counts the lines.
    std::io::stdout()
        .write_all(format!("\n{out}").as_bytes())
        .expect("a screen");
    assert!(output.status.success(), "{out}{err}");
}
