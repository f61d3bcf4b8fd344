//! Transactions on a pool on an SSD: gathered in memory, committed as one part of a group.

use std::ops::Range;

use forebay_log::{PAGE_BYTES, Transaction};

use super::volume::{Durable, SsdVolume};
use crate::error::{ErrorKind, Result};

/// A set of changes to one volume.
pub(crate) struct SsdTransaction<'v> {
    volume: &'v SsdVolume,
    staged: Transaction,
    payload_bytes: u64,
}

impl SsdVolume {
    pub(crate) fn begin(&self) -> SsdTransaction<'_> {
        SsdTransaction::new(self)
    }

    pub(crate) fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        let mut transaction = self.begin();
        transaction.write(block, data)?;
        transaction.commit()
    }

    pub(crate) fn write_unsynced(&self, block: u64, data: &[u8]) -> Result<()> {
        let mut transaction = self.begin();
        transaction.write(block, data)?;
        transaction.commit_unsynced()
    }
}

impl<'v> SsdTransaction<'v> {
    pub(super) fn new(volume: &'v SsdVolume) -> SsdTransaction<'v> {
        SsdTransaction {
            volume,
            staged: Transaction::new(),
            payload_bytes: 0,
        }
    }

    /// Refuses what no commit could hold, before more is gathered.
    fn check_size(&self, more_blocks: usize) -> Result<()> {
        let limit_bytes = self.volume.transaction_limit_bytes();
        let (elements, blocks) = self.staged.sizes();
        let asked_bytes = ((elements.max(blocks) + more_blocks) * PAGE_BYTES) as u64;
        match asked_bytes <= limit_bytes {
            true => Ok(()),
            false => Err(ErrorKind::TransactionTooLarge {
                asked_bytes,
                limit_bytes,
            }
            .into()),
        }
    }

    fn check_writable(&self) -> Result<()> {
        let (_entered, log) = self.volume.enter()?;
        self.volume.shared().check_writable(&log)
    }

    pub(crate) fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.volume.check_blocks(block, data.len())?;
        if data.len() as u64 > self.volume.transaction_limit_bytes() {
            self.check_size(data.len() / PAGE_BYTES)?;
        }
        for (number, bytes) in (block..).zip(data.chunks_exact(PAGE_BYTES)) {
            self.put(number, 0, bytes)?;
        }
        Ok(())
    }

    fn put(&mut self, block: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        let number = self.volume.number();
        let put = match bytes.len() == PAGE_BYTES {
            true => self.staged.write(number, block, bytes),
            false => self.staged.write_part(number, block, offset, bytes),
        };
        put.map_err(|error| self.volume.error(error))?;
        self.payload_bytes += bytes.len() as u64;
        self.check_size(0)
    }

    pub(crate) fn write_at(&mut self, byte_offset: u64, data: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.volume.check_bytes(byte_offset, data.len())?;
        let (mut at, mut rest) = (byte_offset, data);
        while !rest.is_empty() {
            let offset = (at % PAGE_BYTES as u64) as usize;
            let (bytes, tail) = rest.split_at(rest.len().min(PAGE_BYTES - offset));
            self.put(at / PAGE_BYTES as u64, offset, bytes)?;
            (at, rest) = (at + bytes.len() as u64, tail);
        }
        Ok(())
    }

    /// What lies behind the bytes is zero.
    pub(crate) fn append(&mut self, block: u64, offset: usize, data: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.volume.check_blocks(block, PAGE_BYTES)?;
        if offset.saturating_add(data.len()) > PAGE_BYTES {
            return Err(ErrorKind::OutOfRange {
                volume: self.volume.id(),
                what: format!(
                    "append of {} bytes at {offset} to a block of {PAGE_BYTES}",
                    data.len()
                ),
            }
            .into());
        }
        if offset == PAGE_BYTES {
            return Ok(());
        }
        let number = self.volume.number();
        let appended = self.staged.append(number, block, offset, data);
        appended.map_err(|error| self.volume.error(error))?;
        self.payload_bytes += data.len() as u64;
        self.check_size(0)
    }

    pub(crate) fn discard(&mut self, blocks: Range<u64>) -> Result<()> {
        self.check_writable()?;
        let count = blocks.end.saturating_sub(blocks.start);
        let len = count.saturating_mul(PAGE_BYTES as u64);
        self.volume
            .check_blocks(blocks.start, usize::try_from(len).unwrap_or(usize::MAX))?;
        let zeroed = self.staged.zero(self.volume.number(), blocks.start, count);
        zeroed.map_err(|error| self.volume.error(error))?;
        self.check_size(0)
    }

    pub(crate) fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.volume.check_blocks(block, out.len())?;
        for (block, bytes) in (block..).zip(out.chunks_exact_mut(PAGE_BYTES)) {
            let number = self.volume.number();
            if !self.staged.overlay(number, block, bytes) {
                self.volume.read(block, bytes)?;
                self.staged.overlay(number, block, bytes);
            }
        }
        Ok(())
    }

    pub(crate) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.volume.check_bytes(offset, out.len())?;
        crate::api::volume::read_bytes(offset, out, PAGE_BYTES, |block, out| self.read(block, out))
    }

    pub(crate) fn commit(self) -> Result<()> {
        self.commit_as(Durable::AtOnce)
    }

    pub(crate) fn commit_unsynced(self) -> Result<()> {
        self.commit_as(Durable::AfterSync)
    }

    fn commit_as(self, durable: Durable) -> Result<()> {
        let (elements, blocks) = self.staged.sizes();
        if elements == 0 {
            // What was committed before is durable with it all the same.
            return match durable {
                Durable::AtOnce => self.volume.sync(),
                Durable::AfterSync => self.check_writable(),
            };
        }
        self.volume.commit(&self.staged, durable)?;
        let tally = self.volume.tallies().mine();
        tally.blocks_written(blocks as u64);
        tally.payload_bytes(self.payload_bytes);
        Ok(())
    }
}
