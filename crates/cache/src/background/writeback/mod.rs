//! Write-back: dirty blocks go to their backing, and are clean only once it has them durably.
//!
//! A round takes dirty entries off their queue, sorts them by volume and block, copies each out
//! (exactly as published, and matching its check: a corrupt block never reaches the backing), merges
//! neighbours into long runs, writes, syncs, and marks clean what did not change meanwhile. In the
//! background, a block that changed lately gets a second chance first.
//!
//! What holds at every moment, under the lock of the entry's stripe: a dirty entry is in the queue,
//! or known to this module (in the backlog, in the round in progress, or deferred as a journal's, see
//! `journal`), or its fault domain is in trouble or not attached, and then it is put back into the
//! queue when that is due (`fault_domains`). One round writes at a time, and what it has claimed no other one claims until it is retired,
//! so a backing never has two writes of one block in flight. Where rounds are long, one may write while the one before is synced:
//! each is retired after its own sync, and one that wrote before a sync failed hears of that.

mod batch;
mod claim;
mod fault_domains;
mod merge;
mod pick;
mod state;
mod written;

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use crate::background::Pipeline;
use crate::background::journal::DeferredBlocks;
use crate::background::volume_state::VolumeState;
use crate::backing::{AlignedBuffer, Backing, FailedDomains, FaultDomain, WriteRun};
use crate::error::Result;
use crate::media::entry::{Entry, Key};
use crate::mutants::{Mutant, mutated};
use crate::policy::plan::{self, ROUND_BLOCKS};
use crate::sync::Ordering;
use crate::table::states::{STATE_DIRTY, STATE_REDIRTIED, STATE_WRITING};
use crate::table::word_set_queue::numbers;
pub(crate) use batch::WritebackBatch;
use fault_domains::RoundScope;
use merge::{Extent, InFlightBlock, extents};
use state::RoundState;
pub(crate) use state::WriteBack;
use written::WrittenGroup;

/// Bytes of a round in front of a backing that prefers long rounds; so much at once is copied out all the same.
const LONG_ROUND_BYTES_MAX: usize = 32 << 20;
/// Long rounds that a pool's slots make at least.
const LONG_ROUNDS_OF_A_POOL: usize = 16;
/// Background rounds that a pool's slots make at least: each lowers the dirty level by no more than
/// one of them.
const ROUNDS_OF_A_POOL: usize = 128;
/// Dirty entries taken off the queue and put in order at once. Many more than a round has: the
/// denser they lie on the disk, the more of them are neighbours.
const BACKLOG_BLOCKS: usize = 64 << 10;

impl Pipeline {
    /// One round; returns how many blocks are clean now.
    ///
    /// # Errors
    /// The first failure of a backing, or corrupt block; the rest was written all the same.
    pub(crate) fn write_back_once(&self) -> Result<usize> {
        let round = self.write_back_round();
        round.error.map_or(Ok(round.cleaned as usize), Err)
    }

    /// One round over the next blocks of those that have been dirty longest.
    pub(crate) fn write_back_round(&self) -> WritebackBatch {
        if !self.has_background() {
            // Otherwise a background thread does that.
            self.look_for_journals();
        }
        let mut round_state = self.write_back.lock_round();
        if round_state.backlog.is_empty() {
            self.retry_degraded();
            round_state.backlog = self.take_work(&mut round_state.deferred);
        }
        let batch = round_state.deferred.batch();
        let (indices, spared) = self.pick(&mut round_state.backlog);
        let rest = round_state.backlog.len();
        let started = Instant::now();
        let mut round = WritebackBatch::default();
        let written = self.write_round(&mut round_state, &indices, &RoundScope::Due, &mut round);
        // Waits until the round before is retired. Where rounds are long another one may write from then on.
        let mut sync = self.write_back.lock_sync();
        let kept = (!self.write_back.has_long_rounds()).then_some(round_state);
        self.retire_round(written, &mut round);
        let begun = sync.ended_at.map_or(started, |ended| ended.max(started));
        sync.ended_at = Some(Instant::now());
        drop(sync);
        self.measure(&round, begun);
        let failed = match self.has_background() {
            true => 0,
            // Each round asks every backing again.
            false => round.failed,
        };
        let mut round_state = kept.unwrap_or_else(|| self.write_back.lock_round());
        let stuck = round.corrupt + failed;
        let others_go = round_state.deferred.note_stuck(batch, stuck);
        round.more = rest > 0 || others_go || spared > 0;
        round
    }

