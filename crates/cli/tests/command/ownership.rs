//! Whose pool it is: what another user owns, or may write, or has planted, is refused unless told.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

use rustix::process::geteuid;

use crate::run::library;
use crate::test_env::{SERVE_NBD, TestEnv, skips_without_fuse};

/// The number of no user.
const OTHER: u32 = 54_321;

/// An environment with a pool and a directory for it, where every user may create names; none without
/// root.
fn env(test: &str) -> Option<TestEnv> {
    if !geteuid().is_root() {
        eprintln!("skipped {test}: only root can give files away");
        return None;
    }
    let env = TestEnv::new();
    fs::set_permissions(env.directory.path(), Permissions::from_mode(0o1777)).unwrap();
    fs::create_dir(env.path("data")).unwrap();
    env.ask(&["create", "POOL", "--size", "64M"]);
    Some(env)
}

/// Every command that opens a pool by itself.
const OPENING: [&[&str]; 8] = [
    &["info", "POOL"],
    &["check", "POOL"],
    &["recover", "POOL"],
    &["recover", "--dry-run", "POOL"],
    &["flush", "POOL", "--backing", "BACKING"],
    &[
        "run",
        "--pool",
        "POOL",
        "--library",
        "LIBRARY",
        "--",
        "true",
    ],
    &["mount", "./data", "MOUNT", "--pool", "POOL"],
    SERVE_NBD,
];

fn assert_refused(env: &TestEnv, part: &str) {
    for command in OPENING {
        let library = library();
        let named = |argument: &&'static str| match *argument {
            "LIBRARY" => library.to_str().unwrap().to_owned(),
            other => other.to_owned(),
        };
        let arguments: Vec<String> = command.iter().map(named).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let outcome = env.run(&arguments);
        assert_eq!(outcome.code, 3, "{command:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(part),
            "{command:?}: {}",
            outcome.stderr
        );
        assert!(
            outcome.stderr.contains("--trust-owner"),
            "{}",
            outcome.stderr
        );
    }
}

#[test]
fn root_wrote_over_the_file_that_a_link_planted_beside_the_pool_leads_to() {
    let Some(env) = env("root_wrote_over_the_file_that_a_planted_link_leads_to") else {
        return;
    };
    if skips_without_fuse("root_wrote_over_the_file_that_a_planted_link_leads_to") {
        return;
    }
    let victim = env.path("victim");
    fs::write(&victim, b"precious").unwrap();
    symlink(&victim, env.path("pool.files")).unwrap();
    lchown(env.path("pool.files"), Some(OTHER), Some(OTHER)).unwrap();
    let outcome = env.run(&["mount", "./data", "MOUNT", "--pool", "POOL"]);
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("symbolic link"),
        "{}",
        outcome.stderr
    );
    // Nor is what it names made.
    fs::remove_file(&victim).unwrap();
    env.run(&["mount", "./data", "MOUNT", "--pool", "POOL"]);
    assert!(!victim.exists());
}

#[test]
fn a_file_beside_the_pool_that_another_user_owns_or_has_linked_was_believed() {
    let Some(env) = env("a_file_beside_the_pool_that_another_user_owns_was_believed") else {
        return;
    };
    let mount: &[&str] = &["mount", "./data", "MOUNT", "--pool", "POOL"];
    let side = env.path("pool.files");
    fs::write(&side, b"forged").unwrap();
    chown(&side, Some(OTHER), Some(OTHER)).unwrap();
    env.refuses(mount, 3, "pool.files");
    assert_eq!(fs::read(&side).unwrap(), b"forged");
    fs::remove_file(&side).unwrap();
    // One of our own, under a name that another user gave it.
    fs::write(env.path("ours"), b"ours").unwrap();
    fs::hard_link(env.path("ours"), &side).unwrap();
    let outcome = env.run(mount);
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    assert_eq!(fs::read(env.path("ours")).unwrap(), b"ours");
}

#[test]
fn a_pool_of_another_user_was_served_and_recovered_by_root() {
    let Some(env) = env("a_pool_of_another_user_was_served_and_recovered_by_root") else {
        return;
    };
    chown(env.path("pool"), Some(OTHER), Some(OTHER)).unwrap();
    assert_refused(&env, "belongs to user 54321");
    env.ask(&["info", "POOL", "--trust-owner"]);
    env.ask(&["recover", "POOL", "--trust-owner"]);
    chown(env.path("pool"), Some(0), Some(0)).unwrap();
    env.ask(&["info", "POOL"]);
}

#[test]
fn a_pool_that_others_may_write_or_swap_was_believed() {
    let Some(env) = env("a_pool_that_others_may_write_or_swap_was_believed") else {
        return;
    };
    let pool = env.path("pool");
    for mode in [0o620, 0o602] {
        fs::set_permissions(&pool, Permissions::from_mode(mode)).unwrap();
        assert_refused(&env, "may be written by others");
    }
    fs::set_permissions(&pool, Permissions::from_mode(0o600)).unwrap();
    fs::hard_link(&pool, env.path("second name")).unwrap();
    assert_refused(&env, "names");
    fs::remove_file(env.path("second name")).unwrap();
    let folder = env.directory.path();
    fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
    assert_refused(&env, "directory");
    fs::set_permissions(folder, Permissions::from_mode(0o1777)).unwrap();
    chown(folder, Some(OTHER), None).unwrap();
    assert_refused(&env, "directory");
    chown(folder, Some(0), None).unwrap();
    env.ask(&["info", "POOL"]);
    fs::rename(&pool, env.path("elsewhere")).unwrap();
    symlink(env.path("elsewhere"), &pool).unwrap();
    assert_refused(&env, "symbolic link");
}
