//! A pool used by a program of its own, on a disk that fails in the midst of it.
//!
//! Blocks are whole, and some changed in a few bytes after they were, so that a pool that is opened again needs its
//! records, its slots and its table.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use forebay::{Backing, Pool, PoolOptions, Volume};

use crate::Result;

const BLOCK_BYTES: usize = 4096;
const POOL_BYTES: u64 = 8 << 20;
/// Every so many-th block is changed in part after it was written.
const CHANGED: u64 = 3;
const CHANGE_OFFSET: usize = 1000;
const CHANGE_BYTES: usize = 64;
/// Writes before the disk must have failed one.
const WRITES_MAX: u64 = 1000;

/// The pool, and what is in it.
#[derive(Clone, Debug, Args)]
pub struct PoolFile {
    /// The pool.
    #[arg(long)]
    pool: PathBuf,
    /// What it caches.
    #[arg(long)]
    backing: PathBuf,
    /// Blocks whose writes were acknowledged.
    #[arg(long, default_value_t = 100)]
    blocks: u64,
}

/// Makes a pool and writes blocks, has its disk fail, writes until that shows, and ends without closing it.
#[derive(Clone, Debug, Args)]
pub struct WritePool {
    #[command(flatten)]
    file: PoolFile,
    /// The shell command that makes the disk fail.
    #[arg(long)]
    fail: String,
}

/// Opens a pool and compares its blocks; the exit status is 1 where one is not as it was acknowledged.
#[derive(Clone, Debug, Args)]
pub struct VerifyPool {
    #[command(flatten)]
    file: PoolFile,
    /// End as a killed process does.
    #[arg(long)]
    without_close: bool,
}

/// What a block holds in the end.
fn content(block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    fastrand::Rng::with_seed(block).fill(&mut bytes);
    if block.is_multiple_of(CHANGED) {
        bytes[CHANGE_OFFSET..][..CHANGE_BYTES].copy_from_slice(&change());
    }
    bytes
}

fn change() -> [u8; CHANGE_BYTES] {
    [0xC5; CHANGE_BYTES]
}

fn write(volume: &Volume, block: u64) -> forebay::Result<()> {
    let mut bytes = vec![0; BLOCK_BYTES];
    fastrand::Rng::with_seed(block).fill(&mut bytes);
    volume.write(block, &bytes)
}

/// Changes parts of blocks in one transaction: what it stores in place after its fence is not on the disk yet.
fn change_parts(volume: &Volume, blocks: u64) -> forebay::Result<()> {
    let mut transaction = volume.begin();
    for block in (0..blocks).step_by(CHANGED as usize) {
        transaction.write_at(block * BLOCK_BYTES as u64 + CHANGE_OFFSET as u64, &change())?;
    }
    transaction.commit()
}

impl WritePool {
    /// Does it; the process ends here if all went as it should.
    pub fn run(&self) -> Result<()> {
        let file = &self.file;
        let options = PoolOptions::new(&file.pool, POOL_BYTES)
            // A checkpoint just before the failure would leave nothing to lose.
            .background(false);
        let pool = Pool::create(&options)?;
        let volume = pool.attach(Backing::file(&file.backing)?)?;
        (0..file.blocks).try_for_each(|block| write(&volume, block))?;
        change_parts(&volume, file.blocks)?;
        let status = Command::new("bash").args(["-c", &self.fail]).status()?;
        if !status.success() {
            return Err(format!("{}: {status}", self.fail).into());
        }
        for block in file.blocks..file.blocks + WRITES_MAX {
            if let Err(error) = write(&volume, block) {
                println!("block {block}: {error}");
                // As a killed process: nothing is closed, nothing else is written.
                std::process::exit(0);
            }
        }
        Err(format!("{WRITES_MAX} writes were acknowledged on a disk that fails").into())
    }
}

impl VerifyPool {
    /// A line for each block that is wrong.
    pub fn run(&self) -> Result<Vec<String>> {
        let file = &self.file;
        let pool = Pool::open(&[&file.pool])?;
        let volume = pool.attach(Backing::file(&file.backing)?)?;
        let mut wrong = Vec::new();
        let mut bytes = vec![0; BLOCK_BYTES];
        for block in 0..file.blocks {
            match volume.read(block, &mut bytes) {
                Ok(()) if bytes == content(block) => {}
                Ok(()) => wrong.push(format!("block {block} is not as it was acknowledged")),
                Err(error) => wrong.push(format!("block {block}: {error}")),
            }
        }
        if self.without_close {
            println!("{}", wrong.join("\n"));
            std::process::exit(i32::from(!wrong.is_empty()));
        }
        drop(volume);
        pool.close()?;
        Ok(wrong)
    }
}
