//! The windows of mapped regions: rows, the page, and what is refused.

use std::process::Command;

use serde_json::Value;

fn lab_dax(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(crate::PROGRAM);
    command.arg("dax").args(arguments).output().unwrap()
}

#[test]
fn a_row_for_each_tracker_and_period_and_a_page_for_readers_without_a_network() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let out = tempfile::tempdir().unwrap();
    let ran = lab_dax(&[
        "--only",
        "windows",
        "--quick",
        "--periods",
        "0.2,0.1",
        "--trackers",
        "compare",
        "--size",
        "2M",
        "--json",
        "--directory",
        memory.path().to_str().unwrap(),
        "--out",
        out.path().to_str().unwrap(),
    ]);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let rows: Vec<Value> = serde_json::from_slice(&ran.stdout).unwrap();
    let periods: Vec<f64> = rows
        .iter()
        .map(|row| row["period_s"].as_f64().unwrap())
        .collect();
    assert_eq!(periods, [0.1, 0.2]);
    for row in &rows {
        assert_eq!(
            (&row["design"], &row["tracker"]),
            (&"async".into(), &"compare".into())
        );
        assert!(row["p50_ns"].as_u64() <= row["max_ns"].as_u64(), "{row}");
    }
    let file = |name: &str| std::fs::read_to_string(out.path().join(name)).unwrap();
    assert_eq!(
        serde_json::from_str::<Vec<Value>>(&file("dax.json")).unwrap(),
        rows
    );
    let page = file("dax.html");
    assert!(page.contains("prefers-color-scheme: dark"));
    for fetched in ["<script", "src=\"http", "href=\"http", "url(http"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
}

#[test]
fn a_row_for_each_program_and_design_and_nothing_stays() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let ran = lab_dax(&[
        "--only",
        "transactions",
        "--quick",
        "--json",
        "--directory",
        memory.path().to_str().unwrap(),
    ]);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let rows: Vec<Value> = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(rows.len(), 18 * 4);
    for workload in rows.chunks(4) {
        let names: Vec<&Value> = workload.iter().map(|row| &row["design"]).collect();
        assert_eq!(names, ["none", "async", "txb-object", "txb-page"]);
        // Checksums and parity go under fences that are there without.
        let fences = |design: usize| &workload[design]["fences_per_transaction"];
        assert_eq!((fences(2), fences(3)), (fences(0), fences(0)));
    }
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    for wrong in [
        ["--periods", "0.05"],
        ["--periods", "31"],
        ["--trackers", "guess"],
        ["--only", "guess"],
    ] {
        assert_eq!(lab_dax(&wrong).status.code(), Some(2), "{wrong:?}");
    }
    let none = lab_dax(&[
        "--only",
        "windows",
        "--quick",
        "--periods",
        "0.1",
        "--trackers",
        "soft-dirty",
        "--size",
        "2M",
        "--json",
    ]);
    let stderr = String::from_utf8(none.stderr).unwrap();
    assert_eq!(none.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("soft-dirty"), "{stderr}");
}
