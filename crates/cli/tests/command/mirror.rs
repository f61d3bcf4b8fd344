//! A mirrored pool as an operator has it: made, served, a member lost, brought back.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use forebay_harness::nbd::Client;
use rustix::process::Signal;
use serde_json::Value;

use crate::test_env::{Daemon, SERVE_NBD, TestEnv};

const BLOCK: usize = 4096;

fn with_mirror() -> TestEnv {
    let env = TestEnv::new();
    let report = env.ask(&["create", "POOL", "--member", "./other", "--size", "8M"]);
    assert_eq!(report["redundancy"], "mirror", "{report}");
    env
}

fn serve_both(env: &TestEnv) -> Daemon {
    env.serve_nbd(&["--pool", "./other"])
}

fn serve_other_alone<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let alone = [
        "serve",
        "--pool",
        "./other",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ];
    [&alone[..], more].concat()
}

pub fn client(env: &TestEnv) -> Client {
    Client::open(&env.path("nbd.sock"), "disk.img").unwrap()
}

/// What a block is to hold.
fn content(block: u64) -> Vec<u8> {
    vec![block as u8 ^ 0x5A; BLOCK]
}

pub fn write(client: &mut Client, blocks: std::ops::Range<u64>) {
    for block in blocks {
        client.write(block * BLOCK as u64, &content(block)).unwrap();
    }
}

pub fn check(client: &mut Client, blocks: u64) {
    for block in 0..blocks {
        let found = client.read(block * BLOCK as u64, BLOCK).unwrap();
        assert!(found == content(block), "block {block}");
    }
}

/// The states of the members, while the command ends with `code`.
pub fn states(env: &TestEnv, list: &[&str], code: i32) -> Vec<String> {
    let outcome = env.run(&[list, &["--json"]].concat());
    assert_eq!(outcome.code, code, "{}{}", outcome.stdout, outcome.stderr);
    let report = outcome.json();
    let members = report["members"].as_array().unwrap();
    let state = |member: &Value| member["state"].as_str().unwrap().to_owned();
    members.iter().map(state).collect()
}

