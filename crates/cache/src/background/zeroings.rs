//! Ranges that a bulk discard zeroes behind the cache and that no sync has made durable yet.
//!
//! A crash may take such zeroes back, so nothing is brought in from there: a clean block would stand
//! on them (I7). After a failed sync the backing's content is unknown; the range stays listed until
//! a later discard of it succeeds, or the volume is attached anew, which drops what the system keeps in
//! memory of the backing, and lists what stays there.
//!
//! The blocks that the backing zeroes at a moment are *under way*. No lock is held meanwhile, so a block
//! may be written into the pool. Its write-back waits, or the zeroes could come after it; so does
//! a thread that reads it from the backing to change part of it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sync::{AtomicUsize, Ordering};

/// Failed ranges that are kept apart; beyond that the nearest ones are joined.
const FAILED_MAX: usize = 64;

/// Blocks that the backing is zeroing at this moment.
struct UnderWay {
    number: u64,
    blocks: Range<u64>,
    /// Held by the thread that zeroes them.
    turn: Arc<Mutex<()>>,
}

struct Zeroing {
    number: u64,
    blocks: Range<u64>,
    has_failed: bool,
}

#[derive(Default)]
struct List {
    begun: u64,
    zeroings: Vec<Zeroing>,
    under_way: Vec<UnderWay>,
}

/// The ranges of one volume.
#[derive(Default)]
pub(crate) struct Zeroings {
    /// As many as are listed, so that readers need not lock where there are none.
    count: AtomicUsize,
    /// As many as are under way.
    under_way_count: AtomicUsize,
    list: Mutex<List>,
}

impl Zeroings {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called before anything of the range is zeroed; the number goes to [`Zeroings::end`].
    pub(crate) fn begin(&self, blocks: Range<u64>) -> u64 {
        let mut list = self.lock();
        list.begun += 1;
        let number = list.begun;
        list.zeroings.push(Zeroing {
            number,
            blocks,
            has_failed: false,
        });
        self.count.store(list.zeroings.len(), Ordering::SeqCst);
        number
    }

    /// The zeroing is over: the whole range is durable, or its state is unknown.
    pub(crate) fn end(&self, number: u64, is_durable: bool) {
        let mut list = self.lock();
        let at = list.zeroings.iter().position(|one| one.number == number);
        let ended = list.zeroings.swap_remove(at.expect("it has begun"));
        if is_durable {
            // No sync failed since it began, so what it covers failed before, and is mended.
            list.zeroings
                .retain(|one| !(one.has_failed && covers(&ended.blocks, &one.blocks)));
        } else {
            list.zeroings.push(Zeroing {
                has_failed: true,
                ..ended
            });
            merge_failed(&mut list.zeroings);
        }
        self.count.store(list.zeroings.len(), Ordering::SeqCst);
    }

    /// Lists a range whose content on the medium is unknown.
    pub(crate) fn distrust(&self, blocks: Range<u64>) {
        let number = self.begin(blocks);
        self.end(number, false);
    }

    /// Runs `work`, which has the backing zero the blocks, with no lock held that others could spin for:
    /// a thread that would write them to the backing, or build on what it has of them, waits for its end
    /// ([`Zeroings::wait`]).
    pub(crate) fn zero<T>(&self, blocks: Range<u64>, work: impl FnOnce() -> T) -> T {
        let turn = Arc::new(Mutex::new(()));
        // No other thread knows of it yet.
        let _ours = forebay_pmem::lock_or_yield(&turn);
        let _listed = self.list_under_way(blocks, &turn);
        work()
    }

    fn list_under_way(&self, blocks: Range<u64>, turn: &Arc<Mutex<()>>) -> Listed<'_> {
        let mut list = self.lock();
        list.begun += 1;
        let number = list.begun;
        list.under_way.push(UnderWay {
            number,
            blocks,
            turn: turn.clone(),
        });
        self.under_way_count
            .store(list.under_way.len(), Ordering::SeqCst);
        Listed {
            zeroings: self,
            number,
        }
    }

    /// Whether a block is being zeroed behind the cache now.
    pub(crate) fn is_under_way(&self, block: u64) -> bool {
        self.turn_of(&(block..block + 1)).is_some()
    }

    /// Whether one of the blocks is.
    pub(crate) fn is_any_under_way(&self, blocks: &Range<u64>) -> bool {
        self.turn_of(blocks).is_some()
    }

    fn turn_of(&self, blocks: &Range<u64>) -> Option<Arc<Mutex<()>>> {
        if self.under_way_count.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let list = self.lock();
        let mut listed = list.under_way.iter();
        let met = listed.find(|one| meet(&one.blocks, blocks))?;
        Some(met.turn.clone())
    }

    /// Waits until none of the blocks is being zeroed; whether it had to. The caller holds no lock.
    pub(crate) fn wait(&self, blocks: Range<u64>) -> bool {
        let mut has_waited = false;
        while let Some(turn) = self.turn_of(&blocks) {
            drop(forebay_pmem::lock_or_yield(&turn));
            has_waited = true;
        }
        has_waited
    }

    /// Whether what the backing has of a block will still be there after a crash.
    pub(crate) fn is_settled(&self, block: u64) -> bool {
        self.count.load(Ordering::SeqCst) == 0
            || !self
                .lock()
                .zeroings
                .iter()
                .any(|one| one.blocks.contains(&block))
    }
}

