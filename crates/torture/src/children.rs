//! Programs that are run and waited for; none is left behind.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Result;

const POLL: Duration = Duration::from_millis(2);
const TAIL_LINES: usize = 60;

static INTERRUPT: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on Ctrl-C and SIGTERM are seen by [`check_interrupt`].
///
/// Errors: signals cannot be caught.
pub fn catch_signals() -> Result<()> {
    let flag = INTERRUPT.get_or_init(Arc::default);
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

/// Errors: somebody wants it to be over.
pub fn check_interrupt() -> Result<()> {
    match INTERRUPT.get().is_some_and(|flag| flag.load(SeqCst)) {
        true => Err("interrupted".into()),
        false => Ok(()),
    }
}

/// A process and its group; killed when it is dropped.
#[derive(Debug)]
pub struct Group {
    child: Child,
    name: String,
}

impl Group {
    /// Starts it as the head of a group of its own.
    ///
    /// Errors: it cannot be started.
    pub fn start(command: &mut Command) -> Result<Group> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command.process_group(0).spawn();
        Ok(Group {
            child: started.map_err(|error| format!("{name}: {error}"))?,
            name,
        })
    }

    /// Its process id, which is that of the group.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The reading end of its piped standard output, once.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, if it has.
    ///
    /// Errors: the kernel's.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// Errors: it takes longer than `deadline`, or somebody wants it to be over.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            check_interrupt()?;
            if began.elapsed() > deadline {
                let limit_s = deadline.as_secs();
                return Err(format!("{} was not done after {limit_s} s", self.name).into());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Ends all of the group at once, and waits.
    ///
    /// Errors: the kernel's.
    pub fn kill(&mut self) -> Result<()> {
        if self.ended()?.is_none() {
            // Its last process may end this moment.
            let _ = kill_process_group(self.pid(), Signal::KILL);
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nothing can be said about it any more.
        let _ = self.kill();
    }
}

/// What a program printed, and how it ended.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub printed: String,
    /// What it said to standard error.
    pub complaints: String,
}

impl Output {
    /// The last lines of all it said.
    pub fn tail(&self) -> String {
        let text = format!("{}{}", self.printed, self.complaints);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

/// Runs a program to its end.
///
/// Errors: it cannot be started, takes longer than `deadline`, or is interrupted.
pub fn run(command: &mut Command, deadline: Duration) -> Result<Output> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let status = Group::start(command)?.wait(deadline)?;
    Ok(Output {
        status,
        printed: read(&mut stdout)?,
        complaints: read(&mut stderr)?,
    })
}

/// Runs a program that must succeed; what it printed.
///
/// Errors: as [`run`], and if it fails.
pub fn output(command: &mut Command, deadline: Duration) -> Result<String> {
    let output = run(command, deadline)?;
    match output.status.success() {
        true => Ok(output.printed),
        false => Err(format!("{command:?}: {}\n{}", output.status, output.tail()).into()),
    }
}

fn read(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
