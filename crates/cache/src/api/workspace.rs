//! What a transaction has gathered so far, in memory that the thread's next one uses again.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use crate::engine::change::{Action, Change, Patch};
use crate::engine::commit::{Block, NO_SLOT, Source};
use crate::engine::plan::Scratch;
use crate::media::entry::Key;
use crate::table::index::Bucket;

/// Memory that a finished transaction leaves to the next one of its thread.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// Blocks whose places it leaves.
const SPARE_BLOCKS_MAX: usize = 64;

/// Edits whose memory is kept, of each block and of the thread.
const SPARE_EDITS_MAX: usize = 16;

/// The memory of longer ones is not.
const SPARE_EDIT_BYTES_MAX: usize = 4096;

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

/// What the transaction does to a block.
pub(crate) struct Operation {
    /// The block: where its bytes are, if all of them are known.
    pub(crate) block: Block,
    base: BaseKind,
    pub(crate) edits: Vec<Edit>,
}

/// Whether all bytes of an operation's block are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BaseKind {
    Current,
    Whole,
    Zero,
}

/// The blocks that wait in the transaction's memory, or the caller's, each with the number of its operation.
#[inline(always)]
pub(crate) fn blocks_in_memory<'o>(
    operations: &'o mut [Operation],
    data: &[u8],
    block_bytes: usize,
) -> impl Iterator<Item = (usize, &'o mut Block)> {
    let blocks = operations.iter_mut().map(AsMut::as_mut).enumerate();
    // There are no more of them than the memory holds, and mostly they come first.
    let waiting_max = data.len() / block_bytes;
    let waits = |(_, block): &(usize, &mut Block)| block.data_at().is_some();
    blocks.filter(waits).take(waiting_max)
}

/// The operations of a transaction, in the order they came.
///
/// They are changed in place and their memory is kept: one that is made elsewhere and moved in is
/// read back wider than it was written, which behind a block's stores waits for all of them.
#[derive(Default)]
pub(crate) struct Operations {
    all: Vec<Operation>,
    used: usize,
    has_edits: bool,
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
        operation.block.renew(key, bucket);
        operation.set_base(base);
        self.used = number + 1;
        number
    }

    /// Adds bytes over part of an operation's block.
    #[inline]
    pub(crate) fn add_edit(&mut self, number: usize, edit: Edit) {
        self.has_edits = true;
        self[number].edits.push(edit);
    }

    #[cold]
    fn grow(&mut self, key: Key, bucket: Bucket) {
        let more = self.all.len().max(4);
        self.all
            .extend((0..more).map(|_| Operation::new(key, bucket)));
    }

    #[inline]
    fn clear(&mut self, spare: &mut Spare) {
        if self.has_edits {
            self.keep_edits(spare);
        }
        self.used = 0;
    }

    #[inline(never)]
    fn keep_edits(&mut self, spare: &mut Spare) {
        for operation in &mut **self {
            spare.keep_edits(&mut operation.edits);
        }
        self.has_edits = false;
    }

    // Not by way of the slice, whose length is compared with the memory's.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.used
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
            block: Block::new(key, bucket),
            base: BaseKind::Current,
            edits: Vec::new(),
        }
    }

    /// What is known of the block's bytes.
    #[inline(always)]
    pub(crate) fn base(&self) -> Base {
        let Block { source, slot, .. } = self.block;
        match (self.base, source) {
            (BaseKind::Current, _) => Base::Current,
            (BaseKind::Zero, _) => Base::Zero,
            (BaseKind::Whole, Source::Data { at }) => Base::Buffered { at },
            (BaseKind::Whole, Source::Slot { crc }) => Base::Staged { slot, crc },
        }
    }

    #[inline(always)]
    pub(crate) fn set_base(&mut self, base: Base) {
        self.base = match base {
            Base::Current => BaseKind::Current,
            Base::Zero => BaseKind::Zero,
            Base::Buffered { at } => {
                self.block.slot = NO_SLOT;
                self.block.source = Source::Data { at };
                BaseKind::Whole
            }
            Base::Staged { slot, crc } => {
                self.block.slot = slot;
                self.block.source = Source::Slot { crc };
                BaseKind::Whole
            }
        };
    }

    /// Whether all bytes of the block are known, and some are not zero.
    #[inline(always)]
    pub(crate) fn is_whole(&self) -> bool {
        self.base == BaseKind::Whole
    }
}

impl AsRef<Block> for Operation {
    #[inline(always)]
    fn as_ref(&self) -> &Block {
        &self.block
    }
}

impl AsMut<Block> for Operation {
    #[inline(always)]
    fn as_mut(&mut self) -> &mut Block {
        &mut self.block
    }
}

