//! Counts of what was persisted: exact, and cheap enough to leave on.
//!
//! A live thread has a small number of its own, recycled when it ends. Up to
//! [`EXCLUSIVE_SHARDS`] threads have a shard of each region to themselves and add to it with plain
//! loads and stores; any others share one and use locked additions.

use std::cell::Cell;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::LocalKey;

use crate::LINE_BYTES;

/// Threads that count without locked instructions; more than a server runs, 16 KiB a region.
const EXCLUSIVE_SHARDS: usize = 127;

/// What was persisted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Counters {
    /// Cache lines flushed after cached stores.
    pub lines_flushed: u64,
    /// Cache lines written with non-temporal stores.
    pub lines_streamed: u64,
    /// Fences, failed ones included.
    pub fences: u64,
    /// Bytes persisted: 64 for each line flushed or streamed.
    pub bytes: u64,
}

impl Counters {
    fn new(lines_flushed: u64, lines_streamed: u64, fences: u64) -> Counters {
        Counters {
            lines_flushed,
            lines_streamed,
            fences,
            bytes: LINE_BYTES as u64 * (lines_flushed + lines_streamed),
        }
    }

    /// Cache lines persisted, flushed or streamed.
    pub fn lines(&self) -> u64 {
        self.lines_flushed + self.lines_streamed
    }
}

impl Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        Counters {
            lines_flushed: self.lines_flushed + other.lines_flushed,
            lines_streamed: self.lines_streamed + other.lines_streamed,
            fences: self.fences + other.fences,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        *self = *self + other;
    }
}

impl Sub for Counters {
    type Output = Counters;

    fn sub(self, other: Counters) -> Counters {
        Counters {
            lines_flushed: self.lines_flushed - other.lines_flushed,
            lines_streamed: self.lines_streamed - other.lines_streamed,
            fences: self.fences - other.fences,
            bytes: self.bytes - other.bytes,
        }
    }
}

impl Sum for Counters {
    fn sum<I: Iterator<Item = Counters>>(counters: I) -> Counters {
        counters.fold(Counters::default(), Add::add)
    }
}

/// What to count; also the index of its cell.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    LinesFlushed = 0,
    LinesStreamed = 1,
    Fences = 2,
}

/// Two lines, since processors fetch them in pairs: threads do not pull it from each other.
#[repr(align(128))]
#[derive(Default)]
struct Shard([AtomicU64; 3]);

/// Shards that a table of per-thread counts needs: see [`thread_shard`].
pub const THREAD_SHARDS: usize = EXCLUSIVE_SHARDS + 1;

/// This thread's shard in tables of [`THREAD_SHARDS`] entries, and whether it has it to itself, so
/// that plain loads and stores do. The last shard is shared.
#[inline(always)]
pub fn thread_shard() -> (usize, bool) {
    let shard = SHARD.get();
    if shard < EXCLUSIVE_SHARDS {
        return (shard, true);
    }
    first_or_shared_shard()
}

#[cold]
fn first_or_shared_shard() -> (usize, bool) {
    let shard = match SHARD.get() {
        UNASSIGNED => assign_shard(),
        shard => shard,
    };
    (shard, shard < EXCLUSIVE_SHARDS)
}

/// The counters of one region.
pub(crate) struct ShardedCounters {
    /// The last shard is the shared one.
    shards: Box<[Shard; EXCLUSIVE_SHARDS + 1]>,
}

impl ShardedCounters {
    pub(crate) fn new() -> ShardedCounters {
        ShardedCounters {
            shards: Box::new(std::array::from_fn(|_| Shard::default())),
        }
    }

    #[inline(always)]
    pub(crate) fn add(&self, event: Event, count: u64) {
        event.total().with(|total| total.set(total.get() + count));
        let shard = SHARD.get();
        if shard < EXCLUSIVE_SHARDS {
            let cell = &self.shards[shard].0[event as usize];
            cell.store(cell.load(Ordering::Relaxed) + count, Ordering::Relaxed);
        } else {
            self.add_to_first_or_shared(event, count);
        }
    }

    #[cold]
    fn add_to_first_or_shared(&self, event: Event, count: u64) {
        let (shard, _) = first_or_shared_shard();
        self.shards[shard].0[event as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self) -> Counters {
        let total = |event: Event| -> u64 {
            self.shards
                .iter()
                .map(|shard| shard.0[event as usize].load(Ordering::Relaxed))
                .sum()
        };
        Counters::new(
            total(Event::LinesFlushed),
            total(Event::LinesStreamed),
            total(Event::Fences),
        )
    }
}

/// What this thread has persisted so far, in all regions together.
pub fn thread_counters() -> Counters {
    Counters::new(FLUSHED.get(), STREAMED.get(), FENCES.get())
}

const UNASSIGNED: usize = usize::MAX;

thread_local! {
    // Nothing to drop, hence no registration on the way to them, and usable until the thread's end. One
    // each: what is read of them needs no closure.
    static SHARD: Cell<usize> = const { Cell::new(UNASSIGNED) };
    static FLUSHED: Cell<u64> = const { Cell::new(0) };
    static STREAMED: Cell<u64> = const { Cell::new(0) };
    static FENCES: Cell<u64> = const { Cell::new(0) };
    static SHARD_GUARD: ShardGuard = const { ShardGuard };
}

impl Event {
    #[inline(always)]
    fn total(self) -> &'static LocalKey<Cell<u64>> {
        match self {
            Event::LinesFlushed => &FLUSHED,
            Event::LinesStreamed => &STREAMED,
            Event::Fences => &FENCES,
        }
    }
}

/// Shard numbers given back by threads that ended, and the first never given out.
struct FreeShards {
    returned: Vec<usize>,
    next: usize,
}

static FREE_SHARDS: Mutex<FreeShards> = Mutex::new(FreeShards {
    returned: Vec::new(),
    next: 0,
});

fn assign_shard() -> usize {
    // A thread whose destructors have run cannot give a number back: it counts in the shared shard.
    let is_alive = SHARD_GUARD.try_with(|_| ()).is_ok();
    let mut shard = EXCLUSIVE_SHARDS;
    if is_alive {
        let mut free = FREE_SHARDS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(returned) = free.returned.pop() {
            shard = returned;
        } else if free.next < EXCLUSIVE_SHARDS {
            shard = free.next;
            free.next += 1;
        }
    }
    SHARD.set(shard);
    shard
}

/// Gives the thread's number back when the thread ends. The lock orders this thread's last
/// addition before the next owner's first.
struct ShardGuard;

impl Drop for ShardGuard {
    fn drop(&mut self) {
        let shard = SHARD.replace(EXCLUSIVE_SHARDS);
        if shard < EXCLUSIVE_SHARDS {
            let mut free = FREE_SHARDS.lock().unwrap_or_else(PoisonError::into_inner);
            free.returned.push(shard);
        }
    }
}
