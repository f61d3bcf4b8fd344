//! Files whose names are no text, or a text that would confuse a terminal.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use rustix::process::Signal;

use crate::place::{Daemon, Outcome, Place};

/// Not UTF-8, a new line, and a sequence that clears a terminal.
const NAME: &[u8] = b"d\xff\n\x1b[2J.img";
const NAME_HEX: &str = "64ff0a1b5b324a2e696d67";

fn place() -> (Place, OsString) {
    let place = Place::with_pool();
    let backing = place.directory.path().join(OsStr::from_bytes(NAME));
    std::fs::rename(place.path("disk.img"), &backing).unwrap();
    (place, backing.into())
}

fn serve(place: &Place, backing: &OsStr) -> Daemon {
    let mut command = place.command(&["serve", "--pool", "POOL", "--nbd", "NBD"]);
    command.arg("--backing").arg(backing);
    place.start(command)
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
    let (place, backing) = place();
    let daemon = serve(&place, &backing);
    assert_names_it(&place.ask(&["stat", "POOL"])["volumes"][0]);
    for question in [
        &["stat", "POOL"][..],
        &["top", "POOL", "--once", "--interval", "0.1"],
        &["top", "POOL", "--json", "--interval", "0.1"],
        &["flush", "POOL"],
    ] {
        let answer = place.run(question);
        assert_eq!(answer.code, 0, "{question:?}: {}", answer.stderr);
        assert_plain(&answer);
    }
    let name = "d\u{fffd}--[2J.img";
    let detached = place.run(&["detach", "POOL", name]);
    assert_eq!(detached.code, 0, "{}", detached.stderr);
    assert_plain(&detached);
    daemon.end();
}

#[test]
fn an_idle_pool_of_a_backing_whose_name_is_not_utf_8_is_shown_checked_and_recovered() {
    let (place, backing) = place();
    let daemon = serve(&place, &backing);
    daemon.signal(Signal::KILL);
    daemon.wait();
    assert_names_it(&place.ask(&["info", "POOL"])["volumes"][0]);
    for question in [
        &["info", "POOL"][..],
        &["check", "POOL"],
        &["recover", "POOL", "--dry-run"],
        &["recover", "POOL"],
    ] {
        let answer = place.run(question);
        assert_eq!(answer.code, 0, "{question:?}: {}", answer.stderr);
        assert_plain(&answer);
    }
    serve(&place, &backing).end();
}

#[test]
fn asking_for_the_mark_of_a_backing_whose_name_is_not_utf_8_does_not_panic() {
    let (place, backing) = place();
    serve(&place, &backing).end();
    let mut command = place.command(&["info", "--json"]);
    let output = command.arg("--backing").arg(&backing).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["state"], "whole", "{report}");
    let bytes = report["backing_hex"].as_str().unwrap();
    assert!(bytes.ends_with(NAME_HEX), "{report}");
}

#[test]
fn an_error_about_a_file_stays_in_its_line() {
    let place = Place::new();
    let outcome = place.run(&["info", "./a\nforebay: all is well\u{1b}[2J\u{9b}2J\u{202e}"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    assert_plain(&outcome);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains(r"all is well\u{1b}[2J\u{9b}2J\u{202e}")
    );
}
