//! A pool on two SSDs by the command: made, served, killed, a member lost and brought back, a stale one refused.

use rustix::process::Signal;

use crate::mirror::{check, client, write};
use crate::test_env::{TestEnv, skip};

/// A mirror on the file system of temporary files, or `None` where that takes none.
fn env(test: &str) -> Option<TestEnv> {
    let env = TestEnv {
        directory: tempfile::tempdir().unwrap(),
    };
    env.make_image("disk.img");
    let create = ["create", "POOL", "--member", "./other", "--size", "16M"];
    let mirrored = ["--redundancy", "mirror", "--medium", "ssd"];
    let created = env.run(&[&create[..], &mirrored].concat());
    if created.code == 0 {
        return Some(env);
    }
    skip(test, created.stderr.trim());
    None
}

fn serve<'a>(pools: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut all = vec!["serve", "--backing", "BACKING", "--nbd", "NBD"];
    all.extend(pools.iter().flat_map(|pool| ["--pool", pool]));
    all.extend(more);
    all
}

#[test]
fn a_member_is_lost_and_comes_back() {
    let Some(env) = env("a_member_is_lost_and_comes_back") else {
        return;
    };
    let daemon = env.start(env.command(&serve(&["POOL", "./other"], &[])));
    let mut disk = client(&env);
    write(&mut disk, 0..300);
    daemon.signal(Signal::KILL);
    drop((disk, daemon));
    std::fs::rename(env.path("other"), env.path("away")).unwrap();

    env.refuses(&serve(&["POOL"], &[]), 3, "--without-missing");
    let daemon = env.start(env.command(&serve(&["POOL"], &["--without-missing"])));
    let mut disk = client(&env);
    check(&mut disk, 300);
    write(&mut disk, 300..400);
    // Copied while nobody serves the pool.
    let readd = ["member", "replace", "POOL", "1", "./away"];
    env.refuses(&readd, 2, "end the daemon");
    daemon.signal(Signal::KILL);
    drop((disk, daemon));

    // The one that came back is stale: not served alone, and not beside the other one.
    env.refuses(&serve(&["./away"], &[]), 3, "missing");
    let daemon = env.start(env.command(&serve(&["POOL", "./away"], &[])));
    check(&mut client(&env), 400);
    let stat = env.ask(&["stat", "POOL"]);
    let condition = stat["pool"].as_str().unwrap();
    assert!(condition.starts_with("degraded (member 1"), "{condition}");
    daemon.end();

    let readd = ["member", "readd", "POOL", "1", "--member", "./away"];
    let report = env.ask(&readd);
    assert_eq!(report["state"], "in", "{report}");
    assert_eq!(env.run(&["check", "POOL", "./away"]).code, 0);
    let daemon = env.start(env.command(&serve(&["./away"], &["--without-missing"])));
    check(&mut client(&env), 400);
    daemon.end();
}