    /// A background round tells how fast the backing is: it had it for itself since `begun`.
    fn measure(&self, round: &WritebackBatch, begun: Instant) {
        if round.progressed() {
            let written = round.cleaned + round.redirtied;
            self.engine.wakeup().pace.measure(written, begun.elapsed());
        }
    }

    /// Writes back everything that is dirty in a volume when this is called, degraded or not.
    ///
    /// # Errors
    /// The backing's, or the first corrupt block; the rest was written all the same.
    pub(crate) fn flush_volume(&self, volume: &VolumeState) -> Result<()> {
        self.flush_volume_watched(volume, &mut |_| Ok(()))
    }

    /// The same. `watch` is told before each round, and at the end, how many blocks are left; its error
    /// ends the work.
    pub(crate) fn flush_volume_watched(
        &self,
        volume: &VolumeState,
        watch: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let dirty = self.table().dirty_entries(volume.id).collect();
        self.flush_entries(volume, dirty, watch)
    }

    /// Writes back those of the entries that are dirty and the volume's.
    ///
    /// # Errors
    /// As `flush_volume_watched`.
    pub(crate) fn flush_entries(
        &self,
        volume: &VolumeState,
        mut dirty: Vec<u32>,
        watch: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        // Cached: an entry may get another key while the sort is at it.
        dirty.sort_by_cached_key(|index| self.table().entries().load(*index).key());
        let mut failure = None;
        let mut failed = BTreeSet::new();
        let mut left = dirty.len();
        for chunk in dirty.chunks(self.whole_round_blocks()) {
            watch(left)?;
            left -= chunk.len();
            let mut round_state = self.begin_round();
            let round = self.round(
                &mut round_state,
                chunk,
                &RoundScope::Only(volume.id, &failed),
            );
            failure = failure.or(round.error);
            failed.extend(round.failed_domains);
        }
        // Dirty blocks whose entries the medium lost were not seen above.
        self.engine.check_table_whole()?;
        failure.map_or_else(|| watch(left), Err)
    }

    /// Releases held blocks that need not be held any more, unless a round is at work, which does so
    /// itself.
    pub(crate) fn release_undeferred(&self) {
        if let Ok(mut round_state) = self.write_back.round_state.try_lock() {
            self.prepare_deferred(&mut round_state.deferred);
        }
    }

