//! Where the log goes may fail, stop taking lines, or be gone: no line of it ends the daemon, holds it
//! up, or says something that a file's name made up.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::test_env::{Daemon, SERVE_NBD, TestEnv, skips_without_fuse};

fn dropped(env: &TestEnv) -> u64 {
    let stat = env.ask(&["stat", "POOL"]);
    let count = &stat["daemon"]["log_lines_dropped"];
    count.as_u64().unwrap_or_else(|| panic!("{stat}"))
}

/// Has the daemon log something, and asks how much it could not.
fn assert_goes_on_without_its_log(env: &TestEnv, daemon: Daemon) {
    let before = dropped(env);
    for _ in 0..3 {
        env.ask(&["set", "POOL", "--dirty-low", "30"]);
    }
    assert_eq!(dropped(env), before + 3);
    daemon.end();
}

#[test]
fn a_log_whose_reader_went_away_does_not_end_the_daemon() {
    let env = TestEnv::with_pool();
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let daemon = env.start_logging_to(env.command(SERVE_NBD), writer.into());
    drop(reader);
    assert_goes_on_without_its_log(&env, daemon);
}

#[test]
fn a_log_on_a_full_disk_does_not_end_the_daemon() {
    let env = TestEnv::with_pool();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let daemon = env.start_logging_to(env.command(SERVE_NBD), full.into());
    assert_goes_on_without_its_log(&env, daemon);
}

/// A pipe that takes no more.
fn full_pipe() -> (OwnedFd, Stdio) {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    // The daemon is to find one that makes it wait.
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).unwrap();
    (reader, writer.into())
}

#[test]
fn a_log_whose_reader_sleeps_does_not_hold_the_daemon_up() {
    let env = TestEnv::with_pool();
    let (reader, writer) = full_pipe();
    let daemon = env.start_logging_to(env.command(SERVE_NBD), writer);
    for _ in 0..3 {
        env.ask(&["set", "POOL", "--dirty-low", "30"]);
    }
    let lost = dropped(&env);
    assert!(lost >= 3, "{lost}");
    // It reads again: what is logged now arrives, and so does how much did not.
    let mut buffer = [0; 65536];
    while rustix::io::read(&reader, &mut buffer).is_ok_and(|count| count > 0) {}
    env.ask(&["set", "POOL", "--dirty-low", "30"]);
    assert_eq!(dropped(&env), lost);
    let length = rustix::io::read(&reader, &mut buffer).unwrap();
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(
        text.contains(&format!("{lost} log lines were dropped")),
        "{text}"
    );
    assert!(text.contains("done command=\"set\""), "{text}");
    daemon.end();
}

#[test]
fn a_mount_whose_log_cannot_be_written_ends_in_order() {
    if skips_without_fuse("a_mount_whose_log_cannot_be_written_ends_in_order") {
        return;
    }
    let env = TestEnv::with_pool();
    std::fs::create_dir(env.path("data")).unwrap();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mount = env.command(&["mount", "./data", "MOUNT", "--pool", "POOL"]);
    let daemon = env.start_logging_to(mount, full.into());
    std::fs::write(env.path("mount/file"), "content").unwrap();
    daemon.end();
    assert_eq!(std::fs::read(env.path("data/file")).unwrap(), b"content");
}

#[test]
fn a_file_name_cannot_make_up_a_log_line_of_its_own() {
    let env = TestEnv::with_pool();
    let name = "disk\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J.img";
    env.make_image(name);
    let backing = format!("./{name}");
    let front_ends = ["--pool", "POOL", "--nbd", "NBD", "--name", "disk"];
    let daemon = env.serve_with(&[&front_ends[..], &["--backing", &backing]].concat());
    daemon.end();
    let log = env.log();
    assert!(log.contains("attached"), "{log}");
    assert!(
        log.contains(r"disk\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J.img"),
        "{log}"
    );
    assert!(!log.contains('\u{1b}'), "{log:?}");
    assert!(
        !log.lines().any(|line| line.starts_with("2026-01-01")),
        "{log}"
    );
}