/// The last line of what the daemon says to a line.
fn answer_to(env: &TestEnv, line: &str) -> Value {
    let stream = UnixStream::connect(env.path("pool.sock")).unwrap();
    (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
    let lines = BufReader::new(&stream).lines();
    let answers = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let mut answers = answers.filter(|answer| answer["progress"].is_null());
    answers.next().expect("an answer")
}

fn wait_for_log(env: &TestEnv, text: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while !env.log().contains(text) {
        assert!(Instant::now() < until, "{text}: {}", env.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_member_dies_and_comes_back_while_the_pool_is_served() {
    let env = with_mirror();
    let daemon = serve_both(&env);
    let list = ["member", "list", "POOL"];
    assert_eq!(states(&env, &list, 0), ["in", "in"]);
    let mut disk = client(&env);
    write(&mut disk, 0..100);

    let fail = ["member", "fail", "POOL", "1"];
    assert_eq!(env.ask(&fail)["changed"], true);
    assert_eq!(env.ask(&fail)["changed"], false, "it is out already");
    env.refuses(&["member", "fail", "POOL", "0"], 2, "");
    assert_eq!(states(&env, &list, 9), ["in", "out"]);
    let stat = env.ask(&["stat", "POOL"]);
    let condition = stat["pool"].as_str().unwrap();
    assert!(condition.starts_with("degraded (member 1"), "{condition}");
    let top = env.run(&["top", "POOL", "--once", "--interval", "0.1"]);
    assert!(top.stdout.contains("mirror, degraded"), "{}", top.stdout);
    wait_for_log(&env, "the member is out");
    write(&mut disk, 100..200);
    check(&mut disk, 200);

    let readd = ["member", "readd", "POOL", "./other"];
    let report = env.ask(&readd);
    assert_eq!(report["state"], "in", "{report}");
    assert_eq!(report["changed"], true, "{report}");
    assert_eq!(env.ask(&readd)["changed"], false, "it is in already");
    assert_eq!(states(&env, &list, 0), ["in", "in"]);
    assert_eq!(env.ask(&["stat", "POOL"])["pool"], "whole");
    wait_for_log(&env, "the member is in again");
    write(&mut disk, 200..300);
    check(&mut disk, 300);

    // The other one has everything.
    assert_eq!(env.ask(&["member", "fail", "POOL", "0"])["changed"], true);
    check(&mut disk, 300);
    drop(disk);
    daemon.end();
}

#[test]
fn a_member_is_lost_in_a_crash_and_the_pool_opens_without_it_on_the_operators_word() {
    let env = with_mirror();
    let daemon = serve_both(&env);
    let mut disk = client(&env);
    write(&mut disk, 0..300);
    daemon.signal(Signal::KILL);
    drop((disk, daemon));
    std::fs::rename(env.path("pool"), env.path("dead")).unwrap();

    env.refuses(&serve_other_alone(&[]), 3, "--without-missing");
    env.refuses(
        &[SERVE_NBD, &["--pool", "./other"]].concat(),
        3,
        "not there: ",
    );
    env.refuses(&["info", "./other"], 3, "--without-missing");
    let info = env.ask(&["info", "./other", "--without-missing"]);
    assert_eq!(info["pool"], "degraded (member 0 is out)", "{info}");
    env.refuses(&["info", "./other"], 3, "--without-missing");

    let daemon = env.start(env.command(&serve_other_alone(&["--without-missing"])));
    let mut disk = client(&env);
    check(&mut disk, 300);
    write(&mut disk, 300..400);
    drop(disk);
    daemon.end();
    // The word is needed once.
    let daemon = env.start(env.command(&serve_other_alone(&[])));
    check(&mut client(&env), 400);
    env.refuses(&["member", "readd", "./other", "0"], 2, "path");
    let replace = ["member", "replace", "./other", "0", "./third"];
    let replaced = env.ask(&replace);
    assert_eq!(replaced["state"], "in", "{replaced}");
    assert_eq!(env.ask(&replace)["changed"], false);
    assert_eq!(
        states(&env, &["member", "list", "./other"], 0),
        ["in", "in"]
    );
    daemon.end();

    // The dead one comes back, and is none of the pool's any more.
    let stale = [
        "--pool",
        "./third",
        "--pool",
        "./dead",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ];
    let refused = env.run(&[&["serve"], &stale[..]].concat());
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    let both = ["check", "./third", "./other"];
    assert_eq!(env.run(&both).code, 0);
    let daemon = env.serve_with(&[
        "--pool",
        "./third",
        "--pool",
        "./other",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ]);
    check(&mut client(&env), 400);
    daemon.end();
}

#[test]
fn members_of_an_idle_pool_are_taken_out_and_rebuilt_without_a_daemon() {
    let env = with_mirror();
    let daemon = serve_both(&env);
    write(&mut client(&env), 0..50);
    daemon.end();
    let list = ["member", "list", "POOL", "--member", "./other"];
    assert_eq!(states(&env, &list, 0), ["in", "in"]);
    let of_idle = |action: &'static str, more: &[&'static str]| -> Vec<&'static str> {
        [&["member", action, "POOL", "--member", "./other"][..], more].concat()
    };
    env.refuses(&["member", "fail", "POOL", "1"], 3, "--without-missing");
    env.refuses(&of_idle("fail", &["7"]), 2, "no member 7");
    assert_eq!(env.ask(&of_idle("fail", &["./other"]))["state"], "out");
    assert_eq!(states(&env, &list, 9), ["in", "out"]);
    // What was named and is not in is the one that is out.
    let found = env.run(&[&list[..], &["--json"]].concat()).json();
    let other = env.path("other");
    assert_eq!(
        found["members"][1]["path"].as_str(),
        other.to_str(),
        "{found}"
    );
    assert_eq!(env.ask(&of_idle("readd", &["1"]))["state"], "in");
    env.ask(&of_idle("fail", &["1"]));
    let taken = env.path("taken");
    let something_else = vec![0x5A; 8192];
    std::fs::write(&taken, &something_else).unwrap();
    let onto = of_idle("replace", &["1", "./taken"]);
    let refused = env.run(&onto);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(std::fs::read(&taken).unwrap() == something_else);
    assert_eq!(states(&env, &list, 9), ["in", "out"]);
    // Also what is far too short for a member.
    std::fs::write(&taken, b"short").unwrap();
    let forced = [&onto[..], &["--force"]].concat();
    assert_eq!(env.ask(&forced)["state"], "in");
    let now = ["member", "list", "POOL", "--member", "./taken"];
    assert_eq!(states(&env, &now, 0), ["in", "in"]);
    let daemon = env.serve_with(&[
        "--pool",
        "./taken",
        "--pool",
        "POOL",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ]);
    check(&mut client(&env), 50);
    daemon.end();
}

#[test]
fn a_rebuild_that_is_called_off_leaves_the_member_out_and_can_be_repeated() {
    let env = with_mirror();
    let daemon = serve_both(&env);
    let mut disk = client(&env);
    write(&mut disk, 0..500);
    let readd = ["member", "readd", "POOL", "1"];
    for wait_ms in [0, 5, 20, 50] {
        env.ask(&["member", "fail", "POOL", "1"]);
        let quiet = std::process::Stdio::null;
        let mut command = env.command(&readd);
        let command = command.stdout(quiet()).stderr(quiet());
        let rebuilding = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(wait_ms));
        let pid = rustix::process::Pid::from_child(&rebuilding);
        let _ = rustix::process::kill_process(pid, Signal::INT);
        let ended = rebuilding.wait_with_output().unwrap();
        // None: it had not yet begun to listen to Ctrl-C.
        assert!(
            matches!(ended.status.code(), Some(7 | 0) | None),
            "{ended:?}"
        );
        check(&mut disk, 500);
        let until = Instant::now() + Duration::from_secs(20);
        while env.run(&readd).code != 0 {
            assert!(Instant::now() < until, "the rebuild goes on");
        }
        assert_eq!(states(&env, &["member", "list", "POOL"], 0), ["in", "in"]);
    }
    drop(disk);
    daemon.end();
}

#[test]
fn a_rebuild_that_is_slow_is_seen_and_called_off() {
    let env = with_mirror();
    let daemon = serve_both(&env);
    let mut disk = client(&env);
    write(&mut disk, 0..500);
    let readd = ["member", "readd", "POOL", "1"];
    env.ask(&["member", "fail", "POOL", "1"]);
    env.refuses(&[&readd[..], &["--rate", "0"]].concat(), 2, "rate of 0");
    // It would take hours.
    let mut command = env.command(&[&readd[..], &["--rate", "100"]].concat());
    let quiet = std::process::Stdio::null;
    let rebuilding = command.stdout(quiet()).stderr(quiet()).spawn().unwrap();
    let list = ["member", "list", "POOL"];
    let until = Instant::now() + Duration::from_secs(20);
    while states(&env, &list, 9) != ["in", "rebuilding"] {
        assert!(Instant::now() < until, "it does not begin");
    }
    check(&mut disk, 500);
    let pid = rustix::process::Pid::from_child(&rebuilding);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let ended = rebuilding.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(7), "{ended:?}");
    while states(&env, &list, 9) != ["in", "out"] {
        assert!(Instant::now() < until, "it goes on");
    }
    assert_eq!(env.ask(&readd)["state"], "in");
    drop(disk);
    daemon.end();
}

