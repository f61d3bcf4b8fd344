//! The upper layer: a journaling client with JBD2's traffic, above the cache.
//!
//! A transaction goes to the log as JBD2 writes it: revoke blocks if there is anything to revoke,
//! descriptor blocks each followed by the log blocks that it describes, and a commit block. Every one
//! of these is an ordinary block of the disk to the cache below. Later, when the log is short of
//! room, the oldest transactions are checkpointed: the newest version of each of their blocks goes
//! to its place, unless a younger transaction has the block as well, and the superblock's tail moves
//! past them. Until then the blocks are in DRAM, as in the page cache, and are read from there.
//!
//! What holds at every moment:
//!
//! * a write of the cache device is durable when it returns, so what is written first is durable
//!   first; the commit block is written last, and without it a transaction is not there;
//! * between tail and head there are whole transactions with consecutive sequence numbers, and
//!   behind the head nothing that could be taken for a commit block of the next one: an older block
//!   there has an older number, a log block never begins with the magic, and a new incarnation of
//!   the journal leaves a number out, so that no attempt that was cut off has the number of a later
//!   one;
//! * the tail moves past a transaction only after its blocks are durable in their places, or in the
//!   log of a younger one;
//! * a block that went to its place past the log (ordered mode) is revoked in the log before its
//!   writer is answered, so that no replay puts an older version over it.

mod blocks;
mod checkpoint;
mod replay;

use std::collections::{HashMap, VecDeque};

use forebay::{Backing, ErrorKind, Result, WriteRun};

use super::flashcache::Flashcache;
use super::layout::{Geometry, JOURNAL_HEADER_BYTES, REVOKE_BYTES, TAG_BYTES, Tail};
use crate::shared::ChangedBlock;

/// A block that is committed and not yet in its place.
struct Waiting {
    bytes: Box<[u8]>,
    /// The youngest transaction that has it.
    sequence: u64,
}

/// A transaction between tail and head.
struct Logged {
    /// Blocks of the log that it takes.
    log_blocks: u64,
    /// What it changes.
    numbers: Vec<u64>,
}

pub(super) struct Journal {
    block_bytes: usize,
    /// The superblock's number on the disk; the log follows.
    first: u64,
    log_blocks: u64,
    tail: Tail,
    /// Blocks of the log in use, from the tail on.
    used: u64,
    transactions: VecDeque<Logged>,
    waiting: HashMap<u64, Waiting>,
}

impl Journal {
    /// An empty journal that begins at `tail`.
    fn new(geometry: &Geometry, tail: Tail) -> Journal {
        Journal {
            block_bytes: geometry.block_bytes,
            first: geometry.journal_first(),
            log_blocks: geometry.journal_blocks - 1,
            tail,
            used: 0,
            transactions: VecDeque::new(),
            waiting: HashMap::new(),
        }
    }

    /// Makes an empty journal on the disk itself, as mkfs does; durable on return. What an earlier
    /// journal left there is zero afterwards: its transactions would have the same numbers.
    pub(super) fn create(geometry: &Geometry, backing: &Backing) -> Result<Journal> {
        let tail = Tail {
            position: 0,
            sequence: 1,
        };
        let journal = Journal::new(geometry, tail);
        let failed = |source| ErrorKind::Backing {
            path: backing.identity().path,
            source,
        };
        let offset = journal.first * geometry.block_bytes as u64;
        let len = geometry.journal_blocks * geometry.block_bytes as u64;
        backing.zero_range(offset, len).map_err(failed)?;
        let bytes = blocks::superblock(geometry, tail);
        let run = WriteRun {
            offset,
            bytes: &bytes,
        };
        for result in backing.write_runs(&[run]) {
            result.map_err(failed)?;
        }
        backing.sync().map_err(failed)?;
        Ok(journal)
    }

    /// Blocks that one transaction may change: what fits the log, descriptors and commit block
    /// included. JBD2 stops at a quarter of its log, so that a running transaction has room beside
    /// the one that commits; here there is none.
    pub(super) fn transaction_blocks_max(&self) -> usize {
        let room = self.log_blocks - 1;
        // A descriptor and its tags take one block more than there are tags.
        let with_descriptor = self.tags_per_block() + 1;
        let rest = (room % with_descriptor).saturating_sub(1);
        (room / with_descriptor * self.tags_per_block() + rest) as usize
    }

