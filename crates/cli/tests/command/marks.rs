//! A pool that was lost and made anew is refused, with an exit code of its own and what to do.

use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::process::Signal;

use crate::test_env::{Outcome, SERVE_NBD, TestEnv, skips_without_fuse};

/// What every start script does.
fn create_if_missing(env: &TestEnv) {
    if !env.path("pool").exists() {
        let created = env.run(&["create", "POOL", "--size", "8M"]);
        assert_eq!(created.code, 0, "{}", created.stderr);
    }
}

fn stale(outcome: &Outcome) {
    assert_eq!(outcome.code, 8, "{}{}", outcome.stdout, outcome.stderr);
    assert!(!outcome.stdout.contains("ready"), "{}", outcome.stdout);
    for part in ["--accept-stale", "replicated engine", "open since"] {
        assert!(outcome.stderr.contains(part), "{}", outcome.stderr);
    }
}

/// A daemon with one acknowledged block, killed.
fn write_and_kill(env: &TestEnv) {
    let daemon = env.serve();
    let disk = env.open_disk();
    disk.write_all_at(&[7; 4096], 0).unwrap();
    disk.sync_all().unwrap();
    drop(disk);
    daemon.signal(Signal::KILL);
    daemon.wait();
}

fn info(env: &TestEnv) -> (i32, String) {
    let outcome = env.run(&["info", "--backing", "BACKING"]);
    (outcome.code, outcome.stdout.trim().to_owned())
}

#[test]
fn serve_with_a_pool_made_anew_said_ready_over_an_image_that_lacks_what_was_acknowledged() {
    if skips_without_fuse("serve_with_a_pool_made_anew") {
        return;
    }
    let env = TestEnv::with_pool();
    assert_eq!(
        info(&env),
        (0, String::from("whole")),
        "it never had a pool"
    );
    write_and_kill(&env);
    assert_eq!(info(&env), (0, String::from("open")));
    std::fs::rename(env.path("pool"), env.path("old")).unwrap();
    create_if_missing(&env);
    let (code, state) = info(&env);
    assert!(
        code == 8 && state.starts_with("stale since 20"),
        "{code} {state}"
    );
    let json = env.run(&["info", "--backing", "BACKING", "--json"]);
    assert_eq!((json.code, &json.json()["state"]), (8, &"stale".into()));
    stale(&env.run(SERVE_NBD));
    stale(&env.run(&["flush", "POOL", "--backing", "BACKING"]));
    // Another disk of a daemon.
    env.make_image("other.img");
    let daemon = env.serve_with(&["--pool", "POOL", "--backing", "./other.img", "--nbd", "NBD"]);
    stale(&env.run(&["attach", "POOL", "--backing", "BACKING"]));
    daemon.end();
    // The pool that had it is good for it, in a new generation.
    std::fs::rename(env.path("pool"), env.path("new")).unwrap();
    std::fs::rename(env.path("old"), env.path("pool")).unwrap();
    env.serve_nbd(&[]).end();
    assert_eq!(info(&env), (0, String::from("open")));
    std::fs::rename(env.path("new"), env.path("pool")).unwrap();
    env.serve_nbd(&["--accept-stale"]).end();
    assert_eq!(
        info(&env),
        (0, String::from("whole")),
        "nothing was written"
    );
}

#[test]
fn an_old_pool_put_back_was_replayed_over_what_happened_since() {
    if skips_without_fuse("an_old_pool_put_back") {
        return;
    }
    let env = TestEnv::with_pool();
    write_and_kill(&env);
    std::fs::copy(env.path("pool"), env.path("old")).unwrap();
    write_and_kill(&env);
    std::fs::rename(env.path("old"), env.path("pool")).unwrap();
    env.refuses(SERVE_NBD, 8, "this pool is an old copy");
}

#[test]
fn a_flushed_end_leaves_an_image_that_any_pool_may_have() {
    if skips_without_fuse("a_flushed_end") {
        return;
    }
    let env = TestEnv::with_pool();
    write_and_kill(&env);
    let flushed = env.run(&["flush", "POOL", "--backing", "BACKING"]);
    assert_eq!(flushed.code, 0, "{}", flushed.stderr);
    assert_eq!(info(&env), (0, String::from("whole")));
    std::fs::remove_file(env.path("pool")).unwrap();
    create_if_missing(&env);
    env.serve_nbd(&[]).end();
}

/// Refused by `serve` and not called fit by `info`, with the pool's name and, if the image has a mark, without.
fn refused_and_not_fit(env: &TestEnv, image: &str, has_mark: bool) {
    env.refuses(
        &[
            "serve",
            "--pool",
            "POOL",
            "--backing",
            image,
            "--nbd",
            "NBD",
        ],
        8,
        "--accept-stale",
    );
    let info = env.run(&["info", "POOL", "--backing", image]);
    assert_eq!(info.code, 8, "{}{}", info.stdout, info.stderr);
    assert!(info.stdout.starts_with("stale"), "{}", info.stdout);
    let alone = env.run(&["info", "--backing", image]);
    assert_eq!(alone.code == 8, has_mark, "{}", alone.stdout);
    let says_to_name_it = alone.stderr.contains("name the pool");
    assert_eq!(says_to_name_it, !has_mark, "{}", alone.stderr);
}

