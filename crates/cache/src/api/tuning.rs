//! What can be changed while a pool is open: atomics, set from any thread, in force at once.
//!
//! The verify policy has its own call, [`MemoryPool::set_verify`].

use crate::api::pool::MemoryPool;
use crate::error::{ErrorKind, Result};

/// The settings that are in force, and what write-back makes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tuning {
    /// Write-back works, and writers are slowed, while more than this many per mille of the slots
    /// are dirty.
    pub dirty_low_per_mille: u32,
    /// At this many per mille writers go as fast as the backing takes their blocks.
    pub dirty_high_per_mille: u32,
    /// Bytes a second that background write-back may write; 0 means no limit.
    pub flush_rate_limit_bytes_per_s: u64,
    /// Whether write-back leaves the journals of file systems for last.
    pub defer_journal: bool,
    /// Bytes a second that write-back moved lately while it worked; 0 before its first round.
    pub write_back_bytes_per_s: u64,
    /// See [`MemoryPool::set_share_duplicates`].
    pub share_duplicates: bool,
    /// See [`MemoryPool::set_compare_writes`].
    pub compare_writes: bool,
    /// See [`MemoryPool::set_sequential_cutoff`].
    pub sequential_cutoff_bytes: u64,
    /// See [`MemoryPool::set_read_ahead`].
    pub read_ahead_bytes: u64,
}

impl MemoryPool {
    /// Sets the dirty watermarks, per mille of the pool's slots: see [`Tuning`].
    ///
    /// # Errors
    /// [`ErrorKind::Options`] where `low` exceeds `high`, or `high` 1000; nothing is changed then.
    pub fn set_watermarks(&self, low_per_mille: u32, high_per_mille: u32) -> Result<()> {
        check_watermarks(low_per_mille, high_per_mille)?;
        self.pipeline()
            .set_watermarks(low_per_mille, high_per_mille);
        Ok(())
    }

    /// Limits what background write-back writes, in bytes a second; 0 lifts the limit. Writers that
    /// outrun it are slowed to it. A flush that a caller asks for is not limited.
    pub fn set_flush_rate_limit(&self, bytes_per_s: u64) {
        self.pipeline()
            .engine()
            .wakeup()
            .pace
            .set_limit(bytes_per_s);
        self.pipeline().engine().wakeup().notify_work();
    }

    /// Lets whole blocks whose bytes the pool holds already share their slot, or stops it.
    pub fn set_share_duplicates(&self, on: bool) {
        self.pipeline().engine().content().set_share_duplicates(on);
    }

    /// Has whole blocks compared with what is cached, so that only what is new is stored, or stops it.
    pub fn set_compare_writes(&self, on: bool) {
        self.pipeline().engine().content().set_compare_writes(on);
    }

    /// Whether write-back leaves the blocks of file systems' journals for last. Whatever is set, a
    /// flush writes all of them, and so does write-back where nothing else is left to write.
    pub fn set_defer_journal(&self, defers: bool) {
        self.pipeline().write_back().journal().set_on(defers);
        self.pipeline().engine().wakeup().notify_work();
    }

    /// Has misses of reads that follow one another pass the pool by once these have come to more than so many bytes: what is
    /// not cached is read from the backing and not brought in. With 0 all is brought in.
    pub fn set_sequential_cutoff(&self, cutoff_bytes: u64) {
        self.pipeline().streams().set_cutoff_bytes(cutoff_bytes);
    }

    /// Has the backing read ahead of reads that follow one another and miss, so many bytes at most (64 MiB if it is more). With 0
    /// nothing is.
    pub fn set_read_ahead(&self, bytes: u64) {
        self.pipeline().read_ahead().set_bytes(bytes);
    }

    /// The settings in force.
    pub fn tuning(&self) -> Tuning {
        let wakeup = &self.pipeline().engine().wakeup();
        Tuning {
            dirty_low_per_mille: wakeup.watermarks.low_per_mille(),
            dirty_high_per_mille: wakeup.watermarks.high_per_mille(),
            flush_rate_limit_bytes_per_s: wakeup.pace.limit().unwrap_or(0),
            defer_journal: self.pipeline().write_back().journal().is_on(),
            write_back_bytes_per_s: wakeup.pace.measured_bytes_per_s(),
            share_duplicates: self.pipeline().engine().content().shares_duplicates(),
            compare_writes: self.pipeline().engine().content().compares_writes(),
            sequential_cutoff_bytes: self.pipeline().streams().cutoff_bytes(),
            read_ahead_bytes: self.pipeline().read_ahead().bytes(),
        }
    }
}

/// Refuses watermarks that contradict each other.
pub(crate) fn check_watermarks(low_per_mille: u32, high_per_mille: u32) -> Result<()> {
    if low_per_mille > high_per_mille || high_per_mille > 1000 {
        return Err(ErrorKind::Options(format!(
            "watermarks of {low_per_mille} and {high_per_mille} per mille; the low one may not \
             exceed the high one, nor that 1000"
        ))
        .into());
    }
    Ok(())
}