    /// The newest bytes of a block that waits for its checkpoint.
    pub(super) fn waiting(&self, number: u64) -> Option<&[u8]> {
        let waiting = self.waiting.get(&number)?;
        Some(&waiting.bytes)
    }

    /// Makes room in the log for so many blocks and so many revoke records, at least for a quarter
    /// of the log: JBD2 keeps room for its largest transaction, which is a quarter, and so writes the
    /// superblock once for many.
    pub(super) fn make_room(
        &mut self,
        cache: &mut Flashcache,
        logged: usize,
        revoked: usize,
    ) -> Result<()> {
        let needed = self.needed_blocks(logged as u64, revoked as u64);
        assert!(needed <= self.log_blocks, "a transaction fits the log");
        let mut free = self.log_blocks - self.used;
        if needed <= free {
            return Ok(());
        }
        let mut count = 0;
        while free < needed.max(self.log_blocks / 4) {
            free += self.transactions[count].log_blocks;
            count += 1;
        }
        self.checkpoint(cache, count)
    }

    /// Writes a transaction of these blocks to the log, with revoke records for those numbers;
    /// durable on return. The caller has made room. After an error of the backing it is as if it had not been tried.
    pub(super) fn commit(
        &mut self,
        cache: &mut Flashcache,
        logged: &[&ChangedBlock],
        revoked: &[u64],
    ) -> Result<()> {
        let needed = self.needed_blocks(logged.len() as u64, revoked.len() as u64);
        assert!(needed <= self.log_blocks - self.used, "there is room");
        let sequence = self.next_sequence();
        let mut position = self.head();
        let positions = (0..needed).map(|block| (position + block) % self.log_blocks);
        cache.check_room(positions.map(|position| self.first + 1 + position))?;
        let mut put = |bytes: &[u8]| {
            let number = self.first + 1 + position;
            position = (position + 1) % self.log_blocks;
            cache.write(number, bytes)
        };
        for numbers in revoked.chunks(self.revokes_per_block() as usize) {
            put(&blocks::revoke(self.block_bytes, sequence, numbers))?;
        }
        for described in logged.chunks(self.tags_per_block() as usize) {
            put(&blocks::descriptor(self.block_bytes, sequence, described))?;
            for block in described {
                put(&blocks::escaped(&block.bytes))?;
            }
        }
        // All before it is durable: the block device fences each write.
        put(&blocks::commit(self.block_bytes, sequence))?;
        self.take_in(sequence, needed, logged, revoked);
        Ok(())
    }

    /// The transaction is durable: DRAM follows.
    fn take_in(
        &mut self,
        sequence: u64,
        log_blocks: u64,
        logged: &[&ChangedBlock],
        revoked: &[u64],
    ) {
        for number in revoked {
            self.waiting.remove(number);
        }
        for block in logged {
            let bytes = block.bytes.clone();
            let waiting = Waiting { bytes, sequence };
            self.waiting.insert(block.number, waiting);
        }
        self.used += log_blocks;
        assert!(self.used <= self.log_blocks, "the head stays off the tail");
        self.transactions.push_back(Logged {
            log_blocks,
            numbers: logged.iter().map(|block| block.number).collect(),
        });
    }

    fn needed_blocks(&self, logged: u64, revoked: u64) -> u64 {
        let descriptors = logged.div_ceil(self.tags_per_block());
        revoked.div_ceil(self.revokes_per_block()) + descriptors + logged + 1
    }

    fn next_sequence(&self) -> u64 {
        self.tail.sequence + self.transactions.len() as u64
    }

    fn head(&self) -> u64 {
        (self.tail.position + self.used) % self.log_blocks
    }

    fn tags_per_block(&self) -> u64 {
        ((self.block_bytes - JOURNAL_HEADER_BYTES) / TAG_BYTES) as u64
    }

    fn revokes_per_block(&self) -> u64 {
        ((self.block_bytes - JOURNAL_HEADER_BYTES) / REVOKE_BYTES) as u64
    }
}
