//! `forebay run --shared`: a program of many processes, which see a directory through one that has the pool.
//!
//! Three processes: this one waits for the program and hands its signals and its exit code through; the broker has the pool;
//! the third makes the mount, in a namespace of its own, and becomes the program. Each may be killed. Without this one the
//! others go on to their end. Without the broker the program gets errors, and what was acknowledged is brought back here.

#![allow(
    unsafe_code,
    reason = "what the broker inherits is closed between fork and exec"
)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use forebay_command::{Failure, output};
use forebay_files::{FileBuffer, FileBufferOptions};
use forebay_mount::DirectoryIdentity;
use rustix::io::FdFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::arguments::RunOptions;
use crate::commands::program;
use crate::handover;

/// This program, also where a newer version has taken its place: both sides speak the same words then.
const OURSELVES: &str = "/proc/self/exe";

/// How long the broker may take before the user is told what is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs the program; returns its exit code, or that of a failure where the program has none and the directory may lack what
/// it wrote.
pub fn run(options: &RunOptions, pool: &Path, directory: &Path) -> Result<u8, Failure> {
    // Once: a link may be another one's by the time that the next process follows it.
    let directory = &forebay_mount::data_directory(directory).map_err(Failure::of_files)?;
    if !options.quiet {
        note_open_files(directory);
    }
    let (mut ours, theirs) = UnixStream::pair()?;
    let (control, their_control) = UnixStream::pair()?;
    let mut broker = start_broker(options, pool, directory, theirs, their_control)?;
    let Some(served) = handover::await_ready(&mut ours)? else {
        let ended = broker.wait()?;
        if let Some(signal) = ended.signal() {
            output::error(&format!(
                "the process that was to have the pool was ended by signal {signal}"
            ));
        }
        // Else it has said why.
        return Ok(program::exit_code(ended));
    };
    let ran = run_program(options, directory, served, ours);
    // Whatever became of the program: the pool is closed when the command ends.
    let ended = await_broker(&mut broker, &control, directory)?;
    let failed = after_broker(options, ended, pool, directory);
    Ok(match program::exit_code(ran?) {
        0 => failed,
        code => code,
    })
}

fn run_program(
    options: &RunOptions,
    directory: &Path,
    served: DirectoryIdentity,
    socket: UnixStream,
) -> Result<ExitStatus, Failure> {
    // Before the program begins: a signal that arrives then is passed on too.
    let signals = Signals::new(program::heard())?;
    let mut child = start_program(options, directory, served, socket)?;
    program::wait(&mut child, signals)
}

/// The exit code of what went wrong with the broker; zero if the directory has all that the program wrote.
fn after_broker(options: &RunOptions, ended: ExitStatus, pool: &Path, directory: &Path) -> u8 {
    if let Some(signal) = ended.signal() {
        output::error(&format!(
            "the process that had the pool was ended by signal {signal}: the program got errors from then on"
        ));
        // What was written and not synced may be gone.
        let lost = Failure::Failed(String::new());
        let recovered = bring_up_to_date(options, pool, directory);
        return recovered.err().unwrap_or(lost).exit_code();
    }
    let code = program::exit_code(ended);
    if code == Failure::Forced(String::new()).exit_code() {
        output::error(&format!(
            "{} is not up to date; forebay recover {} brings it what was acknowledged",
            directory.display(),
            pool.display()
        ));
    }
    code
}

/// Files that the shell opened for the program are those below the mount.
fn note_open_files(directory: &Path) {
    for (number, name) in [(0, "input"), (1, "output"), (2, "error")] {
        let file = std::fs::read_link(format!("/proc/self/fd/{number}"));
        if let Ok(file) = file
            && file.starts_with(directory)
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
    control: UnixStream,
) -> Result<Child, Failure> {
    let mut command = Command::new(OURSELVES);
    command.arg0("forebay");
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
        // The end of a pipe is to be the program's end, and a lock in a descriptor is let go of with it.
        .stdout(Stdio::from(OwnedFd::from(control)));
    // SAFETY: it makes one system call and touches no memory, which a child of a process of many threads may.
    unsafe { command.pre_exec(close_inherited) };
    Ok(command.spawn()?)
}

/// At `exec`, all but the standard ones.
fn close_inherited() -> io::Result<()> {
    let (first, last) = (3 as libc::c_uint, libc::c_uint::MAX);
    // SAFETY: it marks descriptors of a child that is about to become another program.
    // A kernel without the call, or without the flag (before 5.11), leaves them open.
    let _ = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            last,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    };
    Ok(())
}

