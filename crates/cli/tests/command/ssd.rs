//! Pools on an SSD by the command: made, served by each kind of front end, killed, looked at, refused.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_harness::nbd::Client;
use rustix::process::Signal;
use serde_json::Value;

use crate::load::{content, load, verify, wait_for};
use crate::test_env::{DISK_BYTES, TestEnv, skip, skips_without_fuse};

/// A pool on the file system of temporary files, or `None` where that takes none.
pub fn env(test: &str) -> Option<TestEnv> {
    let env = TestEnv {
        directory: tempfile::tempdir().unwrap(),
    };
    env.make_image("disk.img");
    fs::create_dir(env.path("mount")).unwrap();
    let created = env.run(&["create", "POOL", "--size", "16M", "--medium", "ssd"]);
    if created.code == 0 {
        return Some(env);
    }
    skip(test, created.stderr.trim());
    None
}

#[test]
fn it_says_what_it_survives_and_what_it_costs() {
    let Some(env) = env("it_says_what_it_survives_and_what_it_costs") else {
        return;
    };
    let made = env.ask(&["create", "./other", "--size", "32M", "--medium", "ssd"]);
    assert_eq!(made["medium"], "ssd");
    assert_eq!(made["block_bytes"], 4096);
    assert!(made["survives"].as_str().unwrap().contains("power loss"));
    let slots = made["slots"].as_u64().unwrap();
    // Beside the table, what was written last: of a small pool a MiB.
    let table_bytes = made["dram_bytes"].as_u64().unwrap() - (1 << 20);
    assert_eq!(table_bytes / slots, 21, "{made}");
    assert!(made["durable_write_us"].as_u64().unwrap() > 0);
    let looked_at = env.ask(&["info", "./other"]);
    assert_eq!(looked_at["medium"], "ssd");
    assert_eq!(looked_at["ssd"]["segments"], 31);
    assert_eq!(env.run(&["check", "./other"]).code, 0);
    env.ask(&["recover", "--dry-run", "./other"]);
    env.ask(&["recover", "./other"]);
}

#[test]
fn what_it_lacks_is_refused() {
    let Some(env) = env("what_it_lacks_is_refused") else {
        return;
    };
    let create = ["create", "./other", "--size", "16M", "--medium", "ssd"];
    let refuses = |more: &[&str], text| env.refuses(&[&create, more].concat(), 2, text);
    refuses(
        &["--member", "./third", "--redundancy", "none"],
        "has one member",
    );
    refuses(
        &["--member", "./third", "--member", "./fourth"],
        "a mirror of two",
    );
    refuses(&["--redundancy", "checksum"], "no redundancy");
    refuses(&["--block-size", "8K"], "blocks of 4096 bytes");
    refuses(&["--strict"], "cannot be strict");
    assert!(!env.path("other").exists());
    env.refuses(&["resize", "POOL", "--size", "64M"], 2, "does not grow");
    let daemon = env.serve_nbd(&[]);
    env.refuses(&["scrub", "start", "POOL"], 2, "forebay check");
    daemon.end();
    env.refuses(&["member", "fail", "POOL", "0"], 2, "no mirror");
}

