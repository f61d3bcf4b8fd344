//! A mount that is cut off while a request hangs: the daemon hears the signals that it gets afterwards.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use crate::held::held;
use crate::mount::{env, mount};
use crate::test_env::{Daemon, TestEnv};

/// Whether a thread of the process waits for a lease of another one.
fn waits_for_a_lease(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    tasks.flatten().any(|task| {
        let call = fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        call.contains("break_lease")
    })
}

/// Cut off while a request of its hangs, the daemon ends by the first signal at its deadline, or by the second at once.
pub fn hears_signals_after_a_cut(env: &TestEnv, mut daemon: Daemon, signals: usize) {
    let held = held(&env.path("data/held"));
    let path: PathBuf = env.path("mount/held");
    let user = std::thread::spawn(move || File::options().write(true).open(path));
    while !waits_for_a_lease(daemon.process.id()) {
        std::thread::yield_now();
    }
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH;
    unmount(env.path("mount"), flags).unwrap();
    user.join().unwrap().unwrap_err();
    daemon.signal(Signal::TERM);
    // Two that come at once are one: they are sent until the second is heard.
    while signals > 1 && daemon.process.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
        daemon.signal(Signal::TERM);
    }
    assert_eq!(daemon.wait(), Some(6));
    // Until here the request hung.
    drop(held);
}

#[test]
fn after_a_cut_the_deadline_was_not_kept_while_a_request_hung() {
    let Some(env) = env("after_a_cut_the_deadline_was_not_kept") else {
        return;
    };
    let daemon = mount(&env, &["--shutdown-deadline", "0"]);
    hears_signals_after_a_cut(&env, daemon, 1);
}

#[test]
fn after_a_cut_the_second_signal_was_not_heard_while_a_request_hung() {
    let Some(env) = env("after_a_cut_the_second_signal_was_not_heard") else {
        return;
    };
    let daemon = mount(&env, &["--shutdown-deadline", "3600"]);
    hears_signals_after_a_cut(&env, daemon, 2);
}
