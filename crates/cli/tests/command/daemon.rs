//! A daemon from start to end: it serves, answers, is killed, and serves again.

use std::os::unix::fs::FileExt;

use rustix::process::Signal;

use crate::test_env::{TestEnv, skips_without_fuse};

#[test]
fn a_daemon_serves_answers_and_ends_when_told() {
    if skips_without_fuse("a_daemon_serves_answers_and_ends_when_told") {
        return;
    }
    let env = TestEnv::with_pool();
    let daemon = env.serve();
    let disk = env.open_disk();
    disk.write_all_at(&[0x42; 8192], 4096).unwrap();
    drop(disk);

    let stat = env.run(&["stat", "POOL", "--json"]).json();
    assert!(
        stat["totals"]["payload_bytes"].as_u64().unwrap() >= 8192,
        "{stat}"
    );
    assert!(stat["dirty_blocks"].as_u64().unwrap() >= 2, "{stat}");
    assert_eq!(env.run(&["flush", "POOL"]).code, 0);
    let stat = env.run(&["stat", "POOL", "--json"]).json();
    assert_eq!(stat["dirty_blocks"], 0, "{stat}");
    let mut image = [0; 8192];
    let backing = std::fs::File::open(env.path("disk.img")).unwrap();
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
        let outcome = env.run(arguments);
        assert_eq!(outcome.code, 4, "{arguments:?}: {}", outcome.stderr);
    }
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    assert!(!env.path("pool.sock").exists());
    assert!(!env.path("mount/disk").exists());
}

#[test]
fn a_disk_in_use_stays_served_after_the_first_signal() {
    if skips_without_fuse("a_disk_in_use_stays_served_after_the_first_signal") {
        return;
    }
    let env = TestEnv::with_pool();
    let daemon = env.serve();
    let disk = env.open_disk();
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
    let env = TestEnv::with_pool();
    for round in 1..=3_u8 {
        let daemon = env.serve();
        let disk = env.open_disk();
        for number in 0..64_u64 {
            let content = [round ^ number as u8; 5000];
            disk.write_all_at(&content, number * 6000 + u64::from(round))
                .unwrap();
        }
        daemon.signal(Signal::KILL);
        drop(disk);
        drop(daemon);
        assert_eq!(env.run(&["check", "POOL"]).code, 0);
        let daemon = env.serve();
        let disk = env.open_disk();
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
