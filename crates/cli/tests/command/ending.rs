//! How a daemon ends: under load, while it is used, by force; and what is there afterwards.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;

use crate::load::{content, load, verify, wait_for};
use crate::test_env::{TestEnv, skip, skips_without_fuse};
use forebay_harness::nbd::Client;

#[test]
fn sigterm_under_load_drains_and_exits_0_and_nothing_is_lost() {
    let env = TestEnv::with_pool();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let daemon = env.serve_nbd(&[]);
    let loads = load(&env, &acknowledged);
    wait_for(&acknowledged, 2000);
    daemon.end();
    loads.join().unwrap();
    let daemon = env.serve_nbd(&[]);
    verify(&env, acknowledged.load(Ordering::SeqCst));
    daemon.end();
}

#[test]
fn sigkill_under_load_loses_nothing_and_the_next_daemon_serves() {
    let env = TestEnv::with_pool();
    for _ in 0..3 {
        let acknowledged = Arc::new(AtomicU64::new(0));
        let daemon = env.serve_nbd(&[]);
        let loads = load(&env, &acknowledged);
        wait_for(&acknowledged, 1500);
        daemon.signal(Signal::KILL);
        loads.join().unwrap();
        drop(daemon);
        assert!(env.path("pool.sock").exists(), "it was not removed");
        assert_eq!(env.run(&["stat", "POOL"]).code, 5);
        let daemon = env.serve_nbd(&[]);
        verify(&env, acknowledged.load(Ordering::SeqCst));
        daemon.end();
    }
}

#[test]
fn a_disk_in_use_is_given_up_at_the_deadline_with_exit_code_6() {
    if skips_without_fuse("a_disk_in_use_is_given_up_at_the_deadline_with_exit_code_6") {
        return;
    }
    use std::os::unix::fs::FileExt;
    let env = TestEnv::with_pool();
    let serve = ["--pool", "POOL", "--backing", "BACKING", "--fuse", "MOUNT"];
    let daemon = env.serve_with(&[&serve[..], &["--shutdown-deadline", "0"]].concat());
    let disk = env.open_disk();
    disk.write_all_at(&[0x77; 4096], 4096).unwrap();
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6));
    assert!(
        disk.write_all_at(&[0; 4096], 0).is_err(),
        "no daemon serves it"
    );
    drop(disk);
    assert!(!env.path("mount/disk").exists(), "the mount is gone");
    let daemon = env.serve();
    let mut found = [0; 4096];
    env.open_disk().read_exact_at(&mut found, 4096).unwrap();
    assert_eq!(found, [0x77; 4096]);
    daemon.end();
}

#[test]
fn a_request_that_hangs_is_given_up_at_the_deadline_and_what_was_acknowledged_stays() {
    let env = TestEnv::with_mapped_test_pool();
    let daemon = env.serve_nbd(&["--shutdown-deadline", "1"]);
    let fail = ["fault", "POOL", "fail-backing", "disk.img", "--writes"];
    env.ask(&[&fail[..], &["18446744073709551615"]].concat());
    // More than the pool holds: the last write waits for a backing that takes nothing.
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    let filling = std::thread::spawn({
        let acknowledged = Arc::clone(&acknowledged);
        move || {
            for block in 0.. {
                if client.write(block * 4096, &content(block)).is_err() {
                    return;
                }
                acknowledged.store(block + 1, Ordering::SeqCst);
            }
        }
    });
    while env.ask(&["stat", "POOL"])["waiting_writers"] == 0 {
        std::thread::yield_now();
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6));
    filling.join().unwrap();
    let blocks = acknowledged.load(Ordering::SeqCst);
    assert!(blocks > 1000, "{blocks}");
    let daemon = env.serve_nbd(&[]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    for block in 0..blocks {
        assert_eq!(client.read(block * 4096, 4096).unwrap(), content(block));
    }
    drop(client);
    daemon.end();
}

#[test]
fn the_second_signal_ends_at_once() {
    if skips_without_fuse("the_second_signal_ends_at_once") {
        return;
    }
    let env = TestEnv::with_pool();
    let daemon = env.serve();
    let disk = env.open_disk();
    daemon.signal(Signal::TERM);
    while !env.log().contains("in use") {
        std::thread::yield_now();
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6));
    drop(disk);
}

#[test]
fn of_two_daemons_on_one_pool_the_second_is_told_who_has_it() {
    let env = TestEnv::with_pool();
    let daemon = env.serve_nbd(&[]);
    env.refuses(
        &[
            "serve",
            "--pool",
            "POOL",
            "--backing",
            "BACKING",
            "--nbd",
            "unix:./other.sock",
        ],
        4,
        "/pool",
    );
    // The first one is as it was.
    assert_eq!(env.run(&["stat", "POOL"]).code, 0);
    assert!(Client::open(&env.path("nbd.sock"), "disk.img").is_ok());
    daemon.end();
}

