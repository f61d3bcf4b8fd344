//! A mirror with a witness as an operator has it: made, a member lost in a power cut, the witness lost, moved, given up.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use forebay_harness::nbd::Client;
use rustix::process::Signal;

use crate::test_env::{Daemon, TestEnv, skip};

const BLOCK: usize = 4096;

/// A mirror whose witness is on another device; `None` where there is no other one.
fn with_witness(test: &str) -> Option<(TestEnv, tempfile::TempDir, String)> {
    let env = TestEnv::new();
    let folder = tempfile::tempdir().unwrap();
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    if device(folder.path()) == device(env.directory.path()) {
        skip(test, "needs /dev/shm and another file system");
        return None;
    }
    let witness = folder.path().join("pool.witness");
    let witness = witness.to_str().unwrap().to_owned();
    let create = ["create", "POOL", "--member", "./other", "--size", "8M"];
    let report = env.ask(&[&create[..], &["--witness", &witness]].concat());
    assert_eq!(report["witness"]["path"], witness.as_str(), "{report}");
    let mode = std::fs::metadata(&witness).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    Some((env, folder, witness))
}

fn serve(env: &TestEnv, members: &[&str], more: &[&str]) -> Daemon {
    let members = members.iter().flat_map(|member| ["--pool", member]);
    let front_end = ["serve", "--backing", "BACKING", "--nbd", "NBD"];
    let arguments: Vec<&str> = front_end.into_iter().chain(members).collect();
    env.start(env.command(&[&arguments[..], more].concat()))
}

fn write(env: &TestEnv, byte: u8) {
    let mut disk = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    for block in 0..50 {
        disk.write(block * BLOCK as u64, &[byte; BLOCK]).unwrap();
    }
}

fn check(env: &TestEnv, byte: u8) {
    let mut disk = Client::open(&env.path("nbd.sock"), "disk.img").unwrap();
    for block in 0..50 {
        let found = disk.read(block * BLOCK as u64, BLOCK).unwrap();
        assert!(found == [byte; BLOCK], "block {block}");
    }
}

#[test]
fn a_member_that_a_power_cut_took_is_not_missed_and_does_not_go_on_by_itself() {
    let Some((env, _folder, witness)) = with_witness("a_member_that_a_power_cut_took") else {
        return;
    };
    let daemon = serve(&env, &["POOL", "./other"], &[]);
    write(&env, 1);
    let stat = env.ask(&["stat", "POOL"]);
    assert_eq!(stat["witness"]["state"], "there", "{stat}");
    daemon.signal(Signal::KILL);
    daemon.wait();
    // A look at what is left changes nothing.
    std::fs::rename(env.path("pool"), env.path("lost")).unwrap();
    let before = std::fs::read(&witness).unwrap();
    assert_eq!(env.ask(&["info", "./other"])["dirty_blocks"], 50);
    assert_eq!(std::fs::read(&witness).unwrap(), before);

    let daemon = serve(&env, &["./other"], &[]);
    check(&env, 1);
    write(&env, 2);
    daemon.end();
    let lost = [
        "serve",
        "--pool",
        "./lost",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ];
    env.refuses(&lost, 3, "may have gone on alone");
    let daemon = serve(&env, &["./lost", "./other"], &[]);
    check(&env, 2);
    // The control socket is beside the first member that was named.
    let readd = ["member", "readd", "./lost", "./lost"];
    assert_eq!(env.ask(&readd)["state"], "in");
    daemon.signal(Signal::KILL);
    daemon.wait();
    std::fs::remove_file(env.path("other")).unwrap();
    let daemon = serve(&env, &["./lost"], &[]);
    check(&env, 2);
    daemon.end();
}

#[test]
fn a_witness_that_is_away_is_told_given_up_and_replaced() {
    let Some((env, folder, witness)) = with_witness("a_witness_that_is_away") else {
        return;
    };
    let daemon = serve(&env, &["POOL", "./other"], &[]);
    write(&env, 1);
    let list = ["member", "list", "POOL"];
    assert_eq!(env.run(&list).code, 0);
    let away = folder.path().join("away");
    std::fs::rename(&witness, &away).unwrap();
    env.refuses(&list, 9, "the witness");
    env.refuses(&["member", "fail", "POOL", "1"], 1, "is not where it was");
    write(&env, 2);
    daemon.end();

    // Moved, it serves where the command says.
    std::fs::rename(env.path("pool"), env.path("lost")).unwrap();
    let other = [
        "serve",
        "--pool",
        "./other",
        "--backing",
        "BACKING",
        "--nbd",
        "NBD",
    ];
    env.refuses(&other, 3, "the witness");
    std::fs::rename(env.path("lost"), env.path("pool")).unwrap();
    let daemon = serve(
        &env,
        &["POOL", "./other"],
        &["--witness", away.to_str().unwrap()],
    );
    assert_eq!(env.run(&list).code, 0);
    daemon.end();

    let daemon = serve(&env, &["POOL", "./other"], &[]);
    assert!(
        env.log().contains("the witness is not there"),
        "{}",
        env.log()
    );
    let set = |more: &[&str]| env.ask(&[&["member", "witness", "POOL"], more].concat());
    let none = set(&["--none"]);
    assert_eq!(
        (&none["changed"], none["witness"].is_null()),
        (&true.into(), true)
    );
    assert_eq!(set(&["--none"])["changed"], false);
    assert_eq!(env.run(&list).code, 0);
    env.refuses(
        &["member", "witness", "POOL", "./witness"],
        2,
        "same device",
    );
    let new = set(&[&witness]);
    assert_eq!(new["witness"]["path"], witness.as_str(), "{new}");
    assert_eq!(set(&[&witness])["changed"], false);
    let second = folder.path().join("second");
    let second = second.to_str().unwrap();
    assert_eq!(set(&[second])["witness"]["path"], second);
    assert!(!Path::new(&witness).exists(), "the one before goes");
    env.ask(&["member", "fail", "POOL", "1"]);
    env.refuses(&["member", "witness", "POOL", "--none"], 2, "both members");
    assert_eq!(env.ask(&["member", "readd", "POOL", "1"])["state"], "in");
    check(&env, 2);
    daemon.end();
    let idle = ["member", "witness", "POOL", "--member", "./other", "--none"];
    assert_eq!(env.ask(&idle)["changed"], true);
    assert!(!Path::new(second).exists());
}
