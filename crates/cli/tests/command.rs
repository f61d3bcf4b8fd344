//! The command as scripts use it: what it prints, its exit codes, the daemon's life.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

const DISK_BYTES: u64 = 16 << 20;

/// A directory with a pool and a backing, in memory where there is such a place.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let shared_memory = Path::new("/dev/shm");
        let directory = if shared_memory.is_dir() {
            tempfile::tempdir_in(shared_memory)
        } else {
            tempfile::tempdir()
        }
        .unwrap();
        let place = Place { directory };
        let image = std::fs::File::create(place.path("disk.img")).unwrap();
        image.set_len(DISK_BYTES).unwrap();
        std::fs::create_dir(place.path("mount")).unwrap();
        place
    }

    fn with_pool() -> Self {
        let place = Place::new();
        assert_eq!(place.run(&["create", "POOL", "--size", "8M"]).code, 0);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The command with POOL, BACKING and MOUNT replaced by this place's.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        for argument in arguments {
            match *argument {
                "POOL" => command.arg(self.path("pool")),
                "BACKING" => command.arg(self.path("disk.img")),
                "MOUNT" => command.arg(self.path("mount")),
                other => command.arg(other),
            };
        }
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        self.command(arguments).output().unwrap().into()
    }

    fn serve(&self) -> Daemon {
        let mut process = self
            .command(&[
                "serve",
                "--pool",
                "POOL",
                "--backing",
                "BACKING",
                "--fuse",
                "MOUNT",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.starts_with("serving "), "{line}");
        Daemon {
            process,
            mount: self.path("mount"),
        }
    }

    fn open_disk(&self) -> std::fs::File {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(self.path("mount/disk"))
            .unwrap()
    }
}