#[test]
fn clients_of_the_control_socket_do_not_hold_the_end_up() {
    let env = TestEnv::with_pool();
    let daemon = env.serve_nbd(&[]);
    let mut watching = UnixStream::connect(env.path("pool.sock")).unwrap();
    let sample = b"{\"command\": \"sample\", \"interval_ms\": 60000}\n";
    watching.write_all(sample).unwrap();
    let idle = UnixStream::connect(env.path("pool.sock")).unwrap();
    assert_eq!(env.run(&["stat", "POOL"]).code, 0);
    daemon.end();
    drop((watching, idle));
    // The pool was closed in order: nothing is left to recover.
    let recovery = &env.ask(&["info", "POOL"])["recovery"];
    assert_eq!(recovery["records"], 0, "{recovery}");
}

#[test]
fn the_second_signal_ends_at_once_while_a_client_of_one_of_two_servers_hangs() {
    let env = TestEnv::with_mapped_test_pool();
    let second = format!("unix:{}", env.path("second.sock").display());
    let daemon = env.serve_nbd(&["--nbd", &second]);
    let fail = ["fault", "POOL", "fail-backing", "disk.img", "--writes"];
    env.ask(&[&fail[..], &["18446744073709551615"]].concat());
    // More than the pool holds: the last write waits for a backing that takes nothing.
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    let filling = std::thread::spawn(move || {
        (0..).find(|block| client.write(block * 4096, &content(*block)).is_err())
    });
    while env.ask(&["stat", "POOL"])["waiting_writers"] == 0 {
        std::thread::yield_now();
    }
    daemon.signal(Signal::TERM);
    // Both are closed to new clients while the first still has one.
    while !env.log().contains("NBD connections") {
        std::thread::yield_now();
    }
    for socket in ["nbd.sock", "second.sock"] {
        assert!(
            Client::open(&env.path(socket), "disk.img").is_err(),
            "{socket}"
        );
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(6));
    assert!(!env.log().contains("deadline has passed"), "{}", env.log());
    filling.join().unwrap();
}

fn system(program: &str, arguments: &[&str], path: &std::path::Path) -> bool {
    let mut command = std::process::Command::new(program);
    let status = command.args(arguments).arg(path).status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn an_unmount_by_another_process_around_the_signal_is_an_orderly_end() {
    if skips_without_fuse("an_unmount_by_another_process_around_the_signal_is_an_orderly_end") {
        return;
    }
    let env = TestEnv::with_pool();
    for round in 0..6 {
        let daemon = env.serve();
        let unmounting = std::thread::spawn({
            let mount = env.path("mount");
            move || system("umount", &["-q"], &mount)
        });
        if round % 2 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(round));
        }
        // It may have ended by itself: the last front end was closed.
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.wait(), Some(0), "{}", env.log());
        let _ = unmounting.join();
    }
    // Detached while it is open: it is served until it is closed.
    let daemon = env.serve();
    let disk = env.open_disk();
    assert!(system("umount", &["-l"], &env.path("mount")));
    daemon.signal(Signal::TERM);
    while !env.log().contains("unmounted by another process") {
        std::thread::yield_now();
    }
    std::os::unix::fs::FileExt::write_all_at(&disk, &[9; 4096], 0).unwrap();
    drop(disk);
    assert_eq!(daemon.wait(), Some(0), "{}", env.log());
}

#[test]
fn what_was_mounted_over_the_disk_is_left_alone() {
    if skips_without_fuse("what_was_mounted_over_the_disk_is_left_alone") {
        return;
    }
    let env = TestEnv::with_pool();
    let mount = env.path("mount");
    for user in [&[][..], &["--user", "nobody"]] {
        let serve = ["--pool", "POOL", "--backing", "BACKING", "--fuse", "MOUNT"];
        let daemon = env.serve_with(&[&serve[..], user].concat());
        if !system("mount", &["-t", "tmpfs", "other"], &mount) {
            skip(
                "what_was_mounted_over_the_disk_is_left_alone",
                "cannot mount a tmpfs",
            );
            return;
        }
        std::fs::write(mount.join("theirs"), "precious").unwrap();
        daemon.signal(Signal::TERM);
        while !env.log().contains("left alone") {
            std::thread::yield_now();
        }
        assert!(mount.join("theirs").exists(), "{}", env.log());
        assert!(system("umount", &[], &mount));
        assert_eq!(daemon.wait(), Some(0), "{}", env.log());
    }
}
