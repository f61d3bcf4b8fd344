//! What every measurement of programs is told in the same words.

use std::path::{Path, PathBuf};

use clap::Args;
use forebay_harness::{Result, RunOptions, SubjectOptions};

use crate::context::is_in_memory;

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

    /// How often each has its turn, so often unless another number was asked for.
    pub fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual).max(1)
    }
}
