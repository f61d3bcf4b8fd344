//! However the measuring program is ended, by whatever signal, nothing is left of it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_harness::{Group, wait_for};
use rustix::process::Signal;

const MINUTE: Duration = Duration::from_secs(60);

fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("a folder").count()
}

#[test]
fn nothing_is_left_after_any_signal() {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let disk = tempfile::tempdir_in("/var/tmp").expect("a folder");
        let memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-verify"));
        command
            .args(["apps", "--only", "buffered", "--rounds", "1000"])
            .args([
                "--forebay",
                "/bin/true",
                "--passthrough",
                "/no/such/program",
            ])
            .arg("--disk")
            .arg(disk.path())
            .arg("--memory")
            .arg(memory.path())
            .arg("--report")
            .arg(memory.path().join("report.json"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut group = Group::start(&mut command).expect("it starts");
        let is_writing = || Ok((count(disk.path()) > 0).then_some(()));
        assert_eq!(wait_for(MINUTE, is_writing).expect("no signal"), Some(()));
        group.signal(signal).expect("it runs");
        group.wait(MINUTE).expect("it ends");
        let is_clean = || Ok((count(disk.path()) + count(memory.path()) == 0).then_some(()));
        assert_eq!(
            wait_for(MINUTE, is_clean).expect("no signal"),
            Some(()),
            "{signal:?}"
        );
    }
}
