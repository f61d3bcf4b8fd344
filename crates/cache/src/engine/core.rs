//! The pool's shared state, and the few questions that all modules ask of it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, RwLock};

use forebay_pmem::Region;

use crate::api::stats::Tallies;
use crate::api::volume::VolumeState;
use crate::engine::content::Content;
use crate::error::{Error, Result};
use crate::log::lanes::Lanes;
use crate::log::record::Salt;
use crate::media::Media;
use crate::media::entry::{Entry, Key, Kind};
use crate::mutants::{Mutant, mutated};
use crate::options::RuntimeOptions;
use crate::policy::replace::Switchable;
use crate::sync::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::table::index::{Bucket, Index, Version};
use crate::table::live::LiveVolumes;
use crate::table::pins::Pins;
use crate::table::slots::{SlotCache, Slots};
use crate::table::word_set_queue::WordSetQueue;

/// The backing does not have the entry's block yet.
pub(crate) const STATE_DIRTY: u8 = 1;
/// A write-back of the block is under way.
pub(crate) const STATE_WRITING: u8 = 2;
/// The block changed since that write-back began.
pub(crate) const STATE_REDIRTIED: u8 = 4;
/// When the block was last compared with what a write brought, they differed much.
pub(crate) const STATE_DIFFERS: u8 = 8;
/// Write-back leaves the block for last: it is a journal's (`journal`).
pub(crate) const STATE_HELD: u8 = 16;
/// The block changed when it was cached already, since write-back last passed it over for that.
pub(crate) const STATE_SECOND_CHANCE: u8 = 32;

/// What the last checkpoint wrote.
pub(crate) struct CheckpointState {
    /// Which of the two lines is written next.
    pub(crate) next_line: usize,
    /// S.
    pub(crate) sequence: u64,
    pub(crate) count: u64,
}

/// Everything of an open pool.
pub(crate) struct Core {
    pub(crate) media: Media,
    pub(crate) index: Index,
    pub(crate) slots: Slots,
    pub(crate) content: Content,
    pub(crate) lanes: Lanes,
    /// One byte per entry, changed under the stripe lock of the entry's key.
    pub(crate) states: Box<[AtomicU8]>,
    /// Dirty entries on their way to the flusher.
    pub(crate) dirty: WordSetQueue,
    pub(crate) dirty_count: AtomicU64,
    /// One bit for each line of the entry table that the next checkpoint must flush.
    pub(crate) table_lines: Box<[AtomicU64]>,
    pub(crate) checkpoint: Mutex<CheckpointState>,
    pub(crate) replacement: Switchable,
    pub(crate) volumes: RwLock<Vec<Option<Arc<VolumeState>>>>,
    pub(crate) live: LiveVolumes,
    /// Blocks that stay while a thread reads around them.
    pub(crate) pins: Pins,
    pub(crate) salt: Salt,
    pub(crate) incarnation: u64,
    pub(crate) strict: bool,
    pub(crate) options: RuntimeOptions,
    /// Whether flusher, reclaimer and checkpointer run. Without, callers do their work.
    pub(crate) has_background: AtomicBool,
    pub(crate) verify: AtomicBool,
    pub(crate) poisoned: AtomicBool,
    /// The pool was closed while callers held volumes; it is poisoned soon after.
    pub(crate) closed: AtomicBool,
    pub(crate) tallies: Tallies,
    /// Sleeping and waking of the background threads and of throttled writers.
    pub(crate) wakeup: crate::background::wakeup::Wakeup,
    /// What the write-back pipeline keeps between rounds.
    pub(crate) write_back: crate::background::writeback::WriteBack,
}

impl Core {
    /// Whether background threads do the work that callers would otherwise have to do.
    #[inline]
    pub(crate) fn has_background(&self) -> bool {
        self.has_background.load(Ordering::Relaxed)
    }

    /// They do from now on.
    pub(crate) fn begin_background(&self) {
        self.has_background.store(true, Ordering::Relaxed);
        self.apply_watermarks();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.media.path()
    }
    pub(crate) fn block_bytes(&self) -> usize {
        self.media.block_bytes()
    }

