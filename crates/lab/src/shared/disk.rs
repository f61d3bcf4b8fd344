//! The disk behind an engine, in blocks, with its name in every error.

use std::io;

use forebay::{Backing, BackingCounters, Error, ErrorKind, Result, WriteRun};

/// Bytes that a write holds in DRAM at a time.
const BATCH_BYTES: usize = 4 << 20;

/// The disk.
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
            let mut rest = &buffer[..];
            let neighbours = batch.chunk_by(|one, next| number(one) + 1 == number(next));
            let runs: Vec<WriteRun<'_>> = neighbours
                .map(|run| {
                    let (bytes, after) = rest.split_at(run.len() * self.block_bytes);
                    rest = after;
                    let offset = self.offset(number(&run[0]));
                    WriteRun { offset, bytes }
                })
                .collect();
            let written: io::Result<()> = self.backing.write_runs(&runs).into_iter().collect();
            written.map_err(|source| self.error(source))?;
        }
        Ok(())
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
