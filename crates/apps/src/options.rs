//! What every measurement of programs is told in the same words.

use std::path::{Path, PathBuf};

use clap::Args;
use forebay_harness::{Result, RunOptions, SubjectOptions};

use crate::context::{free_bytes, is_in_memory};

/// Where, what and how often.
#[derive(Args, Debug)]
pub struct BenchOptions {
    #[command(flatten)]
    pub subject: SubjectOptions,
    #[command(flatten)]
    pub run: RunOptions,
    /// A directory on the disk to measure, for the files behind Forebay
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    disk: PathBuf,
    /// A directory in memory, for pools and caches
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub memory: PathBuf,
    /// Only these, by name; one that is not known is answered with all of them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// How often each has its turn
    #[arg(long)]
    rounds: Option<usize>,
}

impl BenchOptions {
    /// The directory on the disk.
    ///
    /// # Errors
    /// It is in memory.
    pub fn disk(&self) -> Result<&Path> {
        match is_in_memory(&self.disk)? {
            false => Ok(&self.disk),
            true => {
                let disk = self.disk.display();
                Err(format!("{disk} is in memory; name a directory on a disk by --disk").into())
            }
        }
    }

    /// The directory in memory, for files that must not be on a disk.
    ///
    /// # Errors
    /// It is not in memory, or has no room for so many bytes.
    pub fn memory_with(&self, bytes: u64) -> Result<&Path> {
        let memory = self.memory.display();
        if !is_in_memory(&self.memory)? {
            return Err(
                format!("{memory} is not in memory; name a directory that is by --memory").into(),
            );
        }
        let free = free_bytes(&self.memory)?;
        if free < bytes {
            let (free, wanted) = (free >> 20, bytes.div_ceil(1 << 20));
            return Err(format!(
                "{memory} has {free} MiB free and {wanted} MiB are needed; make room there, or name another directory by --memory"
            )
            .into());
        }
        Ok(&self.memory)
    }

    /// How often each has its turn, so often unless another number was asked for.
    pub fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual).max(1)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: BenchOptions,
    }

    #[test]
    fn files_that_belong_into_memory_go_nowhere_else() {
        let refused = |memory: &str, bytes| {
            let line = Line::try_parse_from(["line", "--memory", memory]).expect("a line");
            let answer = line.options.memory_with(bytes).map(Path::to_owned);
            answer.map_err(|error| error.to_string())
        };
        assert_eq!(refused("/dev/shm", 1), Ok("/dev/shm".into()));
        let error = refused("/dev/shm", u64::MAX).expect_err("no room");
        assert!(error.contains("MiB are needed"), "{error}");
        let error = refused("/proc", 1).expect_err("no memory");
        assert!(error.contains("/proc is not in memory"), "{error}");
    }
}
