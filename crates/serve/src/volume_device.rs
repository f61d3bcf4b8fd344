//! A volume of a pool as a [`BlockDevice`]: bytes become transactions.
//!
//! Guarantees: a write that fits the pool's transaction limit is one transaction, and so whole or
//! absent after any crash; a longer one is split at block boundaries into transactions that are each
//! whole or absent and become durable in order. A zeroed range is durable on return, and after a
//! crash before that zeroed in part.

use std::ops::Range;
use std::sync::Arc;

use forebay::{BlockState, Volume, internals};

use crate::block_device::{
    Access, Answer, BlockDevice, DeviceError, Extent, ExtentState, QueuedReads, push_extent,
};
use crate::parts::{Parts, cut_data};

/// A volume, seen as bytes.
#[derive(Debug)]
pub struct VolumeDevice {
    volume: Volume,
    block_bytes: u64,
    /// Blocks that one transaction may touch.
    blocks_max: u64,
}

impl VolumeDevice {
    /// Serves `volume`.
    pub fn new(volume: Volume) -> Self {
        let block_bytes = volume.block_size() as u64;
        VolumeDevice {
            blocks_max: (volume.transaction_limit_bytes() / block_bytes).max(1),
            block_bytes,
            volume,
        }
    }

    /// The volume itself, for what a disk cannot express.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Stores `data`, in transactions as large as they may be.
    fn write_parts(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), DeviceError> {
        self.check_range(offset, data.len() as u64)?;
        cut_data(offset, data, self.block_bytes, self.blocks_max)
            .try_for_each(|(start, part)| self.commit_write(start, part, durable))
    }

    /// One transaction that stores `data` at byte `offset`: durable now, or when a flush has returned.
    #[inline]
    fn commit_write(&self, offset: u64, data: &[u8], durable: bool) -> Result<(), DeviceError> {
        if !data.is_empty() && (offset | data.len() as u64) & (self.block_bytes - 1) == 0 {
            let block = offset / self.block_bytes;
            // Whole blocks stream from the caller's memory into their slots.
            return Ok(match durable {
                true => self.volume.write(block, data),
                false => self.volume.write_unsynced(block, data),
            }?);
        }
        let mut transaction = self.volume.begin();
        transaction.write_at(offset, data)?;
        match durable {
            true => transaction.commit(),
            false => transaction.commit_unsynced(),
        }?;
        Ok(())
    }
}

impl BlockDevice for VolumeDevice {
    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.block_bytes as u32
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(offset, buffer.len() as u64)?;
        Ok(self.volume.read_at(offset, buffer)?)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.write_parts(offset, data, true)
    }

    fn has_volatile_cache(&self) -> bool {
        self.volume.needs_sync()
    }

    fn write_unsynced_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.write_parts(offset, data, false)
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check_range(offset, length)?;
        let parts = Parts::of(&(offset..offset + length), self.block_bytes);
        for edge in [parts.head, parts.tail] {
            if !edge.is_empty() {
                self.commit_write(edge.start, &vec![0; (edge.end - edge.start) as usize], true)?;
            }
        }
        if !parts.whole.is_empty() {
            self.volume.discard(parts.whole)?;
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.write_zeroes(offset, length)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(self.volume.sync()?)
    }

    fn is_quick(&self, access: Access, offset: u64, length: u64) -> bool {
        let Some(end) = offset.checked_add(length) else {
            return false;
        };
        let blocks = offset / self.block_bytes..end.div_ceil(self.block_bytes);
        match access {
            Access::Read => self.volume.is_resident(blocks),
            Access::Write => {
                // The rest of a block that is written in part has to be read.
                let parts = Parts::of(&(offset..end), self.block_bytes);
                let is_at_hand = |part: &Range<u64>| {
                    let block = part.start / self.block_bytes;
                    part.is_empty() || self.volume.is_resident(block..block + 1)
                };
                self.volume.is_ready_for_write(blocks.end - blocks.start)
                    && is_at_hand(&parts.head)
                    && is_at_hand(&parts.tail)
            }
        }
    }

    fn queued_reads(&self, reads_max: usize) -> Option<Arc<dyn QueuedReads>> {
        let reads = self.volume.queued_reads::<VolumeAnswer>(reads_max)?;
        Some(Arc::new(VolumeReads(reads)))
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.check_range(offset, length)?;
        let end = offset + length;
        let blocks = offset / self.block_bytes..end.div_ceil(self.block_bytes);
        let mut extents = Vec::new();
        let (mut at, mut block) = (offset, blocks.start);
        self.volume.block_states(blocks, |count, state| {
            block += count;
            let next = (block * self.block_bytes).min(end);
            let state = match state {
                BlockState::Data => ExtentState::Data,
                BlockState::Zero => ExtentState::Zero,
                BlockState::Hole => ExtentState::Hole,
            };
            let has_room = push_extent(&mut extents, next - at, state, extents_max);
            at = next;
            has_room
        })?;
        Ok(extents)
    }
}

type VolumeAnswer = Box<dyn FnOnce(forebay::Result<&[u8]>) + Send>;

struct VolumeReads(internals::QueuedReads<VolumeAnswer>);

impl QueuedReads for VolumeReads {
    fn begin(&self, offset: u64, length: usize, answer: &mut dyn FnMut() -> Answer) -> bool {
        self.0.begin(offset, length, || {
            let answer = answer();
            Box::new(|read| answer(read.map_err(DeviceError::from)))
        })
    }

    fn read(&self, offset: u64, length: usize, answer: &mut dyn FnMut() -> Answer) -> bool {
        self.0.read(offset, length, || {
            let answer = answer();
            Box::new(|read| answer(read.map_err(DeviceError::from)))
        })
    }

    fn submit(&self) -> bool {
        self.0.submit()
    }

    fn work(&self, after_batch: &(dyn Fn() + Sync)) {
        self.0.work(after_batch);
    }

    fn close(&self) {
        self.0.close();
    }
}