fn start_program(
    options: &RunOptions,
    directory: &Path,
    served: DirectoryIdentity,
    socket: UnixStream,
) -> Result<Child, Failure> {
    // For this child alone: it is the last one that is started, and closes it when the program begins.
    rustix::io::fcntl_setfd(&socket, FdFlags::empty()).map_err(std::io::Error::from)?;
    let child = Command::new(OURSELVES)
        .arg0("forebay")
        .arg("within")
        .arg("--shared")
        .arg(directory)
        .arg("--device")
        .arg(served.device.to_string())
        .arg("--inode")
        .arg(served.inode.to_string())
        .arg("--socket")
        .arg(socket.as_raw_fd().to_string())
        .arg("--")
        .args(&options.program)
        .spawn()?;
    Ok(child)
}

/// Waits until the last process that sees the directory has ended, and the directory is up to date. Ctrl-C ends the wait for
/// processes, and so does the second of the other signals that mean the end: with the first one a service manager has told
/// those processes too, which then end in order.
fn await_broker(
    broker: &mut Child,
    control: &UnixStream,
    directory: &Path,
) -> Result<ExitStatus, Failure> {
    // The others are heard as well, or they would end this process.
    let mut signals = Signals::new(program::heard())?;
    let handle = signals.handle();
    let words = control.try_clone()?;
    let shown = directory.display().to_string();
    let helper = std::thread::spawn(move || tell_what_is_waited_for(&words, &shown));
    let words = control.try_clone()?;
    let forwarder = std::thread::spawn(move || {
        let mut was_told = false;
        for signal in signals.forever() {
            match signal {
                SIGINT | SIGQUIT => handover::say_end_now(&words),
                SIGTERM | SIGHUP if was_told => handover::say_end_now(&words),
                SIGTERM | SIGHUP => was_told = true,
                _ => {}
            }
        }
    });
    let status = broker.wait();
    handle.close();
    let _ = (helper.join(), forwarder.join());
    Ok(status?)
}

/// Says it once of each of the two that takes long; returns when the broker has ended.
fn tell_what_is_waited_for(control: &UnixStream, shown: &str) {
    for what in [
        format!(
            "the program has ended; waiting for processes that it left (after Ctrl-C, or the second SIGTERM, they get errors \
             in {shown})"
        ),
        format!("the program has ended; waiting until {shown} is up to date"),
    ] {
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        let _ = control.set_read_timeout(Some(PATIENCE));
        let mut word = handover::await_word(control);
        if word.as_ref().is_err_and(is_late) {
            output::error(&what);
            let _ = control.set_read_timeout(None);
            word = handover::await_word(control);
        }
        if !word.unwrap_or(false) {
            return;
        }
    }
}

/// What the pool has and the directory lacks, after the broker was killed.
fn bring_up_to_date(options: &RunOptions, pool: &Path, directory: &Path) -> Result<(), Failure> {
    let own = FileBufferOptions::new(pool)
        .runtime(options.trust.runtime())
        .root(directory);
    let recovered = forebay_mount::lock(directory).and_then(|_locks| {
        let buffer = FileBuffer::open(&own)?;
        buffer.close()
    });
    let recovered = recovered.map_err(Failure::of_files);
    let shown = directory.display();
    match &recovered {
        Ok(()) => output::error(&format!(
            "{shown} has been brought up to date with all that was acknowledged"
        )),
        Err(Failure::InUse(_)) => output::error(&format!(
            "{shown} or the pool is in use by another process again, which brings it what was acknowledged"
        )),
        Err(failure) => output::error(&format!(
            "{shown} is not up to date ({failure}); forebay recover {} brings it what was acknowledged",
            pool.display()
        )),
    }
    recovered
}