/// What a plain file becomes where nobody says it, and why it is mapped where it is.
#[test]
fn a_plain_file_was_mapped_although_it_can_have_a_log() {
    let Some(env) = env("a_plain_file_was_mapped_although_it_can_have_a_log") else {
        return;
    };
    let make = |name: &str, size: &str, more: &[&str]| {
        env.ask(&[&["create", name, "--size", size], more].concat())
    };
    assert_eq!(make("./plain", "16M", &[])["medium"], "ssd");
    assert_eq!(make("./test", "16M", &["--test"])["medium"], "ssd");
    let is_mapped = |made: Value, why: &str| {
        assert_eq!(made["medium"], "memory", "{made}");
        let told = made["why_mapped"].as_str().unwrap_or_default();
        assert!(told.contains(why), "{made}");
    };
    is_mapped(make("./small", "8M", &[]), "9 MiB");
    is_mapped(make("./large", "16M", &["--block-size", "8K"]), "4096");
    is_mapped(make("./strict", "16M", &["--strict"]), "checksums");
    is_mapped(make("./one", "16M", &["--member", "./two"]), "one member");
    is_mapped(make("./page", "16M", &["--medium", "page"]), "");
    env.refuses(
        &["create", "./no", "--size", "8M", "--medium", "ssd"],
        3,
        "8388608",
    );
    env.refuses(&["create", "./plain", "--size", "16M"], 3, "exists");
    let said = env.run(&["create", "./plain", "--size", "16M", "--force"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    for part in ["power loss", "of memory", "durable write"] {
        assert!(said.stdout.contains(part), "{}", said.stdout);
    }
    let said = env.run(&["create", "./tiny", "--size", "4M"]).stdout;
    assert!(said.contains("it is mapped page by page"), "{said}");
}

/// Memory stays mapped.
#[test]
fn a_file_in_memory_became_a_log() {
    let env = TestEnv::new();
    let made = env.ask(&["create", "POOL", "--size", "16M"]);
    let is_in_memory = std::path::Path::new("/dev/shm").is_dir() && !crate::test_env::on_ssd();
    assert_eq!(made["medium"] == "memory", is_in_memory, "{made}");
    assert!(made["why_mapped"].is_null(), "{made}");
}

/// Its backing fails on request; it is itself not broken.
#[test]
fn a_pool_for_tests_has_its_backing_fail() {
    let Some(env) = env("a_pool_for_tests_has_its_backing_fail") else {
        return;
    };
    env.ask(&["create", "POOL", "--size", "16M", "--force", "--test"]);
    let daemon = env.serve_nbd(&[]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(0, &content(0)).unwrap();
    env.ask(&["fault", "POOL", "fail-backing", "disk.img", "--writes", "1"]);
    assert_eq!(env.run(&["flush", "POOL"]).code, 1);
    env.ask(&["flush", "POOL"]);
    assert_eq!(env.ask(&["stat", "POOL"])["dirty_blocks"], 0);
    let flip = ["fault", "POOL", "flip-bit", "disk.img", "--block", "0"];
    env.refuses(&flip, 2, "--medium page --test");
    drop(client);
    daemon.end();
    assert_eq!(&fs::read(env.path("disk.img")).unwrap()[..4096], content(0));
}

/// What was acknowledged before a kill is there, also while the ring laps.
#[test]
fn what_was_acknowledged_before_a_kill_is_there() {
    let Some(env) = env("what_was_acknowledged_before_a_kill_is_there") else {
        return;
    };
    for round in 1..=3 {
        let daemon = env.serve_nbd(&[]);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let writer = load(&env, &acknowledged);
        // The pool has room for 4000 blocks, each of which takes two pages here.
        wait_for(&acknowledged, round * 2000);
        daemon.signal(Signal::KILL);
        drop(daemon);
        writer.join().unwrap();
        assert_eq!(env.run(&["check", "POOL"]).code, 0);
        let daemon = env.serve_nbd(&[]);
        verify(&env, acknowledged.load(Ordering::SeqCst));
        daemon.end();
    }
}

fn ssd_of(stat: &Value) -> &Value {
    assert_eq!(stat["medium"], "ssd", "{stat}");
    &stat["ssd"]
}

#[test]
fn a_daemon_serves_flushes_detaches_and_attaches_again() {
    let Some(env) = env("a_daemon_serves_flushes_detaches_and_attaches") else {
        return;
    };
    let daemon = env.serve_nbd(&[]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    assert_eq!(client.size_bytes, DISK_BYTES);
    for number in 0..50 {
        client.write(number * 4096, &content(number)).unwrap();
    }
    client.write(5000, &[9; 3000]).unwrap();
    assert_eq!(client.read(5000, 3000).unwrap(), [9; 3000]);
    env.refuses(&["info", "POOL"], 4, "open in another process");
    let stat = env.ask(&["stat", "POOL"]);
    let ssd = ssd_of(&stat);
    assert!(ssd["groups"].as_u64().unwrap() >= 51, "{ssd}");
    assert!(ssd["pages_written"].as_u64().unwrap() >= 102, "{ssd}");
    assert!(stat["dirty_blocks"].as_u64().unwrap() > 0);
    env.ask(&["flush", "POOL"]);
    assert_eq!(env.ask(&["stat", "POOL"])["dirty_blocks"], 0);
    let image = fs::read(env.path("disk.img")).unwrap();
    assert_eq!(&image[49 * 4096..][..4096], content(49));
    assert_eq!(&image[5000..8000], [9; 3000]);
    drop(client);
    while env.ask(&["stat", "POOL"])["volumes"][0]["nbd_connections"] != 0 {
        std::thread::yield_now();
    }
    env.ask(&["detach", "POOL", "disk.img"]);
    assert_eq!(
        env.ask(&["stat", "POOL"])["volumes"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    env.ask(&["attach", "POOL", "--backing", "BACKING"]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    assert_eq!(client.read(5000, 3000).unwrap(), [9; 3000]);
    drop(client);
    daemon.end();
    assert_eq!(env.ask(&["info", "POOL"])["dirty_blocks"], 0);
}

#[test]
fn a_mounted_disk_is_what_was_written_after_kills() {
    const TEST: &str = "a_mounted_disk_is_what_was_written_after_kills";
    let (false, Some(env)) = (skips_without_fuse(TEST), env(TEST)) else {
        return;
    };
    for round in 1..=2_u8 {
        let daemon = env.serve();
        let disk = env.open_disk();
        for number in 0..64_u64 {
            let content = [round ^ number as u8; 5000];
            let at = number * 6000 + u64::from(round);
            disk.write_all_at(&content, at).unwrap();
        }
        daemon.signal(Signal::KILL);
        drop((disk, daemon));
        let daemon = env.serve();
        let disk = env.open_disk();
        for number in 0..64_u64 {
            let mut content = [0; 5000];
            let at = number * 6000 + u64::from(round);
            disk.read_exact_at(&mut content, at).unwrap();
            assert!(content == [round ^ number as u8; 5000], "write {number}");
        }
        drop(disk);
        daemon.end();
    }
}

#[test]
fn a_mounted_directory_keeps_what_was_synced() {
    const TEST: &str = "a_mounted_directory_keeps_what_was_synced";
    let (false, Some(env)) = (skips_without_fuse(TEST), env(TEST)) else {
        return;
    };
    fs::create_dir(env.path("data")).unwrap();
    let mount = || env.start(env.command(&["mount", "./data", "MOUNT", "--pool", "POOL"]));
    let daemon = mount();
    let mut file = File::create(env.path("mount/file")).unwrap();
    for number in 0..100_u32 {
        writeln!(file, "line {number}").unwrap();
        file.sync_data().unwrap();
    }
    daemon.signal(Signal::KILL);
    drop((file, daemon));
    let daemon = mount();
    let text = fs::read_to_string(env.path("mount/file")).unwrap();
    assert_eq!(text.lines().count(), 100);
    daemon.end();
    assert_eq!(fs::read_to_string(env.path("data/file")).unwrap(), text);
}

/// Each program opens the pool anew, and begins a segment there: the ring laps.
#[test]
fn programs_that_follow_each_other_keep_their_files_in_it() {
    let Some(env) = env("programs_that_follow_each_other") else {
        return;
    };
    fs::create_dir(env.path("data")).unwrap();
    let library = crate::run::library();
    let library = library.to_str().unwrap();
    for number in 0..24 {
        let script = format!("echo line {number} >> file && sync file");
        let arguments = ["run", "--pool", "POOL", "--library", library, "--"];
        let mut command = env.command(&[&arguments[..], &["sh", "-c", &script]].concat());
        let ran = command.current_dir(env.path("data")).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "program {number}: {said}");
    }
    let text = fs::read_to_string(env.path("data/file")).unwrap();
    assert_eq!(text.lines().count(), 24);
    assert_eq!(env.run(&["check", "POOL"]).code, 0);
}