    /// Fails once a fence has failed: nothing can be promised any more.
    #[inline]
    pub(crate) fn writable(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Relaxed) {
            return Err(self.refusal());
        }
        Ok(())
    }

    #[cold]
    fn refusal(&self) -> Error {
        let poisoned = |()| Error::Poisoned { path: self.path() };
        self.is_open().map_or_else(|closed| closed, poisoned)
    }

    /// Fails once the pool was closed.
    pub(crate) fn is_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed { path: self.path() });
        }
        Ok(())
    }

    /// Closes the pool to callers that still hold a volume: nothing changes it any more, in memory, on the
    /// medium or behind it, and it is unlocked. Background threads have ended. Before that, where nothing has
    /// failed, `end` has its turn.
    ///
    /// # Errors
    /// A fence failed, so that the next opening recovers; or the system's, and the pool stays locked.
    pub(crate) fn close(&self, end: impl FnOnce() -> Result<()>) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        self.live.clear();
        // From here on nothing is brought in or written, as when a volume is detached.
        self.index.wait_for_holders();
        let checkpointed = self.checkpoint();
        // Nor does anything leave; a thread that has a lock now may still evict, before it releases the lock.
        self.poisoned.store(true, Ordering::Release);
        self.index.wait_for_holders();
        // Another process may use the backings, too: no round writes to them after the one in progress.
        drop(self.begin_round());
        let volumes = self.volumes.read().unwrap_or_else(|e| e.into_inner());
        for volume in volumes.iter().flatten() {
            volume.zeroings.wait(0..u64::MAX);
        }
        // While the pool is still ours alone.
        let ended = match checkpointed {
            Ok(()) => end(),
            Err(_) => Ok(()),
        };
        let retired = self.media.members().iter().map(Region::retire);
        let retired = retired.fold(Ok(()), Result::and);
        checkpointed.and(ended).and(retired.map_err(Error::from))
    }

    /// Refuses a transaction that one commit could not hold.
    #[inline]
    pub(crate) fn check_transaction_bytes(&self, asked_bytes: u64) -> Result<()> {
        let limit_bytes = self.media.transaction_limit_bytes();
        if asked_bytes > limit_bytes {
            return Err(Error::TransactionTooLarge {
                asked_bytes,
                limit_bytes,
            });
        }
        Ok(())
    }

    /// A fence whose failure makes the pool refuse every later write.
    #[inline]
    pub(crate) fn fence(&self) -> Result<()> {
        self.media
            .fence()
            .inspect_err(|_| self.poisoned.store(true, Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn bucket(&self, key: Key) -> Bucket {
        self.index.bucket(key.hash())
    }

    /// Fails where the key's volume goes or is gone. The caller holds the stripe's lock.
    #[inline]
    pub(crate) fn attached(&self, key: Key) -> Result<()> {
        if !self.live.contains(key.volume()) {
            return Err(self.detached(key));
        }
        Ok(())
    }

    #[cold]
    fn detached(&self, key: Key) -> Error {
        if let Err(closed) = self.is_open() {
            return closed;
        }
        Error::Volume(format!(
            "{}: volume {} was detached; attach its backing again and use what that returns",
            self.path().display(),
            key.volume()
        ))
    }

    pub(crate) fn corrupt(&self, key: Key) -> Error {
        if let Err(closed) = self.is_open() {
            return closed;
        }
        Error::Corrupt {
            volume: key.volume(),
            block: key.block(),
        }
    }

    /// The key's entry number and entry. Exact under the stripe's lock; else to be validated.
    /// The caller looks at the entry's parity.
    #[inline]
    pub(crate) fn find(&self, bucket: Bucket, key: Key) -> Option<(u32, Entry)> {
        self.media
            .find_in_line(self.index.home(key.hash()), key)
            .or_else(|| self.find_in_chain(bucket, key))
    }

    /// Reads a whole block whose entry is at home and that no thread is changing: nearly every read
    /// of a cached block, in few instructions, so that the next one's loads start early. False
    /// only means that the caller has to take the slow path.
    #[inline]
    pub(crate) fn read_hit(&self, key: Key, out: &mut [u8], verify: bool) -> bool {
        let hash = key.hash();
        let stripe = self.index.bucket(hash).stripe;
        let Some(version) = self.index.try_read_begin(stripe) else {
            return false;
        };
        let Some((index, entry)) = self.media.find_in_line(self.index.home(hash), key) else {
            return false;
        };
        if !entry.is_plain() || !entry.parity_holds() {
            return false;
        }
        // Parity sees one flipped bit; several might still name a slot beyond the end.
        let Some(slot) = entry.slot().filter(|slot| *slot < self.media.slots()) else {
            return false;
        };
        if verify {
            if self.media.read_slot_crc(slot, out) != entry.crc() {
                return false;
            }
        } else {
            self.media.read_slot(slot, 0, out);
        }
        let stands =
            self.index.read_valid(stripe, version) || mutated(Mutant::ReadHitVersionIgnored);
        if self.media.slot_lost(slot) || !stands {
            return false;
        }
        self.replacement.on_hit(index);
        self.tallies.mine().read_hits(1);
        true
    }

    /// Fails where part of the table was lost. A caller that did not find a key asks this afterwards: lost
    /// entries read as free ones, and the backing may have an older block.
    #[inline]
    pub(crate) fn table_is_whole(&self) -> Result<()> {
        if self.media.table_lost() && !mutated(Mutant::LostTableForgotten) {
            return Err(self.lost_table());
        }
        Ok(())
    }

    #[cold]
    fn lost_table(&self) -> Error {
        if let Err(closed) = self.is_open() {
            return closed;
        }
        self.poisoned.store(true, Ordering::Relaxed);
        Error::Damaged {
            path: self.path(),
            found:
                "the medium lost part of the table of what is cached; nothing that is not found \
                    in the rest can be told from what is older on the backing"
                    .into(),
        }
    }

    /// Gives a private slot back that a failed commit did not use. Not once a fence has failed: a
    /// commit word may stand that tells recovery to look into this very slot.
    pub(crate) fn give_unused(&self, slot_cache: &SlotCache<'_>, slot: u32) {
        if self.writable().is_ok() || mutated(Mutant::SlotsGivenBackAfterFailedFence) {
            slot_cache.give(slot);
        }
    }

    fn find_in_chain(&self, bucket: Bucket, key: Key) -> Option<(u32, Entry)> {
        let mut found = Entry::FREE;
        let index = self.index.find(bucket, |candidate| {
            found = self.media.load_entry(candidate);
            // A damaged entry may be the one that is looked for: better an error than a miss.
            !found.is_free() && (found.key() == key || !found.parity_holds())
        })?;
        Some((index, found))
    }

    /// A free entry for the key.
    pub(crate) fn pop_free_entry(&self, key: Key) -> Option<u32> {
        self.index.pop_free(self.index.home(key.hash()))
    }

    /// Prefetches what a lookup of the key will touch.
    #[inline]
    pub(crate) fn prefetch(&self, bucket: Bucket, key: Key) {
        self.index.prefetch(bucket);
        self.media.prefetch_entry(self.index.home(key.hash()));
    }

    /// A consistent look at one key without a lock.
    pub(crate) fn peek(&self, bucket: Bucket, key: Key) -> (Version, Option<(u32, Entry)>) {
        loop {
            let version = self.index.read_begin(bucket.stripe);
            let found = self.find(bucket, key);
            if self.index.read_valid(bucket.stripe, version) {
                return (version, found);
            }
        }
    }

    #[inline]
    pub(crate) fn state(&self, index: u32) -> u8 {
        self.states[index as usize].load(Ordering::Relaxed)
    }
    #[inline]
    pub(crate) fn set_state(&self, index: u32, state: u8) {
        self.states[index as usize].store(state, Ordering::Relaxed);
    }

    /// The entry's line goes with the next checkpoint. Call it after the store: the locked
    /// operation orders the store before the checkpoint's look at the bit.
    #[inline]
    pub(crate) fn mark_table_line(&self, index: u32) {
        let line = index / 4;
        self.table_lines[line as usize / 64].fetch_or(1 << (line % 64), Ordering::AcqRel);
    }

    /// The entry's block differs from the backing; `was_cached` if it was there before. The caller
    /// holds the stripe's lock.
    #[inline]
    pub(crate) fn mark_dirty(&self, index: u32, was_cached: bool) {
        let state = self.state(index);
        let redirtied = if state & STATE_WRITING != 0 {
            STATE_REDIRTIED
        } else {
            0
        };
        // Not what has just come in: if everything were passed over once, the next look would come
        // too soon for what changes often.
        let second_chance = if was_cached { STATE_SECOND_CHANCE } else { 0 };
        self.set_state(index, state | STATE_DIRTY | second_chance | redirtied);
        if state & STATE_DIRTY == 0 {
            let before = self.dirty_count.fetch_add(1, Ordering::Relaxed);
            self.dirty.insert(index);
            self.wakeup.dirty_rose(before + 1);
        } else if state & STATE_HELD != 0 {
            self.tallies.mine().journal_overwritten(1);
        }
    }

    /// The entry's block no longer needs writing back. The caller holds the stripe's lock.
    pub(crate) fn unmark_dirty(&self, index: u32) {
        let state = self.state(index);
        if state & STATE_DIRTY != 0 {
            let gone = STATE_DIRTY | STATE_REDIRTIED | STATE_SECOND_CHANCE;
            self.set_state(index, state & !gone);
            let before = self.dirty_count.fetch_sub(1, Ordering::Relaxed);
            assert!(before > 0, "the dirty count matches the dirty states");
        }
    }

    /// Whether the entry may be followed: a flipped bit can name a slot beyond the media, or take
    /// the slot away so that the block would seem to be zeroes.
    #[inline]
    pub(crate) fn is_sound(&self, entry: Entry) -> bool {
        entry.parity_holds()
            && entry
                .slot()
                .is_none_or(|slot| slot < self.media.geometry.slots())
    }

    /// How many of the slot's bytes the entry's check covers; `None` if entry or trailer is damaged.
    pub(crate) fn valid_bytes(&self, entry: Entry) -> Option<usize> {
        if !self.is_sound(entry) {
            return None;
        }
        match (entry.kind(), entry.slot()) {
            (Kind::Data, Some(slot)) if entry.is_partial() => self.media.partial_len(slot),
            _ => Some(self.block_bytes()),
        }
    }

    /// Copies a block out, zeroes beyond its valid length; whether it matches its check.
    /// What was copied counts only if the stripe's version stands afterwards.
    #[inline]
    pub(crate) fn copy_out(&self, entry: Entry, verify: bool, out: &mut [u8]) -> bool {
        if !self.is_sound(entry) {
            return false;
        }
        let Some(slot) = entry.slot() else {
            out.fill(0);
            return true;
        };
        let is_good = if entry.is_packed() {
            self.media.read_packed(slot, out) && (!verify || self.media.crc(out) == entry.crc())
        } else if !entry.is_partial() {
            if verify {
                self.media.read_slot_crc(slot, out) == entry.crc()
            } else {
                self.media.read_slot(slot, 0, out);
                true
            }
        } else {
            let Some(valid) = self.media.partial_len(slot) else {
                return false;
            };
            out[valid..].fill(0);
            self.media.read_slot_crc(slot, &mut out[..valid]) == entry.crc()
        };
        // A page that the medium lost reads as zeroes; without checksums only this tells.
        is_good && !self.media.slot_lost(slot)
    }

    pub(crate) fn volume(&self, id: u32) -> Option<Arc<VolumeState>> {
        let volumes = self.volumes.read().unwrap_or_else(|e| e.into_inner());
        volumes
            .iter()
            .flatten()
            .find(|volume| volume.id == id)
            .cloned()
    }

    /// Bytes of DRAM in the structures that grow with the pool.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.index.dram_bytes()
            + self.slots.dram_bytes()
            + self.content.dram_bytes()
            + self.dirty.dram_bytes()
            + self.replacement.dram_bytes()
            + self.states.len() as u64
            + self.table_lines.len() as u64 * 8
    }
}
