//! A pool in memory in front of one on an SSD, in one daemon: served, killed, taken apart, and refused where one is left out.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_harness::nbd::Client;
use rustix::process::Signal;

use crate::load::{content, load, verify, wait_for};
use crate::ssd;
use crate::test_env::{Daemon, TestEnv};

/// The pool of an SSD's environment, and a small one in front.
fn env(test: &str) -> Option<TestEnv> {
    let env = ssd::env(test)?;
    env.ask(&["create", "./front", "--size", "2M", "--medium", "page"]);
    Some(env)
}

fn serve(env: &TestEnv) -> Daemon {
    let stack = ["--pool", "./front", "--behind", "POOL"];
    env.serve_with(&[&stack[..], &["--backing", "BACKING", "--nbd", "NBD"]].concat())
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_in_one_pool_or_the_other() {
    let Some(env) = env("what_was_acknowledged_before_a_kill_is_there_in_one_pool") else {
        return;
    };
    for round in 1..=3 {
        let daemon = serve(&env);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let writer = load(&env, &acknowledged);
        // The pool in front has room for some 400 blocks.
        wait_for(&acknowledged, round * 1500);
        let behind = env.ask(&["stat", "./front"])["behind"].clone();
        assert_eq!(behind["medium"], "ssd");
        assert!(behind["ssd"]["blocks"].as_u64().unwrap() > 0, "{behind}");
        daemon.signal(Signal::KILL);
        drop(daemon);
        writer.join().unwrap();
        let daemon = serve(&env);
        verify(&env, acknowledged.load(Ordering::SeqCst));
        daemon.end();
    }
}

#[test]
fn a_flush_and_a_detach_go_through_both() {
    let Some(env) = env("a_flush_and_a_detach_go_through_both") else {
        return;
    };
    let daemon = serve(&env);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    for number in 0..50 {
        client.write(number * 4096, &content(number)).unwrap();
    }
    env.ask(&["flush", "./front"]);
    let image = fs::read(env.path("disk.img")).unwrap();
    assert_eq!(&image[49 * 4096..][..4096], content(49));
    client.write(7 * 4096, &content(8)).unwrap();
    drop(client);
    while env.ask(&["stat", "./front"])["volumes"][0]["nbd_connections"] != 0 {
        std::thread::yield_now();
    }
    env.ask(&["detach", "./front", "disk.img"]);
    let image = fs::read(env.path("disk.img")).unwrap();
    assert_eq!(&image[7 * 4096..][..4096], content(8));
    let stat = env.ask(&["stat", "./front"]);
    assert!(stat["behind"]["volumes"].as_array().unwrap().is_empty());
    env.ask(&["attach", "./front", "--backing", "BACKING"]);
    let stat = env.ask(&["stat", "./front"]);
    assert_eq!(stat["behind"]["volumes"].as_array().unwrap().len(), 1);
    daemon.end();
}

#[test]
fn one_pool_of_two_that_is_left_out_is_noticed() {
    let Some(env) = env("one_pool_of_two_that_is_left_out") else {
        return;
    };
    let daemon = serve(&env);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    client.write(0, &content(1)).unwrap();
    drop(client);
    daemon.end();
    let alone = |pool| {
        let arguments = ["serve", "--pool", pool, "--backing", "BACKING"];
        [&arguments[..], &["--nbd", "NBD"]].concat()
    };
    env.refuses(&alone("POOL"), 8, "in front of this one");
    env.refuses(&alone("./front"), 8, "left out");
    for pool in [&["POOL"][..], &["./front"], &[]] {
        let asked = [&["info"], pool, &["--backing", "BACKING", "--json"]].concat();
        let shown = env.run(&asked);
        assert_eq!(shown.code, 0, "{pool:?}: {}", shown.stderr);
        assert_eq!(shown.json()["state"], "open", "{pool:?}: {}", shown.stdout);
    }
    fs::rename(env.path("front"), env.path("gone")).unwrap();
    let shown = env.run(&["info", "--backing", "BACKING"]);
    assert_eq!(shown.code, 8, "{}", shown.stdout);
    fs::rename(env.path("gone"), env.path("front")).unwrap();

    // Idle, both are written back; then the one on the SSD alone, which changes nothing for the other.
    let flush = ["--backing", "BACKING"];
    env.refuses(
        &[&["flush", "POOL"], &flush[..]].concat(),
        8,
        "in front of this one",
    );
    env.ask(&[&["flush", "./front", "--behind", "POOL"], &flush[..]].concat());
    assert_eq!(&fs::read(env.path("disk.img")).unwrap()[..4096], content(1));
    env.ask(&[&["flush", "POOL"], &flush[..]].concat());
    serve(&env).end();
    let daemon = env.serve_nbd(&[]);
    let mut client = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    assert_eq!(client.read(0, 4096).unwrap(), content(1));
    drop(client);
    daemon.end();
    // That one went on alone.
    let both = [
        "serve",
        "--pool",
        "./front",
        "--behind",
        "POOL",
        "--backing",
        "BACKING",
    ];
    env.refuses(&[&both[..], &["--nbd", "NBD"]].concat(), 8, "another pool");
}

#[test]
fn what_cannot_stand_behind_is_refused() {
    let Some(env) = env("what_cannot_stand_behind") else {
        return;
    };
    env.ask(&["create", "./page", "--size", "2M", "--medium", "page"]);
    let serve = |pool, behind| {
        let pools = ["serve", "--pool", pool, "--behind", behind];
        [&pools[..], &["--backing", "BACKING", "--nbd", "NBD"]].concat()
    };
    env.refuses(&serve("./front", "./page"), 2, "--behind");
    env.refuses(&serve("POOL", "POOL"), 4, "pool");
    env.refuses(&serve("./front", "./none"), 1, "none");
}
