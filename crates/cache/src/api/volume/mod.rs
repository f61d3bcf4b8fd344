//! Volumes: what is cached, and how it is read.

mod around;
mod discard;
mod forget;
mod misses;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::api::stats::VolumeStats;
use crate::api::transaction::Transaction;
use crate::background::health::Health;
use crate::background::zeroings::Zeroings;
use crate::backing::{Backing, BackingWait, FaultDomain, Limited};
use crate::engine::change::Outcome;
use crate::engine::core::{Core, STATE_DIRTY};
use crate::error::{Error, Result};
use crate::log::lanes::thread_hint;
use crate::media::entry::{Entry, Key};
use crate::mutants::{Mutant, mutated};
use crate::options::VerifyPolicy;
use crate::sync::{AtomicU64, Ordering};
use crate::table::index::{Bucket, Version};

/// Optimistic reads before a reader takes the lock: enough that only a burst of writes gets there.
const READ_ATTEMPTS_MAX: u32 = 64;
/// What the pool knows of a volume.
pub(crate) struct VolumeState {
    pub(crate) id: u32,
    pub(crate) path: PathBuf,
    /// Grows; a concurrent reader sees the old size or the new one.
    pub(crate) size_bytes: AtomicU64,
    pub(crate) backing: OnceLock<Backing>,
    /// The same as `backing`: what may be used of it.
    pub(crate) limited: OnceLock<Arc<Limited>>,
    pub(crate) health: Health,
    /// What bulk discards have zeroed behind the cache and no sync has made durable.
    pub(crate) zeroings: Zeroings,
}

impl VolumeState {
    /// The attached backing.
    pub(crate) fn backing(&self) -> Result<&Backing> {
        self.backing.get().ok_or_else(|| {
            Error::Volume(format!(
                "{} is not attached; attach its backing",
                self.path.display()
            ))
        })
    }
    pub(crate) fn backing_error(&self, source: std::io::Error) -> Error {
        Error::Backing {
            path: self.path.clone(),
            source,
        }
    }
    /// What was asked longest ago of what the backing has not answered.
    fn waits_for(&self) -> Option<BackingWait> {
        self.limited.get()?.waits_for()
    }

    fn named(&self, (part, error): (FaultDomain, String)) -> String {
        let name = self
            .backing
            .get()
            .and_then(|backing| backing.domain_name(part));
        name.map_or(error.clone(), |name| format!("{name}: {error}"))
    }

    /// The backing's last error, or what it has not answered for longer than is usual.
    pub(crate) fn trouble(&self, usual: Duration) -> Option<String> {
        let last_error = self.health.last_error().map(|last| self.named(last));
        last_error.or_else(|| {
            let wait = self.waits_for().filter(|wait| wait.elapsed >= usual)?;
            let (request, elapsed_s) = (wait.request, wait.elapsed.as_secs());
            Some(format!("a {request} has had no answer for {elapsed_s} s"))
        })
    }

    /// `usual`: how long a backing may take to answer.
    pub(crate) fn stats(&self, usual: Duration) -> VolumeStats {
        let backing = self.backing.get();
        let trouble = self.trouble(usual);
        let (failures, last_failure) = self.health.failures();
        VolumeStats {
            id: self.id,
            path: self.path.clone(),
            size_bytes: self.size_bytes.load(Ordering::Relaxed),
            attached: backing.is_some(),
            degraded: trouble.is_some(),
            last_error: trouble,
            failures,
            last_failure: last_failure.map(|last| self.named(last)),
            waiting_for: self.waits_for(),
            backing: backing.map(|b| b.counters()).unwrap_or_default(),
            transport: backing.map(|b| b.transport()).unwrap_or_default(),
        }
    }
}

/// A disk or file that is cached. Cheap to clone; all clones are the same volume.
#[derive(Clone)]
pub struct Volume {
    pub(crate) core: Arc<Core>,
    pub(crate) state: Arc<VolumeState>,
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Volume {} ({})",
            self.state.id,
            self.state.path.display()
        )
    }
}