/// A range that is under way, until this is dropped.
struct Listed<'a> {
    zeroings: &'a Zeroings,
    number: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        let mut list = self.zeroings.lock();
        list.under_way.retain(|one| one.number != self.number);
        let count = &self.zeroings.under_way_count;
        count.store(list.under_way.len(), Ordering::SeqCst);
    }
}

fn meet(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn covers(outer: &Range<u64>, inner: &Range<u64>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Joins the nearest of the failed ranges until they are few. What lies between two that are joined is not
/// filled either, so it is to be little.
fn merge_failed(zeroings: &mut Vec<Zeroing>) {
    let (mut failed, others): (Vec<_>, Vec<_>) = zeroings.drain(..).partition(|one| one.has_failed);
    failed.sort_unstable_by_key(|one| one.blocks.start);
    while failed.len() > FAILED_MAX {
        let gap = |pair: &[Zeroing]| pair[1].blocks.start.saturating_sub(pair[0].blocks.end);
        let nearest = (1..failed.len()).min_by_key(|at| gap(&failed[at - 1..=*at]));
        let nearest = nearest.expect("there are two");
        let joined = failed.remove(nearest);
        let before = &mut failed[nearest - 1].blocks;
        before.end = before.end.max(joined.blocks.end);
    }
    *zeroings = others;
    zeroings.append(&mut failed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_unsettled_until_it_is_durable() {
        let zeroings = Zeroings::default();
        let number = zeroings.begin(10..20);
        assert!(!zeroings.is_settled(10) && !zeroings.is_settled(19));
        assert!(zeroings.is_settled(9) && zeroings.is_settled(20));
        zeroings.end(number, true);
        assert!(zeroings.is_settled(10));
    }

    #[test]
    fn a_failed_range_waits_for_a_later_one_that_covers_it() {
        let zeroings = Zeroings::default();
        let failed = zeroings.begin(10..20);
        zeroings.end(failed, false);
        let under_way = zeroings.begin(10..20);
        let part = zeroings.begin(10..15);
        zeroings.end(part, true);
        assert!(!zeroings.is_settled(12));
        let whole = zeroings.begin(0..20);
        zeroings.end(whole, true);
        assert!(!zeroings.is_settled(12), "one is still under way");
        zeroings.end(under_way, true);
        assert!(zeroings.is_settled(12));
    }

    #[test]
    fn many_failed_ranges_turned_fills_off_for_all_that_lies_between_them() {
        let zeroings = Zeroings::default();
        let failed: Vec<u64> = (0..100).map(|number| number * 10).collect();
        for block in [1 << 20, 1 << 30].into_iter().chain(failed.iter().copied()) {
            zeroings.distrust(block..block + 1);
        }
        assert!(zeroings.lock().zeroings.len() <= FAILED_MAX);
        assert!(failed.iter().all(|block| !zeroings.is_settled(*block)));
        assert!(!zeroings.is_settled(1 << 20) && !zeroings.is_settled(1 << 30));
        assert!(zeroings.is_settled(1 << 19) && zeroings.is_settled(1 << 29));
    }

    #[test]
    fn failed_ranges_are_few_however_many_fail() {
        let zeroings = Zeroings::default();
        for number in 0..1000 {
            let zeroing = zeroings.begin(number * 10..number * 10 + 1);
            zeroings.end(zeroing, false);
        }
        assert!(zeroings.lock().zeroings.len() <= FAILED_MAX + 1);
        assert!((0..1000).all(|number| !zeroings.is_settled(number * 10)));
        let all = zeroings.begin(0..10_000);
        zeroings.end(all, true);
        assert!(zeroings.is_settled(0));
    }
}
