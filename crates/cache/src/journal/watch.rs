//! Which journals are known, and when to look again: a block that decided what was found has changed.
//!
//! Only whoever does a round of write-back looks. Commits pay nothing for it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::{Content, Table, locate};
use crate::core::Core;
use crate::entry::Key;
use crate::sync::Ordering;
use crate::volume::VolumeState;

/// How often a pool with background threads looks again at a volume whose superblock keeps changing.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How often a file system whose journal could not be read is looked at again: its blocks come in any
/// order. Mounting it changes its superblock, so this need not go on for ever.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
const RETRIES_MAX: u32 = 8;
/// Looks at a block that keeps changing.
const READ_ATTEMPTS_MAX: u32 = 16;
/// A volume below this has no room for a journal of any kind.
const VOLUME_BYTES_MIN: u64 = 1 << 20;

/// A volume that has been looked at.
struct Watch {
    table: Table,
    size_bytes: u64,
    /// The blocks that decided it, and what the pool had of them.
    seen: Vec<(u64, Option<u64>)>,
    looked_at: Instant,
    retry_at: Option<Instant>,
    retries: u32,
}

/// What is known of the pool's volumes.
#[derive(Default)]
pub(crate) struct Watches {
    volumes: BTreeMap<u32, Watch>,
}

impl Watches {
    /// The journals of a volume.
    pub(super) fn table(&self, volume: u32) -> Option<&Table> {
        self.volumes.get(&volume).map(|watch| &watch.table)
    }

    pub(super) fn clear(&mut self) {
        self.volumes.clear();
    }
}

impl Core {
    /// Looks for journals on volumes that are new, or whose content says something else now. Reads a
    /// few blocks of these; where they cannot be read, there is no journal.
    pub(super) fn look_for_journals(&self, watches: &mut Watches) {
        let volumes: Vec<Arc<VolumeState>> = {
            let volumes = self.volumes.read().unwrap_or_else(PoisonError::into_inner);
            volumes.iter().flatten().cloned().collect()
        };
        let is_there = |id: &u32| volumes.iter().any(|volume| volume.id == *id);
        watches.volumes.retain(|id, _| is_there(id));
        for volume in volumes {
            let size_bytes = volume.size_bytes.load(Ordering::Relaxed);
            let is_reachable = volume.backing().is_ok() && !volume.health.is_degraded();
            if size_bytes < VOLUME_BYTES_MIN || !is_reachable {
                continue;
            }
            let known = watches.volumes.get(&volume.id);
            if known.is_none_or(|watch| self.is_outdated(&volume, size_bytes, watch)) {
                let retries = known.map_or(0, |watch| watch.retries);
                let watch = self.look_at_volume(&volume, size_bytes, retries);
                watches.volumes.insert(volume.id, watch);
            }
        }
        let blocks = watches.volumes.values().map(|watch| watch.table.blocks());
        self.write_back
            .held
            .journal_blocks
            .store(blocks.sum(), Ordering::Relaxed);
    }

    fn is_outdated(&self, volume: &VolumeState, size_bytes: u64, watch: &Watch) -> bool {
        if self.options.background && watch.looked_at.elapsed() < LOOK_INTERVAL {
            return false;
        }
        let is_retry_due = watch.retry_at.is_some_and(|at| at <= Instant::now());
        is_retry_due
            || size_bytes != watch.size_bytes
            || watch.seen.iter().any(|(block, before)| {
                // A block that left the pool is on the backing as it was.
                let now = self.seen(volume, *block);
                now.is_some() && now != *before
            })
    }

    /// What tells one content of a block from another, while the pool has it: its slot and its check.
    fn seen(&self, volume: &VolumeState, block: u64) -> Option<u64> {
        let key = Key::new(volume.id, block);
        let (_, found) = self.peek(self.place(key), key);
        found.map(|(_, entry)| entry.slot_half())
    }

    fn look_at_volume(&self, volume: &VolumeState, size_bytes: u64, retries: u32) -> Watch {
        let content = VolumeContent {
            core: self,
            volume,
            has_failed: Cell::new(false),
        };
        let block_bytes = self.block_bytes() as u64;
        // Before the look: what changes during it is seen to have changed.
        let mut seen = BTreeMap::new();
        let mut located = locate(&content);
        let block_of = |offset: &u64| offset / block_bytes;
        for _ in 0..2 {
            let watched = located.watched_offsets.iter();
            let watched = watched.filter(|offset| **offset < size_bytes).map(block_of);
            let known = seen.len();
            for block in watched {
                seen.entry(block)
                    .or_insert_with(|| self.seen(volume, block));
            }
            if seen.len() == known {
                break;
            }
            located = locate(&content);
        }
        let is_incomplete = located.is_incomplete || content.has_failed.get();
        let may_retry = is_incomplete && retries < RETRIES_MAX;
        Watch {
            table: Table::new(&located.journals, block_bytes),
            size_bytes,
            seen: seen.into_iter().collect(),
            looked_at: Instant::now(),
            retry_at: may_retry.then(|| Instant::now() + RETRY_INTERVAL),
            retries: if is_incomplete { retries + 1 } else { 0 },
        }
    }

    /// Reads a block as it stands, from the pool or its backing, and leaves no trace of that.
    fn read_in_passing(&self, volume: &VolumeState, block: u64, out: &mut [u8]) -> bool {
        let key = Key::new(volume.id, block);
        let place = self.place(key);
        for _ in 0..READ_ATTEMPTS_MAX {
            let (version, found) = self.peek(place, key);
            let is_good = match (found, volume.backing()) {
                (Some((_, entry)), _) => self.copy_out(entry, true, out),
                (None, Ok(backing)) => backing
                    .read_at(block * self.block_bytes() as u64, out)
                    .is_ok(),
                (None, Err(_)) => false,
            };
            if self.index.read_valid(place.stripe, version) {
                return is_good;
            }
        }
        false
    }
}

/// A volume as those who look for journals see it.
struct VolumeContent<'a> {
    core: &'a Core,
    volume: &'a VolumeState,
    has_failed: Cell<bool>,
}

impl Content for VolumeContent<'_> {
    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes.load(Ordering::Relaxed)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        let block_bytes = self.core.block_bytes();
        let mut buffer = vec![0; block_bytes];
        let (mut offset, mut rest) = (offset, out);
        while !rest.is_empty() {
            let within = (offset % block_bytes as u64) as usize;
            let block = offset / block_bytes as u64;
            if !self.core.read_in_passing(self.volume, block, &mut buffer) {
                self.has_failed.set(true);
                return false;
            }
            let count = rest.len().min(block_bytes - within);
            let (now, later) = rest.split_at_mut(count);
            now.copy_from_slice(&buffer[within..within + count]);
            offset += count as u64;
            rest = later;
        }
        true
    }
}
