//! A small ext4 of its own, on which bad days can be made: full, frozen, or gone with all that it had
//! not made durable.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use forebay_harness::{LoopDevice, Result, must, temporary_folder};

#[derive(Debug)]
pub struct Disk {
    // It goes before the folder with its file.
    device: LoopDevice,
    folder: TempDir,
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
        let make = ["-q", "-F", "-O", "^resize_inode", &image.to_string_lossy()];
        must("mkfs.ext4", &make)?;
        let disk = Disk {
            folder,
            device: LoopDevice::over(&image, false)?,
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
        let (device, path) = (self.device.device(), self.path());
        Ok(mount(device, &path, "ext4", MountFlags::empty(), None)?)
    }

    /// It stops: writers wait.
    pub fn freeze(&mut self) -> Result<()> {
        must("fsfreeze", &["--freeze", &self.path().to_string_lossy()])?;
        self.is_frozen = true;
        Ok(())
    }

    /// It goes on.
    pub fn thaw(&mut self) -> Result<()> {
        must("fsfreeze", &["--unfreeze", &self.path().to_string_lossy()])?;
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
    }
}
