//! Which reads follow one another: long runs are not treated as blocks that are read here and there.
//!
//! A run is known by where it ends. Its requests may come out of order, as front ends with many threads bring them, and
//! what is cached of it leaves gaps, so a read goes on with a run where it begins near that end, as long as the run does not leave out too much. A run counts as long as what was
//! read of it, but never as more than from its first block to its end: reads again and again of the same place make
//! no long run, nor do those that happen to lie one behind the other.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sync::{AtomicU64, Ordering};

/// Runs that are known at the same time, those that went on last.
const RUNS_MAX: usize = 64;
/// How far from the end of a run a read may begin that goes on with it, in reads of its length: those that are under way at the same time.
const SLACK_READS: u64 = 8;
/// And at most.
const SLACK_BYTES_MAX: u64 = 1 << 20;
/// Beside that a run may leave out one in so many of its blocks.
const LEFT_OUT_ONE_IN: u64 = 8;

struct Run {
    volume: u32,
    blocks: Range<u64>,
    blocks_read: u64,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunPosition {
    /// Bytes of it that were read, with the last read.
    pub(crate) len_bytes: u64,
    /// The block behind its last one.
    pub(crate) end: u64,
}

/// The runs of a pool, and from when on they pass it by.
pub(crate) struct Streams {
    /// None does if this is 0.
    cutoff_bytes: AtomicU64,
    block_bytes: u64,
    /// The one that went on last is the first.
    runs: Mutex<Vec<Run>>,
}

impl Streams {
    /// No run is known.
    pub(crate) fn new(block_bytes: usize, cutoff_bytes: u64) -> Streams {
        Streams {
            cutoff_bytes: AtomicU64::new(cutoff_bytes),
            block_bytes: block_bytes as u64,
            runs: Mutex::default(),
        }
    }

