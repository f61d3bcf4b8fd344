//! A disk of this process as a file system of this machine: FUSE, a loop device, a mount. All of it is
//! taken apart when it is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_serve::{DiskMount, DiskOptions};

use super::arrivals::Arrivals;
use crate::Result;
use forebay_harness::{LoopDevice, must};

/// The first Linux whose XFS takes blocks larger than a page of memory.
const LARGE_BLOCKS: [u32; 2] = [6, 12];

/// Why this machine cannot make or mount a file system of this program and these arguments, if so.
pub fn obstacle_of(make: &[&str]) -> Option<String> {
    if let Some(why) = forebay_harness::mount_obstacle() {
        return Some(why.into());
    }
    if let Err(error) = must("losetup", &["-f"]).and_then(|_| must(make[0], &["-V"])) {
        return Some(error.to_string());
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse().ok());
    let numbers: Vec<u32> = numbers.take(2).collect();
    let has_large_blocks = make.iter().any(|argument| argument.starts_with("size="));
    (has_large_blocks && numbers[..] < LARGE_BLOCKS[..])
        .then(|| "XFS takes blocks of more than 4 KiB since Linux 6.12".to_owned())
}

/// A loop device over the FUSE file of a disk.
pub struct Looped {
    mount: Option<DiskMount>,
    looped: LoopDevice,
    file_system: Option<PathBuf>,
}

impl Looped {
    /// Makes both; `directory` is an existing, empty one.
    pub fn new(disk: Arc<Arrivals>, directory: &Path, is_direct: bool) -> Result<Looped> {
        let mount = DiskMount::new(disk, directory, &DiskOptions::default(), || ())?;
        Ok(Looped {
            looped: LoopDevice::over(&directory.join("disk"), is_direct)?,
            mount: Some(mount),
            file_system: None,
        })
    }

    /// The block device.
    pub fn device(&self) -> &str {
        self.looped.device()
    }

    /// Has the kernel leave pages alone while they are on their way to it.
    pub fn keep_pages_stable(&self) -> Result<()> {
        let device = self.device().trim_start_matches("/dev/");
        let setting = format!("/sys/block/{device}/queue/stable_writes");
        Ok(std::fs::write(&setting, "1").map_err(|error| format!("{setting}: {error}"))?)
    }

    /// Mounts what is on it.
    pub fn mount(&mut self, kind: &str, options: &str, directory: &Path) -> Result<()> {
        let place = directory.to_string_lossy();
        must("mount", &["-t", kind, "-o", options, self.device(), &place])?;
        self.file_system = Some(directory.to_path_buf());
        Ok(())
    }

    /// What the kernel says of it, in `/sys/block/…/queue`.
    pub fn queue(&self, name: &str) -> String {
        let device = self.device().trim_start_matches("/dev/");
        let value = std::fs::read_to_string(format!("/sys/block/{device}/queue/{name}"));
        value.map_or("-".into(), |value| value.trim().to_owned())
    }
}

impl Drop for Looped {
    fn drop(&mut self) {
        // What fails here is gone already.
        if let Some(place) = &self.file_system {
            let _ = must("umount", &[&place.to_string_lossy()]);
        }
        self.looped.detach();
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmount(true);
            let _ = mount.join();
        }
    }
}
