//! A folder in /dev/shm for pools and raw memory; it goes away however the process ends, short of
//! SIGKILL.

use std::path::{Path, PathBuf};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::Result;

/// The folder; removed when dropped and on the signals that end a process.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes it. Once a process.
    pub fn new() -> Result<Scratch> {
        let folder = tempfile::Builder::new()
            .prefix("forebay-bench-")
            .tempdir_in("/dev/shm")
            .map_err(|error| format!("/dev/shm: cannot make a folder there: {error}"))?;
        let path = folder.path().to_path_buf();
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        std::thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let _ = std::fs::remove_dir_all(&path);
                std::process::exit(128 + signal);
            }
        });
        Ok(Scratch(folder))
    }

    /// A file of that name, which does not exist yet.
    pub fn file(&self, name: &str) -> ScratchFile {
        ScratchFile(self.0.path().join(name))
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
