//! What a transaction has gathered so far, in memory that the thread's next one uses again.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use crate::engine::change::Change;
use crate::engine::commit::Block;
use crate::engine::plan::Scratch;
use crate::media::entry::Key;
use crate::table::index::Bucket;

/// Memory that a finished transaction leaves to the next one of its thread.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// The same in blocks.
const SPARE_BLOCKS_MAX: usize = 64;

/// What the transaction knows of a block's bytes.
#[derive(Clone, Copy)]
pub(crate) enum Base {
    /// What the pool or the backing holds, under the edits.
    Current,
    /// A whole block at this place of the transaction's memory.
    Buffered { at: usize },
    /// A whole block in a private slot.
    Staged { slot: u32, crc: u32 },
    /// Zeroes.
    Zero,
}

/// Bytes over part of the current block; with `truncate`, what lies behind them is gone.
pub(crate) struct Edit {
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) truncate: bool,
}

pub(crate) struct Operation {
    pub(crate) key: Key,
    pub(crate) bucket: Bucket,
    pub(crate) base: Base,
    pub(crate) edits: Vec<Edit>,
}

/// The operations of a transaction, in the order they came.
///
/// They are changed in place and their memory is kept: one that is made elsewhere and moved in is
/// read back wider than it was written, which behind a block's stores waits for all of them.
#[derive(Default)]
pub(crate) struct Operations {
    all: Vec<Operation>,
    used: usize,
}

impl Operations {
    /// Adds the operation of a block; returns its number.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: Key, bucket: Bucket, base: Base) -> usize {
        let number = self.used;
        if number == self.all.len() {
            self.grow(key, bucket);
        }
        let operation = &mut self.all[number];
        operation.key = key;
        operation.bucket = bucket;
        operation.base = base;
        self.used = number + 1;
        number
    }

    #[cold]
    fn grow(&mut self, key: Key, bucket: Bucket) {
        let more = self.all.len().max(4);
        self.all
            .extend((0..more).map(|_| Operation::new(key, bucket)));
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        for operation in &mut self.all[..self.used] {
            if !operation.edits.is_empty() {
                operation.drop_edits();
            }
        }
        self.used = 0;
    }

    #[cold]
    fn trim(&mut self) {
        self.all.truncate(SPARE_BLOCKS_MAX);
    }
}

impl Deref for Operations {
    type Target = [Operation];

    #[inline]
    fn deref(&self) -> &[Operation] {
        &self.all[..self.used]
    }
}

impl DerefMut for Operations {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Operation] {
        &mut self.all[..self.used]
    }
}

impl Operation {
    fn new(key: Key, bucket: Bucket) -> Operation {
        Operation {
            key,
            bucket,
            base: Base::Current,
            edits: Vec::new(),
        }
    }

    #[cold]
    #[inline(never)]
    fn drop_edits(&mut self) {
        self.edits = Vec::new();
    }
}

/// What a small transaction needs of the heap, kept for the thread's next one.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) operations: Operations,
    pub(crate) changes: Vec<Change>,
    pub(crate) blocks: Vec<Block>,
    /// Blocks that wait in memory.
    pub(crate) data: Vec<u8>,
    pub(crate) slots: Vec<u32>,
    /// One bit for each block written so far, by its hash: it shows most blocks to be new.
    pub(crate) seen: u64,
    pub(crate) scratch: Scratch,
}

thread_local! {
    static SPARE: Cell<Option<Box<Workspace>>> = const { Cell::new(None) };
}

/// A workspace on loan from the thread; it goes back when dropped.
pub(crate) struct Work(Option<Box<Workspace>>);

impl Work {
    #[inline]
    pub(crate) fn borrow() -> Work {
        // Commits may come after the thread has dropped its own: a process's last ones do.
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        Work(Some(spare.unwrap_or_default()))
    }
}

impl Deref for Work {
    type Target = Workspace;

    #[inline]
    fn deref(&self) -> &Workspace {
        self.0.as_deref().expect("it is there until the drop")
    }
}

impl DerefMut for Work {
    #[inline]
    fn deref_mut(&mut self) -> &mut Workspace {
        self.0.as_deref_mut().expect("it is there until the drop")
    }
}

impl Workspace {
    /// The first block of a transaction, which is mostly its only one, waits in memory.
    #[inline(always)]
    pub(crate) fn buffer_first(&mut self, key: Key, bucket: Bucket, bytes: &[u8]) {
        let base = buffer(&mut self.data, bytes);
        self.seen = bucket.seen_bit();
        self.operations.add(key, bucket, base);
    }

    /// Forgets everything, and gives back what a large transaction needed.
    #[inline(always)]
    fn clear(&mut self) {
        let is_large =
            self.operations.all.len() > SPARE_BLOCKS_MAX || self.data.capacity() > SPARE_BYTES_MAX;
        self.operations.clear();
        self.data.clear();
        self.seen = 0;
        if is_large || !self.changes.is_empty() || !self.blocks.is_empty() {
            self.clear_the_rest();
        }
    }

    #[cold]
    #[inline(never)]
    fn clear_the_rest(&mut self) {
        self.changes.clear();
        self.slots.clear();
        self.blocks.clear();
        self.operations.trim();
        self.blocks.shrink_to(SPARE_BLOCKS_MAX);
        self.scratch.effects.clear();
        self.scratch.effects.shrink_to(SPARE_BLOCKS_MAX);
        self.data.shrink_to(SPARE_BYTES_MAX);
    }
}

impl Drop for Work {
    #[inline]
    fn drop(&mut self) {
        let Some(mut work) = self.0.take() else {
            return;
        };
        work.clear();
        // At thread exit the place for it may be gone already.
        let _ = SPARE.try_with(|spare| spare.set(Some(work)));
    }
}

/// The slot of a fresh block before it has one.
pub(crate) const NO_SLOT: u32 = u32::MAX;

pub(crate) fn buffer(data: &mut Vec<u8>, bytes: &[u8]) -> Base {
    let at = data.len();
    data.extend_from_slice(bytes);
    Base::Buffered { at }
}

pub(crate) fn apply_edits(edits: &[Edit], bytes: &mut [u8]) {
    for edit in edits {
        let end = edit.offset + edit.bytes.len();
        bytes[edit.offset..end].copy_from_slice(&edit.bytes);
        if edit.truncate {
            bytes[end..].fill(0);
        }
    }
}
