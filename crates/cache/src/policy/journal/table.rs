//! A volume's journals in the pool's blocks: which block is where in which ring.

use super::{Journal, JournalKind};

/// Where a block is in a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPlace {
    /// The number of the journal in its table.
    pub(crate) journal: usize,
    /// How many blocks from the beginning of the ring; `None` outside of it: superblocks and the like,
    /// which are rewritten more often than once a lap.
    pub(crate) position: Option<u64>,
}

/// A ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub(crate) kind: JournalKind,
    /// Blocks of a lap, at least 1.
    pub(crate) blocks: u64,
    /// Where the live part begins, if the journal said so when it was found.
    pub(crate) live_from: Option<u64>,
}

/// Blocks that lie together.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    count: u64,
    journal: usize,
    /// Where the first one begins in the journal, in bytes.
    journal_offset: u64,
}

/// The journals of a volume.
#[derive(Debug, Default)]
pub(crate) struct Table {
    block_bytes: u64,
    /// Sorted, apart from each other.
    spans: Vec<Span>,
    rings: Vec<Ring>,
    ring_starts: Vec<u64>,
}

impl Table {
    /// Only blocks that are wholly a journal's: one that it shares with something else is written in
    /// its turn.
    pub(crate) fn new(journals: &[Journal], block_bytes: u64) -> Table {
        let mut spans = Vec::new();
        for (number, journal) in journals.iter().enumerate() {
            for run in &journal.runs {
                let first = run.disk_offset.div_ceil(block_bytes);
                let end = (run.disk_offset + run.bytes) / block_bytes;
                if first < end {
                    spans.push(Span {
                        first,
                        count: end - first,
                        journal: number,
                        journal_offset: run.journal_offset
                            + (first * block_bytes - run.disk_offset),
                    });
                }
            }
        }
        // Of those that overlap, which no sound volume has, the first one counts.
        spans.sort_unstable_by_key(|span| (span.first, span.journal));
        let mut end = 0;
        spans.retain(|span| {
            let is_apart = span.first >= end;
            if is_apart {
                end = span.first + span.count;
            }
            is_apart
        });
        let ring = |journal: &Journal| {
            let blocks = (journal.ring.end - journal.ring.start) / block_bytes;
            let live = journal.live_from;
            Ring {
                kind: journal.kind,
                blocks: blocks.max(1),
                live_from: live.map(|at| at.saturating_sub(journal.ring.start) / block_bytes),
            }
        };
        Table {
            block_bytes,
            spans,
            rings: journals.iter().map(ring).collect(),
            ring_starts: journals.iter().map(|journal| journal.ring.start).collect(),
        }
    }

    /// Blocks of all journals.
    pub(crate) fn blocks(&self) -> u64 {
        self.spans.iter().map(|span| span.count).sum()
    }

    pub(crate) fn ring(&self, journal: usize) -> Ring {
        self.rings[journal]
    }

    /// Where a block of the volume is, if it is a journal's.
    pub(crate) fn find(&self, block: u64) -> Option<RingPlace> {
        let after = self.spans.partition_point(|span| span.first <= block);
        let span = self.spans[..after].last()?;
        if block - span.first >= span.count {
            return None;
        }
        let offset = span.journal_offset + (block - span.first) * self.block_bytes;
        let position = offset
            .checked_sub(self.ring_starts[span.journal])
            .map(|from_start| from_start / self.block_bytes)
            .filter(|position| *position < self.rings[span.journal].blocks);
        Some(RingPlace {
            journal: span.journal,
            position,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::journal::JournalRun;

    fn journal(runs: &[(u64, u64, u64)], ring: std::ops::Range<u64>) -> Journal {
        Journal {
            kind: JournalKind::Jbd2,
            runs: runs
                .iter()
                .map(|(journal_offset, disk_offset, bytes)| JournalRun {
                    journal_offset: *journal_offset,
                    disk_offset: *disk_offset,
                    bytes: *bytes,
                })
                .collect(),
            ring,
            live_from: None,
        }
    }

    #[test]
    fn blocks_are_found_at_their_place_in_the_ring() {
        const K: u64 = 1024;
        // Blocks of 1 KiB in a pool of 4 KiB: the journal begins 1 KiB before a block and ends 3 KiB
        // within one; its first block is its superblock.
        let runs = [(0, 15 * K, 13 * K), (13 * K, 64 * K, 7 * K)];
        let table = Table::new(&[journal(&runs, K..20 * K)], 4 * K);
        assert_eq!(table.blocks(), 3 + 1);
        assert_eq!(table.find(3), None);
        let position = |block| table.find(block).map(|place| place.position);
        assert_eq!(position(4), Some(Some(0)));
        assert_eq!(position(6), Some(Some(2)));
        assert_eq!(position(7), None);
        assert_eq!(position(16), Some(Some(3)));
        assert_eq!(position(17), None);
    }

    #[test]
    fn what_is_outside_of_the_ring_has_no_place_in_it_and_overlaps_go() {
        let one = journal(&[(0, 40960, 40960)], 4096..32768);
        let other = journal(&[(0, 45056, 81920)], 0..81920);
        let table = Table::new(&[one, other], 4096);
        assert_eq!(table.blocks(), 10);
        let position = |block| table.find(block).unwrap().position;
        assert_eq!(position(10), None);
        assert_eq!((position(11), position(17)), (Some(0), Some(6)));
        assert_eq!((position(18), position(19)), (None, None));
        assert!(table.find(20).is_none() && table.find(9).is_none());
    }
}
