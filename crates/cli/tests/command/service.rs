//! Under a service manager: readiness, the watchdog, another user.

use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use crate::test_env::{SERVE_NBD, TestEnv, skip, skips_without_fuse};
use forebay_harness::nbd::Client;

fn next(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = manager.recv(&mut buffer).unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// The first message with `part` in it.
fn next_with(manager: &UnixDatagram, part: &str) -> String {
    loop {
        let message = next(manager);
        if message.contains(part) {
            return message;
        }
    }
}

#[test]
fn the_service_manager_hears_of_readiness_of_life_and_of_the_end() {
    hears_all(&TestEnv::with_pool(), SERVE_NBD);
}

#[test]
fn the_service_manager_hears_the_same_of_a_mount() {
    if skips_without_fuse("the_service_manager_hears_the_same_of_a_mount") {
        return;
    }
    let env = TestEnv::with_pool();
    std::fs::create_dir(env.path("data")).unwrap();
    hears_all(&env, &["mount", "./data", "MOUNT", "--pool", "POOL"]);
}

fn hears_all(env: &TestEnv, arguments: &[&str]) {
    let manager = UnixDatagram::bind(env.path("notify")).unwrap();
    let mut command = env.command(arguments);
    command
        .env("NOTIFY_SOCKET", env.path("notify"))
        .env("WATCHDOG_USEC", "100000");
    let daemon = env.start(command);
    next_with(&manager, "STATUS=Opening");
    next_with(&manager, "READY=1");
    for _ in 0..3 {
        next_with(&manager, "WATCHDOG=1");
    }
    daemon.end();
    next_with(&manager, "STOPPING=1");
}

#[test]
fn the_units_are_what_systemd_understands() {
    for (unit, instance) in [
        ("forebay.service", "forebay.service"),
        ("forebay-mount@.service", "forebay-mount@data.service"),
    ] {
        verify_unit(unit, instance);
    }
}

fn verify_unit(unit: &str, instance: &str) {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let unit = packaging.join(unit);
    let text = std::fs::read_to_string(&unit).unwrap();
    // Paths that this machine has, since systemd looks.
    let env = TestEnv::new();
    let own = env.path(instance);
    let text = text.replace("/usr/bin/forebay", env!("CARGO_BIN_EXE_forebay"));
    let text: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("Documentation="))
        .collect();
    std::fs::write(&own, text.join("\n")).unwrap();
    let Ok(verified) = Command::new("systemd-analyze")
        .arg("verify")
        .arg(&own)
        .output()
    else {
        return skip(
            "the_units_are_what_systemd_understands",
            "no systemd-analyze here",
        );
    };
    let text = std::fs::read_to_string(&unit).unwrap();
    for setting in [
        "NoNewPrivileges=yes",
        "SystemCallFilter=~@clock",
        "MemoryMax=",
    ] {
        assert!(
            text.contains(setting),
            "{setting} is not in {}",
            unit.display()
        );
    }
    let message = String::from_utf8_lossy(&verified.stderr);
    let about_us: Vec<&str> = message
        .lines()
        .filter(|line| line.contains("forebay"))
        .collect();
    assert!(about_us.is_empty(), "{message}");
}

#[test]
fn another_user_serves_and_the_mount_still_ends() {
    let test = "another_user_serves_and_the_mount_still_ends";
    if skips_without_fuse(test) {
        return;
    }
    let env = TestEnv::with_pool();
    let serve = [
        "--pool",
        "POOL",
        "--backing",
        "BACKING",
        "--fuse",
        "MOUNT",
        "--nbd",
        "NBD",
        "--user",
        "nobody",
    ];
    let daemon = env.serve_with(&serve);
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.process.id())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().split_whitespace().collect::<Vec<_>>()
    };
    assert!(!field("Uid:").contains(&"0"), "{status}");
    assert!(!field("Gid:").contains(&"0"), "{status}");
    assert!(!field("Groups:").contains(&"0"), "{status}");
    assert_eq!(field("CapEff:"), ["0000000000000000"]);
    assert_eq!(field("CapPrm:"), ["0000000000000000"]);
    use std::os::unix::fs::MetadataExt;
    for socket in ["nbd.sock", "pool.sock"] {
        let owner = std::fs::symlink_metadata(env.path(socket)).unwrap().uid();
        assert_eq!(owner.to_string(), field("Uid:")[0], "{socket}");
    }
    // Requests are served through both front ends, and written back.
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(0, &[1; 4096]).unwrap();
    drop(client);
    env.ask(&["flush", "POOL"]);
    daemon.end();
    assert!(!env.path("mount/disk").exists());

    // Killed, it leaves the process that unmounts, which then does so and ends.
    let daemon = env.serve_with(&serve);
    daemon.signal(rustix::process::Signal::KILL);
    assert_eq!(daemon.wait(), None);
    let mounts = || std::fs::read_to_string("/proc/self/mounts").unwrap();
    while mounts().contains(env.path("mount").to_str().unwrap()) {
        std::thread::yield_now();
    }
    let daemon = env.serve();
    let mut found = [0; 4096];
    env.open_disk().read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, [1; 4096]);
    daemon.end();
}
