//! A program that the command starts and waits for as a shell would: its signals are passed on, and its exit code is the
//! command's.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};

use forebay_command::{Failure, output};
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// As in shells.
const EXIT_SIGNALLED: u8 = 128;
const EXIT_NOT_FOUND: u8 = 127;
const EXIT_NOT_RUN: u8 = 126;

/// Says why a program was not started; returns the exit code for that.
pub fn not_started(program: &OsStr, error: &io::Error) -> u8 {
    output::error(&format!("{}: {error}", program.display()));
    match error.kind() {
        io::ErrorKind::NotFound => EXIT_NOT_FOUND,
        _ => EXIT_NOT_RUN,
    }
}

/// The signals that are passed on. Those that our parent has us ignore (`nohup`) stay ignored, for
/// the program too.
pub fn heard() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = |signal: &i32| ignored.unwrap_or(0) & (1 << (signal - 1)) != 0;
    let mut heard = vec![SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];
    heard.retain(|signal| !is_ignored(signal));
    heard
}

/// Waits for the program; signals that are meant for it are passed on.
pub fn wait(child: &mut Child, mut signals: Signals) -> Result<ExitStatus, Failure> {
    let handle = signals.handle();
    let id = Pid::from_child(child);
    let forwarder = std::thread::spawn(move || {
        for number in signals.forever() {
            // A terminal has sent these two to the program itself.
            let is_from_terminal = matches!(number, SIGINT | SIGQUIT) && is_in_foreground();
            if let Some(signal) = Signal::from_named_raw(number)
                && !is_from_terminal
            {
                // A program that is gone needs no signal.
                let _ = rustix::process::kill_process(id, signal);
            }
        }
    });
    let status = child.wait();
    handle.close();
    let _ = forwarder.join();
    Ok(status?)
}

fn is_in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(std::io::stdin());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The exit code of a program that has ended.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => EXIT_SIGNALLED.wrapping_add(signal.unwrap_or(0) as u8),
    }
}
