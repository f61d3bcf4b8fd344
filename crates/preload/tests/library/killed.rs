//! What a program that is killed had synced is there for the next process that looks.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::rig::{self, Rig};

const LINE_BYTES: usize = 9;

/// Starts the program that acknowledges numbers, kills it after `count` of them; returns the last one.
fn acknowledge(rig: &Rig, count: usize) -> usize {
    let program = rig::compile("acknowledge").unwrap();
    let mut child = rig
        .preloaded(program, &[])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    for _ in 0..count {
        last = lines.next();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let last = lines.last().or(last).unwrap().unwrap();
    last.parse().unwrap()
}

/// The log has every number up to the acknowledged one, perhaps one more; the other file too.
fn check(log: &str, current: &str, acknowledged: usize) {
    let numbers: Vec<usize> = log.lines().map(|line| line.parse().unwrap()).collect();
    assert!(
        (0..numbers.len()).eq(numbers.iter().copied()),
        "numbers in order"
    );
    assert!(
        numbers.len() > acknowledged,
        "{} of {acknowledged}",
        numbers.len()
    );
    assert!(numbers.len() <= acknowledged + 2);
    let current: usize = current.trim().parse().unwrap();
    assert!(
        current >= acknowledged && current <= acknowledged + 1,
        "{current} of {acknowledged}"
    );
}

/// The same of the log that a program has read, and of the other file as it is.
fn check_files(rig: &Rig, log: &[u8], acknowledged: usize) {
    let current = rig.run_plain("cat", &["current"]);
    check(&rig::text(log), &rig::text(&current.stdout), acknowledged);
}

#[test]
fn the_next_process_finds_what_was_acknowledged() {
    if !rig::is_there("cc") {
        println!("skipped killed: no cc here");
        return;
    }
    for count in [1, 2, 50, 500] {
        let rig = Rig::new();
        let acknowledged = acknowledge(&rig, count);
        assert!(rig.owner_mark().exists());
        // This one opens it inside libc, by a stream.
        let log = rig.run("sort", &["log"]);
        assert!(!rig.owner_mark().exists());
        check_files(&rig, &log.stdout, acknowledged);
        assert_eq!(rig.run_plain("cat", &["log"]).stdout, log.stdout);
    }
}

/// Logs are turned over between the kill and the next process: nothing is made again, nothing goes into
/// the new log.
#[test]
fn what_was_renamed_after_the_kill_gets_what_was_acknowledged() {
    if !rig::is_there("cc") {
        println!("skipped killed: no cc here");
        return;
    }
    let rig = Rig::new();
    let acknowledged = acknowledge(&rig, 100);
    std::fs::create_dir(rig.path().join("old")).unwrap();
    std::fs::rename(rig.path().join("log"), rig.path().join("old/log.1")).unwrap();
    std::fs::write(rig.path().join("log"), "new\n").unwrap();
    let log = rig.run("cat", &["old/log.1"]);
    assert!(!rig.owner_mark().exists());
    check_files(&rig, &log.stdout, acknowledged);
    assert_eq!(rig::text(&rig.run_plain("cat", &["log"]).stdout), "new\n");
}

#[test]
fn a_process_that_writes_on_finds_what_was_acknowledged() {
    if !rig::is_there("cc") {
        println!("skipped killed: no cc here");
        return;
    }
    let rig = Rig::new();
    let acknowledged = acknowledge(&rig, 20);
    let script = "echo last >> log; cat log; wc -c < current";
    let found = rig::text(&rig.run("bash", &["-c", script]).stdout);
    let (log, size) = found.split_once("last\n").unwrap();
    assert_eq!(size.trim(), LINE_BYTES.to_string());
    check(log, &format!("{acknowledged}"), acknowledged);
}

/// A third process has the pool, and has not recovered it yet.
#[test]
fn a_process_that_finds_the_pool_being_recovered_waits_for_that() {
    if !rig::is_there("cc") {
        println!("skipped killed: no cc here");
        return;
    }
    let rig = Rig::new();
    let acknowledged = acknowledge(&rig, 50);
    let pool = std::fs::File::open(rig.pool()).unwrap();
    pool.lock().unwrap();
    let reader = rig
        .preloaded("cat", &["log"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // However late it looks, it has to find all of it.
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(pool);
    let log = reader.wait_with_output().unwrap();
    assert!(log.status.success(), "{}", rig.log());
    check_files(&rig, &log.stdout, acknowledged);
}

/// Another process that opens a buffered file sees everything, without the library too.
#[test]
fn others_see_what_is_buffered() {
    if !rig::is_there("python3") {
        println!("skipped others: no python3 here");
        return;
    }
    let rig = Rig::new();
    let script = "
import os, sys
f = os.open('a', os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
total = 0
for i in range(1000000):
    os.write(f, b'x' * 100); os.fdatasync(f); total += 100
    if i % 20 == 0:
        print(total, flush=True)
        sys.stdin.readline()
";
    let mut child = rig
        .preloaded("python3", &["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..20 {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let total: usize = line.trim().parse().unwrap();
        let seen = std::fs::read(rig.path().join("a")).unwrap();
        assert_eq!(seen.len(), total);
        // It appends as well; the program's next appends go behind that.
        let appended = Command::new("sh")
            .args(["-c", "printf %0100d 0 >> a"])
            .current_dir(rig.path())
            .status()
            .unwrap();
        assert!(appended.success());
        let seen = std::fs::read(rig.path().join("a")).unwrap();
        assert_eq!(seen.len(), total + 100);
        std::fs::File::options()
            .write(true)
            .open(rig.path().join("a"))
            .unwrap()
            .set_len(total as u64)
            .unwrap();
        std::io::Write::write_all(&mut input, b"\n").unwrap();
    }
    drop(input);
    child.kill().unwrap();
    child.wait().unwrap();
}
