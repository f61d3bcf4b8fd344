//! How an AutoBahn buffer is made and run.

/// Options of the design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoBahnOptions {
    /// Bytes of a block: 16 KiB in the paper (§6). A multiple of 64.
    pub block_bytes: u64,
    /// Bytes of an inode's record: 32, a power of two; more give it lines of its own.
    pub inode_bytes: u64,
    /// Files at once.
    pub volumes: u64,
    /// Dirty queues, each with a flusher (§5.3.1).
    pub flushers: usize,
    /// Blocks in a dirty queue that wake its flusher (§5.3.1); half of the blocks over all queues if not said.
    pub watermark: Option<u64>,
    /// Stages have threads. Without them a writer that finds no free block does their work.
    pub background: bool,
    /// Content is stored and flushed (§5.4), instead of streamed as in the other engines here.
    pub flush_content: bool,
    /// Recovery and commits of the paper's letter, which lose data (`docs/inside/papers.md`).
    pub as_printed: bool,
}

impl Default for AutoBahnOptions {
    fn default() -> AutoBahnOptions {
        AutoBahnOptions {
            block_bytes: 16 << 10,
            inode_bytes: 32,
            volumes: 64,
            flushers: 2,
            watermark: None,
            background: true,
            flush_content: false,
            as_printed: false,
        }
    }
}
