//! Patches: bytes of blocks that stand in records, and not in pages. Each is laid over what the block was before, the newest last.
//!
//! They are few: so many that an opening, which reads the record of each, reads less of these than of summaries.

use super::table::Entry;
use crate::media::{Inline, Key};
use crate::mutants::{Mutant, mutated};
use crate::page::PAGE_BYTES;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Patches of one block that are kept; the next part of it is written with the whole block.
const BLOCK_PATCHES_MAX: usize = 32;
/// Every pool has room for so many.
const PATCHES_MIN: usize = 64;
/// One patch for so many blocks that a pool can hold: an opening reads a MiB a GiB of them at most, as each lies in one page or two.
const BLOCKS_A_PATCH: usize = 2048;

/// Some bytes of a block.
#[derive(Clone)]
pub(crate) struct Patch {
    range: Range<usize>,
    /// Of the range; what lies behind them in it is zero.
    bytes: Box<[u8]>,
}

impl Patch {
    /// What an element says whose bytes these are.
    pub(crate) fn new(inline: &Inline, bytes: &[u8]) -> Patch {
        assert_eq!(bytes.len(), usize::from(inline.len));
        Patch {
            range: inline.range(),
            bytes: bytes.into(),
        }
    }

    /// Lays it over a block.
    pub(crate) fn put_over(&self, block: &mut [u8]) {
        let (start, end) = block[self.range.clone()].split_at_mut(self.bytes.len());
        start.copy_from_slice(&self.bytes);
        end.fill(0);
    }
}

/// All patches of a block.
#[derive(Clone)]
pub(crate) struct Patched {
    /// What they make of the ranges that they have.
    page: Box<[u8]>,
    /// Of those of which something is to be seen, in their order.
    ranges: Vec<Range<usize>>,
    /// The newest one's.
    sequence: u64,
    /// While the log opens: where they stand.
    unread: Vec<Inline>,
    /// One of them does not match its check, or the device does not give it.
    is_damaged: bool,
}

impl Default for Patched {
    fn default() -> Patched {
        Patched {
            page: vec![0; PAGE_BYTES].into(),
            ranges: Vec::new(),
            sequence: 0,
            unread: Vec::new(),
            is_damaged: false,
        }
    }
}

impl Patched {
    /// Lays them over what the block was before; false if that cannot be.
    #[must_use]
    pub(crate) fn put_over(&self, block: &mut [u8]) -> bool {
        for range in &self.ranges {
            block[range.clone()].copy_from_slice(&self.page[range.clone()]);
        }
        !self.is_damaged
    }

    /// Whether they say all of the block: then its page counts for nothing.
    pub(crate) fn is_whole(&self) -> bool {
        self.ranges.iter().any(|range| range.len() == PAGE_BYTES)
    }

    fn put(&mut self, patch: &Patch) {
        let older = mutated(Mutant::SsdPatchUnderOlder).then(|| self.clone());
        patch.put_over(&mut self.page);
        if let Some(older) = older {
            let _ = older.put_over(&mut self.page);
        }
    }

    /// One more: those of which nothing is to be seen any more go.
    fn add(&mut self, range: Range<usize>, sequence: u64) {
        self.ranges.retain(|old| !is_within(old, &range));
        self.ranges.push(range);
        self.sequence = sequence;
    }

    /// Where they stand on the device, in their order.
    pub(crate) fn unread(&self) -> &[Inline] {
        &self.unread
    }

    /// They were read, or could not be.
    fn note_read(&mut self, patches: Option<&[Patch]>) {
        self.unread = Vec::new();
        self.is_damaged |= patches.is_none();
        for patch in patches.into_iter().flatten() {
            self.put(patch);
        }
    }
}

fn is_within(inner: &Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// A block as it is at a moment: the entry, and what is to be laid over its page.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) entry: Entry,
    pub(crate) patched: Option<Arc<Patched>>,
}

impl Held {
    /// Its entry, if the page has all of it.
    pub(crate) fn as_page(&self) -> Option<Entry> {
        self.patched.is_none().then_some(self.entry)
    }
}

/// Those of all blocks.
pub(crate) struct Patches {
    /// A clone that a reader holds is never changed: so the same address is the same version.
    by_key: HashMap<Key, Arc<Patched>>,
    count: usize,
    max: usize,
}

