//! Which journals are known, and when to look again: a block that decided what was found has changed.
//!
//! No writer waits for a scan: the checkpointer scans, or without background threads the caller of a
//! round, before it. What guests wrote decides how long a scan takes, so it is bounded: in reads of the
//! backing, in time, and in the share of the thread's time. Commits pay nothing for it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::content::{Limits, VolumeContent};
use super::state::{NO_VOLUME, Watch, Watches};
use crate::background::Pipeline;
use crate::background::volume_state::VolumeState;
use crate::media::entry::Key;
use crate::policy::journal::locate;
use crate::policy::journal::table::Table;
use crate::sync::{AtomicU64, Ordering};

/// How often a pool with background threads looks again at a volume whose superblock keeps changing.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How long it scans one volume at most, and for how long it begins scans of others.
const LOOK_TIME_MAX: Duration = Duration::from_millis(200);
/// The pause after a scan, as a multiple of the scan's time.
const REST_FACTOR: u32 = 9;
/// Blocks of the pool that one look reads from the backing.
const BACKING_READS_MAX: u32 = 512;
/// How often a file system whose journal could not be read is looked at again: its blocks come in any
/// order. Mounting it changes its superblock, so this need not go on for ever.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
const RETRIES_MAX: u32 = 8;
/// A volume below this has no room for a journal of any kind.
const VOLUME_BYTES_MIN: u64 = 1 << 20;
/// Says which volume is being looked at, until it is dropped.
struct Looking<'a>(&'a AtomicU64);

impl<'a> Looking<'a> {
    fn at(id: u32, looked_at: &'a AtomicU64) -> Looking<'a> {
        looked_at.store(id.into(), Ordering::SeqCst);
        Looking(looked_at)
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.store(NO_VOLUME, Ordering::SeqCst);
    }
}

impl Pipeline {
    /// Looks for journals on volumes that are new, or whose content says something else now, unless
    /// another thread is doing so. Reads a few blocks of these; where they cannot be read, there is
    /// no journal.
    pub(crate) fn look_for_journals(&self) {
        let journal = &self.write_back.journal;
        let Ok(mut watches) = journal.watches.try_lock() else {
            return;
        };
        if !journal.is_on() {
            if !watches.volumes.is_empty() {
                *watches = Watches::default();
                journal.publish(&watches);
            }
            return;
        }
        let started = Instant::now();
        let is_hurried = self.has_background();
        if is_hurried && watches.rest_until.is_some_and(|until| started < until) {
            return;
        }
        let before = watches.volumes.len();
        let outdated = self.outdated_volumes(&mut watches);
        let mut has_changed = watches.volumes.len() != before;
        for id in outdated {
            if is_hurried
                && (started.elapsed() >= LOOK_TIME_MAX || self.engine.wakeup().is_stopping())
            {
                break;
            }
            let limits = Limits {
                backing_reads: BACKING_READS_MAX,
                until: is_hurried.then(|| Instant::now() + LOOK_TIME_MAX),
            };
            let retries = watches.volumes.get(&id).map_or(0, |watch| watch.retries);
            if let Some(watch) = self.look_at(id, limits, retries) {
                watches.volumes.insert(id, watch);
                has_changed = true;
            }
        }
        if has_changed {
            journal.publish(&watches);
        }
        watches.rest_until = Some(Instant::now() + started.elapsed() * REST_FACTOR);
    }

    /// The volumes to look at, those first that were not for longest. Forgets those that are gone.
    fn outdated_volumes(&self, watches: &mut Watches) -> Vec<u32> {
        let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
        let volumes = volumes.iter().flatten();
        let is_there = |id: &u32| volumes.clone().any(|volume| volume.id == *id);
        watches.volumes.retain(|id, _| is_there(id));
        let mut outdated: Vec<(Option<Instant>, u32)> = volumes
            .filter(|volume| {
                let is_reachable = volume.backing().is_ok() && !volume.health.is_degraded();
                is_reachable && volume.size_bytes.load(Ordering::Relaxed) >= VOLUME_BYTES_MIN
            })
            .map(|volume| (watches.volumes.get(&volume.id), volume))
            .filter(|(known, volume)| known.is_none_or(|watch| self.is_outdated(volume, watch)))
            .map(|(known, volume)| (known.map(|watch| watch.looked_at), volume.id))
            .collect();
        outdated.sort_unstable();
        outdated.into_iter().map(|(_, id)| id).collect()
    }

    fn is_outdated(&self, volume: &VolumeState, watch: &Watch) -> bool {
        if self.has_background() && watch.looked_at.elapsed() < LOOK_INTERVAL {
            return false;
        }
        let is_retry_due = watch.retry_at.is_some_and(|at| at <= Instant::now());
        is_retry_due
            || volume.size_bytes.load(Ordering::Relaxed) != watch.size_bytes
            || watch.seen.iter().any(|(block, before)| {
                // A block that left the pool is on the backing as it was.
                let now = self.seen(volume, *block);
                now.is_some() && now != *before
            })
    }

    /// What tells one content of a block from another, while the pool has it: its slot and its check.
    fn seen(&self, volume: &VolumeState, block: u64) -> Option<u64> {
        let key = Key::new(volume.id, block);
        let (_, found) = self.table().peek(self.table().bucket(key), key);
        found.map(|(_, entry)| entry.slot_half())
    }

    /// `None` where the volume is gone.
    fn look_at(&self, id: u32, limits: Limits, retries: u32) -> Option<Watch> {
        // The backing is locked for as long as a thread holds it, so a detach must see that this one does.
        let _looking = Looking::at(id, &self.write_back.journal.looked_at);
        let volume = self.volume(id)?;
        let size_bytes = volume.size_bytes.load(Ordering::Relaxed);
        let looked_at = Instant::now();
        let content = VolumeContent::new(self, &volume, size_bytes, limits);
        let located = locate(&content);
        let (read, has_failed) = content.finish();
        let block_bytes = self.engine.block_bytes() as u64;
        let watched = located.watched_offsets.iter();
        let watched = watched.filter(|offset| **offset < size_bytes);
        // As they were before they were read: what changed during the look is seen to have changed.
        let seen: BTreeMap<u64, Option<u64>> = watched
            .map(|offset| offset / block_bytes)
            .map(|block| {
                let before = read.get(&block).copied();
                (block, before.unwrap_or_else(|| self.seen(&volume, block)))
            })
            .collect();
        let is_incomplete = located.is_incomplete || has_failed;
        let may_retry = is_incomplete && retries < RETRIES_MAX;
        Some(Watch {
            table: Arc::new(Table::new(&located.journals, block_bytes)),
            size_bytes,
            seen: seen.into_iter().collect(),
            looked_at,
            retry_at: may_retry.then(|| looked_at + RETRY_INTERVAL),
            retries: if is_incomplete { retries + 1 } else { 0 },
        })
    }
}