#[test]
fn info_said_whole_of_an_image_made_anew_which_serve_refused() {
    if skips_without_fuse("info_said_whole_of_an_image_made_anew") {
        return;
    }
    let env = TestEnv::with_pool();
    write_and_kill(&env);
    std::fs::rename(env.path("disk.img"), env.path("before.img")).unwrap();
    // Renamed: the pool knows it under its old name.
    refused_and_not_fit(&env, "./before.img", true);
    env.make_image("disk.img");
    refused_and_not_fit(&env, "BACKING", false);
    // A copy with its mark.
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([env.path("before.img"), env.path("copy.img")])
        .status();
    assert!(copied.unwrap().success());
    let has_mark = env.run(&["info", "--backing", "./copy.img"]).code == 8;
    std::fs::rename(env.path("copy.img"), env.path("disk.img")).unwrap();
    refused_and_not_fit(&env, "BACKING", has_mark);
    // The pool's block over the copy, which is the volume's file from then on.
    env.serve_nbd(&["--accept-stale"]).end();
    assert_eq!(info(&env), (0, String::from("open")));
    let flushed = env.run(&["flush", "POOL", "--backing", "BACKING"]);
    assert_eq!(flushed.code, 0, "{}", flushed.stderr);
    let mut block = [0; 4096];
    let image = std::fs::File::open(env.path("disk.img")).unwrap();
    image.read_exact_at(&mut block, 0).unwrap();
    assert_eq!(block, [7; 4096]);
}

#[test]
fn no_command_gave_up_the_blocks_of_a_lost_image() {
    if skips_without_fuse("no_command_gave_up_the_blocks_of_a_lost_image") {
        return;
    }
    let lost = |env: &TestEnv| {
        let image = env.path("disk.img");
        std::fs::remove_file(&image).unwrap();
        let _ = std::fs::remove_file(env.path("disk.img.forebay"));
        image.display().to_string()
    };
    let discard = ["detach", "POOL", "BACKING", "--discard-unwritten"];
    // Of an idle pool.
    let env = TestEnv::with_pool();
    write_and_kill(&env);
    env.refuses(
        &["detach", "POOL", "./other.img", "--discard-unwritten"],
        2,
        "disk.img",
    );
    let image = lost(&env);
    let discarded = env.ask(&discard);
    assert_eq!(discarded["discarded"], image.as_str());
    assert_eq!(discarded["discarded_blocks"], 1);
    assert_eq!(discarded["discarded_bytes"], 4096);
    assert_eq!(env.run(&discard).code, 2, "once is enough");
    env.make_image("disk.img");
    env.serve_nbd(&[]).end();
    // While the pool's other disks are served.
    let env = TestEnv::with_pool();
    write_and_kill(&env);
    lost(&env);
    env.make_image("other.img");
    let daemon = env.serve_with(&["--pool", "POOL", "--backing", "./other.img", "--nbd", "NBD"]);
    assert_eq!(env.ask(&["stat", "POOL"])["dirty_blocks"], 1);
    let served = env.run(&["detach", "POOL", "./other.img", "--discard-unwritten"]);
    assert_eq!(served.code, 4, "{}", served.stderr);
    assert_eq!(env.ask(&discard)["discarded_blocks"], 1);
    assert_eq!(env.ask(&["stat", "POOL"])["dirty_blocks"], 0);
    daemon.end();
}

#[test]
fn serve_took_another_pools_file_for_a_disk() {
    let env = TestEnv::with_pool();
    let created = env.run(&["create", "./other", "--size", "8M"]);
    assert_eq!(created.code, 0, "{}", created.stderr);
    let before = std::fs::read(env.path("other")).unwrap();
    for more in [&[][..], &["--accept-stale"]] {
        let serve = [
            "serve",
            "--pool",
            "POOL",
            "--backing",
            "./other",
            "--nbd",
            "NBD",
        ];
        env.refuses(&[&serve[..], more].concat(), 3, "other");
    }
    assert!(std::fs::read(env.path("other")).unwrap() == before);
}

#[test]
fn a_devices_mark_lies_in_the_folder_of_marks() {
    let env = TestEnv::with_pool();
    let image = env.path("disk.img");
    let made = std::process::Command::new("losetup")
        .args(["--find", "--show"])
        .arg(&image)
        .output();
    let device = match made {
        Ok(made) if made.status.success() => String::from_utf8(made.stdout).unwrap(),
        _ => return crate::test_env::skip("a_devices_mark", "no loop device can be had"),
    };
    let device = device.trim();
    let run = |arguments: &[&str]| -> Outcome {
        let mut command = env.command(arguments);
        command.env("FOREBAY_MARK_DIRECTORY", env.path("marks"));
        command.output().unwrap().into()
    };
    let flush = ["flush", "POOL", "--backing", device];
    let flushed = run(&flush);
    let state = run(&["info", "--backing", device]);
    let marks = std::fs::read_dir(env.path("marks")).map(Iterator::count);
    let detached = std::process::Command::new("losetup")
        .arg("-d")
        .arg(device)
        .status();
    assert_eq!(flushed.code, 0, "{}", flushed.stderr);
    assert_eq!(state.stdout.trim(), "whole");
    assert_eq!(marks.unwrap(), 1);
    assert!(detached.unwrap().success());
    assert!(!Path::new("/var/lib/forebay").join("marks").exists());
}