#[test]
fn what_a_pool_keeps_twice_is_chosen_at_create_and_said() {
    let env = TestEnv::new();
    let create = |more: &[&str]| {
        let create = ["create", "POOL", "--size", "8M", "--force"];
        let outcome = env.run(&[&create[..], more].concat());
        assert_eq!(outcome.code, 0, "{more:?}: {}", outcome.stderr);
        outcome.stdout
    };
    let two = ["--member", "./other"];
    let said = create(&two);
    assert!(
        said.contains("mirror") && said.contains("--without-missing"),
        "{said}"
    );
    let said = create(&[&two[..], &["--redundancy", "none"]].concat());
    assert!(said.contains("the pool is lost"), "{said}");
    let fail = ["member", "fail", "POOL", "--member", "./other", "1"];
    env.refuses(&fail, 2, "no mirror");
    let list = ["member", "list", "POOL", "--member", "./other"];
    assert_eq!(states(&env, &list, 0), ["in", "in"]);
    let three = [&two[..], &["--member", "./third"]].concat();
    let said = create(&three);
    assert!(
        said.contains("one of the 3 members") && said.contains("opens without one"),
        "{said}"
    );
    let said = create(&[&three[..], &["--redundancy", "none"]].concat());
    assert!(said.contains("one of its 3 members"), "{said}");
    let parity = ["--redundancy", "parity"];
    let said = create(&[&three[..], &parity].concat());
    assert!(
        said.contains("rows with parity") && said.contains("opens without one"),
        "{said}"
    );
    let list = [&["member", "list", "POOL"], &three[..]].concat();
    assert_eq!(states(&env, &list, 0), ["in", "in", "in"]);
    let too_few = ["create", "POOL", "--size", "8M", "--force"];
    let too_few = [&too_few[..], &two, &parity].concat();
    env.refuses(&too_few, 2, "3 to 8 are possible");
    assert!(!create(&[]).contains("mirror"));
    for more in [&[][..], &["--member", "./other", "--no-checksums"]] {
        let create = [
            "create",
            "POOL",
            "--size",
            "8M",
            "--force",
            "--redundancy",
            "mirror",
        ];
        env.refuses(&[&create[..], more].concat(), 2, "mirror");
    }
}

