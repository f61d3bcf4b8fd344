//! The figures: what the command lists, measures, writes, and leaves behind.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// So small that a figure takes a moment.
const SMALL: &[&str] = &["--quick", "--scale", "4096"];

struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs `forebay-lab`.
fn lab(arguments: &[&str]) -> Ran {
    let output = Command::new(crate::PROGRAM)
        .args(arguments)
        .output()
        .unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn the_list_names_every_figure() {
    let listed = lab(&["list"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    for name in [
        "tinca-3a",
        "tinca-13",
        "spindle-5b",
        "spindle-6-varmail",
        "study-11",
        "counts",
    ] {
        let is_listed = |line: &str| line.split(' ').next() == Some(name);
        assert!(
            listed.stdout.lines().any(is_listed),
            "{name} in {}",
            listed.stdout
        );
    }
    let list: Vec<Value> = serde_json::from_str(&lab(&["list", "--json"]).stdout).unwrap();
    assert!(list.iter().all(|figure| figure["title"].is_string()));
}

#[test]
fn a_figure_is_measured_and_written_and_no_region_stays() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let out = tempfile::tempdir().unwrap();
    let report = out.path().join("report");
    let places = [
        "--directory",
        memory.path().to_str().unwrap(),
        "--out",
        report.to_str().unwrap(),
    ];
    let engines = ["--engines", "forebay,classic", "--json"];
    let ran = lab(&[&["run", "tinca-7b", "study-8a"], SMALL, &places, &engines].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let json: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["scale"], "1/4096");
    let figure = &json["figures"][0];
    assert_eq!(figure["figure"], "tinca-7b");
    let keys: Vec<&str> = figure["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["classic", "forebay"]);
    let lines = |series: usize| figure["series"][series]["values"][0].as_f64().unwrap();
    assert!(
        lines(1) > 64.0,
        "a block of 4 KiB has 64 lines, and Forebay counted {}",
        lines(1)
    );
    assert!(
        lines(0) > lines(1),
        "Classic writes everything more than once"
    );
    let file = |name: &str| std::fs::read_to_string(report.join(name)).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&file("lab.json")).unwrap(),
        json
    );
    assert!(file("lab.csv").lines().count() > 3 * 2);
    assert!(file("lab.html").contains("Tinca, Figure 7b"));
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
}

/// The page has what the report and those beside it say, and nothing else.
#[test]
fn verdicts_are_printed_and_put_into_a_page() {
    let target = tempfile::tempdir().unwrap();
    let folder = target.path().join("lab");
    std::fs::create_dir_all(&folder).unwrap();
    let lab_json = r#"{"verdicts": [{"figure": "Tinca, Figure 7b: fio: lines flushed", "verdict": "holds (3 of 3)",
        "why": "", "judged": 3, "held": 3}]}"#;
    std::fs::write(folder.join("lab.json"), lab_json).unwrap();
    std::fs::create_dir(target.path().join("rig")).unwrap();
    let grid = r#"[{"name": "fig8a_writes1_bcache", "value": 60}, {"name": "fig8a_writes1_raw_fast", "value": 100}]"#;
    std::fs::write(target.path().join("rig/grid.json"), grid).unwrap();
    let folder = folder.to_str().unwrap();
    let printed = lab(&["verdicts", folder]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    for wanted in [
        "| Tinca, Figure 7b | `forebay-lab run tinca-7b` | holds (3 of 3) |",
        "| does not hold (0 of 1); rig/grid.json of commit unknown, ",
        "| TVARAK, Figure 8 | `forebay-lab tvarak run all` | not in this run: ",
    ] {
        assert!(
            printed.stdout.contains(wanted),
            "{wanted} in {}",
            printed.stdout
        );
    }
    let page = target.path().join("page.md");
    let page_name = page.to_str().unwrap();
    std::fs::write(&page, "# A page\n").unwrap();
    let refused = lab(&["verdicts", folder, "--into", page_name]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    let place = "# A page\n<!-- Printed by forebay-lab verdicts: -->\nold\n<!-- That was printed. -->\nafter\n";
    std::fs::write(&page, place).unwrap();
    assert_eq!(lab(&["verdicts", folder, "--into", page_name]).code, 0);
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        text.starts_with("# A page\n") && text.ends_with("\nafter\n"),
        "{text}"
    );
    assert!(
        text.contains(printed.stdout.trim_end()) && !text.contains("\nold\n"),
        "{text}"
    );
    assert_eq!(lab(&["verdicts", "/nowhere"]).code, 2);
}

#[test]
fn a_trace_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("requests.csv");
    let mut text = String::from("op,offset_bytes,length_bytes\n");
    for number in 0..200 {
        let op = if number % 3 == 0 { "read" } else { "write" };
        text += &format!("{op},{},4096\n", number * 7 % 50 * 4096);
    }
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let ran = lab(&[
        "trace",
        file,
        "--engines",
        "tinca,forebay",
        "--size",
        "4M",
        "--json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["workload"] == "requests"));
    assert!(rows[0]["lines_per_write"].as_f64().unwrap() > 64.0);
    assert_eq!(lab(&["trace", "/nowhere/trace.csv"]).code, 2);
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let unknown = lab(&["run", "tinca-99"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("tinca-99"), "{}", unknown.stderr);
    assert_eq!(lab(&["run", "all", "--engines", "flashcache"]).code, 2);
    assert_eq!(lab(&["run"]).code, 2);
}

#[test]
fn ctrl_c_ends_it_and_leaves_nothing() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut child = Command::new(crate::PROGRAM)
        .args(["run", "all", "--quick", "--directory"])
        .arg(memory.path())
        .arg("--out")
        .arg(out.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It is at its first measurements by then; all of them take minutes.
    std::thread::sleep(Duration::from_secs(2));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
}
