//! The published designs as disks: made, served through every front end, killed, recovered, and what is
//! refused.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay::{Pool, PoolOptions};
use forebay_serve::{Client, Request, control_path};
use rustix::process::Signal;
use serde_json::json;

use crate::load::{load, verify, wait_for};
use crate::test_env::{DISK_BYTES, Daemon, TestEnv, skips_without_fuse};
use forebay_harness::nbd;

const DESIGNS: [&str; 5] = ["classic", "ubj", "tinca", "spindle", "forebay"];

fn create(env: &TestEnv, design: &str) {
    let made = env.ask(&[
        "create",
        "POOL",
        "--size",
        "8M",
        "--engine",
        design,
        "--backing",
        "BACKING",
    ]);
    assert_eq!(made["engine"], design);
    assert_eq!(made["block_bytes"], 4096);
    assert!(made["slots"].as_u64().unwrap() > 1000, "{made}");
}

/// A daemon that exports the disk to NBD clients.
fn serve(env: &TestEnv, design: &str) -> Daemon {
    serve_with(env, design, &["--nbd", "NBD"])
}

fn kill(daemon: Daemon) {
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.wait(), None);
}

#[test]
fn each_design_serves_and_keeps_what_it_acknowledged() {
    for design in DESIGNS {
        let env = TestEnv::new();
        create(&env, design);
        let mode = std::fs::metadata(env.path("pool")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{design}");
        let daemon = serve(&env, design);
        let mut client = nbd::Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
        let content = [design.as_bytes(), &[7; 9000]].concat();
        client.write(4090, &content).unwrap();
        let stat = env.ask(&["stat", "POOL"]);
        assert_eq!(stat["engine"], design);
        assert_eq!(stat["totals"]["commits"], 1, "{design}");
        assert_eq!(stat["totals"]["blocks_committed"], 4, "{design}");
        assert_eq!(stat["dirty_blocks"], 4, "{design}");
        assert!(stat["counters"]["fences"].as_u64().unwrap() > 0);
        assert_eq!(stat["volumes"][0]["size_bytes"], DISK_BYTES);
        assert_eq!(stat["volumes"][0]["name"], "disk.img");
        assert_eq!(stat["volumes"][0]["requests"]["write"]["count"], 1);
        assert_eq!(stat["front_ends"][0]["kind"], "nbd");
        kill(daemon);

        let daemon = serve(&env, design);
        let mut client = nbd::Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
        assert_eq!(client.read(4090, content.len()).unwrap(), content);
        env.ask(&["flush", "POOL"]);
        let mut found = vec![0; content.len()];
        let image = std::fs::File::open(env.path("disk.img")).unwrap();
        image.read_exact_at(&mut found, 4090).unwrap();
        assert_eq!(found, content, "{design}");
        assert_eq!(env.ask(&["stat", "POOL"])["dirty_blocks"], 0, "{design}");
        drop(client);
        daemon.end();
        let daemon = serve(&env, design);
        let mut client = nbd::Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
        assert_eq!(client.read(4090, content.len()).unwrap(), content);
        drop(client);
        daemon.end();
    }
}

#[test]
fn sigkill_under_load_loses_nothing_whatever_the_design() {
    for design in DESIGNS {
        let env = TestEnv::new();
        create(&env, design);
        let acknowledged = Arc::new(AtomicU64::new(0));
        for count in [500, 1500] {
            let daemon = serve(&env, design);
            let loads = load(&env, &acknowledged);
            wait_for(&acknowledged, count);
            kill(daemon);
            loads.join().unwrap();
        }
        let daemon = serve(&env, design);
        verify(&env, acknowledged.load(Ordering::SeqCst));
        daemon.end();
    }
}

#[test]
fn a_design_is_mounted_and_offered_to_guests_as_well() {
    if skips_without_fuse("a_design_is_mounted_and_offered_to_guests_as_well") {
        return;
    }
    let env = TestEnv::new();
    create(&env, "classic");
    let front_ends = ["--fuse", "MOUNT", "--vhost-user", "./guest.sock"];
    let daemon = serve_with(&env, "classic", &front_ends);
    let disk = env.open_disk();
    disk.write_all_at(b"over FUSE", 5000).unwrap();
    let mut found = [0; 9];
    disk.read_exact_at(&mut found, 5000).unwrap();
    assert_eq!(&found, b"over FUSE");
    drop(disk);
    let stat = env.ask(&["stat", "POOL"]);
    let kinds: Vec<_> = stat["front_ends"].as_array().unwrap().iter().collect();
    assert_eq!(kinds.len(), 2, "{stat}");
    let mounted_on = env.path("mount");
    assert_eq!(
        stat["volumes"][0]["mounted_on"],
        mounted_on.to_str().unwrap()
    );
    assert!(env.path("guest.sock").exists());
    daemon.end();
    assert!(!env.path("guest.sock").exists());
}

fn serve_with(env: &TestEnv, design: &str, more: &[&str]) -> Daemon {
    let all = [
        "--memory",
        "POOL",
        "--backing",
        "BACKING",
        "--engine",
        design,
    ];
    env.serve_with(&[&all, more].concat())
}

#[test]
fn what_an_engine_does_not_know_is_refused_by_name() {
    let env = TestEnv::new();
    create(&env, "classic");
    let daemon = serve(&env, "classic");
    let control = control_path(&env.path("pool"));
    for command in ["attach", "detach", "set", "grow-volume", "fault", "sample"] {
        let mut client = Client::connect(&control).unwrap().unwrap();
        let refused = client.request(&Request::new(command), |_| true);
        let refused = refused.unwrap_err().to_string();
        let says = refused.contains("the engine classic") && refused.contains(command);
        assert!(says, "{command}: {refused}");
    }
    let serve = [
        "serve",
        "--memory",
        "POOL",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ];
    let second = env.run(&serve);
    assert_eq!(second.code, 4, "{}", second.stderr);
    daemon.end();
    assert_eq!(env.run(&["stat", "POOL"]).code, 5);
}

#[test]
fn which_design_a_memory_holds_is_found_and_need_not_be_named() {
    let env = TestEnv::new();
    create(&env, "ubj");
    let arguments = ["--memory", "POOL", "--backing", "BACKING", "--nbd", "NBD"];
    let daemon = env.serve_with(&[&arguments[..], &["--name", "named"]].concat());
    let stat = env.ask(&["stat", "POOL"]);
    assert_eq!(stat["engine"], "ubj");
    assert_eq!(stat["volumes"][0]["name"], "named");
    daemon.end();
}

/// Reads of blocks that are far from each other, none of them cached.
const READS: u64 = 4;
/// What an HDD takes to find such a block.
const SEEK: Duration = Duration::from_millis(4);

fn read_far_blocks(client: &mut nbd::Client, first: u64) -> Duration {
    let began = Instant::now();
    for number in 0..READS {
        let offset = first + number * (2 << 20);
        assert_eq!(client.read(offset, 4096).unwrap(), [0; 4096]);
    }
    began.elapsed()
}

#[test]
fn a_design_is_as_slow_as_asked_for_until_its_delays_are_turned_off() {
    for design in DESIGNS {
        let env = TestEnv::new();
        create(&env, design);
        let slow = [
            "--backing-delay",
            "hdd",
            "--memory-delay",
            "pcm",
            "--cleaner",
        ];
        let daemon = serve_with(&env, design, &[&["--nbd", "NBD"], &slow[..]].concat());
        let delays = |are_on: bool| json!({"backing": "hdd", "memory": "pcm", "are_on": are_on});
        assert_eq!(env.ask(&["stat", "POOL"])["delays"], delays(true));
        let mut client = nbd::Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
        assert!(
            read_far_blocks(&mut client, 3 << 20) >= SEEK * READS as u32,
            "{design}"
        );
        let turned = env.ask(&["delays", "POOL", "off"]);
        assert_eq!(turned["delays"], delays(false));
        client.write(4096, &[7; 8192]).unwrap();
        assert_eq!(client.read(4096, 8192).unwrap(), [7; 8192]);
        let turned = env.ask(&["delays", "POOL", "on"]);
        assert_eq!(turned["delays"], delays(true));
        assert!(
            read_far_blocks(&mut client, 4 << 20) >= SEEK * READS as u32,
            "{design}"
        );
        drop(client);
        daemon.end();
        assert_eq!(env.run(&["delays", "POOL", "off"]).code, 5);
    }
}

#[test]
fn with_the_cleaner_threads_make_room() {
    for design in DESIGNS {
        let env = TestEnv::new();
        create(&env, design);
        let daemon = serve_with(&env, design, &["--nbd", "NBD", "--cleaner"]);
        let mut client = nbd::Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
        // Twice what the cache holds.
        let piece = [5; 64 << 10];
        for offset in (0..DISK_BYTES).step_by(piece.len()) {
            client.write(offset, &piece).unwrap();
        }
        let stat = env.ask(&["stat", "POOL"]);
        assert!(
            stat["totals"]["evictions"].as_u64().unwrap() > 1000,
            "{design}: {stat}"
        );
        assert_eq!(stat["totals"]["write_back_errors"], 0, "{design}");
        let disk = &stat["volumes"][0];
        assert_eq!(disk["degraded"], false, "{design}: {disk}");
        assert!(disk["last_error"].is_null(), "{design}: {disk}");
        for offset in (0..DISK_BYTES).step_by(piece.len()) {
            assert!(
                client.read(offset, piece.len()).unwrap() == piece,
                "{design}: {offset}"
            );
        }
        drop(client);
        daemon.end();
    }
}

#[test]
fn a_pool_is_served_where_forebay_is_asked_for_by_name() {
    let env = TestEnv::new();
    let options = PoolOptions::new(env.path("pool"), 8 << 20);
    Pool::create(&options).unwrap().close().unwrap();
    let daemon = serve(&env, "forebay");
    let mut client = nbd::Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(4096, &[7; 4096]).unwrap();
    drop(client);
    daemon.end();
    // It is a pool as any other afterwards, with the block dirty in it.
    let pool = Pool::open(&[env.path("pool")]).unwrap();
    assert_eq!(pool.stats().dirty_blocks, 1);
    pool.close().unwrap();
}

#[test]
fn another_engine_or_another_disk_is_refused() {
    let env = TestEnv::new();
    create(&env, "classic");
    let image = std::fs::File::create(env.path("larger.img")).unwrap();
    image.set_len(2 * DISK_BYTES).unwrap();
    env.make_image("same-size.img");
    let serve = ["serve", "--memory", "POOL", "--nbd", "NBD"];
    for (more, says) in [
        (
            &["--backing", "BACKING", "--engine", "ubj"][..],
            "a cache of the engine classic, not of ubj",
        ),
        (
            &["--backing", "./larger.img", "--engine", "classic"],
            "a cache of a disk of 16777216 bytes",
        ),
        (&["--backing", "./same-size.img"], "a cache of another disk"),
    ] {
        let refused = env.run(&[&serve[..], more].concat());
        assert_eq!(refused.code, 3, "{more:?}: {}", refused.stderr);
        let says = refused.stderr.contains(says);
        assert!(says, "{}", refused.stderr);
    }
    std::fs::write(env.path("pool"), [7; 65536]).unwrap();
    let refused = env.run(&[&serve[..], &["--backing", "BACKING"]].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("forebay-lab create"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_pool_of_forebay_is_never_overwritten_nor_taken_for_a_cache() {
    let env = TestEnv::new();
    let options = PoolOptions::new(env.path("pool"), 8 << 20);
    Pool::create(&options).unwrap().close().unwrap();
    let before = std::fs::read(env.path("pool")).unwrap();
    let create = ["create", "POOL", "--size", "8M", "--engine", "tinca"];
    let create = [&create[..], &["--backing", "BACKING"]].concat();
    let forced = [&create[..], &["--force", "--accept-stale"]].concat();
    let serve = [
        "serve",
        "--memory",
        "POOL",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ];
    let named = [&serve[..], &["--engine", "tinca", "--accept-stale"]].concat();
    let own = [
        "create", "POOL", "--size", "8M", "--engine", "forebay", "--force",
    ];
    let own = [&own[..], &["--backing", "BACKING"]].concat();
    for command in [&create[..], &forced, &serve, &named, &own] {
        let refused = env.run(command);
        assert_eq!(refused.code, 3, "{command:?}: {}", refused.stderr);
        let says = refused.stderr.contains("a pool of Forebay") && refused.stderr.contains("/pool");
        assert!(says, "{command:?}: {}", refused.stderr);
        assert!(
            std::fs::read(env.path("pool")).unwrap() == before,
            "{command:?}"
        );
    }
    // While it is in use as well.
    let pool = Pool::open(&[env.path("pool")]).unwrap();
    let refused = env.run(&forced);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    pool.close().unwrap();
    Pool::open(&[env.path("pool")]).unwrap().close().unwrap();
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let env = TestEnv::new();
    let image = std::fs::File::create(env.path("odd.img")).unwrap();
    image.set_len(DISK_BYTES + 512).unwrap();
    let create = ["create", "POOL", "--size", "8M"];
    let serve = ["serve", "--memory", "POOL"];
    let classic = ["--engine", "classic", "--backing", "BACKING"];
    let odd = ["--engine", "classic", "--backing", "./odd.img"];
    for (command, code, part) in [
        (
            [&create[..], &["--engine", "classic"]].concat(),
            2,
            "--backing",
        ),
        (
            [&create[..], &["--backing", "BACKING"]].concat(),
            2,
            "--engine",
        ),
        (
            [&create[..], &["--engine", "abacus"]].concat(),
            2,
            "spindle",
        ),
        (
            [
                &serve[..],
                &classic,
                &["--nbd", "NBD", "--backing-delay", "tape"],
            ]
            .concat(),
            2,
            "ssd, hdd and none",
        ),
        (
            [
                &serve[..],
                &classic,
                &["--nbd", "NBD", "--memory-delay", "core"],
            ]
            .concat(),
            2,
            "stt-ram",
        ),
        ([&create[..], &odd].concat(), 1, "whole blocks"),
        ([&serve[..], &["--nbd", "NBD"]].concat(), 2, "--backing"),
        ([&serve[..], &classic].concat(), 2, "--nbd"),
    ] {
        let refused = env.run(&command);
        assert_eq!(refused.code, code, "{command:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(part),
            "{command:?}: {}",
            refused.stderr
        );
    }
    assert!(!env.path("pool").exists());
    std::fs::write(env.path("pool"), "private letters").unwrap();
    let refused = env.run(&[&create[..], &classic].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let letters = std::fs::read(env.path("pool")).unwrap();
    assert_eq!(letters, b"private letters");
    let forced = env.run(&[&create[..], &classic, &["--force"]].concat());
    assert_eq!(forced.code, 0, "{}", forced.stderr);
}