#[test]
fn odd_requests_about_members_are_refused_and_change_nothing() {
    let env = with_mirror();
    let daemon = serve_both(&env);
    let mut disk = client(&env);
    write(&mut disk, 0..20);
    let long = "9".repeat(60_000);
    let odd = [
        r#"{"command": "members", "of": 1}"#.to_owned(),
        r#"{"command": "fail-member"}"#.into(),
        r#"{"command": "fail-member", "member": 1}"#.into(),
        r#"{"command": "fail-member", "member": "1", "force": true}"#.into(),
        r#"{"command": "fail-member", "member": ""}"#.into(),
        r#"{"command": "fail-member", "member": "-1"}"#.into(),
        r#"{"command": "fail-member", "member": "4294967296"}"#.into(),
        r#"{"command": "fail-member", "member": "/nowhere/\u0000/at/all"}"#.into(),
        format!(r#"{{"command": "fail-member", "member": "{long}"}}"#),
        format!(r#"{{"command": "replace-member", "member": "/{long}"}}"#),
        r#"{"command": "replace-member", "member": "7", "path": "/dev/null"}"#.into(),
        r#"{"command": "replace-member", "member": "1", "path": "/dev/null", "force": true}"#
            .into(),
        r#"{"command": "replace-member", "member": "1", "path": 7}"#.into(),
        r#"{"command": "replace-member", "member": "1", "rate": 0}"#.into(),
        r#"{"command": "replace-member", "member": "1", "rate": "4K"}"#.into(),
        r#"{"command": "replace-member", "member": "1", "path": null, "force": "yes"}"#.into(),
    ];
    for line in &odd {
        let start: String = line.chars().take(80).collect();
        let answer = answer_to(&env, line);
        assert_eq!(answer["ok"], false, "{start}: {answer}");
        let kind = answer["kind"].as_str().unwrap();
        assert!(["invalid", "in-use"].contains(&kind), "{start}: {answer}");
    }
    env.ask(&["member", "fail", "POOL", "1"]);
    // What is no file or device to keep a member on, and what is in use.
    let pool = env.path("pool");
    let image = env.path("disk.img");
    let folder = env.path("mount");
    for path in ["/dev/null", "/dev/zero", "relative", "", "/nowhere/at/all"]
        .into_iter()
        .chain([&pool, &image, &folder].map(|path| path.to_str().unwrap()))
    {
        let request = serde_json::json!({
            "command": "replace-member", "member": "1", "path": path, "force": false,
        });
        let answer = answer_to(&env, &request.to_string());
        assert_eq!(answer["ok"], false, "{path}: {answer}");
    }
    assert_eq!(states(&env, &["member", "list", "POOL"], 9), ["in", "out"]);
    check(&mut disk, 20);
    env.ask(&["member", "readd", "POOL", "1"]);
    check(&mut disk, 20);
    drop(disk);
    daemon.end();
}

#[test]
fn a_mirror_grows_without_the_member_that_is_out_and_that_is_rebuilt_as_large() {
    let env = with_mirror();
    let daemon = serve_both(&env);
    write(&mut client(&env), 0..50);
    daemon.end();
    let both = ["POOL", "--member", "./other"];
    env.ask(&[&["member", "fail"][..], &both, &["1"]].concat());
    std::fs::rename(env.path("other"), env.path("away")).unwrap();
    env.ask(&["resize", "POOL", "./other", "--size", "16M"]);
    std::fs::rename(env.path("away"), env.path("other")).unwrap();
    let readd = [&["member", "readd"][..], &both, &["./other"]].concat();
    assert_eq!(env.ask(&readd)["state"], "in");
    assert_eq!(
        std::fs::metadata(env.path("other")).unwrap().len(),
        16 << 20
    );
    assert_eq!(
        states(&env, &[&["member", "list"][..], &both].concat(), 0),
        ["in", "in"]
    );
    let daemon = serve_both(&env);
    check(&mut client(&env), 50);
    daemon.end();
}

/// How a scrub stands when it runs no more; the command ends with `code`.
fn scrubbed(env: &TestEnv, code: i32) -> Value {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let outcome = env.run(&["scrub", "status", "POOL", "--json"]);
        let status = outcome.json();
        if status["state"] != "running" {
            assert_eq!(outcome.code, code, "{status} {}", outcome.stderr);
            return status;
        }
        assert!(Instant::now() < until, "{status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_scrub_is_started_slowed_stopped_and_told_of() {
    let env = with_mirror();
    let start = ["scrub", "start", "POOL"];
    env.refuses(&start, 5, "no daemon serves");
    let daemon = serve_both(&env);
    let mut disk = client(&env);
    write(&mut disk, 0..300);
    let never = env.ask(&["scrub", "status", "POOL"]);
    assert_eq!(
        (&never["state"], &never["unverified_s"]),
        (&"never".into(), &Value::Null)
    );
    assert_eq!(env.ask(&start)["changed"], true);
    let done = scrubbed(&env, 0);
    assert!(done["unverified_s"].as_u64() < Some(3600), "{done}");
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(done["done_slots"], done["all_slots"], "{done}");
    for nothing in ["found", "repaired", "lost"] {
        assert_eq!(done[nothing], 0, "{done}");
    }
    wait_for_log(&env, "everything is right");

    let slow = [&start[..], &["--rate", "4K", "--restart"]].concat();
    assert_eq!(env.ask(&slow)["changed"], true);
    assert_eq!(env.ask(&start)["changed"], false, "one is under way");
    assert_eq!(env.ask(&["scrub", "status", "POOL"])["state"], "running");
    check(&mut disk, 300);
    let stopped = env.ask(&["scrub", "stop", "POOL"]);
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    assert_eq!(env.ask(&["scrub", "stop", "POOL"])["changed"], false);
    env.refuses(&[&start[..], &["--rate", "0"]].concat(), 2, "rate");
    // One that is under way does not hold up the daemon's end.
    env.ask(&slow);
    drop(disk);
    daemon.end();
    assert_eq!(env.run(&["check", "POOL", "./other"]).code, 0);
}

#[test]
fn a_scrub_repairs_one_copy_of_two_and_tells_of_what_is_lost() {
    let env = TestEnv::new();
    for mirrored in [true, false] {
        let create = [
            "create", "POOL", "--size", "8M", "--test", "--force", "--member", "./other",
        ];
        let redundancy = if mirrored { "mirror" } else { "none" };
        env.ask(&[&create[..], &["--redundancy", redundancy]].concat());
        // A new pool's disk.
        env.make_image("disk.img");
        let daemon = env.serve_nbd(&[
            "--pool",
            "./other",
            "--accept-stale",
            "--dirty-low",
            "90",
            "--dirty-high",
            "95",
        ]);
        let mut disk = client(&env);
        write(&mut disk, 0..50);
        env.ask(&["fault", "POOL", "flip-bit", "disk.img", "--block", "7"]);
        env.ask(&["scrub", "start", "POOL"]);
        let found = scrubbed(&env, if mirrored { 0 } else { 3 });
        assert_eq!(found["found"], 1, "{found}");
        let totals = env.ask(&["stat", "POOL"])["totals"].clone();
        if mirrored {
            assert_eq!(found["repaired"], 1, "{found}");
            assert_eq!(totals["repaired"], 1, "{totals}");
            check(&mut disk, 50);
        } else {
            assert_eq!(found["lost"], 1, "{found}");
            disk.read(7 * BLOCK as u64, BLOCK).unwrap_err();
        }
        drop(disk);
        daemon.end();
    }
}
