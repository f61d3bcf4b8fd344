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
    /// Makes `count` blocks from `first` on zero.
    ///
    /// # Errors
    /// The system's.
    fn zero(&self, first: u64, count: u64) -> io::Result<()>;
    /// Makes durable what was written and zeroed.
    ///
    /// # Errors
    /// The system's. Then nothing is known of what had been written.
    fn sync(&self) -> io::Result<()>;
}
