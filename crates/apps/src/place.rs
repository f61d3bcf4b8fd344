//! The places that a program's files lie in, one after the other: a disk, memory, and a disk behind
//! Forebay in each of its two forms, over pools in memory and over pools on an SSD.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use forebay_harness::{
    Daemon, PoolMedium, Result, TempDir, TestEnv, mount_obstacle, output, temporary_folder,
};
use rustix::process::Signal;

use crate::context::Context;
use crate::loop_files::LoopFiles;
use crate::outcome::Outcome;
use crate::slow_disk::SlowDisk;
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
    /// The mount over a pool that lies on the disk itself, as an SSD's owner has it.
    MountSsd,
    PreloadSsd,
    /// A disk whose every request takes as long as a seek, alone.
    SlowDisk,
    /// The mount of a directory on that disk, its pool on the disk of the others.
    SlowDiskMountSsd,
}

impl Place {
    /// Those on a slow disk stand last.
    pub const ALL: [Place; 11] = [
        Place::Disk,
        Place::Tmpfs,
        Place::Mount,
        Place::Preload,
        Place::DiskUnsynced,
        Place::Raw,
        Place::Passthrough,
        Place::MountSsd,
        Place::PreloadSsd,
        Place::SlowDisk,
        Place::SlowDiskMountSsd,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Place::Disk => "disk",
            Place::DiskUnsynced => "disk_unsynced",
            Place::Tmpfs => "tmpfs",
            Place::Raw => "raw",
            Place::Passthrough => "passthrough",
            Place::Mount => "mount",
            Place::Preload => "preload",
            Place::MountSsd => "mount_ssd",
            Place::PreloadSsd => "preload_ssd",
            Place::SlowDisk => "slow_disk",
            Place::SlowDiskMountSsd => "ssd_pool_slow_disk",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Place::DiskUnsynced => "disk, unsynced",
            Place::Raw => "memory alone",
            Place::MountSsd => "mount, SSD pool",
            Place::PreloadSsd => "preload, SSD pool",
            Place::SlowDisk => "slow disk",
            Place::SlowDiskMountSsd => "slow disk, SSD pool",
            other => other.name(),
        }
    }

    fn is_mounted(self) -> bool {
        self.is_forebay_mount() || self == Place::Passthrough
    }

    fn is_forebay_mount(self) -> bool {
        matches!(
            self,
            Place::Mount | Place::MountSsd | Place::SlowDiskMountSsd
        )
    }

    fn is_on_slow_disk(self) -> bool {
        matches!(self, Place::SlowDisk | Place::SlowDiskMountSsd)
    }

    /// What its pools lie on, where it takes any.
    fn pools(self) -> PoolMedium {
        match self {
            Place::MountSsd | Place::PreloadSsd | Place::SlowDiskMountSsd => PoolMedium::Ssd,
            _ => PoolMedium::Memory,
        }
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
        let mounts = self.is_mounted() || self.is_on_slow_disk();
        if let Some(obstacle) = mount_obstacle().filter(|_| mounts) {
            return Some(obstacle.into());
        }
        if let Some(obstacle) = LoopFiles::obstacle().filter(|_| self.is_on_slow_disk()) {
            return Some(obstacle);
        }
        match self {
            _ if self.is_forebay_mount() && !has("mount") => {
                Some("needs the command `forebay mount`".into())
            }
            Place::Preload | Place::PreloadSsd if !has("run") => {
                Some("needs the command `forebay run`".into())
            }
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
    /// On the disk, where pools are to lie there.
    pool_folder: Option<TempDir>,
    pool_bytes: u64,
    /// Taken away last: the files of the place are on it.
    slow_disk: Option<SlowDisk>,
}

impl<'a> Session<'a> {
    /// Makes the directories, the pool of `pool_bytes`, and the mount.
    pub fn open(context: &'a Context, place: Place, pool_bytes: u64) -> Result<Session<'a>> {
        let is_slow = place.is_on_slow_disk();
        let slow_disk = is_slow
            .then(|| SlowDisk::make(&context.memory))
            .transpose()?;
        let root = match (place, &slow_disk) {
            (_, Some(slow)) => &slow.root(),
            (Place::Tmpfs | Place::Raw, None) => &context.memory,
            _ => &context.disk,
        };
        let has_folder = place.pools().is_on_disk();
        let mut session = Session {
            context,
            place,
            mount: None,
            env: TestEnv::with_memory(&context.forebay, &context.memory, root)?,
            pool_folder: has_folder
                .then(|| temporary_folder(&context.disk))
                .transpose()?,
            pool_bytes,
            slow_disk,
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
        let mut command = with_all_descriptors(&self.context.passthrough);
        if self.place.is_forebay_mount() {
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
        let name = format!("pool-{number}");
        let pool = match &self.pool_folder {
            Some(folder) => folder.path().join(name),
            None => self.scratch(&name),
        };
        if !pool.exists() {
            let medium = self.place.pools();
            self.env
                .create_pool((&pool, medium), self.pool_bytes, &[])?;
        }
        Ok(pool)
    }

    /// A program whose files are those of the place. Programs that run at the same time have numbers from 0 on,
    /// and where the place takes one a pool each.
    pub fn command(&self, program: &Path, number: usize) -> Result<Command> {
        Ok(match self.place {
            Place::Preload | Place::PreloadSsd => self.env.preloaded(&self.pool(number)?, program),
            _ => Command::new(program),
        })
    }

    /// What is to be measured. What was loaded before is on the disks by then, so that no program waits for what others wrote;
    /// a slow disk is slow meanwhile, and only then.
    pub fn measuring<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        for folder in [self.env.disk(), &self.context.disk] {
            rustix::fs::syncfs(File::open(folder)?)?;
        }
        match &self.slow_disk {
            Some(slow) => slow.waiting(work),
            None => work(),
        }
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
            Some(daemon) if self.place.is_forebay_mount() => daemon.end(Signal::TERM),
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

/// The plain mount keeps a descriptor for each file that the kernel knows of.
fn with_all_descriptors(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n \"$(ulimit -H -n)\"; exec \"$0\" \"$@\""]);
    command.arg(program);
    command
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
        assert_eq!(Place::PreloadSsd.lacks(help, missing), None);
        assert!(Place::MountSsd.lacks(help, missing).is_some());
        assert!(Place::SlowDiskMountSsd.lacks(help, missing).is_some());
        assert_eq!(Place::Disk.lacks("", missing), None);
    }

    #[test]
    fn every_place_has_a_name_of_its_own_and_ssd_pools_are_in_it() {
        let mut names = Place::ALL.map(Place::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for place in Place::ALL {
            let is_named = place.name().contains("ssd");
            assert_eq!(place.pools() == PoolMedium::Ssd, is_named, "{place:?}");
        }
    }
}
