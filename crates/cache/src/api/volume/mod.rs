//! Volumes: what is cached, and how it is read.

mod around;
mod bytes;
mod discard;
mod forget;
mod misses;

use std::sync::Arc;

use crate::background::Pipeline;
use crate::background::volume_state::VolumeState;
use crate::error::{ErrorKind, Result};
use crate::media::entry::Key;
use crate::mutants::{Mutant, mutated};
use crate::sync::Ordering;
use crate::table::CopiedFrom;
use crate::table::index::Version;

pub(crate) use bytes::read_bytes;
pub(crate) use forget::runs_of;
pub use misses::QueuedReads;

/// Optimistic reads before a reader takes the lock: enough that only a burst of writes gets there.
const READ_ATTEMPTS_MAX: u32 = 64;
/// A disk or file that is cached. Cheap to clone; all clones are the same volume.
///
/// Any threads may call its methods at once, for the same blocks too. Blocks are counted from 0 and have
/// [`MemoryVolume::block_size`] bytes; offsets are bytes. What [`MemoryVolume::write`] and [`MemoryVolume::discard`] did is durable when
/// they return `Ok`. Once the pool is closed, every method that can fail does, with [`ErrorKind::Closed`]; where the
/// medium failed, or a fence, it may with [`ErrorKind::Media`].
#[derive(Clone)]
pub struct MemoryVolume {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) state: Arc<VolumeState>,
}

impl std::fmt::Debug for MemoryVolume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Volume {} ({})",
            self.state.id,
            self.state.path.display()
        )
    }
}

impl MemoryVolume {
    /// The id that the pool's tables know the volume by.
    #[inline]
    pub fn id(&self) -> u32 {
        self.state.id
    }
    /// Bytes of the volume.
    #[inline]
    pub fn size_bytes(&self) -> u64 {
        self.state.size_bytes.load(Ordering::Relaxed)
    }
    /// Bytes of a block.
    #[inline]
    pub fn block_size(&self) -> usize {
        self.pipeline.engine().block_bytes()
    }
    /// Blocks of the volume; the last one may reach beyond `size_bytes`.
    pub fn blocks(&self) -> u64 {
        let geometry = &self.pipeline.media().geometry;
        (self.size_bytes() + u64::from(geometry.block_bytes) - 1) >> geometry.block_shift()
    }
    /// The most bytes one transaction can hold: the smaller of 4 MiB and an eighth of the pool.
    pub fn transaction_limit_bytes(&self) -> u64 {
        self.pipeline.media().geometry.transaction_limit_bytes()
    }
    /// Whether the block begins before the volume's end: `block < self.blocks()`, in fewer steps.
    #[inline(always)]
    pub(crate) fn has_block(&self, block: u64) -> bool {
        let start = block.checked_mul(self.block_size() as u64);
        start.is_some_and(|start| start < self.size_bytes())
    }
    pub(crate) fn key(&self, block: u64) -> Key {
        Key::new(self.state.id, block)
    }

    /// Delays a writer that outruns the backing. It holds nothing yet that others could wait for.
    #[inline]
    pub(crate) fn keep_pace(&self) {
        if self.pipeline.engine().wakeup().pace.is_on() {
            self.pipeline.keep_pace();
        }
    }

