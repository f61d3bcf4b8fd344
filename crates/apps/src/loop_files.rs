//! An ext4 on a loop device over a file that is a disk, past the page cache; unmounted and taken away when it is dropped.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_harness::{LoopDevice, Result, find_program, must};
use rustix::mount::UnmountFlags;

const UNMOUNT_DEADLINE: Duration = Duration::from_secs(30);
const UNMOUNT_PERIOD: Duration = Duration::from_millis(50);

/// What it needs; each is looked for before anything is made.
const PROGRAMS: [(&str, &str); 4] = [
    ("mkfs.ext4", "e2fsprogs"),
    ("losetup", "mount"),
    ("mount", "mount"),
    ("umount", "mount"),
];

/// The file system, empty when it is made.
#[derive(Debug)]
pub struct LoopFiles {
    looped: LoopDevice,
    root: PathBuf,
}

impl LoopFiles {
    /// What this machine lacks for it.
    pub fn obstacle() -> Option<String> {
        let mut wanted = PROGRAMS.iter();
        let missing = wanted.find(|(program, _)| find_program(program).is_none());
        missing.map(|(program, package)| format!("needs {program} (Debian: {package})"))
    }

    /// Over the file `disk`, mounted at the folder `root`, with room for so many inodes.
    ///
    /// # Errors
    /// It cannot be made or mounted here.
    pub fn make(disk: &Path, root: PathBuf, inodes: u32) -> Result<LoopFiles> {
        let looped = LoopDevice::over(disk, true)?;
        let device = looped.device().to_owned();
        // All inodes at once: the kernel would make them later, while we measure.
        let features = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
        let inodes = inodes.to_string();
        must("mkfs.ext4", &["-q", "-N", &inodes, "-E", features, &device])?;
        let at = root.to_string_lossy();
        must("mount", &["-t", "ext4", "-o", "noatime", &device, &at])?;
        Ok(LoopFiles { looped, root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The block device below.
    pub fn device(&self) -> &str {
        self.looped.device()
    }
}

impl Drop for LoopFiles {
    /// The kernel may hold files of programs that were killed for a while longer.
    fn drop(&mut self) {
        let began = Instant::now();
        let root = &self.root;
        while rustix::mount::unmount(root, UnmountFlags::empty()) == Err(rustix::io::Errno::BUSY) {
            if began.elapsed() > UNMOUNT_DEADLINE {
                // What still has a file open loses it with its name.
                let _ = rustix::mount::unmount(root, UnmountFlags::DETACH);
                return;
            }
            std::thread::sleep(UNMOUNT_PERIOD);
        }
    }
}
