//! What was measured, beside what was hoped for: the table on the screen and `report.json`.

use std::fmt::Write as _;

pub use forebay_harness::Row;
pub use forebay_harness::rows::write;

enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    fn is_met(&self, value: f64) -> bool {
        match self {
            Bar::AtMost(limit) => value <= *limit,
            Bar::AtLeast(limit) => value >= *limit,
        }
    }
    fn text(&self) -> String {
        match self {
            Bar::AtMost(limit) => format!("<= {limit}"),
            Bar::AtLeast(limit) => format!(">= {limit}"),
        }
    }
}

/// Name, the bar, and the goal where it is higher.
const BARS: [(&str, Bar, Option<f64>); 30] = [
    ("commit_1x4k_fences", Bar::AtMost(1.1), None),
    ("commit_1x4k_lines", Bar::AtMost(66.5), None),
    ("commit_16x4k_lines_per_block", Bar::AtMost(65.4), None),
    ("delta_256b_lines", Bar::AtMost(11.0), None),
    ("insert_evict_lines", Bar::AtMost(67.5), None),
    ("commit_1x4k_vs_raw", Bar::AtLeast(0.60), Some(0.75)),
    ("commit_16x4k_vs_raw", Bar::AtLeast(0.78), Some(0.88)),
    ("commit_2threads_vs_raw_2threads", Bar::AtLeast(0.60), None),
    ("read_hit_4k_vs_memcpy", Bar::AtLeast(0.62), Some(0.75)),
    ("read_hit_4k_unverified_vs_memcpy", Bar::AtLeast(0.80), None),
    ("stream_crc_vs_stream_avx2", Bar::AtLeast(0.88), None),
    ("read_crc_vs_memcpy_avx2", Bar::AtLeast(0.75), None),
    ("commit_1x4k_vs_raw_avx2", Bar::AtLeast(0.40), None),
    ("commit_16x4k_vs_raw_avx2", Bar::AtLeast(0.55), None),
    (
        "commit_2threads_vs_raw_2threads_avx2",
        Bar::AtLeast(0.30),
        None,
    ),
    ("read_hit_4k_vs_memcpy_avx2", Bar::AtLeast(0.57), None),
    ("kernel_order_stream", Bar::AtLeast(0.97), None),
    ("kernel_order_read", Bar::AtLeast(0.97), None),
    ("commit_1x4k_vs_libpmemblk", Bar::AtLeast(1.8), None),
    ("commit_16x4k_vs_libpmemobj", Bar::AtLeast(5.0), None),
    ("dram_bytes_per_block", Bar::AtMost(40.0), Some(24.0)),
    ("recovery_ms_per_gib", Bar::AtMost(60.0), None),
    ("page_pool_pages_per_commit", Bar::AtMost(10.0), None),
    (
        "page_pool_pages_per_commit_reopened",
        Bar::AtMost(6.0),
        None,
    ),
    ("page_pool_commit_vs_bare", Bar::AtLeast(0.5), None),
    ("replacement_hit_ratio_vs_lru", Bar::AtLeast(1.0), None),
    ("nbd_read_qd1_vs_qsd", Bar::AtLeast(1.0), None),
    ("nbd_read_qd32_vs_qsd", Bar::AtLeast(1.0), None),
    ("nbd_write_qd1_vs_qsd", Bar::AtLeast(1.0), None),
    ("nbd_write_qd32_vs_qsd", Bar::AtLeast(1.0), None),
];

/// The rows as a table: those with a bar first.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<44} {:>12} {:<24} {:>8} {:>6}  ok?\n",
        "name", "value", "unit", "bar", "goal"
    );
    let bar_of = |row: &Row| BARS.iter().find(|(name, ..)| *name == row.name);
    let (barred, others): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| bar_of(row).is_some());
    for row in barred.into_iter().chain(others) {
        let (mut bar, mut goal) = (String::new(), String::new());
        let mut verdict = row.value.map_or("not measured", |_| "");
        if let Some((_, limit, wanted)) = bar_of(row) {
            bar = limit.text();
            goal = wanted.map_or(String::new(), |goal| goal.to_string());
            verdict = match row.value {
                Some(value) if limit.is_met(value) => "yes",
                Some(_) => "NO",
                None => verdict,
            };
        }
        let value = row.value.map_or("-".to_owned(), digits);
        let words: Vec<&str> = [verdict, row.note.unwrap_or("")]
            .into_iter()
            .filter(|word| !word.is_empty())
            .collect();
        writeln!(
            text,
            "{:<44} {value:>12} {:<24} {bar:>8} {goal:>6}  {}",
            row.name,
            row.unit,
            words.join(", ")
        )
        .expect("a string takes everything");
    }
    text
}

/// Four significant digits, and no fraction where it says nothing.
fn digits(value: f64) -> String {
    match value.abs() {
        large if large >= 10_000.0 => format!("{value:.0}"),
        large if large >= 100.0 => format!("{value:.1}"),
        large if large >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(row: Row) -> String {
        let table = table(&[row]);
        table.lines().last().expect("a row").to_owned()
    }

    #[test]
    fn what_was_not_measured_and_what_is_noisy_says_so() {
        let absent = line(Row::new("read_crc_vs_memcpy_avx512", None, "ratio"));
        assert!(absent.ends_with("not measured"), "{absent}");
        let absent = line(Row::new("commit_1x4k_vs_raw_avx2", None, "ratio"));
        assert!(absent.ends_with("not measured"), "{absent}");
        let row = Row::new("commit_1x4k_vs_raw_avx2", 0.5, "ratio");
        assert!(line(row.clone()).ends_with("yes"));
        let noisy = line(row.with_note(Some("noisy")));
        assert!(noisy.ends_with("yes, noisy"), "{noisy}");
    }
}
