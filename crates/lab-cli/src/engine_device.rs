//! Any engine as a [`BlockDevice`]: bytes become the engine's transactions.
//!
//! Guarantees: a write that fits one transaction of the engine is one, and so whole or absent after
//! any crash; a longer one is split at block boundaries into transactions that are each whole or
//! absent and become durable in order. So much an engine promises; Classic without a journal does not,
//! whose blocks are durable one by one and may be torn by a power cut. A zeroed range is durable on return, and after a crash before
//! that zeroed in part. The papers' designs know no discard, so there is none.
//!
//! An engine knows whole blocks only. A write of part of a block reads the rest of it first, and no
//! other thread may write that block until the whole is committed: writes of parts hold the block's
//! stripe alone, writes of whole blocks hold theirs together. Stripes are taken in ascending order,
//! so that threads cannot deadlock.

use std::ops::Range;
use std::sync::Arc;

use forebay_lab::{Engine, EngineTransaction};
use forebay_serve::allocator::{no_memory, zeroed};
use forebay_serve::parts::{Parts, cut, cut_data};
use forebay_serve::{Access, BlockDevice, DeviceError};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks that the blocks of a disk share; a block belongs to the one of its number's remainder.
const STRIPES: usize = 64;

/// Blocks that one transaction of a zeroing writes at most: a MiB of zeroes with usual blocks.
const ZEROED_BLOCKS_MAX: u64 = 256;

/// An engine, seen as bytes.
pub struct EngineDevice {
    engine: Arc<dyn Engine>,
    block_bytes: u64,
    /// Blocks that one transaction may touch.
    blocks_max: u64,
    stripes: [RwLock<()>; STRIPES],
}

/// A stripe that is held.
enum Held<'d> {
    /// Shared with other writers of whole blocks.
    Shared { _guard: RwLockReadGuard<'d, ()> },
    /// Alone, for a block that is written in part.
    Alone { _guard: RwLockWriteGuard<'d, ()> },
}

impl EngineDevice {
    /// Serves `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> EngineDevice {
        EngineDevice {
            block_bytes: engine.block_bytes() as u64,
            blocks_max: (engine.transaction_blocks_max() as u64).max(1),
            engine,
            stripes: std::array::from_fn(|_| RwLock::new(())),
        }
    }

    /// The engine itself, for what a disk cannot express.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.engine
    }

    /// Holds the stripes of all blocks that a write touches, in ascending order.
    fn hold(&self, parts: &Parts) -> Vec<Held<'_>> {
        let mut is_touched = [false; STRIPES];
        let mut is_alone = [false; STRIPES];
        let stripe_of = |block: u64| (block % STRIPES as u64) as usize;
        for block in parts.whole.clone().take(STRIPES) {
            is_touched[stripe_of(block)] = true;
        }
        for part in [&parts.head, &parts.tail] {
            if !part.is_empty() {
                is_alone[stripe_of(part.start / self.block_bytes)] = true;
            }
        }
        let hold_one = |number: usize| {
            let stripe = &self.stripes[number];
            if is_alone[number] {
                let _guard = stripe.write();
                Some(Held::Alone { _guard })
            } else if is_touched[number] {
                let _guard = stripe.read();
                Some(Held::Shared { _guard })
            } else {
                None
            }
        };
        (0..STRIPES).filter_map(hold_one).collect()
    }

    /// One transaction that stores `data` at byte `offset`.
    fn commit_write(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        if data.is_empty() {
            return Ok(());
        }
        let parts = Parts::of(&(offset..offset + data.len() as u64), self.block_bytes);
        let _held = self.hold(&parts);
        if parts.head.is_empty() && parts.tail.is_empty() {
            return Ok(self.engine.write(parts.whole.start, data)?);
        }
        let (head_bytes, whole_bytes) = parts.lengths(self.block_bytes);
        let (head, rest) = data.split_at(head_bytes);
        let (whole, tail) = rest.split_at(whole_bytes);
        let mut transaction = self.engine.begin();
        self.write_part(&mut *transaction, parts.head, head)?;
        for (block, bytes) in parts.whole.zip(whole.chunks(self.block_bytes as usize)) {
            transaction.write(block, bytes)?;
        }
        self.write_part(&mut *transaction, parts.tail, tail)?;
        Ok(transaction.commit()?)
    }

    /// Reads part of one block.
    fn read_part(&self, bytes: Range<u64>, out: &mut [u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut block = vec![0; self.block_bytes as usize];
        self.engine
            .read(bytes.start / self.block_bytes, &mut block)?;
        let start = (bytes.start % self.block_bytes) as usize;
        out.copy_from_slice(&block[start..start + out.len()]);
        Ok(())
    }

    /// Adds part of one block to a transaction. The caller holds the block's stripe alone.
    fn write_part(
        &self,
        transaction: &mut dyn EngineTransaction,
        bytes: Range<u64>,
        data: &[u8],
    ) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let number = bytes.start / self.block_bytes;
        let mut block = vec![0; self.block_bytes as usize];
        self.engine.read(number, &mut block)?;
        let start = (bytes.start % self.block_bytes) as usize;
        block[start..start + data.len()].copy_from_slice(data);
        Ok(transaction.write(number, &block)?)
    }
}

impl BlockDevice for EngineDevice {
    fn size_bytes(&self) -> u64 {
        self.engine.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.block_bytes as u32
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(offset, buffer.len() as u64)?;
        let parts = Parts::of(&(offset..offset + buffer.len() as u64), self.block_bytes);
        let (head_bytes, whole_bytes) = parts.lengths(self.block_bytes);
        let (head, rest) = buffer.split_at_mut(head_bytes);
        let (whole, tail) = rest.split_at_mut(whole_bytes);
        self.read_part(parts.head, head)?;
        if !whole.is_empty() {
            self.engine.read(parts.whole.start, whole)?;
        }
        self.read_part(parts.tail, tail)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check_range(offset, data.len() as u64)?;
        cut_data(offset, data, self.block_bytes, self.blocks_max)
            .try_for_each(|(start, part)| self.commit_write(start, part))
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check_range(offset, length)?;
        let blocks_max = self.blocks_max.min(ZEROED_BLOCKS_MAX);
        let bytes = length.min(blocks_max * self.block_bytes) as usize;
        let zeroes = zeroed(bytes).ok_or_else(|| no_memory(bytes))?;
        for part in cut(offset..offset + length, self.block_bytes, blocks_max) {
            self.commit_write(part.start, &zeroes[..(part.end - part.start) as usize])?;
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check_range(offset, length)?;
        Err(DeviceError::Unsupported {
            operation: "discarding",
        })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        // Every commit was durable when it returned.
        Ok(())
    }

    fn is_quick(&self, _access: Access, _offset: u64, _length: u64) -> bool {
        // An engine does not tell what it has cached, and evicts on its caller's thread.
        false
    }
}