struct Outcome {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Outcome {
    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Outcome {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A running daemon; killed and unmounted when a test fails half-way.
struct Daemon {
    process: Child,
    mount: PathBuf,
}

impl Daemon {
    fn signal(&self, signal: Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    fn wait(mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = Command::new("umount")
            .args(["-l", "-q"])
            .arg(&self.mount)
            .stderr(Stdio::null())
            .status();
    }
}

/// Says so and returns true where nothing can be mounted.
fn skips_without_fuse(test: &str) -> bool {
    let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can_mount {
        let _ = writeln!(
            std::io::stderr(),
            "skipped {test}: needs root and /dev/fuse to mount"
        );
    }
    !can_mount
}

#[test]
fn create_says_what_the_medium_survives_and_overwrites_nothing() {
    let place = Place::with_pool();
    let again = place.run(&["create", "POOL", "--size", "8M"]);
    assert_ne!(again.code, 0);
    assert!(again.stderr.contains("pool"), "{}", again.stderr);
    let forced = place.run(&["create", "POOL", "--size", "8M", "--force"]);
    assert_eq!(forced.code, 0, "{}", forced.stderr);
    assert!(
        forced.stdout.contains("survives a killed process"),
        "{}",
        forced.stdout
    );
    let json = place
        .run(&["create", "POOL", "--size", "8M", "--force", "--json"])
        .json();
    assert!(json["slots"].as_u64().unwrap() > 1000, "{json}");
}

#[test]
fn an_idle_pool_is_looked_at_without_being_changed() {
    let place = Place::with_pool();
    let before = std::fs::read(place.path("pool")).unwrap();
    for arguments in [
        &["info", "POOL", "--json"][..],
        &["check", "POOL", "--json"],
        &["recover", "--dry-run", "POOL", "--json"],
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.json().is_object(), "{arguments:?}");
    }
    assert!(std::fs::read(place.path("pool")).unwrap() == before);
    assert_eq!(place.run(&["recover", "POOL"]).code, 0);
    assert_eq!(
        place.run(&["flush", "POOL", "--backing", "BACKING"]).code,
        0
    );
}

#[test]
fn a_foreign_file_is_refused_with_its_name_and_code_3() {
    let place = Place::new();
    std::fs::write(place.path("pool"), vec![0x5A; 8 << 20]).unwrap();
    for arguments in [&["info", "POOL"][..], &["recover", "POOL"]] {
        let refused = place.run(arguments);
        assert_eq!(refused.code, 3, "{}", refused.stderr);
        assert!(refused.stderr.contains("/pool"), "{}", refused.stderr);
        assert!(
            !refused.stderr.contains('\x1b'),
            "colours only on a terminal"
        );
    }
    assert!(std::fs::read(place.path("pool")).unwrap() == vec![0x5A; 8 << 20]);
}

#[test]
fn without_a_daemon_stat_and_flush_say_so() {
    let place = Place::with_pool();
    for arguments in [&["stat", "POOL"][..], &["flush", "POOL"]] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, 5, "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("no daemon serves"),
            "{}",
            outcome.stderr
        );
    }
    assert_eq!(place.run(&["dance"]).code, 2);
}

#[test]
fn a_daemon_serves_answers_and_ends_when_told() {
    if skips_without_fuse("a_daemon_serves_answers_and_ends_when_told") {
        return;
    }
    let place = Place::with_pool();
    let daemon = place.serve();
    let disk = place.open_disk();
    disk.write_all_at(&[0x42; 8192], 4096).unwrap();
    drop(disk);

    let stat = place.run(&["stat", "POOL", "--json"]).json();
    assert!(
        stat["totals"]["payload_bytes"].as_u64().unwrap() >= 8192,
        "{stat}"
    );
    assert!(stat["dirty_blocks"].as_u64().unwrap() >= 2, "{stat}");
    assert_eq!(place.run(&["flush", "POOL"]).code, 0);
    let stat = place.run(&["stat", "POOL", "--json"]).json();
    assert_eq!(stat["dirty_blocks"], 0, "{stat}");
    let mut image = [0; 8192];
    let backing = std::fs::File::open(place.path("disk.img")).unwrap();
    backing.read_exact_at(&mut image, 4096).unwrap();
    assert_eq!(image, [0x42; 8192]);

    for arguments in [
        &["info", "POOL"][..],
        &["recover", "POOL"],
        &[
            "serve",
            "--pool",
            "POOL",
            "--backing",
            "BACKING",
            "--fuse",
            "MOUNT",
        ],
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, 4, "{arguments:?}: {}", outcome.stderr);
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    assert!(!place.path("pool.sock").exists());
    assert!(!place.path("mount/disk").exists());
}

#[test]
fn a_disk_in_use_stays_served_after_the_first_signal() {
    if skips_without_fuse("a_disk_in_use_stays_served_after_the_first_signal") {
        return;
    }
    let place = Place::with_pool();
    let daemon = place.serve();
    let disk = place.open_disk();
    daemon.signal(Signal::INT);
    std::thread::sleep(std::time::Duration::from_millis(300));
    disk.write_all_at(b"still there", 0).unwrap();
    drop(disk);
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn what_was_acknowledged_before_sigkill_is_there_afterwards() {
    if skips_without_fuse("what_was_acknowledged_before_sigkill_is_there_afterwards") {
        return;
    }
    let place = Place::with_pool();
    for round in 1..=3_u8 {
        let daemon = place.serve();
        let disk = place.open_disk();
        for number in 0..64_u64 {
            let content = [round ^ number as u8; 5000];
            disk.write_all_at(&content, number * 6000 + u64::from(round))
                .unwrap();
        }
        daemon.signal(Signal::KILL);
        drop(disk);
        drop(daemon);
        assert_eq!(place.run(&["check", "POOL"]).code, 0);
        let daemon = place.serve();
        let disk = place.open_disk();
        for number in 0..64_u64 {
            let mut content = [0; 5000];
            disk.read_exact_at(&mut content, number * 6000 + u64::from(round))
                .unwrap();
            assert!(
                content == [round ^ number as u8; 5000],
                "round {round}, write {number}"
            );
        }
        drop(disk);
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.wait(), Some(0));
    }
}

#[test]
fn the_demonstration_over_the_library_verifies() {
    let place = Place::new();
    let outcome = place
        .command(&["demo", "--pool", "POOL", "--directory"])
        .arg(place.directory.path())
        .output()
        .map(Outcome::from)
        .unwrap();
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    assert!(
        outcome.stdout.contains("verify on the bare image"),
        "{}",
        outcome.stdout
    );
    assert!(place.path("report.json").exists());
    assert!(!place.path("pool").exists());
}
