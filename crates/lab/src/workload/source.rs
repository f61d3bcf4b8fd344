//! Sources of operations, and their scale.

use super::{Action, BLOCK_BYTES};
use crate::filesystem::FileSystem;

/// DRAM of Tinca's machines (§5.1); what else needs some of it is not taken off.
pub const TINCA_PAGES_BYTES: u64 = 4 << 30;

/// DRAM of Spindle's machine less what it takes for its NVM: 98 GB less 8 GB (§5.1). It holds all of
/// every data set (Table 1), so that no read comes to the cache.
pub const SPINDLE_PAGES_BYTES: u64 = 90 << 30;

/// What an application did in one operation, as the papers count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operation {
    /// Writes: the unit that lines, fences and disk blocks are divided by.
    pub writes: u64,
    /// Reads.
    pub reads: u64,
    /// Bytes that the application gave to its writes.
    pub payload_bytes: u64,
}

impl std::ops::AddAssign for Operation {
    fn add_assign(&mut self, more: Operation) {
        self.writes += more.writes;
        self.reads += more.reads;
        self.payload_bytes += more.payload_bytes;
    }
}

/// A source of operations.
pub trait Workload: Send {
    /// What it is called.
    fn name(&self) -> &str;

    /// Appends one application operation's actions. Writes may come with a later operation, when their
    /// transaction commits; a commit always follows the writes of one call.
    fn next(&mut self, actions: &mut Vec<Action>) -> Operation;

    /// Whether nobody wants its operations any more, so that a run may end at once.
    fn is_called_off(&self) -> bool {
        false
    }

    /// Operations after which a cache of `cache_blocks` is full and replaces at its steady rate.
    fn warm_up_operations(&self, cache_blocks: u64) -> u64;

    /// Bytes of the disk that it needs; a multiple of the block size.
    fn disk_bytes(&self) -> u64;

    /// What the disk holds before the first operation; given away once, before that.
    fn take_image(&mut self) -> Vec<u8>;

    /// Appends what brings everything written so far to the cache, with its commit.
    fn settle(&mut self, actions: &mut Vec<Action>);

    /// The blocks of which something is known, ascending.
    fn live_blocks(&self) -> Vec<u64>;

    /// Whether these bytes are what a live block holds after [`Workload::settle`].
    fn is_right(&self, block: u64, bytes: &[u8]) -> bool;
}

/// A source of operations on a file system, which says what the disk holds.
pub(super) trait FileWorkload: Send {
    fn name(&self) -> &str;
    fn file_system(&self) -> &FileSystem;
    fn file_system_mut(&mut self) -> &mut FileSystem;
    /// As [`Workload::next`].
    fn next(&mut self, actions: &mut Vec<Action>) -> Operation;
    /// As [`Workload::warm_up_operations`].
    fn warm_up_operations(&self, cache_blocks: u64) -> u64;
}

impl<W: FileWorkload> Workload for W {
    fn name(&self) -> &str {
        FileWorkload::name(self)
    }

    fn next(&mut self, actions: &mut Vec<Action>) -> Operation {
        FileWorkload::next(self, actions)
    }

    fn warm_up_operations(&self, cache_blocks: u64) -> u64 {
        FileWorkload::warm_up_operations(self, cache_blocks)
    }

    fn disk_bytes(&self) -> u64 {
        self.file_system().disk_bytes()
    }

    fn take_image(&mut self) -> Vec<u8> {
        self.file_system_mut().take_image()
    }

    fn settle(&mut self, actions: &mut Vec<Action>) {
        self.file_system_mut().commit(actions);
    }

    fn live_blocks(&self) -> Vec<u64> {
        self.file_system().live_blocks()
    }

    fn is_right(&self, block: u64, bytes: &[u8]) -> bool {
        self.file_system().is_right(block, bytes)
    }
}

/// How much smaller than the papers' everything is: caches and data sets, not blocks and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scale(u32);

impl Scale {
    /// 1/64, for figures.
    pub const FULL: Scale = Scale(64);
    /// 1/256, for a quick look.
    pub const QUICK: Scale = Scale(256);

    /// One `divisor`th of the papers' sizes.
    #[must_use]
    pub const fn one_over(divisor: u32) -> Scale {
        Scale(divisor)
    }

    /// What it divides by.
    #[must_use]
    pub const fn divisor(self) -> u32 {
        self.0
    }

    /// A size of the papers', scaled and rounded down to whole blocks; at least one block.
    #[must_use]
    pub const fn bytes(self, paper_bytes: u64) -> u64 {
        let blocks = paper_bytes / self.0 as u64 / BLOCK_BYTES as u64;
        if blocks == 0 {
            return BLOCK_BYTES as u64;
        }
        blocks * BLOCK_BYTES as u64
    }

    /// Bytes of the cache, 8 GB in both papers (Tinca §5.1, Spindle §5.1).
    #[must_use]
    pub const fn cache_bytes(self) -> u64 {
        self.bytes(8 << 30)
    }

    /// Blocks of a transaction at most: JBD2's quarter of a journal of 128 MiB, scaled. Tinca's
    /// Figure 13 shows transactions of that size, 8,000 blocks.
    #[must_use]
    pub const fn transaction_blocks_max(self) -> u64 {
        let blocks = self.bytes(32 << 20) / BLOCK_BYTES as u64;
        if blocks < 32 { 32 } else { blocks }
    }
}

impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "1/{}", self.0)
    }
}
