//! What engines are made with.

pub use crate::cleaner::Watermarks;
use crate::shared::ContentBy;

/// What the journaling client above Classic journals; JBD2 calls them modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum JournalMode {
    /// Data and metadata: the papers' "data consistency".
    #[default]
    Data,
    /// Metadata; data goes to its place before the transaction commits.
    Ordered,
    /// Nothing: the block cache alone, as under a file system that brings its own journal.
    None,
}

/// What an engine is made with. An engine ignores what its design does not have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineOptions {
    /// Bytes of a block: a power of two, from 128 for tests, 4096 otherwise.
    pub block_bytes: usize,
    /// Elements of Tinca's and Spindle's ring; none for the papers' 1 MiB, or 1/64 of a region that
    /// is smaller than 64 MiB.
    pub ring_elements: Option<u64>,
    /// Bytes of an inode, Spindle's sub-block.
    pub inode_bytes: usize,
    /// Blocks of Classic's journal on the disk; none for 1/64 of the disk.
    pub journal_blocks: Option<u64>,
    /// What Classic journals.
    pub journal_mode: JournalMode,
    /// Blocks of one of Classic's sets.
    pub set_blocks: usize,
    /// Classic writes the metadata block of every cached write; off for Tinca's Figure 4 only, and
    /// then nothing survives a crash.
    pub updates_metadata: bool,
    /// The paper's protocol exactly as printed, with what that loses under some crash images.
    pub as_printed: bool,
    /// Blocks are stored and flushed line by line, not streamed past the caches. Forebay streams in any case.
    pub flushes_content: bool,
    /// A read that misses brings the block into the cache.
    pub fill_on_read: bool,
    /// Take a disk although its mark says that its newest data is elsewhere (`docs/inside/marks.md`).
    pub accept_stale: bool,
    /// The cleaner that all designs have in common, with these marks; none for eviction block by block on the client's
    /// thread, as the papers' text has it. Forebay's own write-back always works, by the usual marks if none are given.
    pub cleaner: Option<Watermarks>,
    /// Threads for write-back; without, callers drive it.
    pub background: bool,
}

impl EngineOptions {
    /// How the content of blocks is sent; a protocol as printed flushes.
    pub(crate) fn content(&self) -> ContentBy {
        match self.flushes_content || self.as_printed {
            true => ContentBy::Flushes,
            false => ContentBy::Streams,
        }
    }
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions {
            block_bytes: 4096,
            ring_elements: None,
            inode_bytes: 256,
            journal_blocks: None,
            journal_mode: JournalMode::Data,
            set_blocks: 512,
            updates_metadata: true,
            as_printed: false,
            flushes_content: false,
            fill_on_read: true,
            cleaner: None,
            background: true,
            accept_stale: false,
        }
    }
}