    /// Reads whole blocks from `block` on, each as it was at one moment; a transaction of several
    /// blocks may be seen in part. [`MemoryVolume::read_atomic`] never sees half of one.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`]: outside the volume, or `out` is not a whole number of blocks.
    /// [`ErrorKind::Backing`]: the backing failed. [`ErrorKind::Corrupt`]: the only copy is bad.
    /// [`ErrorKind::Volume`]: no backing is attached, or it was detached.
    // The caller has asked which kind of pool it is; apart, this keeps its registers to itself.
    #[inline(never)]
    pub fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        if out.len() == self.block_size() && self.has_block(block) {
            return self.read_one(block, out);
        }
        self.read_several(block, out)
    }

    /// Apart, so that a hit saves no registers for the loop.
    #[inline(never)]
    fn read_several(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.check_blocks(block, out.len())?;
        let block_bytes = self.block_size();
        let engine = self.pipeline.engine();
        let verify = engine.verifies();
        let mut number = block;
        let mut rest = out;
        while !rest.is_empty() {
            let first = &mut rest[..block_bytes];
            let done = match engine.read_hit(self.key(number), first, verify) {
                true => 1,
                false => self.read_on(number, rest)?,
            };
            number += done as u64;
            rest = &mut rest[done * block_bytes..];
        }
        Ok(())
    }

    #[inline(always)]
    fn read_one(&self, block: u64, out: &mut [u8]) -> Result<()> {
        let engine = self.pipeline.engine();
        match engine.read_hit(self.key(block), out, engine.verifies()) {
            true => Ok(()),
            false => self.read_missed(block, out),
        }
    }

    #[inline(never)]
    fn read_missed(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.read_versioned(block, out, false).map(drop)
    }

    /// Reads whole blocks as they all were at one moment: every transaction is seen whole or not.
    ///
    /// # Errors
    /// As [`MemoryVolume::read`].
    pub fn read_atomic(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.check_blocks(block, out.len())?;
        let block_bytes = self.block_size();
        let mut versions = Vec::with_capacity(out.len() / block_bytes);
        for _ in 0..READ_ATTEMPTS_MAX {
            versions.clear();
            for (number, bytes) in (block..).zip(out.chunks_exact_mut(block_bytes)) {
                let stripe = self.pipeline.table().bucket(self.key(number)).stripe;
                let version = self.read_block(number, bytes)?;
                versions.push((stripe, version));
            }
            // A transaction marks all its stripes before it changes the first of them, so if none
            // has changed since it was read, all were read between two transactions.
            if versions.iter().all(|(stripe, version)| {
                self.pipeline.table().index().read_valid(*stripe, *version)
            }) || mutated(Mutant::AtomicReadUnchecked)
            {
                return Ok(());
            }
        }
        self.read_around(block, out)
    }

    /// Reads one block under the pool's policy; returns the stripe's version it was read at.
    fn read_block(&self, block: u64, out: &mut [u8]) -> Result<Version> {
        Ok(self.read_versioned(block, out, false)?.0)
    }

    /// Reads one block; returns the stripe's version it was read at and how many bytes are valid.
    /// What a caller will write again is verified, whatever the policy, and not brought in: a commit
    /// that took the slot it is waiting for would wait for ever.
    pub(crate) fn read_versioned(
        &self,
        block: u64,
        out: &mut [u8],
        for_update: bool,
    ) -> Result<(Version, usize)> {
        let pipeline = &*self.pipeline;
        let verify = for_update || pipeline.engine().verifies();
        let key = self.key(block);
        let bucket = pipeline.table().bucket(key);
        for _ in 0..READ_ATTEMPTS_MAX {
            let version = pipeline.table().index().read_begin(bucket.stripe);
            let Some((index, raw)) = pipeline.table().find(bucket, key) else {
                // An update of a block that is being zeroed behind the cache builds on the zeroes.
                let waits = || for_update && self.state.zeroings.wait(block..block + 1);
                if pipeline.table().index().read_valid(bucket.stripe, version)
                    && !waits()
                    && self.read_miss(key, bucket, version, out, !for_update)?
                {
                    return Ok((version, out.len()));
                }
                continue;
            };
            let entry = pipeline.media().sound(raw);
            let copied = entry.map_or(CopiedFrom::Nowhere, |entry| {
                pipeline.table().copy_out(entry, verify, out)
            });
            let valid = entry.and_then(|entry| pipeline.table().valid_bytes_of(entry, out));
            if !pipeline.table().index().read_valid(bucket.stripe, version) {
                continue;
            }
            if copied != CopiedFrom::Nowhere {
                pipeline.engine().replacement().on_hit(index);
                pipeline.engine().tallies().mine().read_hits(1);
                if copied == CopiedFrom::Other {
                    pipeline.engine().repair_read(raw);
                }
                return Ok((version, valid.unwrap_or(out.len())));
            }
            if pipeline.table().entries().load(index) != raw {
                // It has become clean, which is no new version: the backing has the block by now.
                continue;
            }
            if let Err(error) = pipeline.engine().heal(index, raw) {
                if !pipeline.engine().is_replaceable(index, raw)
                    || pipeline.engine().check_writable().is_ok()
                {
                    return Err(error);
                }
                // The bad copy cannot be evicted any more, but the backing has the block.
                self.read_backing(block, out)?;
                if pipeline.table().index().read_valid(bucket.stripe, version) {
                    return Ok((version, out.len()));
                }
            }
        }
        // So many writers that no attempt was quiet: queue up with them.
        self.read_around(block, out)?;
        // The bytes are right, but an update that builds on them must look again.
        Ok((Version::NEVER, out.len()))
    }

    /// Writes every block that is dirty now to the backing and syncs it. Not needed for durability:
    /// what `commit` acknowledged survives without. After it the bare backing is consistent, as long
    /// as nothing is written.
    ///
    /// # Errors
    /// [`ErrorKind::Backing`]: the backing failed; everything is still in the pool. [`ErrorKind::Corrupt`]: the only
    /// copy of a block is bad; all others were written.
    pub fn flush(&self) -> Result<()> {
        self.pipeline.flush_volume(&self.state)
    }

    pub(crate) fn check_blocks(&self, block: u64, len: usize) -> Result<()> {
        let block_bytes = self.block_size();
        // On every read's and write's way: no division.
        let count = (len >> self.pipeline.media().geometry.block_shift()) as u64;
        if len == 0 || len & (block_bytes - 1) != 0 || block.saturating_add(count) > self.blocks() {
            return Err(ErrorKind::OutOfRange {
                volume: self.id(),
                what: format!(
                    "{len} bytes from block {block}; blocks have {block_bytes} bytes, the volume {} \
                     blocks",
                    self.blocks()
                ),
            }
            .into());
        }
        Ok(())
    }

    pub(crate) fn check_bytes(&self, offset: u64, len: usize) -> Result<()> {
        if offset.saturating_add(len as u64) > self.size_bytes() {
            return Err(ErrorKind::OutOfRange {
                volume: self.id(),
                what: format!(
                    "{len} bytes at byte {offset}; the volume has {} bytes",
                    self.size_bytes()
                ),
            }
            .into());
        }
        Ok(())
    }
}