/// Memory of edits and patches that are done with, for the next ones: a small change allocates nothing.
#[derive(Default)]
pub(crate) struct Spare {
    bytes: Vec<Vec<u8>>,
    patches: Vec<Vec<Patch>>,
}

impl Spare {
    /// Empty memory.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        self.bytes.pop().unwrap_or_default()
    }

    pub(crate) fn copy_of(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut copy = self.bytes();
        copy.extend_from_slice(bytes);
        copy
    }

    /// A patch for each edit.
    pub(crate) fn patches_of(&mut self, edits: &[Edit]) -> Vec<Patch> {
        let mut patches = self.patches.pop().unwrap_or_default();
        patches.extend(edits.iter().map(|edit| Patch {
            offset: edit.offset,
            bytes: self.copy_of(&edit.bytes),
        }));
        patches
    }

    pub(crate) fn keep_bytes(&mut self, mut bytes: Vec<u8>) {
        if self.bytes.len() < SPARE_EDITS_MAX && bytes.capacity() <= SPARE_EDIT_BYTES_MAX {
            bytes.clear();
            self.bytes.push(bytes);
        }
    }

    /// Takes the edits' memory; that of their list stays with it.
    pub(crate) fn keep_edits(&mut self, edits: &mut Vec<Edit>) {
        for edit in edits.drain(..) {
            self.keep_bytes(edit.bytes);
        }
        edits.shrink_to(SPARE_EDITS_MAX);
    }

    fn keep_patches(&mut self, mut patches: Vec<Patch>) {
        for patch in patches.drain(..) {
            self.keep_bytes(patch.bytes);
        }
        if self.patches.len() < SPARE_EDITS_MAX && patches.capacity() <= SPARE_EDITS_MAX {
            self.patches.push(patches);
        }
    }
}

/// What a small transaction needs of the heap, kept for the thread's next one.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) operations: Operations,
    pub(crate) changes: Vec<Change>,
    /// Blocks that wait in memory.
    pub(crate) data: Vec<u8>,
    pub(crate) slots: Vec<u32>,
    /// One bit for each block written so far, by its hash: it shows most blocks to be new.
    pub(crate) seen: u64,
    pub(crate) scratch: Scratch,
    pub(crate) spare: Spare,
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
        Work(Some(spare.unwrap_or_else(Work::fresh)))
    }

    #[cold]
    fn fresh() -> Box<Workspace> {
        Box::default()
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

    /// The number of the key's operation, if it has one.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key, bucket: Bucket) -> Option<usize> {
        if self.seen & bucket.seen_bit() == 0 {
            return None;
        }
        // Writers mostly go on where they were.
        let mut operations = self.operations.iter();
        operations.rposition(|operation| operation.block.key == key)
    }

    /// Adds a block of a key that has no operation yet; it waits in memory.
    #[inline(never)]
    pub(crate) fn add_in_memory(&mut self, key: Key, bucket: Bucket, bytes: &[u8]) {
        let base = buffer(&mut self.data, bytes);
        self.add(key, bucket, base);
    }

    /// The same in a pool with rows, whose blocks wait in memory until the commit that fills their rows.
    #[cold]
    pub(crate) fn add_for_row(&mut self, key: Key, bucket: Bucket, bytes: &[u8]) {
        let at = self.data.len();
        forebay_pmem::append(&mut self.data, bytes);
        self.add(key, bucket, Base::Buffered { at });
    }

    /// Adds the operation of a key that has none; returns its number.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: Key, bucket: Bucket, base: Base) -> usize {
        self.seen |= bucket.seen_bit();
        self.operations.add(key, bucket, base)
    }

    /// Forgets everything, and gives back what a large transaction needed.
    #[inline(always)]
    fn clear(&mut self) {
        let is_large =
            self.operations.all.len() > SPARE_BLOCKS_MAX || self.data.capacity() > SPARE_BYTES_MAX;
        self.operations.clear(&mut self.spare);
        self.data.clear();
        self.seen = 0;
        if is_large || !self.changes.is_empty() {
            self.clear_the_rest();
        }
    }

    /// Forgets the changes, but not their memory.
    pub(crate) fn clear_changes(&mut self) {
        for change in self.changes.drain(..) {
            match change.action {
                Action::Delta { patches, .. } => self.spare.keep_patches(patches),
                Action::Append { bytes, .. } => self.spare.keep_bytes(bytes),
                _ => {}
            }
        }
    }

    #[inline(never)]
    fn clear_the_rest(&mut self) {
        self.clear_changes();
        self.slots.clear();
        self.operations.trim();
        self.scratch.trim(SPARE_BLOCKS_MAX);
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
