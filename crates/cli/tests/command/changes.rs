//! What changes while the daemon runs: disks that come, go and grow, settings, faults.

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::test_env::{DISK_BYTES, TestEnv, skips_without_fuse};
use forebay_harness::nbd::Client;

#[test]
fn disks_are_attached_and_detached_while_others_are_served() {
    let env = TestEnv::with_pool();
    env.make_image("second.img");
    let daemon = env.serve_nbd(&[]);
    let socket = env.path("nbd.sock");
    let mut first = Client::open(&socket, "disk.img").unwrap();
    first.write(0, &[1; 4096]).unwrap();

    let attach = ["attach", "POOL", "--backing", "./second.img"];
    let report = env.ask(&[&attach[..], &["--name", "second"]].concat());
    assert_eq!(report["name"], "second");
    assert_eq!(env.run(&attach).code, 1, "it is attached already");
    let taken = env.run(&[&attach[..], &["--name", "disk.img"]].concat());
    assert_eq!(taken.code, 2, "{}", taken.stderr);

    let mut second = Client::open(&socket, "second").unwrap();
    second.write(8192, &[2; 4096]).unwrap();
    let detach = ["detach", "POOL", "second"];
    let refused = env.run(&detach);
    assert_eq!(refused.code, 4, "a client is connected: {}", refused.stderr);
    drop(second);
    while env.ask(&["stat", "POOL"])["volumes"][1]["nbd_connections"] != 0 {
        std::thread::yield_now();
    }
    assert_eq!(env.ask(&detach)["detached"], "second");
    let image = std::fs::read(env.path("second.img")).unwrap();
    assert_eq!(
        image[8192..12288],
        [2; 4096],
        "everything is in the backing"
    );
    assert!(Client::open(&socket, "second").is_err());
    assert_eq!(env.run(&detach).code, 1, "it is not there any more");

    assert_eq!(first.read(0, 4096).unwrap(), [1; 4096]);
    // A new disk may have the name, and even the backing.
    env.ask(&[&attach[..], &["--name", "second"]].concat());
    daemon.end();
}

#[test]
fn a_mounted_disk_in_use_is_not_detached() {
    if skips_without_fuse("a_mounted_disk_in_use_is_not_detached") {
        return;
    }
    let env = TestEnv::with_pool();
    env.make_image("second.img");
    std::fs::create_dir(env.path("second")).unwrap();
    let daemon = env.serve();
    let attach = ["attach", "POOL", "--backing", "./second.img"];
    let unreachable = env.run(&attach);
    assert_eq!(unreachable.code, 2, "{}", unreachable.stderr);
    env.ask(&[&attach[..], &["--fuse", "./second"]].concat());
    let disk = std::fs::File::options()
        .read(true)
        .write(true)
        .open(env.path("second/disk"))
        .unwrap();
    disk.write_all_at(&[3; 4096], 0).unwrap();
    env.refuses(&["detach", "POOL", "second.img"], 4, "in use");
    disk.write_all_at(&[4; 4096], 4096).unwrap();
    drop(disk);
    env.ask(&["detach", "POOL", "second.img"]);
    assert!(!env.path("second/disk").exists());
    daemon.end();
}