    pub(crate) fn cutoff_bytes(&self) -> u64 {
        self.cutoff_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_cutoff_bytes(&self, cutoff_bytes: u64) {
        self.cutoff_bytes.store(cutoff_bytes, Ordering::Relaxed);
    }

    /// Whether a run that has come so far passes the pool by.
    pub(crate) fn is_past_cutoff(&self, position: RunPosition) -> bool {
        let cutoff_bytes = self.cutoff_bytes();
        cutoff_bytes != 0 && position.len_bytes > cutoff_bytes
    }

    /// How far from the end of a run a read may begin that goes on with it, in blocks.
    fn slack(&self, blocks: &Range<u64>) -> u64 {
        let count = blocks.end - blocks.start;
        (SLACK_READS * count).min(SLACK_BYTES_MAX / self.block_bytes)
    }

    /// The run, among those that are known, near whose end a read begins.
    fn near(&self, runs: &[Run], volume: u32, blocks: &Range<u64>) -> Option<usize> {
        let slack = self.slack(blocks);
        let goes_on = |run: &Run| {
            let near = run.blocks.end.saturating_sub(slack)..=run.blocks.end + slack;
            run.volume == volume && near.contains(&blocks.start)
        };
        runs.iter().position(goes_on)
    }

    fn runs(&self) -> MutexGuard<'_, Vec<Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a read that missed, if it begins near no run's end: with it a run begins. None if it does, and then it is not noted.
    pub(crate) fn note_apart(&self, volume: u32, blocks: Range<u64>) -> Option<RunPosition> {
        let mut runs = self.runs();
        let is_apart = self.near(&runs, volume, &blocks).is_none();
        is_apart.then(|| self.note_in(&mut runs, None, volume, blocks))
    }

    /// Notes a read that missed; says how far its run has come with it.
    pub(crate) fn note(&self, volume: u32, blocks: Range<u64>) -> RunPosition {
        let mut runs = self.runs();
        let known = self.near(&runs, volume, &blocks);
        self.note_in(&mut runs, known, volume, blocks)
    }

    fn note_in(
        &self,
        runs: &mut Vec<Run>,
        known: Option<usize>,
        volume: u32,
        blocks: Range<u64>,
    ) -> RunPosition {
        let count = blocks.end - blocks.start;
        let slack = self.slack(&blocks);
        let run = known.map(|known| runs.remove(known)).and_then(|run| {
            let whole = run.blocks.start.min(blocks.start)..run.blocks.end.max(blocks.end);
            let len = whole.end - whole.start;
            let blocks_read = (run.blocks_read + count).min(len);
            let is_one = len - blocks_read <= slack + len / LEFT_OUT_ONE_IN;
            is_one.then_some((whole, blocks_read))
        });
        let (whole, blocks_read) = run.unwrap_or((blocks, count));
        runs.truncate(RUNS_MAX - 1);
        let position = RunPosition {
            len_bytes: blocks_read * self.block_bytes,
            end: whole.end,
        };
        runs.insert(
            0,
            Run {
                volume,
                blocks: whole,
                blocks_read,
            },
        );
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn len_bytes(streams: &Streams, volume: u32, start: u64, count: u64) -> u64 {
        streams.note(volume, start..start + count).len_bytes
    }

    #[test]
    fn reads_that_follow_one_another_are_one_run_in_any_order_and_with_gaps() {
        let streams = Streams::new(4096, 4 * MIB);
        assert_eq!(len_bytes(&streams, 1, 0, 32), 128 * KIB);
        assert_eq!(len_bytes(&streams, 1, 64, 32), 256 * KIB);
        assert_eq!(len_bytes(&streams, 1, 32, 32), 384 * KIB);
        // What is cached between them is not read by misses.
        assert_eq!(len_bytes(&streams, 1, 128, 32), 512 * KIB);
        // Elsewhere, and of another volume.
        assert_eq!(len_bytes(&streams, 1, 10_000, 32), 128 * KIB);
        assert_eq!(len_bytes(&streams, 2, 160, 32), 128 * KIB);
        assert_eq!(streams.note(1, 160..192).end, 192);
    }

    #[test]
    fn a_run_passes_by_once_it_has_come_beyond_the_cutoff_and_never_without_one() {
        let streams = Streams::new(4096, MIB);
        let mut passes = (0..5).map(|number| {
            let position = streams.note(1, number * 128..number * 128 + 128);
            streams.is_past_cutoff(position)
        });
        assert_eq!(passes.next(), Some(false));
        assert_eq!(passes.next(), Some(false), "as long as the cutoff");
        assert!(passes.all(|is_past| is_past));
        streams.set_cutoff_bytes(0);
        assert!(!streams.is_past_cutoff(streams.note(1, 640..768)));
    }

    #[test]
    fn reads_of_one_place_again_and_again_came_to_a_long_run() {
        let streams = Streams::new(4096, MIB);
        for _ in 0..1000 {
            assert!(len_bytes(&streams, 1, 100, 16) <= 104 * KIB);
            assert!(len_bytes(&streams, 1, 110, 16) <= 104 * KIB);
        }
    }

    #[test]
    fn reads_here_and_there_came_to_a_long_run() {
        let streams = Streams::new(4096, MIB);
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..100_000 {
            let block = rng.u64(..1 << 18);
            let position = streams.note(1, block..block + 1);
            assert!(position.len_bytes <= 64 * KIB, "{position:?}");
        }
    }

    #[test]
    fn reads_here_and_there_on_a_small_disk_came_to_a_long_run() {
        for count in [1, 4] {
            let streams = Streams::new(4096, MIB);
            let mut rng = fastrand::Rng::with_seed(7);
            for _ in 0..20_000 {
                let block = rng.u64(..4096 - count);
                let position = streams.note(1, block..block + count);
                assert!(position.len_bytes < MIB / 2, "{count}: {position:?}");
            }
        }
    }

    #[test]
    fn a_run_is_not_forgotten_for_a_few_reads_between() {
        let streams = Streams::new(4096, MIB);
        assert_eq!(len_bytes(&streams, 1, 0, 32), 128 * KIB);
        for number in 1..RUNS_MAX as u64 {
            streams.note(1, number << 20..(number << 20) + 1);
        }
        assert_eq!(len_bytes(&streams, 1, 32, 32), 256 * KIB);
        for number in 1..=RUNS_MAX as u64 {
            streams.note(3, number << 20..(number << 20) + 1);
        }
        assert_eq!(len_bytes(&streams, 1, 64, 32), 128 * KIB);
    }
}
