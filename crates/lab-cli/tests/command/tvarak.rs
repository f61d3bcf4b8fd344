//! TVARAK's simulator: rows, figures, campaigns, and what is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use serde_json::Value;

fn tvarak(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(crate::PROGRAM);
    command.arg("tvarak").args(arguments).output().unwrap()
}

#[test]
fn a_row_for_each_design_beside_the_baseline() {
    let arguments = [
        "run",
        "stream-copy",
        "--designs",
        "tvarak",
        "--quick",
        "--json",
    ];
    let ran = tvarak(&arguments);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let rows: Vec<Value> = serde_json::from_slice(&ran.stdout).unwrap();
    let names: Vec<&Value> = rows.iter().map(|row| &row["design"]).collect();
    assert_eq!(names, ["baseline", "tvarak"]);
    assert_eq!(rows[0]["runtime_over_baseline"], 1.0);
    assert_eq!(rows[0]["nvm_redundancy_accesses"], 0);
    assert!(rows[1]["nvm_redundancy_accesses"].as_u64() > Some(0));
    assert_eq!(rows[0]["instructions"], rows[1]["instructions"]);
    // The same seed gives the same run.
    assert_eq!(tvarak(&arguments).stdout, ran.stdout);
}

/// A file of parameters with little work.
fn little_work(folder: &Path) -> PathBuf {
    let mut text = include_str!("../../../tvarak/parameters.toml").to_owned();
    for (whole, little) in [
        (
            "region_bytes = { value = 536870912",
            "region_bytes = { value = 33554432",
        ),
        (
            "work_bytes = { value = 33554432",
            "work_bytes = { value = 2097152",
        ),
        (
            "array_bytes = { value = 134217728",
            "array_bytes = { value = 8388608",
        ),
        (
            "operations = { value = 1000000",
            "operations = { value = 20000",
        ),
        ("requests = { value = 1000000", "requests = { value = 20000"),
        ("keys = { value = 1000000", "keys = { value = 20000"),
        (
            "transactions = { value = 800000",
            "transactions = { value = 16000",
        ),
        ("tuples = { value = 2000000", "tuples = { value = 20000"),
        ("log_nodes = { value = 100000", "log_nodes = { value = 2000"),
    ] {
        assert!(text.contains(whole), "{whole}");
        text = text.replace(whole, little);
    }
    let path = folder.join("little.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_figure_is_kept_reported_and_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = little_work(folder.path());
    let out = folder.path().join("report");
    let [parameters, folder] = [&parameters, &out].map(|path| path.to_str().unwrap());
    let arguments = [
        "run",
        "dimms",
        "--quick",
        "--json",
        "--parameters",
        parameters,
        "--out",
        folder,
    ];
    let ran = tvarak(&arguments);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["cells_measured"], 8 * 4);
    for number in [
        "claims_held",
        "claims_total",
        "claims_not_measured",
        "order_violations",
    ] {
        assert!(report[number].is_u64(), "{number}");
    }
    assert!(report["full_hours"].as_f64() > Some(0.1));
    let claims = report["claims"].as_array().unwrap();
    let of = |id: &str| claims.iter().find(|claim| claim["claim"] == id).unwrap();
    assert_ne!(of("dimms-stream-page")["verdict"], "not measured");
    assert_eq!(of("naive-read")["verdict"], "held");
    // Of quick runs no number is judged.
    assert_eq!(of("stream-tvarak")["verdict"], "not measured");
    let html = std::fs::read_to_string(out.join("tvarak.html")).unwrap();
    for wanted in [
        "Eight DIMMs of NVM",
        "A quick run",
        "prefers-color-scheme",
        "<details>",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    let csv = std::fs::read_to_string(out.join("tvarak.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 8 * 4);

    let kept = std::fs::read(out.join("tvarak-cells.jsonl")).unwrap();
    assert_eq!(tvarak(&arguments).stdout, ran.stdout);
    assert_eq!(std::fs::read(out.join("tvarak-cells.jsonl")).unwrap(), kept);
}

#[test]
fn a_run_that_is_called_off_keeps_what_it_measured() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let mut command = Command::new(crate::PROGRAM);
    command.args(["tvarak", "run", "fig9", "--quick", "--out", out]);
    let child = command
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let cells = folder.path().join("tvarak-cells.jsonl");
    while std::fs::read(&cells).unwrap_or_default().is_empty() {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(7), "{stderr}");
    assert!(stderr.contains("tvarak-cells.jsonl"), "{stderr}");
    let kept = std::fs::read_to_string(&cells).unwrap();
    for line in kept.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
    }
    assert!(!folder.path().join("tvarak.html").exists());
    // A report of what there is can be had.
    let ran = tvarak(&[
        "run",
        "fig9",
        "--quick",
        "--measured",
        "--json",
        "--out",
        out,
    ]);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(report["cells_measured"].as_u64() > Some(0));
    assert_eq!(kept, std::fs::read_to_string(&cells).unwrap());
}

#[test]
fn bugs_are_told_of_by_kind() {
    let ran = tvarak(&["bugs", "--bugs", "8", "--json"]);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    for kind in ["lost_write", "misdirected_write", "misdirected_read"] {
        for what in ["injected", "detected", "repaired"] {
            assert_eq!(report[format!("bugs_{kind}_{what}")], 8, "{kind} {what}");
        }
    }
    for none in [
        "wrong_bytes",
        "powercut_violations",
        "dimm_death_violations",
    ] {
        assert_eq!(report[none], 0, "{none}");
    }
}

#[test]
fn what_is_asked_wrongly_is_refused_with_what_there_is() {
    for (wrong, told) in [
        (&["run", "fio-backwards"][..], "fio-rand-write"),
        (&["run", "fio", "--designs", "best"], "ev-cached"),
        (&["run", "fio", "--vary", "nvm.banks"], "NAME=FACTOR"),
        (
            &["run", "fio", "--vary", "nvm.read_ns=2"],
            "no reconstructed",
        ),
        (&["run", "fio", "--parameters", "/nowhere"], "/nowhere"),
        (&["run", "fig8", "fio"], "apart"),
        (&["run", "fig8", "--check"], "of workloads"),
        (&["run", "fio", "--measured"], "of figures"),
        (&["run", "fig11"], "technology"),
        (&["bugs", "--design", "baseline"], "nothing to detect"),
        (&["bugs", "--kinds", "bit_flip"], "misdirected_read"),
    ] {
        let ran = tvarak(wrong);
        let stderr = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{wrong:?}: {stderr}");
        assert!(stderr.contains(told), "{wrong:?}: {stderr}");
    }
}
