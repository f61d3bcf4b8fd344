//! Drills: a member of a served test pool does something wrong, and programs read right bytes all the same.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use forebay_harness::nbd::Client;
use serde_json::Value;

use crate::test_env::{Daemon, TestEnv};

pub const BLOCK: u64 = 4096;
pub const BLOCKS: u64 = 200;

/// A mirror for tests, and a daemon that serves it and keeps everything dirty.
fn served() -> (TestEnv, Daemon) {
    let env = TestEnv::new();
    let create = ["create", "POOL", "--member", "./other", "--size", "8M"];
    env.ask(&[&create[..], &["--test"]].concat());
    let daemon = serve(&env);
    (env, daemon)
}

fn serve(env: &TestEnv) -> Daemon {
    let water = ["--dirty-low", "90", "--dirty-high", "95"];
    env.serve_nbd(&[&["--pool", "./other"][..], &water].concat())
}

pub fn client(env: &TestEnv) -> Client {
    Client::open(&env.path("nbd.sock"), "disk.img").unwrap()
}

/// What a block is to hold when it was written so many times.
pub fn content(block: u64, round: u64) -> Vec<u8> {
    let words = (0..BLOCK / 8).flat_map(|word| (block << 32 | round << 16 | word).to_le_bytes());
    words.collect()
}

pub fn write(disk: &mut Client, round: u64) {
    for block in 0..BLOCKS {
        disk.write(block * BLOCK, &content(block, round)).unwrap();
    }
}

fn check(disk: &mut Client, round: u64) {
    for block in 0..BLOCKS {
        let found = disk.read(block * BLOCK, BLOCK as usize).unwrap();
        assert!(found == content(block, round), "block {block}");
    }
}

pub fn inject(env: &TestEnv, drill: &[&str]) -> Value {
    let struck = env.ask(&[&["fault", "POOL", "inject"], drill].concat());
    assert_eq!(struck["injected"]["kind"], drill[0], "{struck}");
    struck["injected"].clone()
}

/// Runs a drill that waits for a write, and writes once it does.
fn inject_in_write(env: &TestEnv, drill: &[&str], mut write: impl FnMut()) -> Value {
    let arguments = [&["fault", "POOL", "inject"], drill, &["--json"]].concat();
    let mut command = env.command(&arguments);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(waiting.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("waiting for a write"), "{said}");
    write();
    let ended = waiting.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let struck: Value = serde_json::from_slice(&ended.stdout).unwrap();
    struck["injected"].clone()
}

