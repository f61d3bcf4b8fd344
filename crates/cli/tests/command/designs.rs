//! The published designs behind the daemon: made, served through every front end, killed, recovered, and
//! what they are refused.

use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;

use crate::ending::{load, verify, wait_for};
use crate::nbd::Client;
use crate::place::{DISK_BYTES, Daemon, Place, skips_without_fuse};

const DESIGNS: [&str; 4] = ["classic", "ubj", "tinca", "spindle"];

fn create(place: &Place, design: &str) {
    let made = place.ask(&[
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

fn serve(place: &Place, design: &str) -> Daemon {
    place.serve_nbd(&["--engine", design])
}

fn kill(daemon: Daemon) {
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.wait(), None);
}

#[test]
fn each_design_serves_and_keeps_what_it_acknowledged() {
    for design in DESIGNS {
        let place = Place::new();
        create(&place, design);
        let mode = std::fs::metadata(place.path("pool")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{design}");
        let daemon = serve(&place, design);
        let mut client = Client::open(&place.path("nbd.sock"), "disk.img").unwrap();
        let content = [design.as_bytes(), &[7; 9000]].concat();
        client.write(4090, &content).unwrap();
        let stat = place.ask(&["stat", "POOL"]);
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

        let daemon = serve(&place, design);
        let mut client = Client::open(&place.path("nbd.sock"), "disk.img").unwrap();
        assert_eq!(client.read(4090, content.len()).unwrap(), content);
        place.ask(&["flush", "POOL"]);
        let mut found = vec![0; content.len()];
        let image = std::fs::File::open(place.path("disk.img")).unwrap();
        image.read_exact_at(&mut found, 4090).unwrap();
        assert_eq!(found, content, "{design}");
        assert_eq!(place.ask(&["stat", "POOL"])["dirty_blocks"], 0, "{design}");
        drop(client);
        daemon.end();
        let daemon = serve(&place, design);
        let mut client = Client::open(&place.path("nbd.sock"), "disk.img").unwrap();
        assert_eq!(client.read(4090, content.len()).unwrap(), content);
        drop(client);
        daemon.end();
    }
}

#[test]
fn sigkill_under_load_loses_nothing_whatever_the_design() {
    for design in DESIGNS {
        let place = Place::new();
        create(&place, design);
        let acknowledged = Arc::new(AtomicU64::new(0));
        for count in [500, 1500] {
            let daemon = serve(&place, design);
            let loads = load(&place, &acknowledged);
            wait_for(&acknowledged, count);
            kill(daemon);
            loads.join().unwrap();
        }
        let daemon = serve(&place, design);
        verify(&place, acknowledged.load(Ordering::SeqCst));
        daemon.end();
    }
}

#[test]
fn a_design_is_mounted_and_offered_to_guests_as_well() {
    if skips_without_fuse("a_design_is_mounted_and_offered_to_guests_as_well") {
        return;
    }
    let place = Place::new();
    create(&place, "classic");
    let front_ends = ["--fuse", "MOUNT", "--vhost-user", "./guest.sock"];
    let daemon = serve_with(&place, "classic", &front_ends);
    let disk = place.open_disk();
    disk.write_all_at(b"over FUSE", 5000).unwrap();
    let mut found = [0; 9];
    disk.read_exact_at(&mut found, 5000).unwrap();
    assert_eq!(&found, b"over FUSE");
    drop(disk);
    let stat = place.ask(&["stat", "POOL"]);
    let kinds: Vec<_> = stat["front_ends"].as_array().unwrap().iter().collect();
    assert_eq!(kinds.len(), 2, "{stat}");
    let mounted_on = place.path("mount");
    assert_eq!(
        stat["volumes"][0]["mounted_on"],
        mounted_on.to_str().unwrap()
    );
    assert!(place.path("guest.sock").exists());
    daemon.end();
    assert!(!place.path("guest.sock").exists());
}

fn serve_with(place: &Place, design: &str, more: &[&str]) -> Daemon {
    let all = ["--pool", "POOL", "--backing", "BACKING", "--engine", design];
    place.serve_with(&[&all, more].concat())
}

#[test]
fn what_belongs_to_the_engine_forebay_is_refused_by_name() {
    let place = Place::new();
    create(&place, "classic");
    let daemon = serve(&place, "classic");
    place.make_image("second.img");
    for command in [
        &["attach", "POOL", "--backing", "./second.img"][..],
        &["detach", "POOL", "disk.img"],
        &["set", "POOL", "--dirty-low", "10"],
        &["resize", "POOL", "--volume", "disk.img"],
        &["fault", "POOL", "flip-bit", "disk.img", "--block", "1"],
        &["top", "POOL", "--once"],
    ] {
        let refused = place.run(command);
        assert_eq!(refused.code, 2, "{command:?}: {}", refused.stderr);
        let says =
            refused.stderr.contains("the engine classic") && refused.stderr.contains("forebay");
        assert!(says, "{command:?}: {}", refused.stderr);
    }
    let second = place.run(&[
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
    let place = Place::new();
    create(&place, "classic");
    let image = std::fs::File::create(place.path("larger.img")).unwrap();
    image.set_len(2 * DISK_BYTES).unwrap();
    place.make_image("same-size.img");
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
        let refused = place.run(&[&serve[..], more].concat());
        assert_eq!(refused.code, 3, "{more:?}: {}", refused.stderr);
        let says = refused.stderr.contains(says);
        assert!(says, "{}", refused.stderr);
    }
    for command in ["info", "check"] {
        let refused = place.run(&[command, "POOL"]);
        assert_eq!(refused.code, 3, "{}", refused.stderr);
        let says = refused.stderr.contains("--engine classic");
        assert!(says, "{}", refused.stderr);
    }
    let pool = Place::with_pool();
    let refused =
        pool.run(&[&serve[..], &["--backing", "BACKING", "--engine", "classic"]].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
}

#[test]
fn arguments_that_make_no_sense_for_a_design_are_refused() {
    let place = Place::new();
    let image = std::fs::File::create(place.path("odd.img")).unwrap();
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
        let refused = place.run(&command);
        assert_eq!(refused.code, code, "{command:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(part),
            "{command:?}: {}",
            refused.stderr
        );
    }
    assert!(!place.path("pool").exists());
    std::fs::write(place.path("pool"), "somebody's letters").unwrap();
    let refused = place.run(&[&create[..], &tinca].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let letters = std::fs::read(place.path("pool")).unwrap();
    assert_eq!(letters, b"somebody's letters");
}
