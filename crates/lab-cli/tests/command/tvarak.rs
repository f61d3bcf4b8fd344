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
    let some = tvarak(&[&arguments[..], &["--designs", "tvarak"]].concat());
    let report: Value = serde_json::from_slice(&some.stdout).unwrap();
    assert_eq!(report["cells_measured"], 8 * 2, "the baseline's, too");
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
        "order_indistinguishable",
    ] {
        assert!(report[number].is_u64(), "{number}");
    }
    assert!(report["full_hours"].as_f64() > Some(0.1));
    let claims = report["claims"].as_array().unwrap();
    let of = |id: &str| claims.iter().find(|claim| claim["claim"] == id).unwrap();
    assert_ne!(of("dimms-tvarak")["verdict"], "not measured");
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
fn all_of_the_paper_s_operations_beside_a_part_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let parameters = little_work(folder.path());
    let [parameters, out] = [&parameters, folder.path()].map(|path| path.to_str().unwrap());
    let mut arguments = vec!["run", "--paper-size", "--quick", "--json", "--out", out];
    arguments.extend(["--parameters", parameters]);
    let ran = tvarak(&arguments);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3 * 3);
    for row in rows {
        let of = |name: &str| row[name].as_f64().unwrap();
        let moved = of("overhead_of_all_percent") - of("overhead_of_part_percent");
        assert!((moved - of("points")).abs() < 1e-9, "{row}");
        assert!(of("points").abs() <= report["points_most"].as_f64().unwrap());
    }
    assert!(folder.path().join("tvarak-paper-size.json").exists());
    // What was measured is not run again.
    assert_eq!(tvarak(&arguments).stdout, ran.stdout);
}

#[test]
fn a_trace_runs_on_the_designs_from_a_file_or_from_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let mut trace = String::from("==7== Lackey, an example Valgrind tool\nhello\n");
    for number in 0..2000_u64 {
        let [code, at] = [0x40_0000 + number % 50 * 4, 0x10_0000 + number * 40];
        trace += &format!(
            "I  {code:08x},4\n S {at:08x},8\nI  {:08x},4\n L 1ffe00,8\n",
            code + 4
        );
    }
    trace += &"x".repeat(1 << 20);
    std::fs::write(&path, &trace).unwrap();
    let options = [
        "--nvm",
        "100000-200000",
        "--designs",
        "naive,tvarak",
        "--json",
    ];
    let text = path.to_str().unwrap();
    let ran = tvarak(&[&["trace", text], &options[..]].concat());
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(report["lines"]["accesses"], 8000);
    assert_eq!(report["lines"]["valgrinds"], 1);
    assert_eq!(report["lines"]["unparsable"], 2);
    assert_eq!(report["program"]["nvm_stores"], 2000);
    let designs = report["designs"].as_array().unwrap();
    let names: Vec<&Value> = designs.iter().map(|row| &row["design"]).collect();
    assert_eq!(names, ["baseline", "naive", "tvarak"]);
    let over = |design: usize| designs[design]["runtime_over_baseline"].as_f64();
    assert!(over(0) == Some(1.0) && over(1) > over(2));

    let mut command = Command::new(crate::PROGRAM);
    let file = std::fs::File::open(&path).unwrap();
    command
        .args(["tvarak", "trace", "-"])
        .args(options)
        .stdin(file);
    assert_eq!(command.output().unwrap().stdout, ran.stdout);

    for wrong in [
        ["trace", text, "--designs", "txb-page"],
        ["trace", text, "--nvm", "100001-200000"],
        ["trace", "/nowhere", "--nvm", "100000-200000"],
    ] {
        assert_eq!(tvarak(&wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn bugs_are_told_of_by_kind() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let ran = tvarak(&["bugs", "--bugs", "8", "--json", "--out", folder]);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let kept = std::fs::read(out.path().join("tvarak-bugs.json")).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&kept).unwrap(), report);
    for kind in ["lost_write", "misdirected_write", "misdirected_read"] {
        for what in ["injected", "detected", "repaired"] {
            assert_eq!(report[format!("bugs_{kind}_{what}")], 8, "{kind} {what}");
        }
    }
    for none in [
        "wrong_bytes",
        "powercut_violations",
        "repair_powercut_violations",
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
