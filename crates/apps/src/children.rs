//! Programs that are run: waited for with a deadline, ended by their own process id, never left behind.
//!
//! Each is the head of a process group of its own, so that Ctrl-C reaches only this program, which then
//! ends them.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::Result;

const POLL: Duration = Duration::from_millis(5);
const END_DEADLINE: Duration = Duration::from_secs(60);
const TAIL_LINES: usize = 15;

/// Whether the person at the terminal wants it to be over.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// One that Ctrl-C and SIGTERM set.
    ///
    /// Errors: signals cannot be caught.
    pub fn by_signals() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupt.0))?;
        }
        Ok(interrupt)
    }

    /// Errors: it is set.
    pub fn check(&self) -> Result<()> {
        match self.is_set() {
            true => Err("interrupted".into()),
            false => Ok(()),
        }
    }

    /// Whether it is.
    pub fn is_set(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// How a program ended, and what it printed.
#[derive(Debug)]
pub struct Ended {
    /// Whether it says that all is well.
    pub is_success: bool,
    /// On its standard output.
    pub printed: String,
    /// How it ended, and the last lines that it printed anywhere.
    pub told: String,
}

/// Runs a program to its end and returns what it printed.
///
/// Errors: it cannot be started, fails, takes longer than `deadline`, or Ctrl-C; the message ends in the
/// last lines that it printed.
pub fn output(command: Command, deadline: Duration, interrupt: &Interrupt) -> Result<String> {
    let ended = run(command, deadline, interrupt)?;
    match ended.is_success {
        true => Ok(ended.printed),
        false => Err(ended.told.into()),
    }
}

/// As [`output`], of a program whose failure is an answer too.
///
/// Errors: it cannot be started, takes longer than `deadline`, or Ctrl-C.
pub fn run(mut command: Command, deadline: Duration, interrupt: &Interrupt) -> Result<Ended> {
    let name = name_of(&command);
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let mut process = Group::start(&mut command, &name)?;
    let status = process.wait(deadline, Some(interrupt))?;
    let (printed, complaints) = (read(&mut stdout)?, read(&mut stderr)?);
    let last = tail(&format!("{printed}{complaints}"));
    match status {
        Some(status) => Ok(Ended {
            is_success: status.success(),
            told: format!("{name}: {status}\n{last}"),
            printed,
        }),
        None => {
            let limit_s = deadline.as_secs();
            Err(format!("{name} was not done after {limit_s} s\n{last}").into())
        }
    }
}

/// A program that runs beside; ended, by force if need be, when it is dropped.
#[derive(Debug)]
pub struct Daemon {
    process: Group,
    name: String,
    log: PathBuf,
}

impl Daemon {
    /// Starts it; what it prints goes to the end of `log`.
    ///
    /// Errors: it cannot be started.
    pub fn start(mut command: Command, log: &Path) -> Result<Daemon> {
        let name = name_of(&command);
        let file = File::options().create(true).append(true).open(log)?;
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        Ok(Daemon {
            process: Group::start(&mut command, &name)?,
            name,
            log: log.to_owned(),
        })
    }

    /// Waits until `is_ready` says so.
    ///
    /// Errors: it ends instead, takes longer than `deadline`, or Ctrl-C.
    pub fn wait_until(
        &mut self,
        deadline: Duration,
        interrupt: &Interrupt,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let began = Instant::now();
        while !is_ready() {
            interrupt.check()?;
            if let Some(status) = self.process.0.try_wait()? {
                return Err(format!("{} ended: {status}\n{}", self.name, self.tail()).into());
            }
            if began.elapsed() > deadline {
                let limit_s = deadline.as_secs();
                let last = self.tail();
                return Err(format!("{} not ready after {limit_s} s\n{last}", self.name).into());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Asks it to end by `signal` and waits for that.
    ///
    /// Errors: it takes longer than a minute, or ends with a failure.
    pub fn end(mut self, signal: Signal) -> Result<()> {
        kill_process(self.process.pid(), signal)?;
        self.ended()
    }

    /// Waits for its end by itself.
    ///
    /// Errors: it takes longer than a minute, or ends with a failure.
    pub fn ended(&mut self) -> Result<()> {
        match self.process.wait(END_DEADLINE, None)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{} ended: {status}\n{}", self.name, self.tail()).into()),
            None => Err(format!("{} does not end\n{}", self.name, self.tail()).into()),
        }
    }

    fn tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        tail(&String::from_utf8_lossy(&log))
    }
}

/// A process and its group; killed when it is dropped.
#[derive(Debug)]
struct Group(Child);

impl Group {
    fn start(command: &mut Command, name: &str) -> Result<Group> {
        let started = command.spawn();
        Ok(Group(started.map_err(|error| format!("{name}: {error}"))?))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// None where it takes longer.
    fn wait(
        &mut self,
        deadline: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<Option<ExitStatus>> {
        let began = Instant::now();
        while began.elapsed() < deadline {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            interrupt.map_or(Ok(()), Interrupt::check)?;
            std::thread::sleep(POLL);
        }
        Ok(None)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was waited for has no pid of its own any more.
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // It fails only where the process ends this moment.
        let _ = kill_process_group(self.pid(), Signal::TERM);
        if !matches!(self.wait(Duration::from_secs(5), None), Ok(Some(_))) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

fn name_of(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn read(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_is_printed_is_returned_and_a_failure_says_why() {
        let interrupt = Interrupt::default();
        let minute = Duration::from_secs(60);
        let printed = output(shell("echo one"), minute, &interrupt).expect("it runs");
        assert_eq!(printed, "one\n");
        let error = output(shell("echo why >&2; exit 3"), minute, &interrupt).expect_err("fails");
        assert!(error.to_string().contains("why"), "{error}");
    }

    #[test]
    fn nothing_is_left_of_a_program_that_takes_too_long() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("pid");
        let script = format!("echo $$ > {}; sleep 600 & wait", mark.display());
        let interrupt = Interrupt::default();
        let limit = Duration::from_millis(300);
        output(shell(&script), limit, &interrupt).expect_err("too long");
        let pid = std::fs::read_to_string(&mark).expect("it ran");
        assert!(!Path::new("/proc").join(pid.trim()).exists());
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let interrupt = Interrupt::default();
        interrupt.0.store(true, SeqCst);
        let error = output(shell("sleep 600"), Duration::from_secs(60), &interrupt);
        assert_eq!(error.expect_err("called off").to_string(), "interrupted");
    }
}
