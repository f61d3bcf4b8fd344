//! Transactions: several blocks or a few bytes, all or nothing.
//!
//! A transaction sees its own writes; others see nothing before `commit` returns from its fence,
//! and then each block at once. Whole blocks are streamed into private slots as they are written, so
//! that `commit` has little left to do. Waiting for space happens with nothing held.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

use crate::commit::{Action, Change, Outcome, Patch, record_bound};
use crate::core::Core;
use crate::entry::{Key, Kind};
use crate::error::{Error, Result};
use crate::index::Place;
use crate::lanes::thread_hint;
use crate::layout::PARTIAL_TRAILER_BYTES;
use crate::media::encode_partial_len;
use crate::reclaim::Need;
use crate::volume::Volume;

/// What the transaction knows of a block's bytes.
enum Base {
    /// What the pool or the backing holds, under the edits.
    Current,
    /// A whole block in a private slot.
    Staged { slot: u32, crc: u32 },
    /// A whole block in memory, waiting for a slot.
    Buffered(Vec<u8>),
    /// Zeroes.
    Zero,
}

/// Bytes over part of the current block; with `truncate`, what lies behind them is gone.
struct Edit {
    offset: usize,
    bytes: Vec<u8>,
    truncate: bool,
}

struct Operation {
    key: Key,
    place: Place,
    base: Base,
    edits: Vec<Edit>,
}

