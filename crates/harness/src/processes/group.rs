//! A process and its group.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{Result, wait_for};

/// How long a process has to clean up after itself before it is killed.
const LAST_WORDS: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 5000 });
const PERIOD: Duration = Duration::from_millis(2);

/// A process at the head of a group of its own; ended, by force if need be, when it is dropped.
#[derive(Debug)]
pub struct Group {
    child: Child,
    name: String,
}

impl Group {
    /// Starts it.
    ///
    /// # Errors
    /// There is no such program.
    pub fn start(command: &mut Command) -> Result<Group> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = command.process_group(0).spawn();
        Ok(Group {
            child: started.map_err(|error| format!("{name}: {error}"))?,
            name,
        })
    }

    /// Its program, as it was called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id, which is that of the group.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The same as a number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The reading end of its piped standard output, once.
    pub fn take_output(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It takes longer than `deadline`, or a signal came.
    pub fn wait(&mut self, deadline: Duration) -> Result<ExitStatus> {
        let ended = wait_for(deadline, || self.ended())?;
        let limit_s = deadline.as_secs();
        ended.ok_or_else(|| format!("{} was not done after {limit_s} s", self.name).into())
    }

    /// Sends the process a signal, unless it has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if self.ended()?.is_none() {
            kill_process(self.pid(), signal)?;
        }
        Ok(())
    }

    /// Ends all of the group at once, and waits for the process.
    ///
    /// # Errors
    /// The kernel's.
    pub fn kill(&mut self) -> Result<()> {
        // A process that was waited for has no pid of its own any more.
        if self.ended()?.is_none() {
            kill_process_group(self.pid(), Signal::KILL)?;
            self.child.wait()?;
        }
        Ok(())
    }

    /// True if it has ended by the deadline; signals do not matter any more.
    fn has_ended_within(&mut self, deadline: Duration) -> bool {
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() > deadline {
                return false;
            }
            std::thread::sleep(PERIOD);
        }
        true
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.has_ended_within(Duration::ZERO) {
            return;
        }
        // Both fail only where the process ends this moment.
        let _ = kill_process_group(self.pid(), Signal::TERM);
        if !self.has_ended_within(LAST_WORDS) {
            let _ = self.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::testing::{MINUTE, shell};

    #[test]
    fn a_kill_ends_the_whole_group() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("pid");
        let path = mark.display();
        let script =
            format!("sleep 600 & echo $! > {path}.unfinished; mv {path}.unfinished {path}; wait");
        let mut group = Group::start(&mut shell(&script)).expect("it starts");
        let pid = wait_for(MINUTE, || Ok(std::fs::read_to_string(&mark).ok()));
        let pid = pid.expect("no signal").expect("it runs");
        group.kill().expect("killed");
        // Only the machine's first process reaps the grandchild.
        let status = format!("/proc/{}/stat", pid.trim());
        let gone = wait_for(MINUTE, || {
            let is_running =
                std::fs::read_to_string(&status).is_ok_and(|stat| !stat.contains(") Z "));
            Ok((!is_running).then_some(()))
        });
        assert_eq!(gone.expect("no signal"), Some(()));
    }

    #[test]
    fn what_ignores_the_request_to_end_is_ended_all_the_same() {
        let mut command = shell("trap '' TERM; echo; while :; do sleep 0.05; done");
        let mut group =
            Group::start(command.stdout(std::process::Stdio::piped())).expect("it starts");
        let mut said = group.take_output().expect("its output");
        // The trap is set once it has said something.
        std::io::Read::read_exact(&mut said, &mut [0]).expect("it runs");
        let pid = group.pid();
        drop(group);
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn a_signal_after_the_end_reaches_nobody() {
        let mut group = Group::start(&mut shell("exit 3")).expect("it starts");
        let status = group.wait(MINUTE).expect("it ends");
        assert_eq!(status.code(), Some(3));
        group.signal(Signal::TERM).expect("nothing to do");
        group.kill().expect("nothing to do");
        assert_eq!(group.ended().expect("known"), Some(status));
    }
}