#[test]
fn a_mount_that_comes_back_is_not_taken_for_the_one_that_went() {
    if skips_without_fuse("a_mount_that_comes_back_is_not_taken_for_the_one_that_went") {
        return;
    }
    let env = TestEnv::with_pool();
    env.make_image("second.img");
    std::fs::create_dir(env.path("second")).unwrap();
    let daemon = env.serve();
    let attach = ["attach", "POOL", "--backing", "./second.img", "--fuse"];
    env.refuses(&[&attach[..], &["./missing"]].concat(), 1, "missing");
    for _ in 0..3 {
        env.ask(&[&attach[..], &["./second"]].concat());
        let busy = env.run(&[&attach[..], &["./second", "--name", "other"]].concat());
        assert_eq!(busy.code, 1, "{}", busy.stderr);
        env.ask(&["detach", "POOL", "second.img"]);
    }
    env.ask(&[&attach[..], &["./second"]].concat());
    // It is unmounted by another process: the daemon goes on with the other one, and ends with
    // that.
    // What looks at all mounts of the machine may be in it for a moment.
    let deadline = Instant::now() + Duration::from_secs(30);
    let unmount = |name: &str| {
        let mut command = std::process::Command::new("umount");
        command.arg(env.path(name));
        while !command.status().unwrap().success() {
            assert!(Instant::now() < deadline, "{name} is in use");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    unmount("second");
    while env.ask(&["stat", "POOL"])["front_ends"]
        .as_array()
        .unwrap()
        .len()
        > 1
    {
        std::thread::yield_now();
    }
    env.open_disk().write_all_at(&[1; 4096], 0).unwrap();
    unmount("mount");
    assert_eq!(daemon.wait(), Some(0));
}

#[test]
fn a_detach_that_is_called_off_leaves_the_disk_served() {
    let env = TestEnv::with_test_pool();
    let daemon = env.serve_nbd(&["--dirty-low", "90", "--dirty-high", "95"]);
    let socket = env.path("nbd.sock");
    let mut client = Client::open(&socket, "disk.img").unwrap();
    for block in 0..512 {
        client.write(block * 4096, &[5; 4096]).unwrap();
    }
    drop(client);
    // A backing that fails every write keeps the drain from ending.
    let fail = ["fault", "POOL", "fail-backing", "disk.img", "--writes"];
    env.ask(&[&fail[..], &["18446744073709551615"]].concat());
    while env.ask(&["stat", "POOL"])["volumes"][0]["nbd_connections"] != 0 {
        std::thread::yield_now();
    }
    let detaching = env
        .command(&["detach", "POOL", "disk.img"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let pid = rustix::process::Pid::from_child(&detaching);
    let _ = rustix::process::kill_process(pid, Signal::INT);
    let ended = detaching.wait_with_output().unwrap();
    // Either it was called off, or the drain had given up by itself before that.
    assert!(
        matches!(ended.status.code(), Some(7 | 1) | None),
        "{ended:?}"
    );
    let mut client = Client::open(&socket, "disk.img").unwrap();
    assert_eq!(client.read(4096, 4096).unwrap(), [5; 4096]);
    client.write(0, &[6; 4096]).unwrap();
    drop(client);
    env.ask(&[&fail[..], &["0"]].concat());
    while env.run(&["detach", "POOL", "disk.img"]).code == 4 {
        std::thread::yield_now();
    }
    let image = std::fs::read(env.path("disk.img")).unwrap();
    assert_eq!(image[..4096], [6; 4096]);
    assert_eq!(image[4096..8192], [5; 4096]);
    daemon.end();
}

#[test]
fn settings_are_shown_changed_and_checked() {
    let env = TestEnv::with_mapped_pool();
    let daemon = env.serve_nbd(&["--dirty-high", "70"]);
    assert_eq!(env.ask(&["set", "POOL"])["dirty_high_per_mille"], 700);
    let set = env.ask(&[
        "set",
        "POOL",
        "--dirty-low",
        "20",
        "--dirty-high",
        "30",
        "--flush-rate",
        "1M",
        "--verify",
        "never",
        "--replacement",
        "lru",
        "--defer-journal",
        "off",
        "--share-duplicates",
        "off",
        "--sequential-cutoff",
        "4M",
        "--read-ahead",
        "0",
    ]);
    assert_eq!(set["dirty_low_per_mille"], 200);
    assert_eq!(set["dirty_high_per_mille"], 300);
    assert_eq!(set["flush_rate_limit_bytes_per_s"], 1 << 20);
    assert_eq!(set["verify"], "never");
    assert_eq!(set["replacement"], "lru");
    assert_eq!(set["defer_journal"], "off");
    assert_eq!(set["share_duplicates"], "off");
    assert_eq!(set["compare_writes"], "on");
    assert_eq!(set["sequential_cutoff_bytes"], 4 << 20);
    assert_eq!(set["read_ahead_bytes"], 0);
    assert_eq!(set, env.ask(&["stat", "POOL"])["settings"]);
    let refused = env.run(&["set", "POOL", "--dirty-low", "40"]);
    assert_eq!(refused.code, 2, "above the high one: {}", refused.stderr);
    assert_eq!(env.run(&["set", "POOL", "--dirty-low", "140"]).code, 2);
    daemon.end();
}

#[test]
fn a_disk_grows_with_its_backing_and_a_pool_when_no_daemon_serves_it() {
    let env = TestEnv::with_mapped_pool();
    let daemon = env.serve_nbd(&[]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(0, &[7; 4096]).unwrap();
    let image = std::fs::File::options()
        .write(true)
        .open(env.path("disk.img"))
        .unwrap();
    image.set_len(2 * DISK_BYTES).unwrap();
    let grow = ["resize", "POOL", "--volume", "disk.img"];
    let grown = env.ask(&grow);
    assert_eq!(grown["size_bytes"], 2 * DISK_BYTES);
    assert_eq!(env.ask(&grow)["grown_bytes"], 0);
    let mut larger = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    larger.write(2 * DISK_BYTES - 4096, &[8; 4096]).unwrap();
    assert_eq!(env.run(&["resize", "POOL", "--size", "16M"]).code, 4);
    drop((client, larger));
    daemon.end();

    let slots = env.ask(&["info", "POOL"])["slots"].as_u64().unwrap();
    env.ask(&["resize", "POOL", "--size", "16M"]);
    let info = env.ask(&["info", "POOL"]);
    assert!(info["slots"].as_u64().unwrap() > slots * 3 / 2, "{info}");
    assert_eq!(info["dirty_blocks"], 0);
    assert_eq!(env.run(&["resize", "POOL", "--size", "8M"]).code, 2);
    let daemon = env.serve_nbd(&[]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), [7; 4096]);
    assert_eq!(client.read(2 * DISK_BYTES - 4096, 4096).unwrap(), [8; 4096]);
    drop(client);
    daemon.end();
}

#[test]
fn faults_are_for_test_pools_and_are_reported() {
    let env = TestEnv::with_mapped_pool();
    let daemon = env.serve_nbd(&[]);
    let flip = ["fault", "POOL", "flip-bit", "disk.img", "--block", "3"];
    env.refuses(&flip, 2, "real data");
    daemon.end();

    let env = TestEnv::with_mapped_test_pool();
    let daemon = env.serve_nbd(&["--dirty-low", "90", "--dirty-high", "95"]);
    assert_eq!(env.run(&flip).code, 2, "the block is not cached");
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(3 * 4096, &[9; 4096]).unwrap();
    env.ask(&flip);
    assert!(client.read(3 * 4096, 4096).is_err(), "the only copy is bad");
    client.write(3 * 4096, &[10; 4096]).unwrap();
    assert_eq!(client.read(3 * 4096, 4096).unwrap(), [10; 4096]);

    env.ask(&["fault", "POOL", "fail-backing", "disk.img", "--writes", "1"]);
    let _ = env.run(&["flush", "POOL"]);
    env.ask(&["flush", "POOL"]);
    let stat = env.ask(&["stat", "POOL"]);
    assert!(
        stat["totals"]["write_back_errors"].as_u64().unwrap() >= 1,
        "{stat}"
    );
    assert!(stat["totals"]["corrupt"].as_u64().unwrap() >= 1, "{stat}");
    assert_eq!(stat["dirty_blocks"], 0);

    let slow = [
        "fault",
        "POOL",
        "delay-backing",
        "disk.img",
        "--microseconds",
        "2000",
    ];
    assert_eq!(env.ask(&slow)["delayed"]["microseconds"], 2000);
    let began = std::time::Instant::now();
    assert_eq!(client.read(600 * 4096, 4096).unwrap(), [0; 4096]);
    assert!(began.elapsed() >= std::time::Duration::from_micros(2000));
    drop(client);
    daemon.end();
}

#[test]
fn the_sockets_are_their_owners_alone() {
    let env = TestEnv::with_pool();
    let daemon = env.serve_nbd(&[]);
    for name in ["pool.sock", "nbd.sock"] {
        let mode = std::fs::metadata(env.path(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    daemon.end();
    for name in ["pool.sock", "nbd.sock"] {
        assert!(!env.path(name).exists(), "{name}");
    }
}

#[test]
fn an_attach_that_fails_half_way_leaves_nothing_attached() {
    let env = TestEnv::with_pool();
    env.make_image("second.img");
    std::fs::write(env.path("in-the-way"), "precious").unwrap();
    let daemon = env.serve_nbd(&[]);
    let attach = ["attach", "POOL", "--backing", "./second.img"];
    env.refuses(
        &[&attach[..], &["--vhost-user", "./in-the-way"]].concat(),
        1,
        "no socket",
    );
    let stat = env.ask(&["stat", "POOL"]);
    assert_eq!(stat["volumes"].as_array().unwrap().len(), 1, "{stat}");
    // Neither its name nor its file is taken.
    let socket = ["--vhost-user", "./socket"];
    env.ask(&[&attach[..], &socket].concat());
    env.ask(&["detach", "POOL", "second.img"]);
    daemon.end();
    assert_eq!(std::fs::read(env.path("in-the-way")).unwrap(), b"precious");
}
