//! Files whose names are no text, or a text that would confuse a terminal.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use rustix::process::Signal;

use crate::test_env::{Daemon, Outcome, TestEnv};

/// Not UTF-8, a new line, and a sequence that clears a terminal.
const NAME: &[u8] = b"d\xff\n\x1b[2J.img";
const NAME_HEX: &str = "64ff0a1b5b324a2e696d67";

fn env() -> (TestEnv, OsString) {
    let env = TestEnv::with_pool();
    let backing = env.directory.path().join(OsStr::from_bytes(NAME));
    std::fs::rename(env.path("disk.img"), &backing).unwrap();
    (env, backing.into())
}

fn serve(env: &TestEnv, backing: &OsStr) -> Daemon {
    let mut command = env.command(&["serve", "--pool", "POOL", "--nbd", "NBD"]);
    command.arg("--backing").arg(backing);
    env.start(command)
}

fn assert_plain(outcome: &Outcome) {
    for text in [&outcome.stdout, &outcome.stderr] {
        let wrong = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(wrong, None, "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("[2J")), "{text}");
    }
}

fn assert_names_it(volume: &serde_json::Value) {
    let path = volume["path"].as_str().unwrap();
    assert!(path.ends_with("/d\u{fffd}\n\u{1b}[2J.img"), "{volume}");
    let bytes = volume["path_hex"].as_str().unwrap();
    assert!(bytes.ends_with(NAME_HEX), "{volume}");
}

#[test]
fn asking_for_a_backing_whose_name_is_not_utf_8_does_not_kill_the_daemon() {
    let (env, backing) = env();
    let daemon = serve(&env, &backing);
    assert_names_it(&env.ask(&["stat", "POOL"])["volumes"][0]);
    for question in [
        &["stat", "POOL"][..],
        &["top", "POOL", "--once", "--interval", "0.1"],
        &["top", "POOL", "--json", "--interval", "0.1"],
        &["flush", "POOL"],
    ] {
        let answer = env.run(question);
        assert_eq!(answer.code, 0, "{question:?}: {}", answer.stderr);
        assert_plain(&answer);
    }
    let name = "d\u{fffd}--[2J.img";
    let detached = env.run(&["detach", "POOL", name]);
    assert_eq!(detached.code, 0, "{}", detached.stderr);
    assert_plain(&detached);
    daemon.end();
}

#[test]
fn an_idle_pool_of_a_backing_whose_name_is_not_utf_8_is_shown_checked_and_recovered() {
    let (env, backing) = env();
    let daemon = serve(&env, &backing);
    daemon.signal(Signal::KILL);
    daemon.wait();
    assert_names_it(&env.ask(&["info", "POOL"])["volumes"][0]);
    for question in [
        &["info", "POOL"][..],
        &["check", "POOL"],
        &["recover", "POOL", "--dry-run"],
        &["recover", "POOL"],
    ] {
        let answer = env.run(question);
        assert_eq!(answer.code, 0, "{question:?}: {}", answer.stderr);
        assert_plain(&answer);
    }
    serve(&env, &backing).end();
}

#[test]
fn asking_for_the_mark_of_a_backing_whose_name_is_not_utf_8_does_not_panic() {
    let (env, backing) = env();
    serve(&env, &backing).end();
    let mut command = env.command(&["info", "--json"]);
    let output = command.arg("--backing").arg(&backing).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["state"], "whole", "{report}");
    let bytes = report["backing_hex"].as_str().unwrap();
    assert!(bytes.ends_with(NAME_HEX), "{report}");
}

#[test]
fn an_error_about_a_file_stays_in_its_line() {
    let env = TestEnv::new();
    let outcome = env.run(&["info", "./a\nforebay: all is well\u{1b}[2J\u{9b}2J\u{202e}"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_plain(&outcome);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains(r"all is well\u{1b}[2J\u{9b}2J\u{202e}")
    );
}