    /// One round at a time: a thread that begins one waits for those in progress.
    pub(crate) fn begin_round(&self) -> MutexGuard<'_, RoundState> {
        let round_state = self.write_back.lock_round();
        // No other one comes to its sync while the state is locked.
        drop(self.write_back.lock_sync());
        round_state
    }

    /// Blocks that are copied out at once, at most: those of a round, unless rounds are long.
    pub(crate) fn round_blocks(&self) -> usize {
        plan::round_blocks(self.engine.block_bytes())
    }

    /// Blocks of a background round: fewer in front of a slow backing, so that the dirty level
    /// moves in small steps.
    fn steady_round_blocks(&self) -> usize {
        if !self.has_background() {
            return self.round_blocks();
        }
        let pace = &self.engine.wakeup().pace;
        let in_a_tenth = match pace.is_measured() || pace.limit().is_some() {
            true => (pace.blocks_per_s() / 10) as usize,
            // Short: writers wait until the backing's speed is known.
            false => *ROUND_BLOCKS.start(),
        };
        let at_least = match pace.limit() {
            Some(_) => 1,
            None => *ROUND_BLOCKS.start(),
        };
        // A small pool has small steps, too.
        let rounds = match self.write_back.has_long_rounds() {
            true => LONG_ROUNDS_OF_A_POOL,
            false => ROUNDS_OF_A_POOL,
        };
        let share = (self.media().geometry.room() as usize / rounds).max(at_least);
        in_a_tenth.clamp(at_least, self.whole_round_blocks().min(share))
    }

    /// Blocks of a round at most that are made clean with one sync.
    fn whole_round_blocks(&self) -> usize {
        match self.write_back.has_long_rounds() {
            true => self
                .round_blocks()
                .max(LONG_ROUND_BYTES_MAX / self.engine.block_bytes()),
            false => self.round_blocks(),
        }
    }

    /// Work for some rounds in the order of volumes and blocks, last first: entries off the queue, and
    /// if there are none but stuck ones, as many of those that are deferred as have to go.
    fn take_work(&self, deferred: &mut DeferredBlocks) -> Vec<u32> {
        self.prepare_deferred(deferred);
        let mut taken = self.take_dirty(deferred);
        let (stuck, queued) = (deferred.begin_batch(), taken.len() as u64);
        let due = self.journal_blocks_due();
        if queued <= stuck && due > 0 {
            // Stuck ones that are not in the queue are held, and go first.
            taken.extend(self.take_deferred(deferred, due + stuck - queued));
        }
        taken.sort_unstable_by(|one, other| other.cmp(one));
        taken.into_iter().map(|(_, index)| index).collect()
    }

    /// How many blocks that are deferred have to go now, if nothing else is dirty: down to the low
    /// watermark, or as many as writers wait for, but not a few at a time.
    fn journal_blocks_due(&self) -> u64 {
        let at_least = *ROUND_BLOCKS.start() as u64;
        if !self.has_background() {
            // A caller asked for a round.
            return at_least;
        }
        let dirty = self.table().states().dirty_count();
        let above = dirty.saturating_sub(self.engine.wakeup().pace.low());
        let is_waited_for = self.write_back.throttled_writers.load(Ordering::Relaxed) > 0;
        if above == 0 && !is_waited_for {
            return 0;
        }
        above.clamp(
            at_least,
            self.steady_round_blocks().max(at_least as usize) as u64,
        )
    }

    /// Takes dirty entries off the queue, and sets those aside that are deferred.
    fn take_dirty(&self, deferred: &mut DeferredBlocks) -> Vec<(Key, u32)> {
        let mut taken: Vec<(Key, u32)> = Vec::new();
        while taken.len() < BACKLOG_BLOCKS {
            let Some((word, bits)) = self.table().states().take_dirty() else {
                break;
            };
            let keyed = |index| (self.table().entries().load(index).key(), index);
            // Discarded or flushed ones are no work.
            let is_dirty = |index: &u32| self.table().state(*index) & STATE_DIRTY != 0;
            let keyed = numbers(word, bits).filter(is_dirty).map(keyed);
            taken.extend(keyed.filter(|(key, index)| !self.defer(deferred, *key, *index)));
        }
        taken
    }

    /// The round itself; blocks that it is not to serve are dropped here and announced again when their fault domain is due.
    fn round(
        &self,
        round_state: &mut RoundState,
        indices: &[u32],
        serving: &RoundScope<'_>,
    ) -> WritebackBatch {
        let mut round = WritebackBatch::default();
        let written = self.write_round(round_state, indices, serving, &mut round);
        self.retire_round(written, &mut round);
        round
    }

    /// Writes a round volume by volume. Returns what is still to be synced, of the last one; those before it are retired.
    fn write_round(
        &self,
        round_state: &mut RoundState,
        indices: &[u32],
        serving: &RoundScope<'_>,
        round: &mut WritebackBatch,
    ) -> Option<WrittenGroup> {
        if let Err(closed) = self.engine.check_open() {
            round.note(closed);
            return None;
        }
        // Keys may change until they are claimed; that is looked at again then.
        let mut sorted: Vec<(Key, u32)> = indices
            .iter()
            .map(|index| (self.table().entries().load(*index), *index))
            .filter(|(entry, index)| {
                !entry.is_free() && self.table().state(*index) & STATE_DIRTY != 0
            })
            .map(|(entry, index)| (entry.key(), index))
            .collect();
        sorted.sort_unstable();
        let mut written = None;
        for group in sorted.chunk_by(|one, next| one.0.volume() == next.0.volume()) {
            if let Some(before) = written.take() {
                self.retire(before, round);
            }
            let Some(volume) = self.volume(group[0].0.volume()) else {
                continue;
            };
            if let Some(served) = self.served(&volume, group, serving) {
                written = self.write_group(round_state, &volume, &served, round);
            }
        }
        written
    }

    /// Syncs what was written last, and ends the round.
    fn retire_round(&self, written: Option<WrittenGroup>, round: &mut WritebackBatch) {
        if let Some(written) = written {
            self.retire(written, round);
        }
        if round.progressed() {
            self.engine.wakeup().notify_space();
        }
    }

    /// Copies out and writes the blocks of one volume.
    fn write_group(
        &self,
        round_state: &mut RoundState,
        volume: &Arc<VolumeState>,
        group: &[(Key, u32)],
        round: &mut WritebackBatch,
    ) -> Option<WrittenGroup> {
        let backing = match volume.backing() {
            Ok(backing) => backing,
            Err(error) => {
                // Not attached: asked again like a backing that fails.
                volume.health.not_there();
                round.failed += group.len() as u64;
                round.failed_domains.insert(FaultDomain::default());
                round.note(error);
                return None;
            }
        };
        let buffer = round_state.buffer.get_or_insert_with(|| {
            AlignedBuffer::new(self.round_blocks() * self.engine.block_bytes())
        });
        let mut in_flight: Vec<InFlightBlock> = Vec::with_capacity(group.len());
        let epoch = match self.write_back.has_long_rounds() {
            true => volume.health.sync_epoch_beside(),
            false => volume.health.sync_epoch(),
        };
        let syncs_ended = self.write_back.syncs_ended();
        let mut failed = FailedDomains::new();
        for some in group.chunks(self.round_blocks()) {
            let first = in_flight.len();
            // What is not claimed is announced again with the rest of its domain.
            let goes =
                |(key, _): &&(Key, u32)| !failed.contains_key(&self.domain_of(backing, *key));
            let going: Vec<(Key, u32)> = some.iter().filter(goes).copied().collect();
            round.failed += (some.len() - going.len()) as u64;
            self.claim_all(volume, &going, backing, buffer, &mut in_flight, round);
            let claimed = &in_flight[first..];
            if mutated(Mutant::CleanBeforeSync) {
                self.finish(claimed, &FailedDomains::new(), round);
            }
            self.write_back.note_writing(claimed.len());
            for (domain, error) in self.write_extents(backing, claimed, buffer) {
                failed.entry(domain).or_insert(error);
            }
        }
        if in_flight.is_empty() || mutated(Mutant::CleanBeforeSync) {
            self.write_back.note_written(in_flight.len());
            return None;
        }
        let deferred = &round_state.deferred;
        let is_journal = |block: &&InFlightBlock| self.is_journal(deferred, block.key);
        let journal = in_flight.iter().filter(is_journal);
        Some(WrittenGroup {
            volume: Arc::clone(volume),
            journal: journal.map(|block| block.domain).collect(),
            in_flight,
            failed,
            epoch,
            syncs_ended,
        })
    }

    /// Syncs what was written, and marks clean what is durable.
    fn retire(&self, written: WrittenGroup, round: &mut WritebackBatch) {
        let WrittenGroup {
            volume,
            in_flight,
            mut failed,
            journal,
            epoch,
            syncs_ended,
        } = written;
        let goes = |block: &InFlightBlock| !failed.contains_key(&block.domain);
        let is_synced_by_another =
            mutated(Mutant::RetiredByAnotherSync) && self.write_back.syncs_ended() != syncs_ended;
        if let Ok(backing) = volume.backing()
            && in_flight.iter().any(goes)
            && !is_synced_by_another
        {
            // This sync must report what other threads do meanwhile to what was written.
            crate::sync::look_hint();
            // One sync for all of it, in which the first blocks may well be on their way already.
            for (domain, error) in volume.health.sync_since(epoch, backing) {
                failed.entry(domain).or_insert(error);
            }
            self.write_back.note_synced();
        }
        self.finish(&in_flight, &failed, round);
        self.write_back.note_written(in_flight.len());
        let is_written = |domain: &&FaultDomain| !failed.contains_key(*domain);
        let journal = journal.iter().filter(is_written).count();
        self.engine.tallies().mine().journal_written(journal as u64);
        self.note_health(&volume, &in_flight, failed, round);
    }

    /// Writes what was copied out; returns the domains that failed.
    fn write_extents(
        &self,
        backing: &Backing,
        in_flight: &[InFlightBlock],
        buffer: &[u8],
    ) -> FailedDomains {
        let block_bytes = self.engine.block_bytes();
        let extents = extents(in_flight, plan::run_blocks(block_bytes));
        let offset = |extent: &Extent| in_flight[extent.first].key.block() * block_bytes as u64;
        let data = || extents.iter().filter(|extent| !extent.zero);
        let runs: Vec<WriteRun<'_>> = data()
            .map(|extent| WriteRun {
                offset: offset(extent),
                bytes: &buffer[extent.first * block_bytes..][..extent.count * block_bytes],
            })
            .collect();
        self.engine
            .tallies()
            .mine()
            .write_back_runs(runs.len() as u64);
        let mut failed = FailedDomains::new();
        let results = match runs.is_empty() {
            true => Vec::new(),
            false => backing.write_runs(&runs),
        };
        for (extent, result) in data().zip(results) {
            if let Err(error) = result {
                failed
                    .entry(in_flight[extent.first].domain)
                    .or_insert(error);
            }
        }
        for extent in extents.iter().filter(|extent| extent.zero) {
            let domain = in_flight[extent.first].domain;
            let len_bytes = (extent.count * block_bytes) as u64;
            if !failed.contains_key(&domain)
                && let Err(error) = backing.zero_range(offset(extent), len_bytes)
            {
                failed.insert(domain, error);
            }
        }
        failed
    }

    /// Marks clean what is durable behind the cache, in domains that did not fail, and did not change; the
    /// rest is dirty as before.
    fn finish(
        &self,
        in_flight: &[InFlightBlock],
        failed: &FailedDomains,
        round: &mut WritebackBatch,
    ) {
        for block in in_flight {
            let InFlightBlock {
                index,
                key,
                entry,
                domain,
            } = *block;
            let bucket = self.table().bucket(key);
            self.table().index().lock(bucket.stripe);
            let state = self.table().state(index);
            let changed = state & STATE_REDIRTIED != 0 && !mutated(Mutant::CleanIgnoresRedirty);
            self.table()
                .set_state(index, state & !(STATE_WRITING | STATE_REDIRTIED));
            if failed.contains_key(&domain) {
                round.failed += 1;
            } else if changed {
                round.redirtied += 1;
                self.table().states().announce(index);
            } else {
                round.cleaned += 1;
                self.mark_clean(index, entry);
            }
            self.table().index().unlock(bucket.stripe);
        }
        self.engine.tallies().mine().write_backs(round.cleaned);
    }

    /// The backing has this very version. The caller holds the stripe's lock.
    fn mark_clean(&self, index: u32, entry: Entry) {
        let now = self.table().entries().load(index);
        if now != entry && self.media().table_lost() {
            // Lost meanwhile: no lookup finds the block any more, and it counts as dirty for good.
            return;
        }
        assert!(
            now == entry || mutated(Mutant::CleanIgnoresRedirty),
            "an entry that changed during write-back is marked so: {entry:?}, now {now:?}"
        );
        let written = match mutated(Mutant::CleanIgnoresRedirty) {
            true => self.media().sound(now).unwrap_or(entry),
            false => entry,
        };
        self.table().mark_clean(index, written);
    }
}
