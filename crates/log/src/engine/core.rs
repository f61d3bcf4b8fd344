//! The log and its state.

use super::group::{Contents, Group, InFlight};
use super::rescue::Rescue;
use super::turns::{Turn, Turns};
use super::volume_table::VolumeTable;
use crate::backing::Backing;
use crate::device::Device;
use crate::error::LogError;
use crate::media::{CleanPoints, Geometry, IncarnationLine};
use crate::page::PAGE_BYTES;
use crate::state::{
    LiveCounts, Patches, Pending, Progress, Recent, Repairs, Settled, Table, Versions, Zeroed,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

/// How a log is made and run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Groups whose writes may be under way at once, 1 to 4. More than one helps only where a flush is free.
    pub depth: u32,
    /// Whether a leader waits a moment for as many transactions as the last group had.
    pub gathers: bool,
    /// What secrets are made of; drawn from the system if none. For tests that repeat.
    pub seed: Option<u64>,
    /// Pages of a segment, for `create`; by the device's size if none.
    pub segment_pages: Option<u32>,
    /// Blocks of ranges of zeroes that a backing is to zero in one turn; a longer range is zeroed piece by piece. 64 MiB by default: a
    /// disk that has to be written with zeroes is done with that in a second or two. So many dirty blocks of a volume that is behind go in
    /// one turn, too.
    pub zeroed_at_once_blocks: u64,
    /// Whether `create` makes a pool whose records may have parts of blocks, which earlier versions do not open.
    pub has_inline: bool,
    /// Parts of blocks that may stand in records alone; by the pool's size if none. For tests.
    pub patches_max: Option<usize>,
    /// Whether the blocks that were written last are kept in memory for reads.
    pub keeps_recent: bool,
    /// Whether `create` makes a pool for tests; what is there says it when the pool is opened.
    pub is_test: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            depth: 1,
            gathers: true,
            seed: None,
            segment_pages: None,
            zeroed_at_once_blocks: (64 << 20) / PAGE_BYTES as u64,
            has_inline: true,
            patches_max: None,
            keeps_recent: true,
            is_test: false,
        }
    }
}

/// What the log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tallies {
    /// Groups published.
    pub groups: u64,
    /// Transactions published.
    pub commits: u64,
    /// Blocks published.
    pub blocks: u64,
    /// Leaders that waited for company.
    pub waits: u64,
    /// Blocks carried forward.
    pub carried: u64,
    /// Segments reused.
    pub recycled: u64,
}

/// The segment that groups go to.
pub(crate) struct Head {
    pub(crate) contents: Contents,
    /// Where the next group starts, once all are closed.
    pub(crate) cursor: u32,
}

impl Head {
    /// How many elements and kept pages the closed groups of its segment have.
    pub(crate) fn before(&self) -> (usize, usize) {
        (self.contents.elements.len(), self.contents.kept_pages)
    }
}

/// Everything that changes, under one lock that is never held over an I/O.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) zeroed: Zeroed,
    pub(crate) live: LiveCounts,
    pub(crate) versions: Versions,
    pub(crate) pending: Pending,
    pub(crate) patches: Patches,
    pub(crate) recent: Recent,
    /// The next element's.
    pub(crate) next_sequence: u64,
    pub(crate) next_group: u64,
    pub(crate) next_segment: u64,
    pub(crate) head: Option<Head>,
    /// Groups that are not being written yet; the last one may be open.
    pub(crate) queue: VecDeque<Group>,
    /// In the order of their numbers.
    pub(crate) flights: VecDeque<InFlight>,
    /// Segments below are gone, as the next record says.
    pub(crate) tail: u64,
    /// A segment that was the oldest one, and of which it was asked what holds it: what is in it goes elsewhere.
    pub(crate) emptied: Option<u64>,
    /// Which groups are durable, and the same as a durable record says: only these segments are written over.
    pub(crate) settled: Settled,
    /// Segments that stay free beside those that recycling needs.
    pub(crate) kept_back: u64,
    /// A rescue of several groups that has begun.
    pub(crate) rescue: Option<Rescue>,
    /// What has to be carried of the oldest segment had no room: nothing counts on the rest of the head.
    pub(crate) is_held_up: bool,
    pub(crate) points: CleanPoints,
    /// The points that a published record of the head, its header or a summary has.
    pub(crate) points_recorded: CleanPoints,
    /// Sequence of the last published element.
    pub(crate) published: u64,
    /// Why nothing is written any more.
    pub(crate) poisoned: Option<String>,
    /// A thread leads.
    pub(crate) is_led: bool,
    /// Transactions of the last group.
    pub(crate) last_company: usize,
    /// How long its write took.
    pub(crate) last_write: Duration,
    pub(crate) tallies: Tallies,
    pub(crate) progress: Progress,
}

