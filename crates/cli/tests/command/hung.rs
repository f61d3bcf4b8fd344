//! A mount that is cut off while a request hangs: the daemon hears the signals that it gets afterwards.
#![allow(unsafe_code)] // A file is held by a call that has no safe form.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;

use crate::mount::{env, mount};
use crate::test_env::{Daemon, TestEnv};

/// `fcntl(2)`: which signal tells of an opener.
const F_SETSIG: i32 = 10;

/// Holds a file so that opening it again waits, for as long as the kernel allows (45 s): the file, until it is dropped.
fn held(path: &Path) -> File {
    fs::write(path, b"held").unwrap();
    let file = File::open(path).unwrap();
    // What is to tell this process of the waiting opener is ignored by every process.
    // SAFETY: both act on a descriptor that is open, and take numbers.
    let results = unsafe {
        [
            libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG),
            libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK),
        ]
    };
    assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
    file
}

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
