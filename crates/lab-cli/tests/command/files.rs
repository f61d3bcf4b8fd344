//! File buffers side by side: counts, the page, and what is refused.

use std::process::Command;

use serde_json::Value;

fn lab_files(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(crate::PROGRAM);
    command.arg("files").args(arguments).output().unwrap()
}

#[test]
fn counts_of_both_buffers_and_a_page_and_nothing_stays() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let (disk, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ran = lab_files(&[
        "--only",
        "counts",
        "--quick",
        "--threads",
        "1",
        "--json",
        "--directory",
        memory.path().to_str().unwrap(),
        "--files",
        disk.path().to_str().unwrap(),
        "--out",
        out.path().to_str().unwrap(),
    ]);
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(report["machine"]["cores"].is_u64(), "{}", report["machine"]);
    let paper = report["paper"].as_array().unwrap().iter();
    let judged = paper.filter(|number| !number["holds"].is_null());
    assert_eq!(judged.count(), 0, "nothing was timed");
    let counts = report["counts"].as_array().unwrap();
    assert_eq!(counts.len(), 2 * 9);
    for row in counts {
        let fences = if row["contender"] == "autobahn" {
            2.0
        } else {
            1.0
        };
        assert_eq!(row["fences"].as_f64(), Some(fences), "{row}");
    }
    let page = std::fs::read_to_string(out.path().join("files.html")).unwrap();
    assert!(page.contains("prefers-color-scheme: dark"));
    for fetched in ["<script", "src=\"http", "href=\"http", "url(http"] {
        assert!(!page.contains(fetched), "{fetched}");
    }
    for folder in [&memory, &disk] {
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    for wrong in [["--threads", "0"], ["--threads", "33"], ["--only", "guess"]] {
        assert_eq!(lab_files(&wrong).status.code(), Some(2), "{wrong:?}");
    }
}
