//! Transactions: several blocks or a few bytes, all or nothing.
//!
//! A transaction sees its own writes; other threads see nothing before the commit's fence, and then each block at
//! once. The first blocks wait in memory and are streamed by the commit, more
//! of them where they tend to differ little from what is cached; those of a larger transaction are
//! streamed into private slots as they come. Waiting for space happens with nothing held.

mod appends;
mod direct;
mod prepare;
mod private_slots;
mod read;
mod reduced;

use std::marker::PhantomData;
use std::ops::Range;

use crate::api::volume::MemoryVolume;
use crate::api::workspace::{Base, Edit, Work, Workspace, apply_edits, buffer};
use crate::background::Pipeline;
use crate::engine::change::{Action, Outcome, record_bound};
use crate::engine::{EVICT_BATCH_MAX, Need};
use crate::error::{ErrorKind, Result};
use crate::table::slots::SlotCache;

use direct::{commit_gathered, held, write_blocks};
use private_slots::give_slots;
use reduced::{reduce_changes, undo};

/// Blocks that wait in memory. Streaming them in the commit, after its locked operations, saves a
/// wait for the memory that costs as much as copying about this many.
const BUFFERED_BLOCKS: usize = 2;
/// The same while probing blocks pays: only what waits in memory can still be made less of, and less
/// saves more than the wait.
const REDUCED_BLOCKS: usize = 32;
/// A set of changes to one volume that becomes durable as a whole or not at all.
///
/// It belongs to the thread that made it: its data is ordered by that thread's fence. Once [`MemoryTransaction::commit`]
/// returns `Ok`, all of it is durable and visible; other threads see nothing before it is durable, and after a crash before
/// that return all of it is there or nothing. Dropping it is the same
/// as [`MemoryTransaction::abort`]. Blocks are counted from 0 and have [`MemoryVolume::block_size`] bytes; offsets are bytes.
pub struct MemoryTransaction<'v> {
    volume: &'v MemoryVolume,
    work: Work,
    /// Held from the first streamed block on.
    slot_cache: Option<SlotCache<'v>>,
    /// The slots belong to the pool now.
    is_done: bool,
    not_send: PhantomData<*const ()>,
}

impl MemoryVolume {
    /// Starts a transaction on this volume. A writer that outruns the backing is delayed here.
    pub fn begin(&self) -> MemoryTransaction<'_> {
        self.keep_pace();
        MemoryTransaction::new(self)
    }

    /// Writes `data`, whole blocks, from `block` on, as one transaction: the same as `begin`,
    /// `write`, `commit`, without a copy on the way.
    ///
    /// # Errors
    /// As [`MemoryTransaction::write`] and [`MemoryTransaction::commit`].
    pub fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        write_blocks(self, block, data)
    }
}

impl<'v> MemoryTransaction<'v> {
    #[inline]
    pub(crate) fn new(volume: &'v MemoryVolume) -> MemoryTransaction<'v> {
        MemoryTransaction {
            volume,
            work: Work::borrow(),
            slot_cache: None,
            is_done: false,
            not_send: PhantomData,
        }
    }
    #[inline]
    fn pipeline(&self) -> &'v Pipeline {
        &self.volume.pipeline
    }

