//! `forebay mount --transport`: what it says, how it ends, what a kill leaves, and what is refused.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

use rustix::process::Signal;

use crate::offer::{has_rings, with_the_offer};
use crate::test_env::{Daemon, TestEnv, skips_without_fuse};

/// An environment with a directory and a pool for it, or `None` where the kernel has no rings.
fn env(test: &str) -> Option<TestEnv> {
    if skips_without_fuse(test) {
        return None;
    }
    if !has_rings() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped {test}: needs root, and a kernel with FUSE over io_uring");
        return None;
    }
    let env = TestEnv::new();
    fs::create_dir(env.path("data")).unwrap();
    env.ask(&["create", "POOL", "--size", "64M"]);
    Some(env)
}

const MOUNT: [&str; 7] = [
    "mount",
    "./data",
    "MOUNT",
    "--pool",
    "POOL",
    "--transport",
    "io-uring",
];

fn mount(env: &TestEnv) -> Daemon {
    with_the_offer(true, || env.start(env.command(&MOUNT)))
}

#[test]
fn requests_come_by_rings_and_ctrl_c_brings_the_directory_up_to_date() {
    let Some(env) = env("requests_come_by_rings") else {
        return;
    };
    let daemon = mount(&env);
    assert!(
        env.log().contains("requests come by io_uring"),
        "{}",
        env.log()
    );
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
fn a_daemon_killed_with_its_rings_loses_nothing_and_frees_its_users() {
    let Some(env) = env("a_daemon_killed_with_its_rings") else {
        return;
    };
    for round in 0..3 {
        let daemon = mount(&env);
        let mut options = OpenOptions::new();
        let options = options.append(true).create(true);
        let mut file = options.open(env.path("mount/log")).unwrap();
        writeln!(file, "round {round}").unwrap();
        file.sync_data().unwrap();
        let busy = options.open(env.path("mount/other")).unwrap();
        let user = std::thread::spawn(move || {
            let mut busy = busy;
            while busy.write_all(b"more").and(busy.sync_data()).is_ok() {}
        });
        daemon.signal(Signal::KILL);
        assert_eq!(daemon.wait(), None);
        user.join().unwrap();
    }
    let daemon = mount(&env);
    let expected = "round 0\nround 1\nround 2\n";
    assert_eq!(fs::read_to_string(env.path("mount/log")).unwrap(), expected);
    daemon.end();
    assert_eq!(fs::read_to_string(env.path("data/log")).unwrap(), expected);
}

#[test]
fn a_mount_in_use_with_rings_is_given_up_at_the_deadline() {
    let Some(env) = env("a_mount_in_use_with_rings") else {
        return;
    };
    let arguments = [&MOUNT[..], &["--shutdown-deadline", "0"]].concat();
    let daemon = with_the_offer(true, || env.start(env.command(&arguments)));
    let mut file = File::create(env.path("mount/file")).unwrap();
    file.write_all(b"acknowledged").unwrap();
    file.sync_data().unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6));
    assert!(file.write_all(b"unheard").and(file.sync_data()).is_err());
    assert_eq!(fs::read(env.path("data/file")).unwrap(), b"acknowledged");
}

#[test]
fn a_kernel_without_the_offer_is_refused_and_named() {
    let Some(env) = env("a_kernel_without_the_offer") else {
        return;
    };
    let refused = with_the_offer(false, || env.run(&MOUNT));
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    for part in ["enable_uring", "--transport dev-fuse"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}
