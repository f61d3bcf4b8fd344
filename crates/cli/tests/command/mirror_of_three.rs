//! A mirror of three members as an operator has it: it starts by itself without one, and never without two.

use rustix::process::Signal;
use serde_json::Value;

use crate::mirror::{check, client, states, write};
use crate::test_env::{Daemon, TestEnv};

fn with_three() -> TestEnv {
    let env = TestEnv::new();
    let three = ["--member", "./b", "--member", "./c"];
    let create = [&["create", "./a"], &three[..], &["--size", "8M"]].concat();
    let report = env.ask(&create);
    assert_eq!(report["redundancy"], "mirror", "{report}");
    let of_two = ["create", "./two", "--member", "./other", "--size", "8M"];
    let slots = |report: &Value| report["slots"].as_u64().unwrap() as f64;
    let share = slots(&report) / slots(&env.ask(&of_two));
    assert!((1.4..1.6).contains(&share), "{share} times the room of two");
    env
}

fn served<'a>(members: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = Vec::new();
    for member in members {
        arguments.extend(["--pool", member]);
    }
    arguments.extend(["--backing", "BACKING", "--nbd", "NBD"]);
    arguments
}

fn serve(env: &TestEnv, members: &[&str]) -> Daemon {
    env.serve_with(&served(members))
}

const ALL: [&str; 3] = ["./a", "./b", "./c"];

#[test]
fn a_daemon_starts_without_the_member_that_a_crash_took_and_rebuilds_it() {
    let env = with_three();
    let daemon = serve(&env, &ALL);
    let list = ["member", "list", "./a"];
    assert_eq!(states(&env, &list, 0), ["in", "in", "in"]);
    let mut disk = client(&env);
    write(&mut disk, 0..300);
    daemon.signal(Signal::KILL);
    drop((disk, daemon));
    std::fs::rename(env.path("b"), env.path("dead")).unwrap();

    // Two of three know that nothing went on without them; one does not.
    let alone = [&["serve"], &served(&["./a"])[..]].concat();
    env.refuses(&alone, 3, "members 1 and 2");
    let word = [&alone[..], &["--without-missing"]].concat();
    env.refuses(&word, 3, "members 1 and 2");
    let daemon = serve(&env, &ALL);
    let mut disk = client(&env);
    check(&mut disk, 300);
    write(&mut disk, 300..400);
    assert_eq!(states(&env, &list, 9), ["in", "out", "in"]);
    env.refuses(&["member", "fail", "./a", "2"], 2, "bring that one back");

    // It comes back as it was, and is made anew.
    std::fs::rename(env.path("dead"), env.path("b")).unwrap();
    let readd = env.ask(&["member", "readd", "./a", "1"]);
    assert_eq!(readd["state"], "in", "{readd}");
    assert_eq!(states(&env, &list, 0), ["in", "in", "in"]);
    let fail = env.ask(&["member", "fail", "./a", "0"]);
    assert_eq!(fail["changed"], true, "{fail}");
    check(&mut disk, 400);
    write(&mut disk, 400..500);
    drop(disk);
    daemon.end();

    let daemon = serve(&env, &["./b", "./c"]);
    let mut disk = client(&env);
    check(&mut disk, 500);
    let replaced = env.ask(&["member", "replace", "./b", "0", "./d"]);
    assert_eq!(replaced["state"], "in", "{replaced}");
    drop(disk);
    daemon.end();
    assert_eq!(env.run(&["check", "./d", "./b", "./c"]).code, 0);
    let daemon = serve(&env, &["./d", "./c"]);
    check(&mut client(&env), 500);
    daemon.end();
}
