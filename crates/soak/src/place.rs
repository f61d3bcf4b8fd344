//! A directory with a pool, backings, a mount point and sockets; nothing of it is left afterwards.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_harness::Daemon;

use crate::Result;

/// Names of the volumes; the last one comes and goes, the one before is mounted, too.
pub const VOLUMES: [&str; 4] = ["alpha", "beta", "mounted", "guest"];
/// Which of them is mounted.
pub const MOUNTED: usize = 2;
/// Which of them comes and goes.
pub const GUEST: usize = 3;

const START_DEADLINE: Duration = Duration::from_secs(60);
/// Given to the daemon; it is in use by a mount for moments only.
const SHUTDOWN_DEADLINE_S: u64 = 3;

/// The directory.
#[derive(Debug)]
pub struct Place {
    directory: tempfile::TempDir,
    backings: tempfile::TempDir,
    forebay: PathBuf,
    /// Whether the mounted volume is.
    pub has_fuse: bool,
}

impl Place {
    /// Makes a pool and backings.
    ///
    /// Errors: a directory cannot be written, or `forebay create` fails.
    pub fn new(
        forebay: PathBuf,
        backings: &Path,
        pool_bytes: u64,
        volume_bytes: u64,
    ) -> Result<Place> {
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => tempfile::Builder::new()
                .prefix("forebay-soak-")
                .tempdir_in(memory)?,
            false => tempfile::Builder::new().prefix("forebay-soak-").tempdir()?,
        };
        let backings = tempfile::Builder::new()
            .prefix("forebay-soak-")
            .tempdir_in(backings)?;
        let can_mount = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
        let place = Place {
            directory,
            backings,
            forebay,
            has_fuse: can_mount,
        };
        std::fs::create_dir(place.path("mount"))?;
        for name in VOLUMES {
            File::create(place.backing(name))?.set_len(volume_bytes)?;
        }
        place.write_config()?;
        let mut create = place.command(&["create"]);
        create
            .arg(place.path("pool"))
            .args(["--test", "--size", &pool_bytes.to_string()]);
        forebay_harness::output(&mut create, START_DEADLINE)?;
        Ok(place)
    }

    fn write_config(&self) -> Result<()> {
        let mut text = format!(
            "pool = [\"pool\"]\nnbd = [\"unix:nbd\"]\nshutdown-deadline = {SHUTDOWN_DEADLINE_S}\n"
        );
        for (index, name) in VOLUMES.iter().enumerate() {
            let backing = self.backing(name);
            text += &format!("[[volume]]\nname = \"{name}\"\nbacking = {backing:?}\n");
            if index == MOUNTED && self.has_fuse {
                text += "fuse = \"mount\"\n";
            }
        }
        Ok(std::fs::write(self.path("config.toml"), text)?)
    }

    /// Something in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file behind a volume.
    pub fn backing(&self, volume: &str) -> PathBuf {
        self.backings.path().join(volume)
    }

    /// The NBD socket.
    pub fn nbd(&self) -> PathBuf {
        self.path("nbd")
    }

    /// The control socket.
    pub fn control(&self) -> PathBuf {
        self.path("pool.sock")
    }

    /// The command.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.forebay);
        command.args(arguments);
        command
    }

    /// The end of what daemons have logged.
    pub fn log_tail(&self) -> String {
        forebay_harness::tail_of(&self.path("log"))
    }

    /// All that daemons have logged.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.path("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Starts a daemon and waits until it is ready.
    ///
    /// Errors: it ends instead, or takes a minute.
    pub fn start(&self) -> Result<Daemon> {
        let mut command = self.command(&["serve", "--config"]);
        command.arg(self.path("config.toml"));
        Daemon::start_ready(&mut command, &self.path("log"), START_DEADLINE)
    }

    /// Calls `each` with the pieces of a backing, as they are in the file.
    ///
    /// Errors: the file cannot be read.
    pub fn read_backing(&self, volume: &str, mut each: impl FnMut(u64, &[u8])) -> Result<()> {
        let path = self.backing(volume);
        let named = |error| format!("{}: {error}", path.display());
        let mut file = File::open(&path).map_err(named)?;
        let mut piece = vec![0; 1 << 20];
        let mut offset = 0;
        loop {
            let count = file.read(&mut piece).map_err(named)?;
            if count == 0 {
                return Ok(());
            }
            // A short read would cut a sector.
            file.read_exact_at(&mut piece[..count], offset)
                .map_err(named)?;
            each(offset, &piece[..count]);
            offset += count as u64;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.has_fuse {
            // Quiet where nothing is mounted any more.
            let _ = Command::new("umount")
                .args(["-l", "-q"])
                .arg(self.path("mount"))
                .stderr(Stdio::null())
                .status();
        }
    }
}
