//! A daemon that tries what it may not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use crate::test_env::TestEnv;

const EPERM: i64 = 1;

const EACCES: i64 = 13;

/// What each forbidden system call met in the daemon.
fn attempts(env: &TestEnv) -> BTreeMap<String, Option<i64>> {
    attempts_of(env, "try-forbidden")
}

fn attempts_of(env: &TestEnv, fault: &str) -> BTreeMap<String, Option<i64>> {
    let mut stream = UnixStream::connect(env.path("pool.sock")).unwrap();
    let request =
        format!("{{\"command\": \"fault\", \"fault\": \"{fault}\", \"volume\": \"disk.img\"}}\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
    serde_json::from_value(answer["result"]["errno"].clone())
        .unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn a_daemon_that_is_taken_over_starts_no_program_and_traces_no_process() {
    let env = TestEnv::with_test_pool();
    let daemon = env.serve_nbd(&[]);
    let met = attempts(&env);
    assert_eq!(met.len(), 5);
    assert!(met.values().all(|errno| *errno == Some(EPERM)), "{met:?}");
    let status = format!("/proc/{}/status", daemon.process.id());
    let status = std::fs::read_to_string(status).unwrap();
    assert!(status.contains("Seccomp:\t2"), "{status}");
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    // It still does all that a daemon does.
    env.make_image("second.img");
    env.ask(&["attach", "POOL", "--backing", "./second.img"]);
    env.ask(&["detach", "POOL", "second.img"]);
    daemon.end();
}

#[test]
fn without_the_sandbox_the_same_attempts_are_no_breach_of_it() {
    let env = TestEnv::with_test_pool();
    let daemon = env.serve_nbd(&["--sandbox", "off"]);
    let met = attempts(&env);
    assert_eq!(met["execve"], None, "{met:?}");
    assert_ne!(met["ptrace"], Some(EPERM), "{met:?}");
    daemon.end();
}

/// Whether this kernel has landlock; its system call says which one.
fn has_landlock(test: &str, env: &TestEnv) -> bool {
    let has = !env.log().contains("no landlock");
    if !has {
        eprintln!("skipped {test}: this kernel has no landlock");
    }
    has
}

#[test]
fn a_daemon_that_is_taken_over_opened_any_file() {
    let env = TestEnv::with_test_pool();
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("outside.img");
    std::fs::File::create(&outside)
        .unwrap()
        .set_len(16 << 20)
        .unwrap();
    std::fs::create_dir(env.path("images")).unwrap();
    std::fs::rename(env.path("disk.img"), env.path("images/disk.img")).unwrap();
    env.make_image("images/second.img");
    let front_ends = [
        "--pool",
        "POOL",
        "--backing",
        "./images/disk.img",
        "--nbd",
        "NBD",
    ];
    let daemon = env.serve_with(&[&front_ends[..], &["--allow-backing", "./images"]].concat());
    if !has_landlock("what a confined daemon opens", &env) {
        return daemon.end();
    }
    let met = attempts_of(&env, "try-files");
    assert_eq!(met.len(), 4);
    assert!(met.values().all(|errno| *errno == Some(EACCES)), "{met:?}");
    // Disks come and go, where it was told.
    env.ask(&["attach", "POOL", "--backing", "./images/second.img"]);
    env.ask(&["flush", "POOL"]);
    env.ask(&["stat", "POOL"]);
    env.ask(&["detach", "POOL", "second.img"]);
    let socket = ["--vhost-user", "./vhost.sock"];
    env.ask(
        &[
            &["attach", "POOL", "--backing", "./images/second.img"],
            &socket[..],
        ]
        .concat(),
    );
    env.ask(&["detach", "POOL", "second.img"]);
    let outside = outside.to_str().unwrap();
    let refused = env.run(&["attach", "POOL", "--backing", outside]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.stderr.contains("--allow-backing"),
        "{}",
        refused.stderr
    );
    let mounted = [
        "attach",
        "POOL",
        "--backing",
        "./images/second.img",
        "--fuse",
        "MOUNT",
    ];
    let refused = env.run(&mounted);
    assert!(
        refused.stderr.contains("mounts nothing"),
        "{}",
        refused.stderr
    );
    daemon.end();
    assert!(!env.path("pool.sock").exists() && !env.path("nbd.sock").exists());
    assert!(!env.path("vhost.sock").exists());
}

#[test]
fn a_confined_daemon_has_its_disk_unmounted_at_the_end() {
    if !std::path::Path::new("/dev/fuse").exists() {
        eprintln!("skipped a confined daemon that has mounted a disk: no /dev/fuse here");
        return;
    }
    let env = TestEnv::with_test_pool();
    let front_ends = ["--pool", "POOL", "--backing", "BACKING", "--fuse", "MOUNT"];
    let daemon = env.serve_with(&[&front_ends[..], &["--allow-backing", "BACKING"]].concat());
    if has_landlock("a confined daemon that has mounted a disk", &env) {
        let met = attempts_of(&env, "try-files");
        assert!(met.values().all(|errno| *errno == Some(EACCES)), "{met:?}");
    }
    let disk = env.open_disk();
    std::os::unix::fs::FileExt::write_all_at(&disk, &[7; 4096], 4096).unwrap();
    drop(disk);
    daemon.end();
    assert!(!env.path("mount/disk").exists());
    // The mark is as the end leaves it: the pool goes on.
    env.serve().end();
}

#[test]
fn a_backing_outside_of_what_is_allowed_is_refused_at_the_start() {
    let env = TestEnv::with_test_pool();
    env.refuses_nbd(&["--allow-backing", "./mount"], 2, "--allow-backing");
}

#[test]
fn what_the_sandbox_leaves_open_is_said_at_the_start() {
    let env = TestEnv::with_test_pool();
    let daemon = env.serve_nbd(&[]);
    assert!(env.log().contains("not of files"), "{}", env.log());
    let met = attempts_of(&env, "try-files");
    assert_eq!(met["read"], None, "{met:?}");
    daemon.end();
}

/// As on a kernel without it: its first call is one that there is not.
fn forget_landlock() {
    let arch = seccompiler::TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let rules = std::iter::once((libc::SYS_landlock_create_ruleset, Vec::new())).collect();
    let missing = seccompiler::SeccompAction::Errno(libc::ENOSYS as u32);
    let allow = seccompiler::SeccompAction::Allow;
    let filter = seccompiler::SeccompFilter::new(rules, allow, missing, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn where_the_kernel_has_no_landlock_the_daemon_says_so_and_keeps_its_word() {
    let on_its_own = std::thread::spawn(|| {
        // For this thread and what it starts.
        forget_landlock();
        let env = TestEnv::with_test_pool();
        let daemon = env.serve_nbd(&["--allow-backing", "BACKING"]);
        assert!(env.log().contains("no landlock"), "{}", env.log());
        assert_eq!(attempts_of(&env, "try-files")["read"], None);
        env.make_image("second.img");
        let refused = env.run(&["attach", "POOL", "--backing", "./second.img"]);
        assert!(
            refused.stderr.contains("--allow-backing"),
            "{}",
            refused.stderr
        );
        daemon.end();
    });
    on_its_own.join().unwrap();
}
