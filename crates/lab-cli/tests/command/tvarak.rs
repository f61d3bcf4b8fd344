//! TVARAK's simulator: rows, campaigns, and what is refused.

use std::process::Command;

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
        (&["bugs", "--design", "baseline"], "nothing to detect"),
        (&["bugs", "--kinds", "bit_flip"], "misdirected_read"),
    ] {
        let ran = tvarak(wrong);
        let stderr = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(2), "{wrong:?}: {stderr}");
        assert!(stderr.contains(told), "{wrong:?}: {stderr}");
    }
}
