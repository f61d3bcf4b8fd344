//! What one client may have of a daemon: its memory, its places.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::test_env::{DISK_BYTES, Daemon, TestEnv, on_ssd, skip};
use forebay_harness::nbd::Client;

/// Lets the daemon have so many bytes of addresses more than it has, or as many as it likes.
fn leave_memory(daemon: &Daemon, more: Option<u64>) {
    let pid = daemon.process.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB").parse::<u64>();
    let limit = Rlimit {
        current: more.map(|more| kib.unwrap() * 1024 + more),
        maximum: None,
    };
    let process = Pid::from_child(&daemon.process);
    prlimit(Some(process), Resource::As, limit).unwrap();
}

#[test]
fn a_request_that_there_is_no_memory_for_is_refused_and_does_not_end_the_daemon() {
    if on_ssd() {
        skip(
            "a_request_that_there_is_no_memory_for",
            "needs a pool in memory",
        );
        return;
    }
    let env = TestEnv::with_pool();
    let daemon = env.serve_nbd(&[]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(0, &[3; 4096]).unwrap();
    let long = DISK_BYTES as usize;
    // Not for the request, and enough for all that the daemon's threads want in passing.
    leave_memory(&daemon, Some(long as u64 / 2));
    let refused = client.read(0, long).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(12), "{refused}");
    assert_eq!(client.read(0, 4096).unwrap(), [3; 4096]);
    leave_memory(&daemon, None);
    client.write(0, &vec![5; long]).unwrap();
    assert_eq!(client.read(0, long).unwrap(), vec![5; long]);
    let log = env.log();
    assert!(log.contains("refused for want of memory"), "{log}");
    daemon.end();
}

#[test]
fn the_memory_of_long_requests_can_be_set() {
    let env = TestEnv::with_pool();
    env.refuses_nbd(&["--nbd-memory", "1M"], 2, "at least 32M");
    let limits = [
        "--nbd-memory",
        "32M",
        "--nbd-connections",
        "2",
        "--nbd-connections-per-peer",
        "1",
    ];
    let daemon = env.serve_nbd(&limits);
    let _first = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    let Err(refused) = Client::open(&env.path("nbd.sock"), "disk.img") else {
        panic!("one client has two places");
    };
    assert!(refused.to_string().contains("1 connections"), "{refused}");
    let front_end = &env.ask(&["stat", "POOL"])["front_ends"][0];
    assert_eq!(front_end["memory_max_bytes"], 32 << 20, "{front_end}");
    daemon.end();
}
