//! Volumes: what is cached, and how it is read and written.

use std::ops::Range;

use crate::api::extents::BlockState;
use crate::api::pool::DrainWatcher;
use crate::api::usage::VolumeUsage;
use crate::api::volume::{MemoryVolume, QueuedReads};
use crate::error::Result;
use crate::facade::transaction::Transaction;
use crate::ssd::SsdVolume;

/// A disk or file that is cached. Cheap to clone; all clones are the same volume.
///
/// Any threads may call its methods at once, for the same blocks too. Blocks are counted from 0 and have
/// [`Volume::block_size`] bytes; offsets are bytes. What [`Volume::write`] and [`Volume::discard`] did is durable when
/// they return `Ok`; what was committed unsynced, when [`Volume::sync`] has. Once the pool is closed, every method that can fail does, with
/// [`ErrorKind::Closed`](crate::ErrorKind::Closed); where the medium failed, or a fence, it may with
/// [`ErrorKind::Media`](crate::ErrorKind::Media).
#[derive(Clone)]
pub struct Volume {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Memory(MemoryVolume),
    Ssd(SsdVolume),
}

// One of a volume's two pointers says which it is.
const _: () = assert!(size_of::<Volume>() == size_of::<MemoryVolume>());

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            Kind::Memory(volume) => volume.fmt(f),
            Kind::Ssd(volume) => write!(f, "Volume {} ({})", volume.id(), volume.path().display()),
        }
    }
}

/// The same call of either.
macro_rules! either {
    ($volume:expr, $either:ident => $call:expr) => {
        match &$volume.kind {
            Kind::Memory($either) => $call,
            Kind::Ssd($either) => $call,
        }
    };
}

impl Volume {
    pub(crate) fn of_memory(volume: MemoryVolume) -> Volume {
        Volume {
            kind: Kind::Memory(volume),
        }
    }

    pub(super) fn of_ssd(volume: SsdVolume) -> Volume {
        Volume {
            kind: Kind::Ssd(volume),
        }
    }

    /// The volume of a pool in memory, if it is one.
    pub(crate) fn memory(&self) -> Option<&MemoryVolume> {
        match &self.kind {
            Kind::Memory(volume) => Some(volume),
            Kind::Ssd(_) => None,
        }
    }

    pub(super) fn ssd(&self) -> Option<&SsdVolume> {
        match &self.kind {
            Kind::Memory(_) => None,
            Kind::Ssd(volume) => Some(volume),
        }
    }

    pub(super) fn into_memory(self) -> Option<MemoryVolume> {
        match self.kind {
            Kind::Memory(volume) => Some(volume),
            Kind::Ssd(_) => None,
        }
    }

    /// The id that the pool's tables know the volume by.
    #[inline]
    pub fn id(&self) -> u32 {
        either!(self, volume => volume.id())
    }
    /// Bytes of the volume.
    #[inline]
    pub fn size_bytes(&self) -> u64 {
        either!(self, volume => volume.size_bytes())
    }
    /// Bytes of a block.
    #[inline]
    pub fn block_size(&self) -> usize {
        either!(self, volume => volume.block_size())
    }
    /// Blocks of the volume; the last one may reach beyond `size_bytes`.
    #[inline]
    pub fn blocks(&self) -> u64 {
        either!(self, volume => volume.blocks())
    }
    /// The most bytes one transaction can hold: of a pool in memory the smaller of 4 MiB and an eighth of it, of one on an SSD a
    /// quarter of a segment, which is 64 KiB to 4 MiB.
    #[inline]
    pub fn transaction_limit_bytes(&self) -> u64 {
        either!(self, volume => volume.transaction_limit_bytes())
    }

