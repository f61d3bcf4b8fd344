//! Where a test runs: a folder for pools, sockets, logs and mount points, in memory unless the pools are to lie on a disk, one
//! on a disk for the files behind them, and the command `forebay`. Nothing of it is left afterwards, and nothing stays mounted.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::UnmountFlags;
use tempfile::TempDir;

use crate::medium::PoolMedium;
use crate::{Daemon, Result, output, tail_of};

const START_DEADLINE: Duration = Duration::from_secs(60);
const COMMAND_DEADLINE: Duration = Duration::from_secs(120);

/// The folders and the command.
#[derive(Debug)]
pub struct TestEnv {
    forebay: PathBuf,
    own: TempDir,
    disk: TempDir,
}

impl TestEnv {
    /// Makes the folders, that of the files below `disk`.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn new(forebay: &Path, disk: &Path) -> Result<TestEnv> {
        TestEnv::with_memory(forebay, &memory_folder(), disk)
    }

    /// The same where pools are of this medium; if they are to lie on a disk, then on that of the folder `pools`, to which
    /// nothing happens.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn with_pools(
        forebay: &Path,
        medium: PoolMedium,
        pools: &Path,
        disk: &Path,
    ) -> Result<TestEnv> {
        match medium.is_on_disk() {
            false => TestEnv::new(forebay, disk),
            true => TestEnv::with_memory(forebay, pools, disk),
        }
    }

    /// The same, with the first folder below `own`.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn with_memory(forebay: &Path, own: &Path, disk: &Path) -> Result<TestEnv> {
        let env = TestEnv {
            forebay: forebay.to_owned(),
            own: temporary_folder(own)?,
            disk: temporary_folder(disk)?,
        };
        std::fs::create_dir(env.mount_point())?;
        Ok(env)
    }

    /// Something in the first folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.own.path().join(name)
    }

    /// Where the files really are.
    pub fn disk(&self) -> &Path {
        self.disk.path()
    }

    /// An empty folder to mount on.
    pub fn mount_point(&self) -> PathBuf {
        self.path("mount")
    }

    /// Where daemons log.
    pub fn log(&self) -> PathBuf {
        self.path("log")
    }

    /// The last lines of what they logged.
    pub fn log_tail(&self) -> String {
        tail_of(&self.log())
    }

    /// The command with some arguments.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.forebay);
        // Where it is noted which pool has the newest data of files.
        command.env("XDG_STATE_HOME", self.path("state"));
        command.args(arguments);
        command
    }

    /// `forebay create`, of this medium whatever the place would have by itself, with `more` arguments.
    ///
    /// # Errors
    /// It fails.
    pub fn create_pool(
        &self,
        (pool, medium): (&Path, PoolMedium),
        size_bytes: u64,
        more: &[&str],
    ) -> Result<()> {
        let mut create = self.command(&["create", "--size", &size_bytes.to_string()]);
        create.args(medium.create_options());
        output(create.args(more).arg(pool), COMMAND_DEADLINE).map(drop)
    }

    /// A program under `forebay run`, which has the files on the disk buffered in `pool`.
    pub fn preloaded(&self, pool: &Path, program: &Path) -> Command {
        let mut command = self.command(&["run", "--pool"]);
        command
            .arg(pool)
            .arg("--cover")
            .arg(self.disk().join("**"))
            .arg("--log")
            .arg(self.log())
            .arg("--")
            .arg(program);
        command
    }

    /// Runs a program that must succeed; what it printed.
    ///
    /// # Errors
    /// It fails, or takes longer than `deadline`; with the end of the log.
    pub fn output(&self, command: &mut Command, deadline: Duration) -> Result<String> {
        output(command, deadline).map_err(|error| format!("{error}\n{}", self.log_tail()).into())
    }

    /// Starts a daemon that says when it is ready, and waits for that.
    ///
    /// # Errors
    /// It ends instead, or takes a minute; with the end of its log.
    pub fn start(&self, command: &mut Command) -> Result<Daemon> {
        Daemon::start_ready(command, &self.log(), START_DEADLINE)
    }

    /// Takes away what is mounted, also where its daemon is dead.
    pub fn unmount(&self) {
        // Fails where nothing is mounted any more.
        let _ = rustix::mount::unmount(self.mount_point(), UnmountFlags::DETACH);
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        // The folders are to be removed, not what is mounted there.
        self.unmount();
    }
}

/// Below which folders in memory are made, where the machine has such a place.
#[must_use]
pub fn memory_folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    match memory.is_dir() {
        true => memory,
        false => std::env::temp_dir(),
    }
}

/// A folder that programs of other users may pass through; removed when it is dropped.
///
/// # Errors
/// It cannot be made; the message names where.
pub fn temporary_folder(parent: &Path) -> Result<TempDir> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    tempfile::Builder::new()
        .prefix("forebay-verify-")
        .permissions(mode)
        .tempdir_in(parent)
        .map_err(|error| format!("{}: {error}", parent.display()).into())
}

/// What this machine lacks to mount.
#[must_use]
pub fn mount_obstacle() -> Option<&'static str> {
    let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    (!can_mount).then_some("needs root and /dev/fuse to mount")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_and_the_command_knows_its_own_state() {
        let disk = tempfile::tempdir().expect("a folder");
        let env = TestEnv::new(Path::new("/bin/sh"), disk.path()).expect("made");
        std::fs::write(env.path("pool"), b"pool").expect("written");
        let mut command = env.command(&["-c", "echo $XDG_STATE_HOME"]);
        let said = output(&mut command, START_DEADLINE).expect("it runs");
        assert_eq!(said.trim(), env.path("state").to_string_lossy());
        let memory = env.path("");
        drop(env);
        assert!(!memory.exists());
        assert_eq!(disk.path().read_dir().expect("there").count(), 0);
    }
}
