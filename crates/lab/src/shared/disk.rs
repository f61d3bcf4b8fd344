//! The disk behind an engine, in blocks, with its name in every error.

use std::io;

use forebay::unstable::plan;
use forebay::{Backing, BackingCounters, Error, ErrorKind, Result, WriteRun};

/// Bytes that a write holds in DRAM at a time.
const BATCH_BYTES: usize = 4 << 20;

/// The disk.
#[derive(Clone)]
pub(crate) struct Disk {
    backing: Backing,
    block_bytes: usize,
}

impl Disk {
    /// The disk behind an engine with blocks of so many bytes.
    pub(crate) fn new(backing: Backing, block_bytes: usize) -> Disk {
        Disk {
            backing,
            block_bytes,
        }
    }

    /// What it was given.
    pub(crate) fn counters(&self) -> BackingCounters {
        self.backing.counters()
    }

    /// Reads whole blocks from `first` on with one request; zeroes past its end.
    pub(crate) fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let read = self.backing.read_at(self.offset(first), out);
        read.map_err(|source| self.error(source))
    }

    /// Writes blocks, given by ascending number, neighbours as one run. `read` copies the bytes of one
    /// out. They survive a power cut after the next [`Disk::sync`], and not before.
    pub(crate) fn write<T>(
        &self,
        blocks: &[T],
        number: impl Fn(&T) -> u64,
        read: impl Fn(&T, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let batch_blocks = (BATCH_BYTES / self.block_bytes).clamp(1, blocks.len().max(1));
        let mut buffer = vec![0; batch_blocks * self.block_bytes];
        for batch in blocks.chunks(batch_blocks) {
            for (block, bytes) in batch.iter().zip(buffer.chunks_exact_mut(self.block_bytes)) {
                read(block, bytes)?;
            }
            let numbers: Vec<u64> = batch.iter().map(&number).collect();
            self.write_copied(&numbers, &buffer)?;
        }
        Ok(())
    }

    /// Writes blocks, given by ascending number, whose bytes lie one behind the other in `bytes`; neighbours
    /// as one run. They survive a power cut after the next [`Disk::sync`], and not before.
    pub(crate) fn write_copied(&self, numbers: &[u64], bytes: &[u8]) -> Result<()> {
        if numbers.is_empty() {
            return Ok(());
        }
        let blocks_max = plan::run_blocks(self.block_bytes);
        let runs = plan::runs(numbers, |one, next| one + 1 == *next, |_| blocks_max);
        let runs: Vec<WriteRun<'_>> = runs
            .into_iter()
            .map(|run| WriteRun {
                offset: self.offset(numbers[run.start]),
                bytes: &bytes[run.start * self.block_bytes..run.end * self.block_bytes],
            })
            .collect();
        let written: io::Result<()> = self.backing.write_runs(&runs).into_iter().collect();
        written.map_err(|source| self.error(source))
    }

    /// Makes everything written before durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.backing.sync().map_err(|source| self.error(source))
    }

    fn offset(&self, block: u64) -> u64 {
        block * self.block_bytes as u64
    }

    fn error(&self, source: io::Error) -> Error {
        ErrorKind::Backing {
            path: self.backing.identity().path,
            source,
        }
        .into()
    }
}
