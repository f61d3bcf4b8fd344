//! The places that a program's files lie in, one after the other: a disk, memory, and a disk behind
//! Forebay in each of its two forms.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_harness::{Daemon, Result, TestEnv, mount_obstacle, output};
use rustix::process::Signal;

use crate::context::Context;
use crate::outcome::Outcome;
use crate::worker::Task;

const START_DEADLINE: Duration = Duration::from_secs(60);
const TOOL_DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Disk,
    /// The same, by a program that never syncs.
    DiskUnsynced,
    Tmpfs,
    /// Memory without any file system: what is written is copied past the processor's cache, and a sync is a
    /// fence.
    Raw,
    /// The disk, behind a mount that does nothing but pass calls through.
    Passthrough,
    Mount,
    Preload,
}

impl Place {
    pub fn name(self) -> &'static str {
        match self {
            Place::Disk => "disk",
            Place::DiskUnsynced => "disk_unsynced",
            Place::Tmpfs => "tmpfs",
            Place::Raw => "raw",
            Place::Passthrough => "passthrough",
            Place::Mount => "mount",
            Place::Preload => "preload",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Place::DiskUnsynced => "disk, unsynced",
            Place::Raw => "memory alone",
            other => other.name(),
        }
    }

    fn is_mounted(self) -> bool {
        matches!(self, Place::Mount | Place::Passthrough)
    }

    /// What it needs and this machine does not have; none where it can be measured. `commands` is what
    /// `forebay help` prints.
    pub fn lacks(self, commands: &str, passthrough: &Path) -> Option<String> {
        let has = |name: &str| {
            let mut words = commands
                .lines()
                .filter_map(|line| line.split_whitespace().next());
            words.any(|word| word == name)
        };
        if let Some(obstacle) = mount_obstacle().filter(|_| self.is_mounted()) {
            return Some(obstacle.into());
        }
        match self {
            Place::Mount if !has("mount") => Some("needs the command `forebay mount`".into()),
            Place::Preload if !has("run") => Some("needs the command `forebay run`".into()),
            Place::Passthrough if !passthrough.is_file() => {
                Some(format!("needs {}", passthrough.display()))
            }
            _ => None,
        }
    }
}

/// A fresh directory in a place, with a fresh pool where it takes one; nothing of it is left afterwards.
#[derive(Debug)]
pub struct Session<'a> {
    pub context: &'a Context,
    pub place: Place,
    mount: Option<Daemon>,
    env: TestEnv,
    pool_bytes: u64,
}

impl<'a> Session<'a> {
    /// Makes the directories, the pool of `pool_bytes`, and the mount.
    pub fn open(context: &'a Context, place: Place, pool_bytes: u64) -> Result<Session<'a>> {
        let root = match place {
            Place::Tmpfs | Place::Raw => &context.memory,
            _ => &context.disk,
        };
        let mut session = Session {
            context,
            place,
            mount: None,
            env: TestEnv::with_memory(&context.forebay, &context.memory, root)?,
            pool_bytes,
        };
        if place.is_mounted() {
            session.start_mount()?;
        }
        Ok(session)
    }

    fn start_mount(&mut self) -> Result<()> {
        let mount_point = self.env.mount_point();
        let device = |path: &Path| rustix::fs::stat(path).map(|stat| stat.st_dev);
        let before = device(&mount_point)?;
        let mut command = Command::new(&self.context.passthrough);
        if self.place == Place::Mount {
            command = self.env.command(&["mount", "--pool"]);
            command.arg(self.pool(0)?);
        }
        command.args([self.env.disk(), &mount_point]);
        let started = Daemon::start(&mut command, &self.env.log())?;
        self.mount.insert(started).wait_until(START_DEADLINE, || {
            device(&mount_point).is_ok_and(|now| now != before)
        })
    }

    /// The process that serves the mount, where there is one.
    pub fn server(&self) -> Option<u32> {
        self.mount.as_ref().map(Daemon::id)
    }

    pub fn data(&self) -> PathBuf {
        match self.place.is_mounted() {
            true => self.env.mount_point(),
            false => self.env.disk().to_owned(),
        }
    }

    /// A path for a socket, a log or the like, in memory.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.env.path(name)
    }

    /// The pool of that number, which is made when it is first asked for.
    fn pool(&self, number: usize) -> Result<PathBuf> {
        let pool = self.scratch(&format!("pool-{number}"));
        if !pool.exists() {
            self.env.create_pool(&pool, self.pool_bytes, &[])?;
        }
        Ok(pool)
    }

    /// A program whose files are those of the place. Programs that run at the same time have numbers from 0 on,
    /// and where the place takes one a pool each.
    pub fn command(&self, program: &Path, number: usize) -> Result<Command> {
        Ok(match self.place {
            Place::Preload => self.env.preloaded(&self.pool(number)?, program),
            _ => Command::new(program),
        })
    }

    /// Runs a program; what it printed.
    pub fn output(&self, mut command: Command) -> Result<String> {
        self.env.output(&mut command, TOOL_DEADLINE)
    }

    /// What this program measures as a child of itself, its files those of the place.
    pub fn measure(&self, task: &Task) -> Result<Outcome> {
        let command = self.command(&self.context.own, 0)?;
        Outcome::from_json(&self.output(task.given_to(command)?)?)
    }

    /// Starts a daemon and waits until it is ready.
    pub fn start(&self, mut command: Command, is_ready: impl FnMut() -> bool) -> Result<Daemon> {
        let mut daemon = Daemon::start(&mut command, &self.env.log())?;
        daemon.wait_until(START_DEADLINE, is_ready)?;
        Ok(daemon)
    }

    /// Unmounts, which brings everything to the disk, and removes the directories.
    pub fn close(mut self) -> Result<()> {
        match self.mount.take() {
            Some(daemon) if self.place == Place::Mount => daemon.end(Signal::TERM),
            Some(daemon) => {
                let mut umount = Command::new("umount");
                umount.arg(self.env.mount_point());
                output(&mut umount, TOOL_DEADLINE)?;
                daemon.wait()
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_needs_its_command() {
        let help = "Commands:\n  create  Make a pool\n  run     Run a program\n";
        let missing = Path::new("/no/such/program");
        assert_eq!(Place::Preload.lacks(help, missing), None);
        assert!(Place::Preload.lacks("  create\n", missing).is_some());
        assert!(Place::Mount.lacks(help, missing).is_some());
        assert!(Place::Passthrough.lacks(help, missing).is_some());
        assert_eq!(Place::Disk.lacks("", missing), None);
    }
}
