//! `--transport` of `forebay mount` and `serve`: what it says, how it ends, what a kill leaves, and what is refused.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;

use rustix::process::Signal;

use crate::hung::hears_signals_after_a_cut;
use crate::mount::{self, ends_by_ctrl_c, gives_up_at_the_deadline, loses_nothing_when_killed};
use crate::offer::{has_rings, with_the_offer};
use crate::test_env::{Daemon, TestEnv};

/// An environment with a directory and a pool for it, or `None` where the kernel has no rings.
fn env(test: &str) -> Option<TestEnv> {
    let env = mount::env(test)?;
    if !has_rings() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped {test}: needs root, and a kernel with FUSE over io_uring");
        return None;
    }
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
    ends_by_ctrl_c(&env, daemon);
}

#[test]
fn a_daemon_killed_with_its_rings_loses_nothing_and_frees_its_users() {
    let Some(env) = env("a_daemon_killed_with_its_rings") else {
        return;
    };
    loses_nothing_when_killed(
        &env,
        || mount(&env),
        |daemon| {
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            let mut busy = options.open(env.path("mount/other")).unwrap();
            let user =
                std::thread::spawn(
                    move || {
                        while busy.write_all(b"more").and(busy.sync_data()).is_ok() {}
                    },
                );
            daemon.signal(Signal::KILL);
            assert_eq!(daemon.wait(), None);
            user.join().unwrap();
        },
    );
}

#[test]
fn a_mount_in_use_with_rings_is_given_up_at_the_deadline() {
    let Some(env) = env("a_mount_in_use_with_rings") else {
        return;
    };
    let arguments = [&MOUNT[..], &["--shutdown-deadline", "0"]].concat();
    let daemon = with_the_offer(true, || env.start(env.command(&arguments)));
    gives_up_at_the_deadline(&env, daemon);
}

#[test]
fn a_mount_with_rings_that_is_cut_off_hears_the_signal() {
    let Some(env) = env("a_mount_with_rings_that_is_cut_off") else {
        return;
    };
    let arguments = [&MOUNT[..], &["--shutdown-deadline", "0"]].concat();
    let daemon = with_the_offer(true, || env.start(env.command(&arguments)));
    hears_signals_after_a_cut(&env, daemon, 1);
}

#[test]
fn a_disk_is_served_by_rings_and_refused_without_the_offer() {
    let test = "a_disk_is_served_by_rings";
    if env(test).is_none() {
        return;
    }
    let env = TestEnv::with_pool();
    let serve = [
        "serve",
        "--pool",
        "POOL",
        "--backing",
        "BACKING",
        "--fuse",
        "MOUNT",
        "--transport",
        "io-uring",
    ];
    let refused = with_the_offer(false, || env.run(&serve));
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    for part in ["enable_uring", "--transport dev-fuse"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let daemon = with_the_offer(true, || env.start(env.command(&serve)));
    let log = env.log();
    assert!(log.contains("requests come by io_uring"), "{log}");
    env.open_disk().write_all_at(&[5; 4096], 4096).unwrap();
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.wait(), None);
    // By the other transport, over what the killed one left.
    let daemon = env.serve();
    let mut found = [0; 4096];
    env.open_disk().read_exact_at(&mut found, 4096).unwrap();
    assert_eq!(found, [5; 4096]);
    daemon.end();
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