thread_local! {
    /// Vectors of finished transactions, so that a small one allocates nothing.
    static SPARE: RefCell<(Vec<Operation>, Vec<Change>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// A set of changes to one volume that becomes durable as a whole or not at all.
///
/// It belongs to the thread that made it: its data is ordered by that thread's fence. Dropping it
/// is the same as [`Transaction::abort`].
pub struct Transaction<'v> {
    volume: &'v Volume,
    operations: Vec<Operation>,
    changes: Vec<Change>,
    not_send: PhantomData<*const ()>,
}

impl<'v> Transaction<'v> {
    pub(crate) fn new(volume: &'v Volume) -> Transaction<'v> {
        let (operations, changes) = SPARE.with(|spare| std::mem::take(&mut *spare.borrow_mut()));
        Transaction {
            volume,
            operations,
            changes,
            not_send: PhantomData,
        }
    }
    fn core(&self) -> &'v Core {
        &self.volume.core
    }

    /// Writes `data`, whole blocks, from `block` on.
    ///
    /// Errors: outside the volume, `data` not a multiple of the block size, transaction too large.
    pub fn write(&mut self, block: u64, data: &[u8]) -> Result<()> {
        self.core().writable()?;
        self.volume.check_blocks(block, data.len())?;
        for (number, bytes) in (block..).zip(data.chunks_exact(self.core().block_bytes())) {
            let operation = self.operation(number)?;
            self.write_block(operation, bytes);
        }
        Ok(())
    }

    fn write_block(&mut self, operation: usize, bytes: &[u8]) {
        let core = self.core();
        let operation = &mut self.operations[operation];
        operation.edits.clear();
        if let Base::Staged { slot, crc } = &mut operation.base {
            *crc = core.media.stream_slot(*slot, bytes);
            return;
        }
        operation.base = match core.slots.take(thread_hint()) {
            Some(slot) => Base::Staged {
                slot,
                crc: core.media.stream_slot(slot, bytes),
            },
            None => Base::Buffered(bytes.to_vec()),
        };
        core.prefetch_for_commit(operation.place, operation.key);
    }

    /// Writes `data` at any byte offset; parts of blocks keep their other bytes.
    ///
    /// Errors: as [`Transaction::write`]; reading the rest of a block may fail at commit.
    pub fn write_at(&mut self, byte_offset: u64, data: &[u8]) -> Result<()> {
        self.core().writable()?;
        self.volume.check_bytes(byte_offset, data.len())?;
        let block_bytes = self.core().block_bytes();
        let (mut at, mut rest) = (byte_offset, data);
        while !rest.is_empty() {
            let offset = (at % block_bytes as u64) as usize;
            let len = rest.len().min(block_bytes - offset);
            let (bytes, tail) = rest.split_at(len);
            let operation = self.operation(at / block_bytes as u64)?;
            if len == block_bytes {
                self.write_block(operation, bytes);
            } else {
                self.edit(
                    operation,
                    Edit {
                        offset,
                        bytes: bytes.to_vec(),
                        truncate: false,
                    },
                );
            }
            (at, rest) = (at + len as u64, tail);
        }
        Ok(())
    }

    /// Puts `data` at byte `offset` of `block` and declares what lies behind it zero. If the cached
    /// block ends at `offset`, the bytes are appended in place (AutoBahn §5.2): they cost their own
    /// lines and one record.
    ///
    /// Errors: as [`Transaction::write`]; `offset + data.len()` beyond the block.
    pub fn append(&mut self, block: u64, offset: usize, data: &[u8]) -> Result<()> {
        self.core().writable()?;
        self.volume.check_blocks(block, self.core().block_bytes())?;
        let block_bytes = self.core().block_bytes();
        if offset + data.len() > block_bytes {
            return Err(Error::OutOfRange {
                volume: self.volume.id(),
                what: format!(
                    "append of {} bytes at {offset} to a block of {block_bytes}",
                    data.len()
                ),
            });
        }
        let operation = self.operation(block)?;
        self.edit(
            operation,
            Edit {
                offset,
                bytes: data.to_vec(),
                truncate: true,
            },
        );
        Ok(())
    }

    /// Makes blocks read as zeroes and frees their room.
    ///
    /// Errors: as [`Transaction::write`]. Larger ranges go through [`Volume::discard`].
    pub fn discard(&mut self, blocks: Range<u64>) -> Result<()> {
        self.core().writable()?;
        let block_bytes = self.core().block_bytes();
        let count = blocks.end.saturating_sub(blocks.start);
        let asked_bytes = count.saturating_mul(block_bytes as u64);
        self.check_limit(asked_bytes)?;
        self.volume
            .check_blocks(blocks.start, asked_bytes as usize)?;
        for block in blocks {
            let operation = self.operation(block)?;
            self.unstage(operation);
            self.operations[operation].edits.clear();
            self.operations[operation].base = Base::Zero;
        }
        Ok(())
    }

    /// Reads whole blocks as they will be after this transaction.
    ///
    /// Errors: outside the volume, the backing or the media failed.
    pub fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.volume.check_blocks(block, out.len())?;
        for (number, bytes) in (block..).zip(out.chunks_exact_mut(self.core().block_bytes())) {
            let key = self.volume.key(number);
            match self
                .operations
                .iter()
                .find(|operation| operation.key == key)
            {
                Some(operation) => self.view(operation, bytes)?,
                None => self.volume.read(number, bytes)?,
            }
        }
        Ok(())
    }

    fn view(&self, operation: &Operation, out: &mut [u8]) -> Result<()> {
        match &operation.base {
            Base::Current => {
                self.volume.read(operation.key.block(), out)?;
                apply_edits(&operation.edits, out);
            }
            Base::Staged { slot, .. } => self.core().media.read_slot(*slot, 0, out),
            Base::Buffered(bytes) => out.copy_from_slice(bytes),
            Base::Zero => out.fill(0),
        }
        Ok(())
    }

    /// Makes the transaction durable; when this returns `Ok` it survives every crash.
    ///
    /// Errors: no space before the deadline, the backing failed under a partial write, or the pool
    /// is poisoned. Nothing is visible then, and nothing is durable unless a fence itself failed.
    pub fn commit(mut self) -> Result<()> {
        if self.operations.is_empty() {
            return self.core().writable();
        }
        loop {
            match self.attempt()? {
                Outcome::Done(_) => break,
                Outcome::Stale => crate::sync::spin_hint(),
                Outcome::NoEntry => self.core().make_space(Need::Entry)?,
            }
        }
        self.tally();
        // The slots belong to the pool now.
        self.operations.clear();
        Ok(())
    }

    /// Forgets everything.
    pub fn abort(self) {
        drop(self);
    }

    /// One try: prepares what depends on the present and commits.
    fn attempt(&mut self) -> Result<Outcome> {
        self.stage_buffered()?;
        self.changes.clear();
        for number in 0..self.operations.len() {
            let change = self.change_of(number, true)?;
            self.changes.push(change);
        }
        let core = self.core();
        if record_bound(&self.changes) > core.lanes.lane_bytes() / 2 {
            // Too many redo bytes for the log: the patched blocks go whole.
            self.give_back_changes();
            for number in 0..self.operations.len() {
                let change = self.change_of(number, false)?;
                self.changes.push(change);
            }
        }
        let outcome = core.commit(&self.changes);
        if !matches!(outcome, Ok(Outcome::Done(_))) {
            self.give_back_changes();
        }
        outcome
    }

    /// Frees the slots that only `changes` know (blocks built over edits).
    fn give_back_changes(&mut self) {
        let core = self.core();
        for (change, operation) in self.changes.drain(..).zip(&self.operations) {
            if let (Action::Block { slot, .. } | Action::PartialBlock { slot, .. }, Base::Current) =
                (change.action, &operation.base)
            {
                core.slots.give(thread_hint(), slot);
            }
        }
    }

    fn change_of(&mut self, number: usize, deltas: bool) -> Result<Change> {
        let operation = &self.operations[number];
        let (key, place) = (operation.key, operation.place);
        let plain = |action| {
            Ok(Change {
                key,
                place,
                action,
                based_on: None,
            })
        };
        match &operation.base {
            Base::Staged { slot, crc } => plain(Action::Block {
                slot: *slot,
                crc: *crc,
            }),
            Base::Zero => plain(Action::Zero),
            Base::Buffered(_) => unreachable!("buffered blocks are staged first"),
            Base::Current => match deltas.then(|| self.in_place(operation)).flatten() {
                Some(action) => plain(action),
                None => self.rebuilt(number),
            },
        }
    }

    /// The edits as a change of the cached block in place, if that is possible and pays.
    fn in_place(&self, operation: &Operation) -> Option<Action> {
        let core = self.core();
        let (_, found) = core.peek(operation.place, operation.key);
        let (_, entry) = found.filter(|(_, entry)| entry.kind() == Kind::Data)?;
        let edits = &operation.edits;
        if entry.is_partial() {
            let at = core.valid_bytes(entry)?;
            let mut end = at;
            let mut bytes = Vec::new();
            for edit in edits {
                if !edit.truncate || edit.offset != end {
                    return None;
                }
                bytes.extend_from_slice(&edit.bytes);
                end += edit.bytes.len();
            }
            return (end <= core.media.trailer_offset()).then_some(Action::Append { at, bytes });
        }
        let changed: usize = edits.iter().map(|edit| edit.bytes.len()).sum();
        if edits.iter().any(|edit| edit.truncate) || changed * 2 > core.block_bytes() {
            return None;
        }
        let patches = edits
            .iter()
            .map(|e| Patch {
                offset: e.offset,
                bytes: e.bytes.clone(),
            })
            .collect();
        Some(Action::Delta { patches })
    }

    /// The edits over the present block, as a whole new block that is valid only if the present
    /// one does not change before the commit.
    fn rebuilt(&mut self, number: usize) -> Result<Change> {
        let core = self.core();
        let operation = &self.operations[number];
        let (key, place) = (operation.key, operation.place);
        let mut bytes = vec![0; core.block_bytes()];
        let (version, mut valid) = self.volume.read_versioned(key.block(), &mut bytes)?;
        apply_edits(&operation.edits, &mut bytes);
        for edit in &operation.edits {
            let end = edit.offset + edit.bytes.len();
            valid = if edit.truncate { end } else { valid.max(end) };
        }
        let slot = loop {
            if let Some(slot) = core.slots.take(thread_hint()) {
                break slot;
            }
            // Whoever waits holds nothing that another one could wait for.
            self.give_back_changes();
            for operation in 0..self.operations.len() {
                self.unstage(operation);
            }
            core.make_space(Need::Slots(1))?;
            self.stage_buffered()?;
            return self.restart(number);
        };
        let action = if valid <= bytes.len() - PARTIAL_TRAILER_BYTES {
            let trailer = bytes.len() - PARTIAL_TRAILER_BYTES;
            bytes[trailer..].copy_from_slice(&encode_partial_len(valid));
            core.media.stream_slot(slot, &bytes);
            Action::PartialBlock {
                slot,
                crc: core.media.crc(&bytes[..valid]),
                valid_bytes: valid,
            }
        } else {
            Action::Block {
                slot,
                crc: core.media.stream_slot(slot, &bytes),
            }
        };
        Ok(Change {
            key,
            place,
            action,
            based_on: Some(version),
        })
    }

    /// After a wait: the changes before `number` again, then that one.
    fn restart(&mut self, number: usize) -> Result<Change> {
        for earlier in 0..number {
            let change = self.change_of(earlier, true)?;
            self.changes.push(change);
        }
        self.change_of(number, true)
    }

    /// Brings every buffered block into a slot, waiting for space if need be.
    fn stage_buffered(&mut self) -> Result<()> {
        let core = self.core();
        let is_buffered = |o: &Operation| matches!(o.base, Base::Buffered(_));
        let mut slots = Vec::new();
        loop {
            let wanted = self.operations.iter().filter(|o| is_buffered(o)).count();
            if wanted == 0 {
                return Ok(());
            }
            if core.slots.take_many(thread_hint(), wanted, &mut slots) {
                break;
            }
            for operation in 0..self.operations.len() {
                self.unstage(operation);
            }
            let all = self.operations.iter().filter(|o| is_buffered(o)).count();
            core.make_space(Need::Slots(all as u64))?;
        }
        for operation in &mut self.operations {
            if let Base::Buffered(bytes) = &operation.base {
                let slot = slots
                    .pop()
                    .expect("one slot was taken for each buffered block");
                let crc = core.media.stream_slot(slot, bytes);
                operation.base = Base::Staged { slot, crc };
            }
        }
        Ok(())
    }

    /// Takes a staged block back into memory and frees its slot.
    fn unstage(&mut self, operation: usize) {
        let core = self.core();
        let operation = &mut self.operations[operation];
        if let Base::Staged { slot, .. } = operation.base {
            let mut bytes = vec![0; core.block_bytes()];
            core.media.read_slot(slot, 0, &mut bytes);
            operation.base = Base::Buffered(bytes);
            core.slots.give(thread_hint(), slot);
        }
    }

    fn edit(&mut self, operation: usize, edit: Edit) {
        self.unstage(operation);
        let block_bytes = self.core().block_bytes();
        let operation = &mut self.operations[operation];
        match &mut operation.base {
            Base::Current => operation.edits.push(edit),
            Base::Buffered(bytes) => apply_edits(&[edit], bytes),
            Base::Zero => {
                let mut bytes = vec![0; block_bytes];
                apply_edits(&[edit], &mut bytes);
                operation.base = Base::Buffered(bytes);
            }
            Base::Staged { .. } => unreachable!("it was just taken back"),
        }
    }

    /// The operation of a block, made if it is new.
    fn operation(&mut self, block: u64) -> Result<usize> {
        let key = self.volume.key(block);
        // Writers mostly go on where they were.
        if let Some(at) = self
            .operations
            .iter()
            .rposition(|operation| operation.key == key)
        {
            return Ok(at);
        }
        let blocks = self.operations.len() as u64 + 1;
        self.check_limit(blocks * self.core().block_bytes() as u64)?;
        let place = self.core().place(key);
        self.operations.push(Operation {
            key,
            place,
            base: Base::Current,
            edits: Vec::new(),
        });
        Ok(self.operations.len() - 1)
    }

    fn check_limit(&self, asked_bytes: u64) -> Result<()> {
        let limit_bytes = self.core().media.geometry.transaction_limit_bytes();
        if asked_bytes > limit_bytes {
            return Err(Error::TransactionTooLarge {
                asked_bytes,
                limit_bytes,
            });
        }
        Ok(())
    }

    fn tally(&self) {
        let tallies = &self.core().tallies;
        let block_bytes = self.core().block_bytes() as u64;
        let (mut blocks, mut payload) = (0, 0);
        for (operation, change) in self.operations.iter().zip(&self.changes) {
            match &change.action {
                Action::Zero => tallies.blocks_zeroed(1),
                Action::Delta { .. } => tallies.deltas_written(1),
                Action::Append { .. } => tallies.appends_written(1),
                _ => blocks += 1,
            }
            payload += match operation.base {
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

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let core = self.core();
        for operation in self.operations.drain(..) {
            if let Base::Staged { slot, .. } = operation.base {
                core.slots.give(thread_hint(), slot);
            }
        }
        self.changes.clear();
        let spare = (
            std::mem::take(&mut self.operations),
            std::mem::take(&mut self.changes),
        );
        // At thread exit the spare may be gone already.
        let _ = SPARE.try_with(|place| *place.borrow_mut() = spare);
    }
}

fn apply_edits(edits: &[Edit], bytes: &mut [u8]) {
    for edit in edits {
        let end = edit.offset + edit.bytes.len();
        bytes[edit.offset..end].copy_from_slice(&edit.bytes);
        if edit.truncate {
            bytes[end..].fill(0);
        }
    }
}
