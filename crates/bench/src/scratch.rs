//! Folders for what is measured: one in memory for pools and raw memory, and one on the disk.

use std::path::{Path, PathBuf};

use forebay_harness::{Result, memory_folder, temporary_folder};
use tempfile::TempDir;

/// The folders; removed when dropped.
pub struct Scratch {
    memory: TempDir,
    disk: TempDir,
}

impl Scratch {
    /// Makes them, the one on the disk in `disk`.
    pub fn new(disk: &Path) -> Result<Scratch> {
        Ok(Scratch {
            memory: temporary_folder(&memory_folder())?,
            disk: temporary_folder(disk)?,
        })
    }

    /// A file of that name in memory, which does not exist yet.
    pub fn file(&self, name: &str) -> ScratchFile {
        ScratchFile(self.memory.path().join(name))
    }

    /// The same on the disk.
    pub fn disk_file(&self, name: &str) -> ScratchFile {
        ScratchFile(self.disk.path().join(name))
    }

    /// The type of the file system on the disk, as the system mounted it.
    pub fn disk_file_system(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let path = self.disk.path().canonicalize().unwrap_or_default();
        let holders = mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (point, kind) = (fields.next()?, fields.next()?);
            path.starts_with(point).then_some((point.len(), kind))
        });
        // What was mounted later lies over what was there.
        let nearest = holders.max_by_key(|(depth, _)| *depth);
        nearest.map_or_else(|| "unknown file system".into(), |(_, kind)| kind.into())
    }
}

/// The name of a file that is removed when this is dropped.
pub struct ScratchFile(PathBuf);

impl ScratchFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
