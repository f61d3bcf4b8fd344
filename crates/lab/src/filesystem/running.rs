//! The running transaction: what file operations changed since the last commit, merged in DRAM, as
//! JBD2 keeps it with data journaling.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::action::Action;

/// Changed ranges nearer than this are reported as one.
const GAP_BYTES: usize = 16;

/// Blocks that the next commit makes durable.
#[derive(Default)]
pub(super) struct Running {
    data: BTreeMap<u64, Box<[u8]>>,
    metadata: BTreeMap<u64, Vec<Range<usize>>>,
}

impl Running {
    /// How many blocks.
    pub(super) fn blocks(&self) -> u64 {
        (self.data.len() + self.metadata.len()) as u64
    }

    /// Whether a data block waits in it: reads are then served from DRAM.
    pub(super) fn has_data(&self, block: u64) -> bool {
        self.data.contains_key(&block)
    }

    /// Takes in a data block's new bytes.
    pub(super) fn write(&mut self, block: u64, bytes: Box<[u8]>) {
        self.data.insert(block, bytes);
    }

    /// Notes a change of a metadata block, whose bytes the file system has.
    pub(super) fn update(&mut self, block: u64, changed: Range<usize>) {
        self.metadata.entry(block).or_default().push(changed);
    }

    /// Drops a block that was freed, as JBD2 forgets buffers.
    pub(super) fn forget(&mut self, block: u64) {
        self.data.remove(&block);
        self.metadata.remove(&block);
    }

    /// Empties it into actions: data in ascending order, then metadata, then the commit.
    pub(super) fn drain<'m>(
        &mut self,
        bytes_of: impl Fn(u64) -> &'m [u8],
        actions: &mut Vec<Action>,
    ) {
        if self.blocks() == 0 {
            return;
        }
        for (block, bytes) in std::mem::take(&mut self.data) {
            actions.push(Action::Write { block, bytes });
        }
        for (block, changed) in std::mem::take(&mut self.metadata) {
            actions.push(Action::Update {
                block,
                bytes: bytes_of(block).into(),
                changed: merged(changed),
            });
        }
        actions.push(Action::Commit);
    }
}

/// The ranges in ascending order, those that touch, overlap or nearly touch made one.
fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end + GAP_BYTES => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ranges_are_reported_as_one() {
        let ranges = vec![124..126, 8..12, 140..144, 130..132, 0..4, 10..11];
        assert_eq!(merged(ranges), [0..12, 124..144]);
    }

    #[test]
    fn a_transaction_is_data_then_metadata_then_the_commit() {
        let mut running = Running::default();
        running.update(3, 5..6);
        running.write(9, Box::new([1]));
        running.write(7, Box::new([2]));
        running.write(9, Box::new([3]));
        running.write(8, Box::new([4]));
        running.forget(8);
        assert_eq!(running.blocks(), 3);
        let mut actions = Vec::new();
        running.drain(|_| &[0; 8], &mut actions);
        running.drain(|_| &[0; 8], &mut actions);
        let write = |block, byte| Action::Write {
            block,
            bytes: Box::new([byte]),
        };
        let update = Action::Update {
            block: 3,
            bytes: Box::new([0; 8]),
            changed: std::iter::once(5..6).collect(),
        };
        assert_eq!(actions, [write(7, 2), write(9, 3), update, Action::Commit]);
    }
}