/// A pool's log, open.
pub struct Log {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) uuid: u128,
    pub(crate) is_test: bool,
    /// Its records may have parts of blocks.
    pub(crate) has_inline: bool,
    pub(crate) geometry: Geometry,
    pub(crate) incarnation: IncarnationLine,
    pub(crate) options: Options,
    pub(crate) state: Mutex<State>,
    pub(crate) backings: RwLock<BTreeMap<u32, Arc<dyn Backing>>>,
    /// Held over a flush that settles groups: a thread that waits for it meanwhile has usually nothing left to do.
    pub(crate) flushing: Mutex<()>,
    /// Whose turn it is to write back or recycle.
    pub(crate) turns: Turns,
    /// Segments below were cleaned, but for what is behind. Changed in a turn alone, and read without one: a thread that waits for a turn
    /// makes a flush sync.
    pub(crate) cleaned: AtomicU64,
    /// A volume has got its backing since segments were cleaned: what was passed over without one can be written now.
    pub(crate) has_new_backing: AtomicBool,
    /// Of some ranges of zeroes only pieces were zeroed, to let others have their turns; the rest is for when nothing else is to be done.
    pub(crate) has_rest: AtomicBool,
    /// Pages that a member has wrong.
    pub(crate) repairs: Repairs,
    /// Held over the writes of a row.
    pub(crate) volumes: Mutex<VolumeTable>,
}

impl Log {
    /// One thread writes back or recycles at a time.
    pub(crate) fn maintain(&self) -> Turn<'_> {
        self.turns.take()
    }

    /// The same, if no other thread does or waits to.
    pub(crate) fn try_maintain(&self) -> Option<Turn<'_>> {
        self.turns.try_take()
    }

    /// Whether this thread writes back or recycles: then it must not wait for a thread that may wait for its turn.
    pub fn is_maintained_here(&self) -> bool {
        self.turns.is_mine()
    }

    /// The state. A thread that panicked with it may have left it half changed, so no other thread goes on.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a thread panicked in the log")
    }

    /// Names the backing of a volume; what is cached of it is written there, and what is not is read there.
    pub fn attach(&self, volume: u32, backing: Arc<dyn Backing>) {
        let mut backings = self
            .backings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        backings.insert(volume, backing);
        // Behind the backing, so that the thread that sees this finds that.
        self.has_new_backing.store(true, Ordering::Release);
    }

    /// Lets go of the backing of a volume.
    pub fn release_backing(&self, volume: u32) {
        let mut backings = self
            .backings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        backings.remove(&volume);
    }

    /// The backing of a volume.
    pub(crate) fn backing(&self, volume: u32) -> Option<Arc<dyn Backing>> {
        let backings = self.backings.read().unwrap_or_else(PoisonError::into_inner);
        backings.get(&volume).cloned()
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// What it has done.
    pub fn tallies(&self) -> Tallies {
        self.lock().tallies
    }

    /// Blocks that it holds.
    pub fn cached_blocks(&self) -> usize {
        self.lock().table.len()
    }

    /// Blocks that it can hold at most.
    pub fn blocks_max(&self) -> usize {
        self.geometry.blocks_max()
    }

    /// Bytes of memory that the blocks take at most that were written last.
    pub fn recent_bytes_max(&self) -> usize {
        self.lock().recent.bytes_max()
    }

    /// Most blocks of a transaction, and most elements.
    pub fn transaction_blocks_max(&self) -> usize {
        self.geometry.group_blocks_max()
    }

    /// Pages of a segment.
    pub fn segment_pages(&self) -> u32 {
        self.geometry.segment_pages
    }

    /// From now on a 64th of the segments, two at least, stay free beside what recycling needs. Before this is called these may be
    /// used: a ring that is full of what its backings do not take can be opened by a program that has to commit something before it
    /// knows where to put the rest.
    pub fn keep_back(&self) {
        self.lock().kept_back = u64::from(self.geometry.places / 64).max(2);
    }

    /// Segments that are kept back.
    pub fn kept_back(&self) -> u64 {
        self.lock().kept_back
    }

    /// Segments that may be written before one is recycled.
    pub fn free_segments(&self) -> u64 {
        self.lock().free_segments(self.geometry)
    }

    /// An error of the device.
    pub(crate) fn failed(&self, action: &'static str) -> impl FnOnce(std::io::Error) -> LogError {
        LogError::of_device(self.device.path(), action)
    }

    /// The error of a transaction that finds no room.
    pub(crate) fn no_room(&self) -> LogError {
        LogError::NoRoom {
            path: self.device.path().to_owned(),
        }
    }

    /// The error of a poisoned log.
    pub(crate) fn poisoned(&self, why: &str) -> LogError {
        LogError::Poisoned {
            path: self.device.path().to_owned(),
            why: why.to_owned(),
        }
    }
}
