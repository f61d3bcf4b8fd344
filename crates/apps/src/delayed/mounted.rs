//! A directory on a delayed disk.

use std::path::Path;

use forebay_harness::{Result, mount_obstacle};
use tempfile::TempDir;

use crate::delayed::Delay;
use crate::delayed::served::DelayedFile;
use crate::loop_files::LoopFiles;

/// As much of it as is written takes memory.
const DISK_BYTES: u64 = 6 << 30;
/// Enough for the files of every case.
const INODES: u32 = 131_072;

/// An ext4 on the disk. Taken away from the top to the bottom when it is dropped.
#[derive(Debug)]
pub struct DelayedDisk {
    files: LoopFiles,
    _disk: DelayedFile,
    _folder: TempDir,
}

impl DelayedDisk {
    /// Makes it below the folder `memory`.
    ///
    /// # Errors
    /// It cannot be made here; the message says what is missing.
    pub fn make(delay: Delay, memory: &Path) -> Result<DelayedDisk> {
        let obstacle = mount_obstacle().map(str::to_owned);
        if let Some(obstacle) = obstacle.or_else(LoopFiles::obstacle) {
            return Err(format!("a delayed disk {obstacle}").into());
        }
        let folder = forebay_harness::temporary_folder(memory)?;
        let [front, root] = ["front", "files"].map(|name| folder.path().join(name));
        std::fs::create_dir(&front)?;
        std::fs::create_dir(&root)?;
        let disk = DelayedFile::serve(delay, DISK_BYTES, folder.path(), &front)?;
        let files = LoopFiles::make(&disk.path(), root, INODES)?;
        disk.count(files.device())?;
        Ok(DelayedDisk {
            files,
            _disk: disk,
            _folder: folder,
        })
    }

    /// The root of the file system.
    pub fn files(&self) -> &Path {
        self.files.root()
    }
}