    /// Starts a transaction on this volume. A writer that outruns the backing is delayed here.
    #[inline]
    pub fn begin(&self) -> Transaction<'_> {
        match &self.kind {
            Kind::Memory(volume) => Transaction::of_memory(volume.begin()),
            Kind::Ssd(volume) => Transaction::of_ssd(volume.begin()),
        }
    }

    /// Writes `data`, whole blocks, from `block` on, as one transaction: the same as `begin`,
    /// `write`, `commit`, without a copy on the way.
    ///
    /// # Errors
    /// As [`Transaction::write`] and [`Transaction::commit`].
    #[inline]
    pub fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        either!(self, volume => volume.write(block, data))
    }

    /// As [`Volume::write`], durable as [`Transaction::commit_unsynced`] says.
    ///
    /// # Errors
    /// As [`Volume::write`].
    #[inline]
    pub fn write_unsynced(&self, block: u64, data: &[u8]) -> Result<()> {
        match &self.kind {
            Kind::Memory(volume) => volume.write(block, data),
            Kind::Ssd(volume) => volume.write_unsynced(block, data),
        }
    }

    /// Whether what is committed unsynced needs a [`Volume::sync`]: so in a pool on an SSD.
    #[inline]
    pub fn needs_sync(&self) -> bool {
        matches!(self.kind, Kind::Ssd(_))
    }

    // Hidden: for the file buffer.
    /// Whether something that was committed unsynced is not durable: never in a pool in memory.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed).
    #[doc(hidden)]
    pub fn has_unsynced(&self) -> Result<bool> {
        match &self.kind {
            Kind::Memory(_) => Ok(false),
            Kind::Ssd(volume) => volume.has_unsynced(),
        }
    }

    /// Makes durable whatever was committed unsynced before this was called, of any volume of the pool, by one flush of the SSD; by none
    /// where all of it is. In a pool in memory there is nothing to be done, and this is [`Volume::check_durable`].
    ///
    /// # Errors
    /// As [`Volume::check_durable`]; [`ErrorKind::Device`](crate::ErrorKind::Device): the flush failed. Then every later sync and
    /// commit fails as well, until the pool is opened again.
    #[inline]
    pub fn sync(&self) -> Result<()> {
        match &self.kind {
            Kind::Memory(volume) => volume.check_durable(),
            Kind::Ssd(volume) => volume.sync(),
        }
    }

    /// Reads whole blocks from `block` on, each as it was at one moment; a transaction of several
    /// blocks may be seen in part. [`Volume::read_atomic`] never sees half of one.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange): outside the volume, or `out` is not a whole number of blocks.
    /// [`ErrorKind::Backing`](crate::ErrorKind::Backing): the backing failed. [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt):
    /// the only copy is bad. [`ErrorKind::Volume`](crate::ErrorKind::Volume): no backing is attached, or it was detached.
    #[inline]
    pub fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        match &self.kind {
            Kind::Memory(volume) => volume.read(block, out),
            Kind::Ssd(volume) => read_ssd(volume, block, out),
        }
    }

    /// Reads whole blocks as they all were at one moment: every transaction is seen whole or not.
    ///
    /// # Errors
    /// As [`Volume::read`].
    #[inline]
    pub fn read_atomic(&self, block: u64, out: &mut [u8]) -> Result<()> {
        either!(self, volume => volume.read_atomic(block, out))
    }

    /// Reads bytes from byte `offset` on, each block of them as it was at one moment. A block that is
    /// read in part is read and verified whole.
    ///
    /// # Errors
    /// As [`Volume::read`]; a range that ends behind the volume's last byte is outside of it.
    #[inline]
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        either!(self, volume => volume.read_at(offset, out))
    }

    // Hidden: for front ends, which have many reads under way.
    /// Reads that wait for the backing without a thread each, so many at a time. None of a pool on an SSD, and where the backing
    /// or the kernel takes none.
    #[doc(hidden)]
    pub fn queued_reads<A: FnOnce(Result<&[u8]>) + Send>(
        &self,
        reads_max: usize,
    ) -> Option<QueuedReads<A>> {
        QueuedReads::new(self.memory()?, reads_max)
    }

    /// Makes a range of blocks read as zeroes, durably, and gives its room back, also behind the
    /// cache. Not atomic as a whole in a pool in memory: a crash may leave part of it done.
    ///
    /// # Errors
    /// As [`Volume::read`], where the range is outside the volume or the backing cannot zero; as
    /// [`Transaction::commit`].
    pub fn discard(&self, blocks: Range<u64>) -> Result<()> {
        either!(self, volume => volume.discard(blocks))
    }

    /// Writes every block that is dirty now to the backing and syncs it. Not needed for durability:
    /// what `commit` acknowledged survives without. After it the bare backing is consistent, as long
    /// as nothing is written.
    ///
    /// # Errors
    /// [`ErrorKind::Backing`](crate::ErrorKind::Backing): the backing failed; everything is still in the pool.
    /// [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt): the only copy of a block is bad; all others were written.
    pub fn flush(&self) -> Result<()> {
        either!(self, volume => volume.flush())
    }

    /// As [`Volume::flush`], with a watcher that may stop it.
    ///
    /// # Errors
    /// As `flush`; [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) where the watcher said so.
    pub fn flush_watched(&self, watcher: &mut DrainWatcher<'_>) -> Result<()> {
        either!(self, volume => volume.flush_watched(watcher))
    }

    /// Writes back those of the blocks that are dirty, and syncs the backing if there were any.
    ///
    /// # Errors
    /// As [`Volume::flush`]; [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange): one is outside the volume, and nothing was
    /// written.
    pub fn flush_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        either!(self, volume => volume.flush_blocks(blocks))
    }

    /// Removes the blocks from the pool, durably, dirty ones too: what was written to them and not
    /// written back is gone, and reads find what the backing has. Not atomic as a whole: a crash may
    /// leave part of it done.
    ///
    /// # Errors
    /// As [`Pool::checkpoint`](crate::Pool::checkpoint); [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange): one is outside
    /// the volume, and none is gone.
    pub fn forget_blocks(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        either!(self, volume => volume.forget_blocks(blocks))
    }

    // Hidden: for the file buffer.
    /// As [`Volume::forget_blocks`], durable as [`Transaction::commit_unsynced`] says: until then a power cut brings the blocks back, dirty
    /// where they were, so nobody else may write them in the backing.
    ///
    /// # Errors
    /// As [`Volume::forget_blocks`].
    #[doc(hidden)]
    pub fn forget_blocks_unsynced(&self, blocks: impl IntoIterator<Item = u64>) -> Result<()> {
        match &self.kind {
            Kind::Memory(volume) => volume.forget_blocks(blocks),
            Kind::Ssd(volume) => volume.forget_blocks_unsynced(blocks),
        }
    }

    /// Calls `visit` with each cached block and whether it is dirty, in no order; takes a look at every
    /// entry of the table. Exact where no other thread is at work.
    pub fn cached_blocks(&self, visit: impl FnMut(u64, bool)) {
        either!(self, volume => volume.cached_blocks(visit))
    }

    /// Counts the volume's blocks in the pool; takes a look at every entry of the table, so it is not
    /// for every screen refresh of a large pool. Rough where others are at work.
    pub fn usage(&self) -> VolumeUsage {
        either!(self, volume => volume.usage())
    }

    /// Whether all of these blocks are cached now, so that reading them does not wait for the
    /// backing. They may be evicted right after. Never so in a pool on an SSD, which waits for that.
    #[inline]
    pub fn is_resident(&self, blocks: Range<u64>) -> bool {
        self.memory()
            .is_some_and(|volume| volume.is_resident(blocks))
    }

    // Hidden: the file buffer writes past the pool what that does not have.
    /// Whether the pool has a block, or may find it again after a crash. If not, it will not before a write or a fill puts
    /// it there, so the backing may be written by others. A discarded block counts until its backing reads as zeroes; after a crash
    /// it may count again.
    ///
    /// # Errors
    /// Of a pool on an SSD [`ErrorKind::Closed`](crate::ErrorKind::Closed), and [`ErrorKind::Volume`](crate::ErrorKind::Volume)
    /// if the volume was detached: then nobody can say.
    #[doc(hidden)]
    #[inline]
    pub fn may_have(&self, block: u64) -> Result<bool> {
        match &self.kind {
            Kind::Memory(volume) => Ok(volume.is_resident(block..block + 1)),
            Kind::Ssd(volume) => volume.may_have(block),
        }
    }

    // Hidden: the file buffer's question, while no thread writes the block.
    /// Whether the pool has the block now. If not, its backing has the same.
    #[doc(hidden)]
    pub fn has(&self, block: u64) -> bool {
        match &self.kind {
            Kind::Memory(volume) => volume.is_resident(block..block + 1),
            Kind::Ssd(volume) => volume.has(block),
        }
    }

    /// Whether a write of `blocks` blocks would wait for nothing slow: there are free slots now, so
    /// that it needs no reclaim or write-back, a fence is no sync of a file, and no writer is being
    /// slowed. Others may take the slots right after. Never so in a pool on an SSD.
    #[inline]
    pub fn is_ready_for_write(&self, blocks: u64) -> bool {
        self.memory()
            .is_some_and(|volume| volume.is_ready_for_write(blocks))
    }

    /// Confirms that what was acknowledged as durable is; asks nothing of the medium.
    ///
    /// # Errors
    /// [`ErrorKind::Poisoned`](crate::ErrorKind::Poisoned): a fence has failed, or a write of the log.
    /// [`ErrorKind::Volume`](crate::ErrorKind::Volume): the volume was detached.
    #[inline]
    pub fn check_durable(&self) -> Result<()> {
        either!(self, volume => volume.check_durable())
    }

    /// Calls `visit` with consecutive runs of blocks of one state that cover `blocks` from its start,
    /// until it returns false. Neighbouring runs may have the same state.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`](crate::ErrorKind::OutOfRange): outside the volume.
    /// [`ErrorKind::Volume`](crate::ErrorKind::Volume): the volume has no backing, or was detached.
    pub fn block_states(
        &self,
        blocks: Range<u64>,
        visit: impl FnMut(u64, BlockState) -> bool,
    ) -> Result<()> {
        either!(self, volume => volume.block_states(blocks, visit))
    }

    // Hidden: it is the file buffer's shortcut, in the shape that its size table has.
    /// Appends `data` to the cached part of `block`, which ends at byte `offset`, and stores `word` at a
    /// byte offset of the volume, a multiple of 8, as one transaction: what [`Volume::begin`],
    /// [`Transaction::append`], `write_at` and `commit` do, in a fraction of
    /// the time. False if it is not this simple; nothing has happened then, and the long way is to be
    /// taken.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    #[doc(hidden)]
    #[inline]
    pub fn append_with_word(
        &self,
        block: u64,
        offset: usize,
        data: &[u8],
        word: Option<(u64, [u8; 8])>,
    ) -> Result<bool> {
        match &self.kind {
            Kind::Memory(volume) => volume.append_with_word(block, offset, data, word),
            Kind::Ssd(_) => Ok(false),
        }
    }
}

/// Apart, so that a hit in memory saves no registers for it.
#[cold]
#[inline(never)]
fn read_ssd(volume: &SsdVolume, block: u64, out: &mut [u8]) -> Result<()> {
    volume.read(block, out)
}
