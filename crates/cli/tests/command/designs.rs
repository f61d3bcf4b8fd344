//! The published designs behind the daemon: made, served through every front end, killed, recovered, and
//! what they are refused.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;

use crate::ending::{load, verify, wait_for};
use crate::nbd::Client;
use crate::test_env::{DISK_BYTES, Daemon, TestEnv, skips_without_fuse};

const DESIGNS: [&str; 4] = ["classic", "ubj", "tinca", "spindle"];

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

fn serve(env: &TestEnv, design: &str) -> Daemon {
    env.serve_nbd(&["--engine", design])
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
        let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
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
        let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
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
        let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
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
    let all = ["--pool", "POOL", "--backing", "BACKING", "--engine", design];
    env.serve_with(&[&all, more].concat())
}

#[test]
fn what_belongs_to_the_engine_forebay_is_refused_by_name() {
    let env = TestEnv::new();
    create(&env, "classic");
    let daemon = serve(&env, "classic");
    env.make_image("second.img");
    for command in [
        &["attach", "POOL", "--backing", "./second.img"][..],
        &["detach", "POOL", "disk.img"],
        &["set", "POOL", "--dirty-low", "10"],
        &["resize", "POOL", "--volume", "disk.img"],
        &["fault", "POOL", "flip-bit", "disk.img", "--block", "1"],
        &["top", "POOL", "--once"],
    ] {
        let refused = env.run(command);
        assert_eq!(refused.code, 2, "{command:?}: {}", refused.stderr);
        let says =
            refused.stderr.contains("the engine classic") && refused.stderr.contains("forebay");
        assert!(says, "{command:?}: {}", refused.stderr);
    }
    let second = env.run(&[
        "serve",
        "--pool",
        "POOL",
        "--backing",
        "BACKING",
        "--engine",
        "classic",
        "--nbd",
        "NBD",
    ]);
    assert_eq!(second.code, 4, "{}", second.stderr);
    daemon.end();
}

#[test]
fn another_engine_another_disk_or_a_pool_is_refused() {
    let env = TestEnv::new();
    create(&env, "classic");
    let image = std::fs::File::create(env.path("larger.img")).unwrap();
    image.set_len(2 * DISK_BYTES).unwrap();
    env.make_image("same-size.img");
    let serve = ["serve", "--pool", "POOL", "--nbd", "NBD"];
    for (more, says) in [
        (
            &["--backing", "BACKING", "--engine", "ubj"][..],
            "a cache of the engine classic, not of ubj",
        ),
        (&["--backing", "BACKING"], "--engine classic"),
        (
            &["--backing", "./larger.img", "--engine", "classic"],
            "a cache of a disk of 16777216 bytes",
        ),
        (
            &["--backing", "./same-size.img", "--engine", "classic"],
            "a cache of another disk",
        ),
    ] {
        let refused = env.run(&[&serve[..], more].concat());
        assert_eq!(refused.code, 3, "{more:?}: {}", refused.stderr);
        let says = refused.stderr.contains(says);
        assert!(says, "{}", refused.stderr);
    }
    for command in ["info", "check"] {
        let refused = env.run(&[command, "POOL"]);
        assert_eq!(refused.code, 3, "{}", refused.stderr);
        let says = refused.stderr.contains("--engine classic");
        assert!(says, "{}", refused.stderr);
    }
    let pool = TestEnv::with_pool();
    let refused =
        pool.run(&[&serve[..], &["--backing", "BACKING", "--engine", "classic"]].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
}

#[test]
fn arguments_that_make_no_sense_for_a_design_are_refused() {
    let env = TestEnv::new();
    let image = std::fs::File::create(env.path("odd.img")).unwrap();
    image.set_len(DISK_BYTES + 512).unwrap();
    let create = ["create", "POOL", "--size", "8M"];
    let serve = ["serve", "--pool", "POOL", "--nbd", "NBD"];
    let tinca = ["--engine", "classic", "--backing", "BACKING"];
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
            "--backing",
        ),
        (
            [&create[..], &["--engine", "abacus"]].concat(),
            2,
            "spindle",
        ),
        ([&create[..], &tinca, &["--strict"]].concat(), 2, "--strict"),
        ([&create[..], &tinca, &["--test"]].concat(), 2, "--test"),
        ([&create[..], &odd].concat(), 1, "whole blocks"),
        (
            [&serve[..], &["--engine", "classic"]].concat(),
            2,
            "--backing",
        ),
        (
            [&serve[..], &tinca, &["--dirty-low", "9"]].concat(),
            2,
            "--dirty-low",
        ),
        (
            [&serve[..], &tinca, &["--pool", "./two"]].concat(),
            2,
            "--pool",
        ),
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
    std::fs::write(env.path("pool"), "somebody's letters").unwrap();
    let refused = env.run(&[&create[..], &tinca].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let letters = std::fs::read(env.path("pool")).unwrap();
    assert_eq!(letters, b"somebody's letters");
}
