//! Programs that run beside.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::{Group, Result, tail_of, wait_for};

const END_DEADLINE: Duration = Duration::from_secs(120);

/// A program that runs beside; ended, by force if need be, when it is dropped.
#[derive(Debug)]
pub struct Daemon {
    group: Group,
    log: PathBuf,
}

impl Daemon {
    /// Starts it; what it prints goes to the end of `log`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, log: &Path) -> Result<Daemon> {
        let file = File::options().create(true).append(true).open(log)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        Ok(Daemon {
            group: Group::start(command)?,
            log: log.to_owned(),
        })
    }

    /// Starts one that prints a line `ready` when it is, and waits for that. What else it says goes to
    /// the end of `log`.
    ///
    /// # Errors
    /// It ends instead, takes longer than `deadline`, or a signal came.
    pub fn start_ready(command: &mut Command, log: &Path, deadline: Duration) -> Result<Daemon> {
        // Not a pipe, which could be closed while the daemon writes to it.
        let said = tempfile::NamedTempFile::new()?;
        let file = File::options().create(true).append(true).open(log)?;
        command
            .stdin(Stdio::null())
            .stdout(said.reopen()?)
            .stderr(file);
        let mut daemon = Daemon {
            group: Group::start(command)?,
            log: log.to_owned(),
        };
        daemon.wait_until(deadline, || {
            let said = std::fs::read_to_string(said.path());
            said.is_ok_and(|said| said.lines().any(|line| line == "ready"))
        })?;
        Ok(daemon)
    }

    /// Waits until `is_ready` says so.
    ///
    /// # Errors
    /// It ends instead, takes longer than `deadline`, or a signal came.
    pub fn wait_until(
        &mut self,
        deadline: Duration,
        mut is_ready: impl FnMut() -> bool,
    ) -> Result<()> {
        let group = &mut self.group;
        let ready = wait_for(deadline, || match is_ready() {
            true => Ok(Some(Ok(()))),
            false => Ok(group.ended()?.map(Err)),
        })?;
        let name = self.group.name();
        let found = match ready {
            Some(Ok(())) => return Ok(()),
            Some(Err(status)) => format!("{name} ended before it was ready: {status}"),
            None => format!("{name} was not ready after {} s", deadline.as_secs()),
        };
        Err(self.told(&found))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.group.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.group.ended()
    }

    /// Asks it to end by `signal` and waits for that; how it ended.
    ///
    /// # Errors
    /// It takes longer than two minutes, or the wait is interrupted.
    pub fn status_after(mut self, signal: Signal) -> Result<ExitStatus> {
        self.group.signal(signal)?;
        let status = self.group.wait(END_DEADLINE);
        status.map_err(|error| self.told(&error.to_string()))
    }

    /// As [`Daemon::status_after`], of one that must end well.
    ///
    /// # Errors
    /// The same, or it ends with a failure.
    pub fn end(mut self, signal: Signal) -> Result<()> {
        self.group.signal(signal)?;
        self.wait()
    }

    /// Waits for its end by itself, which must be a good one.
    ///
    /// # Errors
    /// It takes longer than two minutes, ends with a failure, or the wait is interrupted.
    pub fn wait(mut self) -> Result<()> {
        match self.group.wait(END_DEADLINE) {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.told(&format!("{} ended: {status}", self.group.name()))),
            Err(error) => Err(self.told(&error.to_string())),
        }
    }

    /// Ends it, and all that it started, at once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill(mut self) -> Result<()> {
        self.group.kill()
    }

    /// The last lines that it logged, behind what is to be said about them.
    fn told(&self, what: &str) -> crate::Failure {
        format!("{what}; its log:\n{}", tail_of(&self.log)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::testing::{MINUTE, shell};

    fn start(script: &str) -> Result<Daemon> {
        let log = tempfile::NamedTempFile::new().expect("a file");
        Daemon::start_ready(&mut shell(script), log.path(), MINUTE)
    }

    #[test]
    fn it_is_waited_for_until_it_says_that_it_is_ready() {
        let mut daemon = start("echo almost; sleep 0.05; echo ready; exec sleep 600").expect("up");
        assert_eq!(daemon.ended().expect("known"), None);
        let status = daemon.status_after(Signal::TERM).expect("it ends");
        assert!(!status.success(), "{status}");
    }

    #[test]
    fn one_that_ends_instead_says_why() {
        let error = start("echo no pool >&2; echo not ready; exit 3").expect_err("not ready");
        let error = error.to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("no pool"), "{error}");
    }

    #[test]
    fn a_bad_end_is_told() {
        let daemon = start("trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done");
        let error = daemon.expect("up").end(Signal::TERM);
        let error = error.expect_err("a failure").to_string();
        assert!(error.contains("sh ended: exit status: 4"), "{error}");
        let daemon = start("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        daemon.expect("up").end(Signal::TERM).expect("well");
    }
}