pub fn scrub(env: &TestEnv) -> Value {
    env.ask(&["scrub", "start", "POOL", "--restart"]);
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let status = env.ask(&["scrub", "status", "POOL"]);
        if status["state"] == "done" {
            return status;
        }
        assert!(Instant::now() < until, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_whole(env: &TestEnv) -> bool {
    env.ask(&["stat", "POOL"])["pool"] == "whole"
}

/// Makes the pool whole, if a member is out, and then has each member alone show everything.
fn each_member_alone_has_everything(env: &TestEnv, disk: &mut Client, round: u64) {
    for number in ["0", "1"] {
        if !is_whole(env) {
            let members = env.run(&["member", "list", "POOL", "--json"]).json();
            let members = members["members"].as_array().unwrap().clone();
            let out = members.iter().find(|member| member["state"] == "out");
            let out = out.expect("one is out")["number"].to_string();
            env.ask(&["member", "readd", "POOL", &out]);
        }
        check(disk, round);
        env.ask(&["member", "fail", "POOL", number]);
        check(disk, round);
    }
}

#[test]
fn what_stands_wrong_in_one_copy_is_repaired_from_the_other() {
    let (env, daemon) = served();
    let mut disk = client(&env);
    let mut round = 1;
    write(&mut disk, round);
    let of_block = ["--disk", "disk.img", "--block", "7"];
    let flip = ["bit-flip"];
    let struck = inject(&env, &[&flip[..], &of_block].concat());
    assert_eq!(
        (&struck["block"], &struck["volume"]),
        (&7.into(), &"disk.img".into())
    );
    check(&mut disk, round);
    assert_eq!(scrub(&env)["found"], 0, "the read repaired it");
    for member in ["0", "1"] {
        let any = inject(&env, &["bit-flip", "--member", member, "--seed", "4"]);
        assert_eq!(any["member"].to_string(), member, "{any}");
        assert_eq!(scrub(&env)["repaired"], 1);
        for area in [
            "table",
            "seal",
            "roster",
            "incarnation",
            "volume-line",
            "superblock",
            "checkpoint",
        ] {
            let flipped = ["bit-flip", "--member", member, "--area", area];
            let struck = inject(&env, &flipped);
            assert_eq!(struck["area"], area, "{struck}");
            let found = scrub(&env);
            assert_eq!(
                (&found["found"], &found["repaired"]),
                (&1.into(), &1.into()),
                "{area}: {found}"
            );
        }
        round += 1;
        write(&mut disk, round);
        inject(&env, &["bit-flip", "--member", member, "--area", "lane"]);
        // A scrub begins with a checkpoint, which reads the record from the other member and needs it no more.
        assert_eq!(scrub(&env)["found"], 0);
        check(&mut disk, round);
    }
    let totals = env.ask(&["stat", "POOL"])["totals"].clone();
    assert_eq!(
        (&totals["lost"], &totals["unrepaired"]),
        (&0.into(), &0.into()),
        "{totals}"
    );
    assert!(is_whole(&env));
    each_member_alone_has_everything(&env, &mut disk, round);
    drop(disk);
    daemon.end();
}

#[test]
fn writes_that_a_member_lost_tore_or_took_elsewhere_are_found_and_repaired() {
    let (env, daemon) = served();
    let mut disk = client(&env);
    let mut round = 1;
    write(&mut disk, round);
    for kind in ["lost-write", "torn-line", "misdirected-write"] {
        for (member, area) in [
            ("0", "slot"),
            ("1", "slot"),
            ("0", "table"),
            ("1", "seal"),
            ("1", "checkpoint"),
            ("0", "lane"),
        ] {
            let drill = [kind, "--member", member, "--area", area];
            round += 1;
            let struck = inject_in_write(&env, &drill, || write(&mut disk, round));
            assert_eq!(
                (&struck["kind"], &struck["area"]),
                (&kind.into(), &area.into()),
                "{struck}"
            );
            assert_eq!(
                struck["other_offset"].is_null(),
                kind != "misdirected-write",
                "{struck}"
            );
            check(&mut disk, round);
            let found = scrub(&env);
            assert_eq!(found["lost"], 0, "{struck}: {found}");
            assert_eq!(found["found"], found["repaired"], "{struck}: {found}");
            assert_eq!(scrub(&env)["found"], 0, "{struck}");
            check(&mut disk, round);
        }
    }
    // Of one block, whose copy nobody reads.
    let drill = [
        "lost-write",
        "--member",
        "1",
        "--disk",
        "disk.img",
        "--block",
        "8",
    ];
    round += 1;
    let struck = inject_in_write(&env, &drill, || write(&mut disk, round));
    assert_eq!(struck["block"], 8, "{struck}");
    check(&mut disk, round);
    assert_eq!(scrub(&env)["repaired"], 1, "{struck}");
    let none = ["lost-write", "--area", "volume-line", "--wait", "1"];
    env.refuses(
        &[&["fault", "POOL", "inject"], &none[..]].concat(),
        1,
        "nothing was changed",
    );
    each_member_alone_has_everything(&env, &mut disk, round);
    drop(disk);
    daemon.end();
}

#[test]
fn a_read_that_got_another_block_is_transient() {
    let (env, daemon) = served();
    let mut disk = client(&env);
    write(&mut disk, 1);
    let struck = inject(
        &env,
        &["misdirected-read", "--disk", "disk.img", "--block", "9"],
    );
    assert!(struck["other_offset"].is_u64(), "{struck}");
    check(&mut disk, 1);
    assert_eq!(scrub(&env)["found"], 0);
    let totals = env.ask(&["stat", "POOL"])["totals"].clone();
    assert_eq!(
        (&totals["transient"], &totals["repaired"]),
        (&1.into(), &0.into()),
        "{totals}"
    );
    each_member_alone_has_everything(&env, &mut disk, 1);
    drop(disk);
    daemon.end();
}

#[test]
fn a_page_that_fails_costs_no_byte_and_is_told() {
    for area in [
        "slot",
        "table",
        "lane",
        "volume-line",
        "checkpoint",
        "roster",
        "superblock",
    ] {
        let (env, daemon) = served();
        let mut disk = client(&env);
        write(&mut disk, 1);
        // The table gets there with a checkpoint.
        scrub(&env);
        write(&mut disk, 2);
        // Records are read from the first member, by a checkpoint.
        let member = if ["slot", "lane"].contains(&area) {
            "0"
        } else {
            "1"
        };
        inject(&env, &["poison", "--member", member, "--area", area]);
        check(&mut disk, 2);
        scrub(&env);
        write(&mut disk, 3);
        check(&mut disk, 3);
        let stat = env.ask(&["stat", "POOL"]);
        // Blocks leave the page; with anything else on it the member is out.
        let is_told = match area {
            "slot" => is_whole(&env) && stat["retired_slots"] == 1 && stat["media_errors"] == 1,
            _ => !is_whole(&env) || stat["totals"]["repaired"] != 0,
        };
        assert!(is_told, "{area}: {stat}");
        if area == "superblock" {
            // What does not start as a member of the pool is overwritten only on an operator's word.
            let readd = ["member", "readd", "POOL", "1"];
            env.refuses(&readd, 1, "--force");
            env.ask(&[&readd[..], &["--force"]].concat());
        }
        each_member_alone_has_everything(&env, &mut disk, 3);
        drop(disk);
        daemon.end();
        assert_eq!(env.run(&["check", "POOL", "./other"]).code, 0, "{area}");
    }
}

#[test]
fn a_member_that_dies_is_out_and_is_rebuilt() {
    let (env, daemon) = served();
    let mut disk = client(&env);
    write(&mut disk, 1);
    let struck = inject(&env, &["dead-member", "--member", "1"]);
    assert_eq!(
        struck["path"].as_str(),
        env.path("other").to_str(),
        "{struck}"
    );
    write(&mut disk, 2);
    let list = env.run(&["member", "list", "POOL", "--json"]);
    assert_eq!(list.code, 9);
    assert_eq!(list.json()["members"][1]["state"], "out");
    check(&mut disk, 2);
    env.refuses(
        &["fault", "POOL", "inject", "dead-member", "--member", "1"],
        2,
        "is out",
    );
    assert_eq!(env.ask(&["member", "readd", "POOL", "1"])["state"], "in");
    each_member_alone_has_everything(&env, &mut disk, 2);
    drop(disk);
    daemon.end();
}

#[test]
fn a_member_that_comes_back_as_it_was_is_known_for_an_old_copy() {
    let (env, daemon) = served();
    let mut disk = client(&env);
    write(&mut disk, 1);
    let stale = ["fault", "./other", "inject", "stale-member"];
    let save = [&stale[..], &["--save", "./old"]].concat();
    env.refuses(&save, 4, "another process");
    drop(disk);
    daemon.end();
    env.refuses(&stale, 2, "--save");
    assert_eq!(env.ask(&save)["saved"], true);
    env.refuses(&save, 1, "old");

    let daemon = serve(&env);
    let mut disk = client(&env);
    write(&mut disk, 2);
    drop(disk);
    daemon.end();
    env.refuses(
        &[
            "fault",
            "POOL",
            "inject",
            "stale-member",
            "--restore",
            "./old",
        ],
        2,
        "no copy",
    );
    assert_eq!(
        env.ask(&[&stale[..], &["--restore", "./old"]].concat())["restored"],
        true
    );

    let daemon = serve(&env);
    let mut disk = client(&env);
    let list = env.run(&["member", "list", "POOL", "--json"]);
    assert_eq!(list.json()["members"][1]["state"], "out", "{}", list.stdout);
    check(&mut disk, 2);
    each_member_alone_has_everything(&env, &mut disk, 2);
    drop(disk);
    daemon.end();
}

#[test]
fn drills_that_cannot_be_are_refused_and_change_nothing() {
    let env = TestEnv::with_pool();
    let drill = ["fault", "POOL", "inject"];
    let flip = [&drill[..], &["bit-flip"]].concat();
    env.refuses(&flip, 5, "no daemon");
    env.refuses(
        &[&drill[..], &["stale-member", "--save", "./old"]].concat(),
        2,
        "--test",
    );
    let daemon = env.serve_nbd(&[]);
    env.refuses(&flip, 2, "real data");
    daemon.end();

    let (env, daemon) = served();
    let refused = |more: &[&str], why: &str| env.refuses(&[&drill[..], more].concat(), 2, why);
    refused(&["bit-flip"], "no block");
    write(&mut client(&env), 1);
    refused(&["bit-flip", "--member", "2"], "no member 2");
    refused(&["bit-flip", "--area", "commit-word"], "nothing stands");
    refused(&["bit-flip", "--area", "sum"], "sum");
    refused(&["bit-flip", "--disk", "disk.img"], "--block");
    refused(
        &["bit-flip", "--disk", "disk.img", "--block", "5000"],
        "4096 blocks",
    );
    refused(
        &["bit-flip", "--disk", "disk.img", "--block", "4000"],
        "no copy",
    );
    refused(
        &[
            "bit-flip", "--area", "table", "--disk", "disk.img", "--block", "1",
        ],
        "block",
    );
    refused(&["lost-write", "--area", "superblock"], "flip a bit");
    refused(
        &["misdirected-read", "--area", "table"],
        "leave the part out",
    );
    refused(&["bit-flip", "--save", "./old"], "stale-member");
    assert_eq!(scrub(&env)["found"], 0);
    daemon.end();
}
