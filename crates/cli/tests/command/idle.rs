//! An idle daemon does nothing: it waits, and wakes for requests alone.

use std::path::Path;
use std::time::Duration;

use crate::test_env::TestEnv;
use forebay_harness::nbd::Client;

/// Wake-ups of all threads that an idle daemon may have in two seconds: its pool looks round once a
/// second in three threads. At some ten microseconds each, 0.1 % of a CPU would be two hundred.
const WAKE_UPS_MAX: u64 = 20;

/// How often the threads of a process went to sleep (see proc_pid_status(5)).
fn sleeps(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task")).unwrap();
    let of_task = |status: String| -> u64 {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.unwrap().trim().parse().unwrap()
    };
    tasks
        .map(|task| of_task(std::fs::read_to_string(task.unwrap().path().join("status")).unwrap()))
        .sum()
}

#[test]
fn an_idle_daemon_does_not_wake_up() {
    let env = TestEnv::with_pool();
    let daemon = env.serve_nbd(&["--nbd", "tcp:127.0.0.1:0"]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(0, &[1; 4096]).unwrap();
    env.ask(&["flush", "POOL"]);
    // Threads that were at work go to sleep.
    std::thread::sleep(Duration::from_secs(1));
    let before = sleeps(daemon.process.id());
    std::thread::sleep(Duration::from_secs(2));
    let wake_ups = sleeps(daemon.process.id()) - before;
    assert!(
        wake_ups <= WAKE_UPS_MAX,
        "{wake_ups} wake-ups in two seconds"
    );
    drop(client);
    daemon.end();
}
