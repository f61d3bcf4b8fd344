//! What lies behind a volume: a disk or a file, slower and larger than the pool.

use std::io;

/// A backing, block by block. The pool asks no two threads at once to change it.
pub trait Backing: Send + Sync {
    /// Reads a block.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes a block.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes blocks, each with its bytes, in ascending order of their numbers; one result for each.
    fn write_many(&self, blocks: &[(u64, &[u8])]) -> Vec<io::Result<()>> {
        let written = blocks
            .iter()
            .map(|(block, bytes)| self.write(*block, bytes));
        written.collect()
    }
    /// Makes `count` blocks from `first` on zero.
    ///
    /// # Errors
    /// The system's.
    fn zero(&self, first: u64, count: u64) -> io::Result<()>;
    /// Why it is not to be asked now, if it is not: an earlier request has had no answer for long, and another would keep the thread
    /// that asks as long. A flush asks all the same.
    fn unanswered(&self) -> Option<io::Error> {
        None
    }
    /// Makes durable what was written and zeroed.
    ///
    /// # Errors
    /// The system's. Then nothing is known of what had been written.
    fn sync(&self) -> io::Result<()>;
    /// The same of what was written and zeroed of these blocks, where parts of the backing fail by themselves: by their places
    /// in `blocks` those that are not durable, and why.
    ///
    /// # Errors
    /// The system's, of all of it.
    fn sync_of(&self, blocks: &[u64]) -> io::Result<Vec<(usize, io::Error)>> {
        let _ = blocks;
        self.sync().map(|()| Vec::new())
    }
}
