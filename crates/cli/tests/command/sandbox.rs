//! A daemon that tries what it may not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use crate::place::Place;

const EPERM: i64 = 1;

/// What each forbidden system call met in the daemon.
fn attempts(place: &Place) -> BTreeMap<String, Option<i64>> {
    let mut stream = UnixStream::connect(place.path("pool.sock")).unwrap();
    let request = br#"{"command": "fault", "fault": "try-forbidden", "volume": "disk.img"}"#;
    stream.write_all(&[&request[..], b"\n"].concat()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
    serde_json::from_value(answer["result"]["errno"].clone())
        .unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[test]
fn a_daemon_that_is_taken_over_starts_no_program_and_traces_no_process() {
    let place = Place::with_test_pool();
    let daemon = place.serve_nbd(&[]);
    let met = attempts(&place);
    assert_eq!(met.len(), 5);
    assert!(met.values().all(|errno| *errno == Some(EPERM)), "{met:?}");
    let status = format!("/proc/{}/status", daemon.process.id());
    let status = std::fs::read_to_string(status).unwrap();
    assert!(status.contains("Seccomp:\t2"), "{status}");
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    // It still does all that a daemon does.
    place.make_image("second.img");
    place.ask(&["attach", "POOL", "--backing", "./second.img"]);
    place.ask(&["detach", "POOL", "second.img"]);
    daemon.end();
}

#[test]
fn without_the_sandbox_the_same_attempts_are_no_breach_of_it() {
    let place = Place::with_test_pool();
    let daemon = place.serve_nbd(&["--sandbox", "off"]);
    let met = attempts(&place);
    assert_eq!(met["execve"], None, "{met:?}");
    assert_ne!(met["ptrace"], Some(EPERM), "{met:?}");
    daemon.end();
}