impl Volume {
    /// The id that the pool's tables know the volume by.
    pub fn id(&self) -> u32 {
        self.state.id
    }
    /// Bytes of the volume.
    pub fn size_bytes(&self) -> u64 {
        self.state.size_bytes.load(Ordering::Relaxed)
    }
    /// Bytes of a block.
    pub fn block_size(&self) -> usize {
        self.core.block_bytes()
    }
    /// Blocks of the volume; the last one may reach beyond `size_bytes`.
    pub fn blocks(&self) -> u64 {
        let geometry = &self.core.media.geometry;
        (self.size_bytes() + u64::from(geometry.block_bytes) - 1) >> geometry.block_shift()
    }
    /// The most bytes one transaction can hold.
    pub fn transaction_limit_bytes(&self) -> u64 {
        self.core.media.geometry.transaction_limit_bytes()
    }
    pub(crate) fn key(&self, block: u64) -> Key {
        Key::new(self.state.id, block)
    }

    /// Starts a transaction on this volume. A writer that outruns the backing is delayed here.
    pub fn begin(&self) -> Transaction<'_> {
        self.keep_pace();
        Transaction::new(self)
    }

    /// Delays a writer that outruns the backing. It holds nothing yet that others could wait for.
    #[inline]
    pub(crate) fn keep_pace(&self) {
        if self.core.wakeup.pace.is_on() {
            self.core.keep_pace();
        }
    }

    /// Writes `data`, whole blocks, from `block` on, as one transaction: the same as `begin`,
    /// `write`, `commit`, without a copy on the way.
    ///
    /// Errors: as [`Transaction::write`] and [`Transaction::commit`].
    pub fn write(&self, block: u64, data: &[u8]) -> Result<()> {
        crate::api::transaction::write_blocks(self, block, data)
    }

    /// Reads whole blocks from `block` on, each as it was at one moment; a transaction of several
    /// blocks may be seen in part. [`Volume::read_atomic`] never sees half of one.
    ///
    /// Errors: outside the volume; the backing failed; the only copy is bad.
    pub fn read(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.check_blocks(block, out.len())?;
        let block_bytes = self.block_size();
        let verify = self.core.verify.load(Ordering::Relaxed);
        if out.len() == block_bytes {
            return self.read_one(block, out, verify);
        }
        let mut number = block;
        let mut rest = out;
        while !rest.is_empty() {
            let first = &mut rest[..block_bytes];
            let done = match self.core.read_hit(self.key(number), first, verify) {
                true => 1,
                false => self.read_on(number, rest)?,
            };
            number += done as u64;
            rest = &mut rest[done * block_bytes..];
        }
        Ok(())
    }

    #[inline]
    fn read_one(&self, block: u64, out: &mut [u8], verify: bool) -> Result<()> {
        if self.core.read_hit(self.key(block), out, verify) {
            return Ok(());
        }
        self.read_versioned(block, out, false).map(drop)
    }

    /// Reads whole blocks as they all were at one moment: every transaction is seen whole or not.
    ///
    /// Errors: as [`Volume::read`].
    pub fn read_atomic(&self, block: u64, out: &mut [u8]) -> Result<()> {
        self.check_blocks(block, out.len())?;
        let block_bytes = self.block_size();
        let mut versions = Vec::with_capacity(out.len() / block_bytes);
        for _ in 0..READ_ATTEMPTS_MAX {
            versions.clear();
            for (number, bytes) in (block..).zip(out.chunks_exact_mut(block_bytes)) {
                let stripe = self.core.bucket(self.key(number)).stripe;
                let version = self.read_block(number, bytes)?;
                versions.push((stripe, version));
            }
            // A transaction marks all its stripes before it changes the first of them, so if none
            // has changed since it was read, all were read between two transactions.
            if versions
                .iter()
                .all(|(stripe, version)| self.core.index.read_valid(*stripe, *version))
                || mutated(Mutant::AtomicReadUnchecked)
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
        let core = &*self.core;
        let verify = for_update || core.verify.load(Ordering::Relaxed);
        let key = self.key(block);
        let bucket = core.bucket(key);
        for _ in 0..READ_ATTEMPTS_MAX {
            let version = core.index.read_begin(bucket.stripe);
            let Some((index, entry)) = core.find(bucket, key) else {
                // An update of a block that is being zeroed behind the cache builds on the zeroes.
                let waits = || for_update && self.state.zeroings.wait(block..block + 1);
                if core.index.read_valid(bucket.stripe, version)
                    && !waits()
                    && self.read_miss(key, bucket, version, out, !for_update)?
                {
                    return Ok((version, out.len()));
                }
                continue;
            };
            let good = core.copy_out(entry, verify, out);
            let valid = core.valid_bytes(entry);
            if !core.index.read_valid(bucket.stripe, version) {
                continue;
            }
            if good {
                core.replacement.on_hit(index);
                core.tallies.mine().read_hits(1);
                return Ok((version, valid.unwrap_or(out.len())));
            }
            if core.media.load_entry(index) != entry {
                // It has become clean, which is no new version: the backing has the block by now.
                continue;
            }
            if let Err(error) = core.heal(index, entry) {
                if !core.is_replaceable(index, entry) || core.writable().is_ok() {
                    return Err(error);
                }
                // The bad copy cannot be evicted any more, but the backing has the block.
                self.read_backing(block, out)?;
                if core.index.read_valid(bucket.stripe, version) {
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
    /// Errors: the backing failed; everything is still in the pool.
    pub fn flush(&self) -> Result<()> {
        self.core.flush_volume(&self.state)
    }

    pub(crate) fn check_blocks(&self, block: u64, len: usize) -> Result<()> {
        let block_bytes = self.block_size();
        // On every read's and write's way: no division.
        let count = (len >> self.core.media.geometry.block_shift()) as u64;
        if len == 0 || len & (block_bytes - 1) != 0 || block.saturating_add(count) > self.blocks() {
            return Err(Error::OutOfRange {
                volume: self.id(),
                what: format!(
                    "{len} bytes from block {block}; blocks have {block_bytes} bytes, the volume {} \
                     blocks",
                    self.blocks()
                ),
            });
        }
        Ok(())
    }

    pub(crate) fn check_bytes(&self, offset: u64, len: usize) -> Result<()> {
        if offset.saturating_add(len as u64) > self.size_bytes() {
            return Err(Error::OutOfRange {
                volume: self.id(),
                what: format!(
                    "{len} bytes at byte {offset}; the volume has {} bytes",
                    self.size_bytes()
                ),
            });
        }
        Ok(())
    }
}

impl Core {
    /// Brings a block that the backing returned into the pool, clean and without a record. Does
    /// nothing where there is no room or the stripe moved on.
    fn fill(
        &self,
        key: Key,
        bucket: Bucket,
        version: Version,
        bytes: &[u8],
    ) -> Result<Option<Version>> {
        let slot_cache = self.slots.slot_cache(thread_hint());
        let Some(slot) = slot_cache.take() else {
            self.wakeup.notify_work();
            return Ok(None);
        };
        let crc = self.media.stream_slot(slot, bytes);
        if !mutated(Mutant::FillWithoutFence) {
            // Orders the block before its entry: another thread's delta will stand on it, and that
            // thread's fence does not cover these stores.
            self.fence()?;
        }
        self.index.lock(bucket.stripe);
        let unchanged = self.index.locked_version(bucket.stripe) == version
            || mutated(Mutant::FillIgnoresVersion);
        let is_live = self.live.contains(key.volume()) || mutated(Mutant::FilledAfterDetach);
        let index = if unchanged && is_live {
            self.pop_free_entry(key)
        } else {
            None
        };
        let Some(index) = index else {
            self.index.unlock(bucket.stripe);
            slot_cache.give(slot);
            if self.low_on_space() {
                self.wakeup.notify_work();
            }
            return Ok(None);
        };
        self.index.begin_change(bucket.stripe);
        self.media
            .store_entry(index, Entry::data(key, slot, crc).as_clean());
        self.mark_table_line(index);
        self.index.link(bucket, index);
        self.replacement.on_insert(index);
        let version = self.index.end_change_and_unlock(bucket.stripe);
        self.tallies.mine().fills(1);
        if self.low_on_space() {
            self.wakeup.notify_work();
        }
        Ok(Some(version))
    }

    /// A cached block does not match its check. If the backing has the same bytes the copy goes;
    /// otherwise it is the only one, and the reader gets an error, never wrong bytes.
    fn heal(&self, index: u32, entry: Entry) -> Result<()> {
        let key = entry.key();
        if !self.is_replaceable(index, entry) {
            self.tallies.mine().corrupt(1);
            return Err(self.corrupt(key));
        }
        if self.commit_mappings(&[self.eviction(entry)])? == Outcome::Done(1) {
            self.tallies.mine().healed(1);
        }
        Ok(())
    }

    /// Whether the backing has what this entry stands for.
    fn is_replaceable(&self, index: u32, entry: Entry) -> bool {
        entry.parity_holds() && entry.is_clean() && self.state(index) & STATE_DIRTY == 0
    }

    pub(crate) fn set_verify(&self, policy: VerifyPolicy) {
        self.verify
            .store(policy == VerifyPolicy::Always, Ordering::Relaxed);
    }
}
