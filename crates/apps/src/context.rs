//! What every case needs to know: where things are, how long to measure, whether to go on.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use tempfile::TempDir;

use forebay_harness::{Result, find_program};

use crate::delayed::Delay;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub rounds: usize,
    pub seconds: f64,
    pub write_seconds: f64,
    /// Most bytes that all threads together append to their files.
    pub append_bytes: u64,
    pub file_bytes: u64,
    pub records: u64,
    pub stream_bytes: u64,
    /// Created and removed.
    pub small_files: usize,
    pub copied_files: usize,
    pub threads: usize,
    /// Whether this only shows that everything works.
    pub is_quick: bool,
}

impl Pace {
    pub fn new(is_quick: bool) -> Pace {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let pick = |quick, whole| if is_quick { quick } else { whole };
        Pace {
            rounds: if is_quick { 1 } else { 3 },
            seconds: if is_quick { 0.5 } else { 2.0 },
            write_seconds: if is_quick { 0.1 } else { 0.5 },
            append_bytes: pick(64 << 20, 512 << 20),
            file_bytes: pick(8 << 20, 64 << 20),
            records: pick(1000, 10_000),
            stream_bytes: pick(256 << 20, 1 << 30),
            small_files: if is_quick { 2000 } else { 50_000 },
            copied_files: if is_quick { 100 } else { 1000 },
            // At least two: whether a second writer is in the way of the first is a question anywhere.
            threads: processors.clamp(2, 16),
            is_quick,
        }
    }

    /// 1, 2, 4 … up to the most.
    pub fn thread_counts(&self) -> Vec<usize> {
        let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
        doubled.take_while(|count| *count <= self.threads).collect()
    }
}

#[derive(Debug)]
pub struct Context {
    pub forebay: PathBuf,
    pub passthrough: PathBuf,
    pub own: PathBuf,
    pub disk: PathBuf,
    /// Where the disk is not the machine's own.
    pub disk_delay: Option<Delay>,
    pub memory: PathBuf,
    pub workshop: TempDir,
    pub pace: Pace,
    pub progress: ProgressBar,
}

/// The program `name`, also where only the superuser looks, or a package hides it.
///
/// Errors: it is not there; the message says what to do.
pub fn program(name: &str) -> Result<PathBuf> {
    // Debian keeps the programs of each PostgreSQL in a folder of its version; the newest wins.
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    versions.sort();
    let versions = versions.iter().rev();
    let mut hidden = versions.map(|version| version.join("bin").join(name));
    let found = find_program(name).or_else(|| hidden.find(|path| path.is_file()));
    found.ok_or_else(|| format!("no {name} here; `scripts/setup.sh apps` installs it").into())
}

/// Whether `path` is on a file system that lives in memory.
pub fn is_in_memory(path: &Path) -> Result<bool> {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    let kind = rustix::fs::statfs(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(kind.f_type as u64 == TMPFS_MAGIC)
}

/// What can still be written below `path`, in bytes.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let system =
        rustix::fs::statvfs(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_most() {
        let pace = Pace {
            threads: 6,
            ..Pace::new(true)
        };
        assert_eq!(pace.thread_counts(), [1, 2, 4]);
    }

    #[test]
    fn a_program_that_is_missing_is_named_with_what_to_do() {
        assert!(program("sh").is_ok());
        let error = program("forebay-no-such-program").expect_err("missing");
        assert!(
            error.to_string().contains("scripts/setup.sh apps"),
            "{error}"
        );
    }
}
