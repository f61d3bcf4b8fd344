//! `forebay mount`: what it refuses, how it ends, and what a kill leaves.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use rustix::process::Signal;

use crate::test_env::{Daemon, TestEnv, skips_without_fuse};

/// An environment with a directory and a pool for it, or `None` where nothing can be mounted.
pub fn env(test: &str) -> Option<TestEnv> {
    if skips_without_fuse(test) {
        return None;
    }
    let env = TestEnv::new();
    fs::create_dir(env.path("data")).unwrap();
    env.ask(&["create", "POOL", "--size", "64M"]);
    Some(env)
}

pub fn mount(env: &TestEnv, more: &[&str]) -> Daemon {
    let arguments = ["mount", "./data", "MOUNT", "--pool", "POOL"];
    env.start(env.command(&[&arguments, more].concat()))
}

#[test]
fn ctrl_c_brings_the_directory_up_to_date() {
    let Some(env) = env("ctrl_c_brings_the_directory_up_to_date") else {
        return;
    };
    let daemon = mount(&env, &[]);
    assert_eq!(daemon.announced.len(), 1);
    ends_by_ctrl_c(&env, daemon);
    env.run(&["info", "POOL"]);
}

/// A daemon that is interrupted brings the directory up to date.
pub fn ends_by_ctrl_c(env: &TestEnv, daemon: Daemon) {
    let mut file = File::create(env.path("mount/file")).unwrap();
    file.write_all(b"synced").unwrap();
    file.sync_all().unwrap();
    drop(file);
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!(fs::read(env.path("data/file")).unwrap(), b"synced");
    assert!(!env.path("mount/file").exists(), "nothing is mounted");
}

#[test]
fn a_sandboxed_daemon_took_one_callers_umask_for_all() {
    let Some(env) = env("a_sandboxed_daemon_took_one_callers_umask_for_all") else {
        return;
    };
    let daemon = mount(&env, &["--sandbox", "on"]);
    // Of the thread that started it, which makes no files.
    let umask = || {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.process.id())).unwrap();
        let mut lines = status
            .lines()
            .filter_map(|line| line.strip_prefix("Umask:"));
        lines.next().unwrap().trim().to_owned()
    };
    let before = umask();
    assert_ne!(before, "0000", "the tests run with a umask");
    File::create(env.path("mount/file")).unwrap();
    assert_eq!(umask(), before);
    daemon.end();
}

#[test]
fn umount_ends_the_daemon() {
    let Some(env) = env("umount_ends_the_daemon") else {
        return;
    };
    let daemon = mount(&env, &[]);
    fs::write(env.path("mount/file"), b"written").unwrap();
    let flags = rustix::mount::UnmountFlags::empty();
    while rustix::mount::unmount(env.path("mount"), flags).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(daemon.wait(), Some(0));
    assert_eq!(fs::read(env.path("data/file")).unwrap(), b"written");
}

#[test]
fn a_mount_in_use_is_given_up_at_the_deadline_with_exit_code_6() {
    let Some(env) = env("a_mount_in_use_is_given_up_at_the_deadline_with_exit_code_6") else {
        return;
    };
    let daemon = mount(&env, &["--shutdown-deadline", "0"]);
    gives_up_at_the_deadline(&env, daemon);
}

/// A daemon whose deadline is at once ends although a file is in use, with what was acknowledged.
pub fn gives_up_at_the_deadline(env: &TestEnv, daemon: Daemon) {
    let mut file = File::create(env.path("mount/file")).unwrap();
    file.write_all(b"acknowledged").unwrap();
    file.sync_data().unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6));
    assert!(file.write_all(b"unheard").and(file.sync_data()).is_err());
    assert!(!env.path("mount/file").exists(), "the mount is gone");
    assert_eq!(fs::read(env.path("data/file")).unwrap(), b"acknowledged");
}

#[test]
fn a_killed_daemon_loses_nothing_and_the_next_one_mounts_over_what_it_left() {
    let Some(env) = env("a_killed_daemon_loses_nothing") else {
        return;
    };
    loses_nothing_when_killed(
        &env,
        || mount(&env, &[]),
        |daemon| {
            fs::rename(env.path("mount/log"), env.path("mount/other")).unwrap();
            fs::rename(env.path("mount/other"), env.path("mount/log")).unwrap();
            daemon.signal(Signal::KILL);
            assert_eq!(daemon.wait(), None);
        },
    );
}

/// Three daemons, each killed by `kill` once a line was acknowledged, lose none of them, and the next one mounts over what they
/// left.
pub fn loses_nothing_when_killed(env: &TestEnv, mount: impl Fn() -> Daemon, kill: impl Fn(Daemon)) {
    for round in 0..3 {
        let daemon = mount();
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let mut file = options.open(env.path("mount/log")).unwrap();
        writeln!(file, "round {round}").unwrap();
        file.sync_data().unwrap();
        kill(daemon);
    }
    let daemon = mount();
    let expected = "round 0\nround 1\nround 2\n";
    assert_eq!(fs::read_to_string(env.path("mount/log")).unwrap(), expected);
    daemon.end();
    assert_eq!(fs::read_to_string(env.path("data/log")).unwrap(), expected);
}

#[test]
fn what_cannot_be_mounted_is_refused_and_named() {
    let Some(env) = env("what_cannot_be_mounted_is_refused_and_named") else {
        return;
    };
    for folder in ["data/inner", "second", "other", "full"] {
        fs::create_dir(env.path(folder)).unwrap();
    }
    fs::write(env.path("full/letter"), b"hidden").unwrap();
    env.ask(&["create", "./data/pool", "--size", "64M"]);
    env.ask(&["create", "./second pool", "--size", "64M"]);
    let daemon = mount(&env, &[]);
    for (data, directory, pool, code, part) in [
        ("./data", "./second", "./second pool", 4, "served already"),
        ("./other", "./second", "POOL", 4, " open"),
        ("./data", "./data/inner", "POOL", 2, "within itself"),
        ("./data", "./data", "POOL", 2, "within itself"),
        ("./data", "./second", "./data/pool", 2, "put it elsewhere"),
        (
            "./other",
            "MOUNT",
            "./second pool",
            2,
            "already has forebay",
        ),
        ("./nowhere", "./second", "POOL", 2, "nowhere"),
        ("./other", "./nowhere", "POOL", 1, "mkdir"),
        ("./other", "./full", "./second pool", 2, "empty directory"),
    ] {
        let refused = env.run(&["mount", data, directory, "--pool", pool]);
        assert_eq!(refused.code, code, "{}", refused.stderr);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    daemon.end();
    env.refuses(
        &["mount", "./other", "./second", "--pool", "POOL"],
        3,
        "data",
    );
}
