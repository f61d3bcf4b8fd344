//! Folders for what is measured, one in /dev/shm for pools and raw memory and one on the disk; they go
//! away however the process ends, short of SIGKILL.

use std::path::{Path, PathBuf};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::Result;

/// The folders; removed when dropped and on the signals that end a process.
pub struct Scratch {
    memory: TempDir,
    disk: TempDir,
}

impl Scratch {
    /// Makes them, the one on the disk in `disk`. Once a process.
    pub fn new(disk: &Path) -> Result<Scratch> {
        let make = |parent: &Path| {
            tempfile::Builder::new()
                .prefix("forebay-bench-")
                .tempdir_in(parent)
                .map_err(|error| {
                    format!("{}: cannot make a folder there: {error}", parent.display())
                })
        };
        let memory = make(Path::new("/dev/shm"))?;
        let disk = make(disk)?;
        let paths = [memory.path().to_path_buf(), disk.path().to_path_buf()];
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                for path in paths {
                    let _ = std::fs::remove_dir_all(path);
                }
                std::process::exit(128 + signal);
            }
        });
        Ok(Scratch { memory, disk })
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