    /// Writes `data`, whole blocks, from `block` on.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`]: outside the volume, or `data` is not a whole number of blocks.
    /// [`ErrorKind::TransactionTooLarge`]. [`ErrorKind::Poisoned`]: the pool takes no writes.
    /// [`ErrorKind::Closed`]: it was closed.
    pub fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        let pipeline = self.pipeline();
        pipeline.engine().check_writable()?;
        if data.len() != pipeline.engine().block_bytes() || !self.volume.has_block(block) {
            return self.write_more(block, data);
        }
        if self.work.operations.is_empty() {
            return self.write_first(block, data);
        }
        self.write_block(block, data)
    }

    #[inline(never)]
    fn write_more(&mut self, block: u64, data: &[u8]) -> Result<()> {
        self.volume.check_blocks(block, data.len())?;
        let block_bytes = self.pipeline().engine().block_bytes();
        for (number, bytes) in (block..).zip(data.chunks_exact(block_bytes)) {
            self.write_block(number, bytes)?;
        }
        Ok(())
    }

    /// Apart, as the other ways are, so that a block takes the registers of one of them only.
    #[inline(never)]
    fn write_first(&mut self, block: u64, bytes: &[u8]) -> Result<()> {
        let table = self.pipeline().table();
        let key = self.volume.key(block);
        let bucket = table.bucket(key);
        table.prefetch(bucket);
        self.work.buffer_first(key, bucket, bytes);
        Ok(())
    }

    #[inline(never)]
    fn write_block(&mut self, block: u64, bytes: &[u8]) -> Result<()> {
        let pipeline = self.pipeline();
        let key = self.volume.key(block);
        let bucket = pipeline.table().bucket(key);
        pipeline.table().prefetch(bucket);
        let work = &mut *self.work;
        if let Some(number) = work.find(key, bucket) {
            self.write_again(number, bytes);
            return Ok(());
        }
        check_another(pipeline, work)?;
        if waits_in_memory(pipeline, &self.slot_cache, work.data.len()) {
            match pipeline.media().geometry.has_rows {
                true => work.add_for_row(key, bucket, bytes),
                false => work.add_in_memory(key, bucket, bytes),
            }
            return Ok(());
        }
        match held(&mut self.slot_cache, pipeline).take() {
            Some(slot) => {
                let crc = pipeline.media().stream_slot(slot, bytes);
                work.add(key, bucket, Base::Staged { slot, crc });
            }
            None => work.add_in_memory(key, bucket, bytes),
        }
        Ok(())
    }

    /// Writes a block that the transaction has changed already.
    #[cold]
    fn write_again(&mut self, number: usize, bytes: &[u8]) {
        let pipeline = self.pipeline();
        let work = &mut *self.work;
        let operation = &mut work.operations[number];
        work.spare.keep_edits(&mut operation.edits);
        let slot = match operation.base() {
            Base::Staged { slot, .. } => Some(slot),
            Base::Buffered { at } => {
                work.data[at..at + bytes.len()].copy_from_slice(bytes);
                return;
            }
            Base::Current | Base::Zero => {
                let waits = waits_in_memory(pipeline, &self.slot_cache, work.data.len());
                let takes = (!waits).then(|| held(&mut self.slot_cache, pipeline));
                takes.and_then(SlotCache::take)
            }
        };
        let base = match slot {
            Some(slot) => {
                let crc = pipeline.media().stream_slot(slot, bytes);
                Base::Staged { slot, crc }
            }
            None => buffer(&mut work.data, bytes),
        };
        operation.set_base(base);
    }

    /// Writes `data` at any byte offset; parts of blocks keep their other bytes.
    ///
    /// # Errors
    /// As [`MemoryTransaction::write`]; reading the rest of a block may fail at commit.
    pub fn write_at(&mut self, byte_offset: u64, data: &[u8]) -> Result<()> {
        self.pipeline().engine().check_writable()?;
        self.volume.check_bytes(byte_offset, data.len())?;
        let block_bytes = self.pipeline().engine().block_bytes();
        let (mut at, mut rest) = (byte_offset, data);
        while !rest.is_empty() {
            let offset = (at % block_bytes as u64) as usize;
            let len = rest.len().min(block_bytes - offset);
            let (bytes, tail) = rest.split_at(len);
            let block = at / block_bytes as u64;
            if len == block_bytes {
                self.write_block(block, bytes)?;
            } else {
                let operation = self.operation(block)?;
                let bytes = self.work.spare.copy_of(bytes);
                self.edit(
                    operation,
                    Edit {
                        offset,
                        bytes,
                        truncate: false,
                    },
                )?;
            }
            (at, rest) = (at + len as u64, tail);
        }
        Ok(())
    }

    /// Puts `data` at byte `offset` of `block` and declares what lies behind it zero. If the cached
    /// block ends at `offset`, the bytes are appended in place (AutoBahn §5.2): they cost their own
    /// lines and one record.
    ///
    /// # Errors
    /// As [`MemoryTransaction::write`]; [`ErrorKind::OutOfRange`] also where the bytes reach beyond the block.
    pub fn append(&mut self, block: u64, offset: usize, data: &[u8]) -> Result<()> {
        self.pipeline().engine().check_writable()?;
        let block_bytes = self.pipeline().engine().block_bytes();
        self.volume.check_blocks(block, block_bytes)?;
        if offset.saturating_add(data.len()) > block_bytes {
            return Err(ErrorKind::OutOfRange {
                volume: self.volume.id(),
                what: format!(
                    "append of {} bytes at {offset} to a block of {block_bytes}",
                    data.len()
                ),
            }
            .into());
        }
        let operation = self.operation(block)?;
        let bytes = self.work.spare.copy_of(data);
        self.edit(
            operation,
            Edit {
                offset,
                bytes,
                truncate: true,
            },
        )
    }

    /// Makes blocks read as zeroes and frees their room.
    ///
    /// # Errors
    /// As [`MemoryTransaction::write`]. Larger ranges go through [`MemoryVolume::discard`].
    pub fn discard(&mut self, blocks: Range<u64>) -> Result<()> {
        self.pipeline().engine().check_writable()?;
        let block_bytes = self.pipeline().engine().block_bytes();
        let count = blocks.end.saturating_sub(blocks.start);
        let asked_bytes = count.saturating_mul(block_bytes as u64);
        self.volume
            .check_blocks(blocks.start, asked_bytes as usize)?;
        self.pipeline()
            .engine()
            .check_transaction_bytes(asked_bytes)?;
        for block in blocks {
            let number = self.operation(block)?;
            self.unstage(number)?;
            let work = &mut *self.work;
            let operation = &mut work.operations[number];
            work.spare.keep_edits(&mut operation.edits);
            operation.set_base(Base::Zero);
        }
        Ok(())
    }

    /// Makes the transaction durable; when this returns `Ok` it survives every crash.
    ///
    /// # Errors
    /// [`ErrorKind::NoSpace`], [`ErrorKind::Stalled`]: no space before the deadline. [`ErrorKind::Backing`],
    /// [`ErrorKind::Corrupt`]: the rest of a block that is written in part cannot be read.
    /// [`ErrorKind::Poisoned`], [`ErrorKind::WornOut`], [`ErrorKind::Closed`]: the pool takes no writes.
    /// [`ErrorKind::Media`]: a fence failed. Nothing is visible after an error, and nothing is durable unless it is
    /// [`ErrorKind::Media`]: then the next recovery decides.
    pub fn commit(mut self) -> Result<()> {
        if self.work.operations.is_empty() {
            return self.pipeline().engine().check_writable();
        }
        if commit_gathered(self.pipeline(), &mut self.work, &mut self.slot_cache)? {
            self.is_done = true;
            return Ok(());
        }
        self.commit_rest()
    }

    /// Commits what is not whole blocks only, or did not go at once.
    #[cold]
    fn commit_rest(&mut self) -> Result<()> {
        if self.commit_small_append()? {
            self.is_done = true;
            return Ok(());
        }
        let mut reduces = self.pipeline().engine().content().is_on();
        loop {
            match self.attempt(std::mem::take(&mut reduces))? {
                Outcome::Done(_) => break,
                Outcome::Stale => crate::sync::spin_hint(),
                Outcome::NoEntry => {
                    self.hold_nothing()?;
                    self.pipeline().make_space(Need::Entry)?;
                }
            }
        }
        self.tally();
        self.is_done = true;
        Ok(())
    }

    /// One try: prepares what depends on the present, waits for slots if need be, commits. Whole blocks
    /// are probed in the first one only: a slot that is held for one of them may be just what another
    /// one cannot be patched in.
    fn attempt(&mut self, reduces: bool) -> Result<Outcome> {
        let pipeline = self.pipeline();
        let data_bytes = self.work.data.len();
        self.prepare(true)?;
        if reduces {
            let work = &mut *self.work;
            reduce_changes(pipeline, &mut work.changes, &work.data);
        }
        if record_bound(&self.work.changes) > pipeline.engine().log().lanes().lane_bytes() / 2 {
            // Too many redo bytes for the log: the patched blocks go whole.
            self.give_up_changes();
            self.work.data.truncate(data_bytes);
            self.prepare(false)?;
        }
        let work = &mut *self.work;
        let slot_cache = held(&mut self.slot_cache, pipeline);
        let mut has_slots = give_slots(&mut work.changes, slot_cache, &mut work.slots);
        // Reclaim first, with slots held: it waits for no thread's slots.
        while !has_slots {
            match pipeline.reclaim(EVICT_BATCH_MAX) {
                Ok(0) => break,
                Ok(_) => has_slots = give_slots(&mut work.changes, slot_cache, &mut work.slots),
                Err(error) => {
                    self.give_up_changes();
                    return Err(error);
                }
            }
        }
        let outcome = if has_slots {
            let outcome =
                pipeline
                    .engine()
                    .commit(&work.changes, &work.data, slot_cache, &mut work.scratch);
            if !matches!(outcome, Ok(Outcome::Done(_))) {
                self.give_up_changes();
            }
            outcome
        } else {
            self.give_up_changes();
            let wanted = self.work.operations.len() as u64;
            self.hold_nothing()?;
            pipeline
                .make_space(Need::Slots(wanted))
                .map(|()| Outcome::Stale)
        };
        if !matches!(outcome, Ok(Outcome::Done(_))) {
            // What was rebuilt is rebuilt again; what came in meanwhile (`unstage`) stays.
            self.forget_rebuilt();
        }
        outcome
    }

    /// Gives back what the changes hold, which are not made.
    fn give_up_changes(&mut self) {
        let pipeline = self.pipeline();
        let slot_cache = held(&mut self.slot_cache, pipeline);
        undo(pipeline, &mut self.work.changes, slot_cache);
    }

    /// Before a wait: a waiting thread holds nothing that another one could wait for.
    fn hold_nothing(&mut self) -> Result<()> {
        self.work.clear_changes();
        self.forget_rebuilt();
        for number in 0..self.work.operations.len() {
            self.unstage(number)?;
        }
        self.slot_cache = None;
        Ok(())
    }

    /// Takes a staged block back into memory and frees its slot.
    ///
    /// # Errors
    /// The medium has changed it: then it stays where it is.
    fn unstage(&mut self, number: usize) -> Result<()> {
        let pipeline = self.pipeline();
        let Base::Staged { slot, crc } = self.work.operations[number].base() else {
            return Ok(());
        };
        let key = self.work.operations[number].block.key;
        let at = self.work.data.len();
        let end = at + pipeline.engine().block_bytes();
        self.work.data.resize(end, 0);
        let out = &mut self.work.data[at..];
        pipeline.engine().read_staged(key, slot, crc, out)?;
        self.work.operations[number].set_base(Base::Buffered { at });
        let slot_cache = self.slot_cache.as_ref().expect("it gave the slot");
        slot_cache.give_streamed(slot);
        Ok(())
    }

    fn edit(&mut self, number: usize, edit: Edit) -> Result<()> {
        self.unstage(number)?;
        let block_bytes = self.pipeline().engine().block_bytes();
        let work = &mut *self.work;
        let operation = &mut work.operations[number];
        match operation.base() {
            Base::Current => {
                work.operations.add_edit(number, edit);
                return Ok(());
            }
            Base::Zero => {
                let at = work.data.len();
                work.data.resize(at + block_bytes, 0);
                operation.set_base(Base::Buffered { at });
            }
            Base::Buffered { .. } | Base::Staged { .. } => {}
        }
        let Base::Buffered { at } = operation.base() else {
            unreachable!("staged blocks were taken back");
        };
        let edits = [edit];
        apply_edits(&edits, &mut work.data[at..at + block_bytes]);
        let [edit] = edits;
        work.spare.keep_bytes(edit.bytes);
        Ok(())
    }

    /// The operation of a block, made if it is new.
    fn operation(&mut self, block: u64) -> Result<usize> {
        let key = self.volume.key(block);
        let bucket = self.pipeline().table().bucket(key);
        if let Some(number) = self.work.find(key, bucket) {
            return Ok(number);
        }
        check_another(self.pipeline(), &self.work)?;
        Ok(self.work.add(key, bucket, Base::Current))
    }

    fn tally(&self) {
        let tallies = self.pipeline().engine().tallies().mine();
        let block_bytes = self.pipeline().engine().block_bytes() as u64;
        let (mut blocks, mut payload) = (0, 0);
        for (operation, change) in self.work.operations.iter().zip(&self.work.changes) {
            match &change.action {
                Action::Zero => tallies.blocks_zeroed(1),
                Action::Delta { .. } => {
                    tallies.deltas_written(1);
                    let is_found = matches!(operation.base(), Base::Buffered { .. });
                    tallies.deltas_found(u64::from(is_found));
                }
                Action::Share { .. } => tallies.blocks_shared(1),
                Action::Packed { .. } => tallies.blocks_packed(1),
                Action::Append { .. } => tallies.appends_written(1),
                _ => blocks += 1,
            }
            payload += match operation.base() {
                Base::Current => operation.edits.iter().map(|e| e.bytes.len() as u64).sum(),
                Base::Zero => 0,
                _ => block_bytes,
            };
        }
        tallies.commits(1);
        tallies.blocks_written(blocks);
        tallies.payload_bytes(payload);
    }
}

