//! Transactions: several blocks or a few bytes, all or nothing.

use std::marker::PhantomData;
use std::ops::Range;

use crate::api::transaction::MemoryTransaction;
use crate::error::Result;
use crate::ssd::SsdTransaction;

/// A set of changes to one volume that becomes durable as a whole or not at all.
///
/// It belongs to the thread that made it: its data is ordered by that thread's fence. Once [`Transaction::commit`]
/// returns `Ok`, all of it is durable and visible; other threads see nothing before it is durable, and after a crash before
/// that return all of it is there or nothing. Dropping it is the same
/// as [`Transaction::abort`]. Blocks are counted from 0 and have [`Volume::block_size`](crate::Volume::block_size) bytes; offsets
/// are bytes.
pub struct Transaction<'v> {
    kind: Kind<'v>,
    not_send: PhantomData<*const ()>,
}

enum Kind<'v> {
    Memory(MemoryTransaction<'v>),
    Ssd(Box<SsdTransaction<'v>>),
}

impl<'v> Transaction<'v> {
    #[inline(always)]
    pub(super) fn of_memory(transaction: MemoryTransaction<'v>) -> Transaction<'v> {
        Transaction {
            kind: Kind::Memory(transaction),
            not_send: PhantomData,
        }
    }

    #[cold]
    pub(super) fn of_ssd(transaction: SsdTransaction<'v>) -> Transaction<'v> {
        Transaction {
            kind: Kind::Ssd(Box::new(transaction)),
            not_send: PhantomData,
        }
    }

    /// Writes `data`, whole blocks, from `block` on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange): outside the volume, or `data` is not a whole number of blocks.
    /// [`ErrorKind::TransactionTooLarge`](crate::ErrorKind::TransactionTooLarge).
    /// [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned): the pool takes no writes.
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed): it was closed.
    #[inline]
    pub fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        match &mut self.kind {
            Kind::Memory(transaction) => transaction.write(block, data),
            Kind::Ssd(transaction) => transaction.write(block, data),
        }
    }

    /// Writes `data` at any byte offset; parts of blocks keep their other bytes.
    ///
    /// # Errors
    /// As [`Transaction::write`]; reading the rest of a block may fail at commit.
    #[inline]
    pub fn write_at(&mut self, byte_offset: u64, data: &[u8]) -> Result<()> {
        match &mut self.kind {
            Kind::Memory(transaction) => transaction.write_at(byte_offset, data),
            Kind::Ssd(transaction) => transaction.write_at(byte_offset, data),
        }
    }

    /// Puts `data` at byte `offset` of `block` and declares what lies behind it zero. If the cached
    /// block of a pool in memory ends at `offset`, the bytes are appended in place (AutoBahn §5.2): they cost their own
    /// lines and one record.
    ///
    /// # Errors
    /// As [`Transaction::write`]; [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange) also where the bytes reach beyond the
    /// block.
    #[inline]
    pub fn append(&mut self, block: u64, offset: usize, data: &[u8]) -> Result<()> {
        match &mut self.kind {
            Kind::Memory(transaction) => transaction.append(block, offset, data),
            Kind::Ssd(transaction) => transaction.append(block, offset, data),
        }
    }

    /// Makes blocks read as zeroes and frees their room.
    ///
    /// # Errors
    /// As [`Transaction::write`]. Larger ranges go through [`Volume::discard`](crate::Volume::discard).
    #[inline]
    pub fn discard(&mut self, blocks: Range<u64>) -> Result<()> {
        match &mut self.kind {
            Kind::Memory(transaction) => transaction.discard(blocks),
            Kind::Ssd(transaction) => transaction.discard(blocks),
        }
    }

    /// Reads whole blocks from `block` on as they will be after this transaction.
    ///
    /// # Errors
    /// As [`Volume::read`](crate::Volume::read).
    #[inline]
    pub fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        match &self.kind {
            Kind::Memory(transaction) => transaction.read(block, out),
            Kind::Ssd(transaction) => transaction.read(block, out),
        }
    }

    /// Reads bytes from byte `offset` on as they will be after this transaction. A block that is
    /// read in part is read and verified whole.
    ///
    /// # Errors
    /// As [`Transaction::read`].
    #[inline]
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match &self.kind {
            Kind::Memory(transaction) => transaction.read_at(offset, out),
            Kind::Ssd(transaction) => transaction.read_at(offset, out),
        }
    }

    /// Makes the transaction durable; when this returns `Ok` it survives every crash.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`ErrorKind::Stalled`](crate::ErrorKind::Stalled): no space before
    /// the deadline. [`ErrorKind::Backing`](crate::ErrorKind::Backing), [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): the
    /// rest of a block that is written in part cannot be read. [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned),
    /// [`ErrorKind::WornOut`](crate::ErrorKind::WornOut), [`ErrorKind::Closed`](crate::ErrorKind::Closed): the pool takes no
    /// writes. [`ErrorKind::Media`](crate::ErrorKind::Media): a fence failed. Nothing is visible after an error, and nothing is
    /// durable unless it is `Media`, or `Poisoned` by a pool on an SSD: then the next recovery decides.
    #[inline]
    pub fn commit(self) -> Result<()> {
        match self.kind {
            Kind::Memory(transaction) => transaction.commit(),
            Kind::Ssd(transaction) => transaction.commit(),
        }
    }

    /// As [`Transaction::commit`], for a caller that will sync: where that saves something, which is in a pool on an SSD, the transaction
    /// is visible when this returns, and durable when a [`Volume::sync`](crate::Volume::sync) or a [`Transaction::commit`] of the same
    /// pool has returned that was called later, be it an empty one; the pool's thread syncs it after five seconds. A kill of the process does not take it; a power cut before that leaves it only with all that were committed before
    /// it. A pool in memory makes it durable at once.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    #[inline]
    pub fn commit_unsynced(self) -> Result<()> {
        match self.kind {
            Kind::Memory(transaction) => transaction.commit(),
            Kind::Ssd(transaction) => transaction.commit_unsynced(),
        }
    }

    /// Forgets everything.
    pub fn abort(self) {
        drop(self);
    }
}