impl Patches {
    /// For a pool of so many blocks, or so many.
    pub(crate) fn new(blocks_max: usize, max: Option<usize>) -> Patches {
        Patches {
            by_key: HashMap::new(),
            count: 0,
            max: max.unwrap_or((blocks_max / BLOCKS_A_PATCH).max(PATCHES_MIN)),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// How many there may be.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Whether one block may have one more beside so many that are staged.
    pub(crate) fn has_room_of(&self, key: Key, staged: usize) -> bool {
        let patched = self.by_key.get(&key);
        patched.map_or(0, |patched| patched.ranges.len()) + staged < BLOCK_PATCHES_MAX
    }

    /// Those of a block.
    pub(crate) fn get(&self, key: Key) -> Option<&Arc<Patched>> {
        self.by_key.get(&key)
    }

    /// One more, with its bytes.
    pub(crate) fn put(&mut self, key: Key, patch: &Patch, sequence: u64) {
        self.change(key, |patched| {
            patched.put(patch);
            patched.add(patch.range.clone(), sequence);
        });
    }

    /// One more, to be read.
    pub(crate) fn note_unread(&mut self, key: Key, inline: Inline, sequence: u64) {
        self.change(key, |patched| {
            let range = inline.range();
            patched
                .unread
                .retain(|old| !is_within(&old.range(), &range));
            patched.unread.push(inline);
            patched.add(range, sequence);
        });
    }

    /// What was read of a block's; none if not all could be.
    pub(crate) fn note_read(&mut self, key: Key, patches: Option<&[Patch]>) {
        self.change(key, |patched| patched.note_read(patches));
    }

    /// How many blocks have some.
    pub(crate) fn blocks(&self) -> usize {
        self.by_key.len()
    }

    /// So many of these blocks at most: those that were not patched for the longest time, the oldest first.
    pub(crate) fn oldest(&self, most: usize) -> Vec<Key> {
        let all = self.by_key.iter();
        let mut keys: Vec<(u64, Key)> =
            all.map(|(key, patched)| (patched.sequence, *key)).collect();
        if most < keys.len() {
            keys.select_nth_unstable(most);
            keys.truncate(most);
        }
        keys.sort_unstable();
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// The block is written anew, or goes.
    pub(crate) fn forget(&mut self, key: Key) {
        if let Some(patched) = self.by_key.remove(&key) {
            self.count -= patched.ranges.len();
        }
    }

    fn change(&mut self, key: Key, change: impl FnOnce(&mut Patched)) {
        let patched = Arc::make_mut(self.by_key.entry(key).or_default());
        let before = patched.ranges.len();
        change(patched);
        self.count += patched.ranges.len();
        self.count -= before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key {
        volume: 1,
        block: 7,
    };

    fn inline(offset: u16, len: u16, is_end_zero: bool) -> Inline {
        Inline {
            page: 0,
            at: 0,
            check: 0,
            offset,
            len,
            is_end_zero,
        }
    }

    fn read(patches: &Patches) -> Vec<u8> {
        let mut block = vec![9; PAGE_BYTES];
        assert!(patches.get(KEY).unwrap().put_over(&mut block));
        block
    }

    #[test]
    fn the_newest_lies_over_the_others_and_what_is_hidden_is_not_counted() {
        let mut patches = Patches::new(0, None);
        assert_eq!(patches.max(), PATCHES_MIN);
        patches.put(KEY, &Patch::new(&inline(10, 20, false), &[1; 20]), 1);
        patches.put(KEY, &Patch::new(&inline(15, 2, false), &[2; 2]), 2);
        let held = patches.get(KEY).unwrap().clone();
        patches.put(KEY, &Patch::new(&inline(14, 4, false), &[3; 4]), 3);
        assert!(!Arc::ptr_eq(&held, patches.get(KEY).unwrap()));
        assert_eq!(patches.count(), 2);
        let block = read(&patches);
        assert_eq!(block[9..20], [9, 1, 1, 1, 1, 3, 3, 3, 3, 1, 1]);
        assert!(!patches.get(KEY).unwrap().is_whole());
        patches.put(KEY, &Patch::new(&inline(0, 2, true), &[4; 2]), 4);
        assert_eq!(
            (patches.count(), read(&patches)[..4].to_vec()),
            (1, vec![4, 4, 0, 0])
        );
        assert!(patches.get(KEY).unwrap().is_whole());
        patches.forget(KEY);
        assert_eq!(patches.count(), 0);
    }

    #[test]
    fn what_is_read_at_an_opening_is_as_if_it_were_put() {
        let (mut put, mut read_later) = (Patches::new(0, None), Patches::new(0, None));
        let all = [
            (0, 300, false),
            (100, 50, true),
            (120, 40, false),
            (90, 100, false),
        ];
        let mut bytes = Vec::new();
        for (number, (offset, len, is_end_zero)) in (1..).zip(all) {
            let inline = inline(offset, len, is_end_zero);
            let patch = Patch::new(&inline, &vec![number; len.into()]);
            put.put(KEY, &patch, number.into());
            read_later.note_unread(KEY, inline, number.into());
            bytes.push(patch);
        }
        let unread = read_later.get(KEY).unwrap().unread().to_vec();
        // The third is hidden by the fourth.
        assert_eq!(unread.len(), 3);
        bytes.remove(2);
        read_later.note_read(KEY, Some(&bytes));
        assert_eq!(read(&put), read(&read_later));
        assert_eq!(put.count(), read_later.count());
        read_later.note_read(KEY, None);
        assert!(
            !read_later
                .get(KEY)
                .unwrap()
                .put_over(&mut vec![0; PAGE_BYTES])
        );
    }

    #[test]
    fn one_block_takes_a_few() {
        let mut patches = Patches::new(1 << 20, None);
        assert_eq!(patches.max(), 512);
        for number in 0..BLOCK_PATCHES_MAX as u16 {
            assert!(patches.has_room_of(KEY, 0));
            let inline = inline(number * 8, 8, false);
            patches.put(KEY, &Patch::new(&inline, &[1; 8]), 1 + u64::from(number));
        }
        assert!(!patches.has_room_of(KEY, 0));
    }
}
