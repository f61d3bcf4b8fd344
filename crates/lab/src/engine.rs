//! What a crash-consistent cache of one disk does, of whatever design: the traits behind which
//! Forebay and the designs of the papers stand side by side, so that every front end, workload and
//! checker can drive any of them.
//!
//! An engine promises:
//!
//! * what a transaction's `commit` returned `Ok` for survives a crash; what it did not return for is
//!   there after recovery whole or not at all;
//! * a read returns what was committed last, or for a transaction's own read what that transaction
//!   wrote;
//! * after `flush` the backing alone holds everything that was committed before.
//!
//! Making an engine on a fresh region and recovering one from a used region belong to each engine.

use std::ops::Range;

use forebay::{BackingCounters, Counters, Result};

/// A cache of one disk. Any number of threads may use it at once.
pub trait Engine: Send + Sync {
    /// What it is called on command lines and in reports.
    fn name(&self) -> &'static str;

    /// Bytes of a block.
    fn block_bytes(&self) -> usize;

    /// Bytes of the disk; a multiple of the block size.
    fn size_bytes(&self) -> u64;

    /// Blocks that one transaction may change.
    fn transaction_blocks_max(&self) -> usize;

    /// Starts a transaction. It holds nothing that others wait for before its commit.
    fn begin(&self) -> Box<dyn EngineTransaction + '_>;

    /// Reads whole blocks from `block` on, each as it was at one moment.
    ///
    /// # Errors
    /// Outside the disk; the backing failed; the cached copy is known to be bad.
    fn read(&self, block: u64, out: &mut [u8]) -> Result<()>;

    /// Writes whole blocks from `block` on as one transaction.
    ///
    /// # Errors
    /// As [`EngineTransaction::write`] and [`EngineTransaction::commit`].
    fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        let mut transaction = self.begin();
        for (index, bytes) in data.chunks(self.block_bytes()).enumerate() {
            // The largest number is outside every disk.
            transaction.write(block.saturating_add(index as u64), bytes)?;
        }
        transaction.commit()
    }

    /// Brings everything committed to the backing and syncs it.
    ///
    /// # Errors
    /// The backing failed; what it did not take stays cached.
    fn flush(&self) -> Result<()>;

    /// Does what its background threads would do at a wakeup, for a checker that runs none; nothing where its design
    /// has none.
    ///
    /// # Errors
    /// The backing or the medium failed.
    fn background_turn(&self) -> Result<()> {
        Ok(())
    }

    /// What it did and how it stands.
    fn stats(&self) -> EngineStats;

    /// The backing's last error, while [`EngineStats::is_degraded`].
    fn last_error(&self) -> Option<String> {
        None
    }
}

/// Changes that become durable together, kept in DRAM until then. Dropped, it changed nothing.
pub trait EngineTransaction {
    /// Gives the block new bytes throughout.
    ///
    /// # Errors
    /// Outside the disk, not one whole block, or more blocks than one transaction may change.
    fn write(&mut self, block: u64, data: &[u8]) -> Result<()>;

    /// Gives a metadata block its new bytes, of which only the `changed` ranges differ from what it
    /// holds: file systems know which inode they changed. An engine that has no use for that writes
    /// the whole block.
    ///
    /// # Errors
    /// As [`EngineTransaction::write`].
    fn update(&mut self, block: u64, data: &[u8], changed: &[Range<usize>]) -> Result<()> {
        let _ = changed;
        self.write(block, data)
    }

    /// Reads one block, with the transaction's own changes.
    ///
    /// # Errors
    /// As [`Engine::read`].
    fn read(&self, block: u64, out: &mut [u8]) -> Result<()>;

    /// Makes the changes durable, all or none.
    ///
    /// # Errors
    /// The transaction is too large; there is no room and none can be made; the medium or the backing
    /// failed. After an error of the medium it is unknown whether the changes were made, and the
    /// engine refuses later ones.
    fn commit(self: Box<Self>) -> Result<()>;

    /// Forgets the changes.
    fn abort(self: Box<Self>);
}

/// What an engine did since it was opened, and how it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Blocks the cache has room for.
    pub slots: u64,
    /// Blocks that are cached.
    pub cached_blocks: u64,
    /// Cached blocks that the backing does not have yet.
    pub dirty_blocks: u64,
    /// Transactions committed.
    pub commits: u64,
    /// Blocks that they changed, whole or in part.
    pub blocks_committed: u64,
    /// Of these, blocks that were cached before.
    pub write_hits: u64,
    /// Blocks read from the cache.
    pub read_hits: u64,
    /// Blocks read from the backing.
    pub read_misses: u64,
    /// Blocks evicted.
    pub evictions: u64,
    /// Whether the backing refused the last write-back in the background; what it lacks stays cached. Where clients write back
    /// themselves, each is told instead.
    pub is_degraded: bool,
    /// How often it refused one.
    pub write_back_errors: u64,
    /// What the persistent memory was given.
    pub memory: Counters,
    /// What the backing was given.
    pub backing: BackingCounters,
}