/// Whether one commit can hold another block.
#[inline(always)]
fn check_another(pipeline: &Pipeline, work: &Workspace) -> Result<()> {
    let bytes = (work.operations.len() + 1) * pipeline.engine().block_bytes();
    pipeline.engine().check_transaction_bytes(bytes as u64)
}

/// Whether the next block waits in memory, where so many bytes do. Once one has been streamed, the others
/// are. In a pool with rows all wait: a row is filled by its commit, whole.
#[inline(always)]
fn waits_in_memory(
    pipeline: &Pipeline,
    slot_cache: &Option<SlotCache<'_>>,
    waiting_bytes: usize,
) -> bool {
    let block_bytes = pipeline.engine().block_bytes();
    slot_cache.is_none()
        && (pipeline.media().geometry.has_rows
            || waiting_bytes < BUFFERED_BLOCKS * block_bytes
            || (waiting_bytes < REDUCED_BLOCKS * block_bytes
                && pipeline.engine().content().expects_changes()))
}

impl Drop for MemoryTransaction<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_done && !self.work.operations.is_empty() {
            self.give_staged();
        }
    }
}

impl MemoryTransaction<'_> {
    /// Gives back the slots of blocks that will not be committed.
    #[cold]
    fn give_staged(&self) {
        let Some(slot_cache) = self
            .slot_cache
            .as_ref()
            .filter(|_| self.pipeline().engine().check_writable().is_ok())
        else {
            return;
        };
        for operation in self.work.operations.iter() {
            if let Base::Staged { slot, .. } = operation.base() {
                slot_cache.give_streamed(slot);
            }
        }
    }
}
