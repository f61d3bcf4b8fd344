//! Everything is measured once, small; counts are pinned; nothing is left.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use forebay_harness::{Machine, OthersWatch};

use super::scope::UNITS;
use super::{
    Cell, Contender, CountsRow, FilesOnDisk, FilesReport, FilesRow, FilesScope, InodesRow, Pattern,
    count_writes, measure_cell,
};
use crate::figures::Setting;

fn small() -> FilesScope {
    FilesScope {
        threads: vec![1, 2],
        region_bytes: 16 << 20,
        files_bytes: 4 << 20,
        append_bytes: 1 << 20,
        length: Duration::from_millis(20),
        rounds: 1,
        counted_writes: 256,
        ..FilesScope::quick()
    }
}

/// Of a machine that nobody else uses.
fn idle() -> Setting {
    Setting {
        others: Some(0.0),
        ..Setting::since(&OthersWatch::begin(), Machine::here())
    }
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).expect("read").count() == 0
}

#[test]
fn all_contenders_write_every_pattern_and_nothing_is_left() {
    let (memory, disk) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("one"),
    );
    let scope = small();
    let files = FilesOnDisk::new(disk.path(), &scope).expect("filled");
    let mut rows: Vec<FilesRow> = Vec::new();
    for cell in scope.cells() {
        let measured = measure_cell(memory.path(), &files, &scope, cell, &AtomicBool::new(false));
        rows.extend(measured.expect("written"));
    }
    assert_eq!(rows.len(), 3 * 3 * 2 * 4);
    for row in &rows {
        assert!(
            row.writes_s > 0.0 && row.writes_s_least <= row.writes_s_most,
            "{row:?}"
        );
        assert_eq!(
            row.lines_per_write.is_some(),
            row.contender.has_region(),
            "{row:?}"
        );
        let median = row.latency_ns(50.0).expect("told");
        assert!(
            median > 0 && median <= row.latency_ns(100.0).expect("told"),
            "{row:?}"
        );
    }
    let counts: Vec<CountsRow> = Vec::new();
    let report = FilesReport {
        scope: &scope,
        setting: &idle(),
        counts: &counts,
        rows: &rows,
        inodes: &[],
        not_measured: &["something: why".to_owned()],
    };
    assert_eq!(
        report.to_json()["writes"].as_array().expect("rows").len(),
        rows.len()
    );
    let json = report.to_json();
    assert_eq!(json["paper"][0]["threads"], 2);
    assert!(
        json["paper"][0]["not_judged"].is_string(),
        "four threads in the paper"
    );
    assert!(json["machine"]["is_loaded"] == false && json["machine"]["commit_hash"].is_string());
    let judged = json["paper"].as_array().expect("numbers").iter();
    assert_eq!(
        judged.filter(|one| one["holds"].is_boolean()).count(),
        3,
        "those of one thread"
    );
    assert_eq!(report.to_text().lines().count(), 1 + rows.len() + 1);
    let out = tempfile::tempdir().expect("a folder");
    report.write(out.path()).expect("written");
    let html = std::fs::read_to_string(out.path().join("files.html")).expect("there");
    for wanted in [
        "Figure 14",
        "disk, unsynced",
        "something: why",
        "A quick run",
        "files.json",
        "not judged: the paper's 4 threads",
        "others than this program took 0 of the processors",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    drop(files);
    assert!(is_empty(memory.path()) && is_empty(disk.path()));
}

#[test]
fn what_a_write_costs_is_the_same_each_time() {
    let (memory, disk) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("one"),
    );
    let scope = FilesScope {
        contenders: vec![Contender::AutoBahn, Contender::Forebay],
        ..small()
    };
    let files = FilesOnDisk::new(disk.path(), &scope).expect("filled");
    let count = |contender, pattern, unit| {
        let cell = Cell {
            unit: UNITS[unit],
            pattern,
            threads: 1,
        };
        let row = count_writes(contender, (memory.path(), &files), &scope, cell).expect("counted");
        (row.lines, row.fences)
    };
    // A size's line for each, and an inode's for each block of 16 KiB.
    assert_eq!(
        count(Contender::AutoBahn, Pattern::Append, 0),
        (5.0 + 1.0 / 64.0, 2.0)
    );
    assert_eq!(count(Contender::AutoBahn, Pattern::Append, 1), (65.25, 2.0));
    assert_eq!(count(Contender::AutoBahn, Pattern::Append, 2), (258.0, 2.0));
    for pattern in [Pattern::Uniform, Pattern::Zipf] {
        for unit in 0..3 {
            assert_eq!(
                count(Contender::AutoBahn, pattern, unit),
                (257.0, 2.0),
                "the whole block"
            );
        }
    }
    // What crates/files pins of itself: four lines, two of log; a length's line every sixteenth time.
    let (lines, fences) = count(Contender::Forebay, Pattern::Append, 0);
    assert_eq!((lines, fences), (6.0 + 1.0 / 16.0, 1.0));
    let whole = count(Contender::Forebay, Pattern::Uniform, 1);
    assert_eq!(whole, (65.0, 1.0), "a block and its record");
    let part = count(Contender::Forebay, Pattern::Uniform, 0);
    assert_eq!(part, (5.0, 1.0), "its lines and a record");
}

#[test]
fn a_cell_that_is_called_off_has_no_row() {
    let (memory, disk) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("one"),
    );
    let scope = small();
    let files = FilesOnDisk::new(disk.path(), &scope).expect("filled");
    let cell = scope.cells().next().expect("a cell");
    let error = measure_cell(memory.path(), &files, &scope, cell, &AtomicBool::new(true));
    assert_eq!(
        error.expect_err("called off").kind(),
        std::io::ErrorKind::Interrupted
    );
}

#[test]
fn a_table_is_printed_of_what_was_measured_and_no_heading_of_what_was_not() {
    let scope = small();
    let report = FilesReport {
        scope: &scope,
        setting: &idle(),
        counts: &[CountsRow {
            contender: Contender::Forebay,
            pattern: "append",
            unit_bytes: 256,
            writes: 64,
            lines: 6.0625,
            fences: 1.0,
        }],
        rows: &[],
        inodes: &[],
        not_measured: &[],
    };
    let words = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::split_whitespace);
        lines
            .map(|words| words.collect::<Vec<_>>().join(" "))
            .collect()
    };
    let counted = [
        "counted, a write by writes lines fences",
        "append 256 B forebay 64 6.06 1.00",
    ];
    assert_eq!(words(&report.to_text()), counted);
    let inodes = FilesReport {
        counts: &[],
        inodes: &[InodesRow {
            contender: Contender::AutoBahn,
            inode_bytes: Some(32),
            threads: 2,
            writes_s: 1500.0,
            user_ns: 0.0,
            kernel_ns: 0.0,
        }],
        ..report
    };
    let sized = [
        "appends, inode's record by a second",
        "32 B, 2 threads autobahn 1 500",
    ];
    assert_eq!(words(&inodes.to_text()), sized);
}
