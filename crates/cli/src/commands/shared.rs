//! `forebay run --shared`: a program of many processes, which see a directory through one that has the pool.
//!
//! Three processes: this one waits for the program and hands its signals and its exit code through; the broker has the pool;
//! the third makes the mount, in a namespace of its own, and becomes the program. Each may be killed. Without this one the
//! others go on to their end. Without the broker the program gets errors, and what was acknowledged is brought back here.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use forebay_command::{Failure, output};
use forebay_files::{FileBuffer, FileBufferOptions};
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal};
use signal_hook::iterator::Signals;

use crate::arguments::RunOptions;
use crate::commands::program;
use crate::handover;

/// How long the broker may take before the user is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs the program; returns its exit code.
pub fn run(options: &RunOptions, pool: &Path, directory: &Path) -> Result<u8, Failure> {
    if !options.quiet {
        note_open_files(directory);
    }
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut broker = start_broker(options, pool, directory, theirs)?;
    if !handover::await_ready(&mut ours)? {
        // It has said why.
        return Ok(program::exit_code(broker.wait()?));
    }
    // Before the program begins: a signal that arrives then is passed on too.
    let signals = Signals::new(program::heard())?;
    let mut child = start_program(options, directory, ours)?;
    let status = program::wait(&mut child, signals)?;
    let ended = await_broker(&mut broker, directory)?;
    if let Some(signal) = ended.signal() {
        output::error(&format!(
            "the process that had the pool was ended by signal {signal}: the program got errors from then on"
        ));
        bring_up_to_date(options, pool, directory);
    }
    Ok(program::exit_code(status))
}

/// Files that the shell opened for the program are those below the mount.
fn note_open_files(directory: &Path) {
    let Ok(directory) = directory.canonicalize() else {
        return;
    };
    for (number, name) in [(0, "input"), (1, "output"), (2, "error")] {
        let file = std::fs::read_link(format!("/proc/self/fd/{number}"));
        if let Ok(file) = file
            && file.starts_with(&directory)
        {
            output::error(&format!(
                "standard {name} is {}, opened before the pool was: what goes through it bypasses the pool; open it in \
                 the program (sh -c 'program > file')",
                file.display()
            ));
        }
    }
}

fn start_broker(
    options: &RunOptions,
    pool: &Path,
    directory: &Path,
    socket: UnixStream,
) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("broker").arg("--pool").arg(pool);
    command.arg("--shared").arg(directory);
    if options.accept_stale {
        command.arg("--accept-stale");
    }
    if options.trust.trust_owner {
        command.arg("--trust-owner");
    }
    command
        .stdin(Stdio::from(OwnedFd::from(socket)))
        // The end of a pipe is to be the program's end.
        .stdout(Stdio::null());
    Ok(command.spawn()?)
}

fn start_program(
    options: &RunOptions,
    directory: &Path,
    socket: UnixStream,
) -> Result<Child, Failure> {
    // For this child alone: it is the last one that is started, and closes it when the program begins.
    rustix::io::fcntl_setfd(&socket, FdFlags::empty()).map_err(std::io::Error::from)?;
    let child = Command::new(std::env::current_exe()?)
        .arg("within")
        .arg("--shared")
        .arg(directory)
        .arg("--socket")
        .arg(socket.as_raw_fd().to_string())
        .arg("--")
        .args(&options.program)
        .spawn()?;
    Ok(child)
}

/// Waits until the last process that sees the directory has ended, and the directory is up to date. A signal ends the wait for
/// processes.
fn await_broker(broker: &mut Child, directory: &Path) -> Result<ExitStatus, Failure> {
    let mut signals = Signals::new(program::heard())?;
    let handle = signals.handle();
    let id = Pid::from_child(broker);
    let (sender, ended) = channel::<()>();
    let shown = directory.display().to_string();
    let helper = std::thread::spawn(move || {
        if ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            output::error(&format!(
                "the program has ended; waiting for processes that it left, and until {shown} is up to date (after a signal \
                 they get errors there)"
            ));
        }
    });
    let forwarder = std::thread::spawn(move || {
        for _ in signals.forever() {
            // One that is gone needs no signal.
            let _ = rustix::process::kill_process(id, Signal::TERM);
        }
    });
    let status = broker.wait();
    drop(sender);
    handle.close();
    let _ = (helper.join(), forwarder.join());
    Ok(status?)
}

/// What the pool has and the directory lacks, after the broker was killed.
fn bring_up_to_date(options: &RunOptions, pool: &Path, directory: &Path) {
    let own = FileBufferOptions::new(pool)
        .runtime(options.trust.runtime())
        .root(directory);
    let recovered = FileBuffer::open(&own).and_then(|buffer| buffer.close());
    match recovered {
        Ok(()) => output::error(&format!(
            "{} has been brought up to date with all that was acknowledged",
            directory.display()
        )),
        Err(error) => output::error(&format!(
            "{} is not up to date ({error}); forebay recover {} brings it what was acknowledged",
            directory.display(),
            pool.display()
        )),
    }
}
