//! A small ext4 of its own, on which bad days can be made: full, frozen, or gone with all that it had
//! not made durable.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use forebay_harness::{Result, temporary_folder};

const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Disk {
    folder: TempDir,
    device: String,
    is_frozen: bool,
}

/// What this machine lacks for it.
pub fn lack() -> Option<&'static str> {
    let is_root = rustix::process::geteuid().is_root();
    let has_loop = Path::new("/dev/loop-control").exists();
    (!is_root || !has_loop).then_some("needs root and loop devices")
}

impl Disk {
    /// Makes one of `size_bytes`, below `parent`.
    ///
    /// Errors: no loop device, or no mkfs.ext4.
    pub fn new(parent: &Path, size_bytes: u64) -> Result<Disk> {
        let folder = temporary_folder(parent)?;
        let image = folder.path().join("image");
        File::create(&image)?.set_len(size_bytes)?;
        run(tool("mkfs.ext4")
            .args(["-q", "-F", "-O", "^resize_inode"])
            .arg(&image))?;
        let mut attach = tool("losetup");
        let device = run(attach.args(["--find", "--show"]).arg(&image))?
            .trim()
            .to_owned();
        let disk = Disk {
            folder,
            device,
            is_frozen: false,
        };
        std::fs::create_dir(disk.path())?;
        disk.mount()?;
        Ok(disk)
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    fn mount(&self) -> Result<()> {
        let (device, path) = (self.device.as_str(), self.path());
        Ok(mount(device, &path, "ext4", MountFlags::empty(), None)?)
    }

    /// It stops: writers wait.
    pub fn freeze(&mut self) -> Result<()> {
        run(tool("fsfreeze").arg("--freeze").arg(self.path()))?;
        self.is_frozen = true;
        Ok(())
    }

    /// It goes on.
    pub fn thaw(&mut self) -> Result<()> {
        run(tool("fsfreeze").arg("--unfreeze").arg(self.path()))?;
        self.is_frozen = false;
        Ok(())
    }

    /// Its power is cut: every call fails from now on, and what was not durable is gone.
    pub fn cut_power(&self) -> Result<()> {
        const EXT4_IOC_SHUTDOWN: libc::c_ulong = 0x8004_587d;
        const WITHOUT_FLUSHING_THE_LOG: u32 = 2;
        let root = File::open(self.path())?;
        let how = WITHOUT_FLUSHING_THE_LOG;
        // SAFETY: the call reads one number, which lives across it.
        #[allow(unsafe_code)]
        let result = unsafe {
            libc::ioctl(
                std::os::fd::AsRawFd::as_raw_fd(&root),
                EXT4_IOC_SHUTDOWN,
                &raw const how,
            )
        };
        match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }

    /// It is there again, as the cut left it. No process may have it open.
    pub fn restart(&self) -> Result<()> {
        unmount(self.path(), UnmountFlags::empty())?;
        self.mount()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What waits for a frozen file system cannot be ended.
        if self.is_frozen {
            let _ = self.thaw();
        }
        let _ = unmount(self.path(), UnmountFlags::DETACH);
        let _ = run(tool("losetup").arg("--detach").arg(&self.device));
    }
}

fn run(command: &mut Command) -> Result<String> {
    forebay_harness::output(command, DEADLINE)
}

/// A program of the system, also where only root looks.
fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}
