//! Signals, in a process of its own: they call off whatever it runs.

use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

#[test]
fn an_interrupt_ends_every_wait_and_what_was_waited_for() {
    let minute = Duration::from_secs(60);
    forebay_harness::check_interrupt().expect("nobody called it off");
    let flag = forebay_harness::catch_signals().expect("a handler");
    kill_process(getpid(), Signal::INT).expect("sent");
    while !flag.load(std::sync::atomic::Ordering::SeqCst) {
        std::thread::yield_now();
    }
    let error = forebay_harness::run(Command::new("sleep").arg("600"), minute);
    assert_eq!(error.expect_err("called off").to_string(), "interrupted");
    let error = forebay_harness::sleep(minute).expect_err("called off");
    assert_eq!(error.to_string(), "interrupted");
    // What is there already is taken.
    let found = forebay_harness::wait_for(minute, || Ok(Some(1)));
    assert_eq!(found.expect("no wait"), Some(1));
}
