//! Which page has which block: sixteen bytes a block, in an open hash table that never grows.

use crate::media::{Key, check_of};

const VOLUME_SHIFT: u32 = 44;
const BLOCK_SHIFT: u32 = 8;
const BLOCK_MASK: u64 = (1 << 36) - 1;
const FLAG_CLEAN: u64 = 1;
const FLAG_USED: u64 = 2;
const FLAG_PATCHED: u64 = 4;
const FLAGS: u64 = 0xFF;

/// Where a block is, and how it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The key, with flags in its lowest bits; zero is free.
    bits: u64,
    /// The page that has the block.
    pub(crate) page: u32,
    /// The block's check.
    pub(crate) check: u32,
}

const FREE: Entry = Entry {
    bits: 0,
    page: 0,
    check: 0,
};

fn bits_of(key: Key) -> u64 {
    u64::from(key.volume) << VOLUME_SHIFT | key.block << BLOCK_SHIFT
}

impl Entry {
    /// A block that nobody has read yet.
    pub(crate) fn new(key: Key, page: u32, check: u32, is_clean: bool) -> Entry {
        Entry {
            bits: bits_of(key) | (u64::from(is_clean) * FLAG_CLEAN),
            page,
            check,
        }
    }

    /// Whose it is.
    pub(crate) fn key(self) -> Key {
        Key {
            volume: (self.bits >> VOLUME_SHIFT) as u32,
            block: self.bits >> BLOCK_SHIFT & BLOCK_MASK,
        }
    }

    /// Whether these bytes of its page are the block's.
    pub(crate) fn has_bytes(self, bytes: &[u8]) -> bool {
        check_of(self.key(), bytes) == self.check
    }

    /// Whether the backing has the same.
    pub(crate) fn is_clean(self) -> bool {
        self.bits & FLAG_CLEAN != 0
    }

    /// Whether patches are to be laid over its page.
    pub(crate) fn is_patched(self) -> bool {
        self.bits & FLAG_PATCHED != 0
    }

    /// Whether it was read since it was written or carried forward.
    pub(crate) fn is_used(self) -> bool {
        self.bits & FLAG_USED != 0
    }
}

/// The entries of all blocks.
pub(crate) struct Table {
    entries: Box<[Entry]>,
    len: usize,
    dirty_len: usize,
}

impl Table {
    /// One for `blocks_max` blocks: a quarter of its places stay free, so that searches are short.
    pub(crate) fn new(blocks_max: usize) -> Table {
        let places = blocks_max + blocks_max.div_ceil(3) + 1;
        Table {
            entries: vec![FREE; places].into(),
            len: 0,
            dirty_len: 0,
        }
    }

    /// How many of its blocks their backings lack.
    pub(crate) fn dirty_len(&self) -> usize {
        self.dirty_len
    }

    /// How many blocks it has.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first place at which a key is looked for.
    fn home(&self, key: Key) -> usize {
        ((u128::from(key.hash()) * self.entries.len() as u128) >> 64) as usize
    }

    /// The place of a key, or the free one where it would go.
    fn find(&self, key: Key) -> usize {
        let bits = bits_of(key);
        let mut place = self.home(key);
        loop {
            let found = self.entries[place].bits & !FLAGS;
            if found == bits || found == 0 {
                return place;
            }
            place = self.after(place);
        }
    }

    fn after(&self, place: usize) -> usize {
        match place + 1 == self.entries.len() {
            true => 0,
            false => place + 1,
        }
    }

    /// The entry of a block.
    pub(crate) fn get(&self, key: Key) -> Option<Entry> {
        let entry = self.entries[self.find(key)];
        (entry.bits != 0).then_some(entry)
    }

    /// Stores an entry, and returns the one that it replaces.
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<Entry> {
        let place = self.find(entry.key());
        let old = std::mem::replace(&mut self.entries[place], entry);
        self.dirty_len += usize::from(!entry.is_clean());
        if old.bits != 0 {
            self.dirty_len -= usize::from(!old.is_clean());
            return Some(old);
        }
        self.len += 1;
        // Every entry has a page of its own, and there are fewer pages than places.
        assert!(self.len < self.entries.len(), "the table is full");
        None
    }

    /// Takes an entry out, and returns it.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Entry> {
        let mut hole = self.find(key);
        let old = self.entries[hole];
        if old.bits == 0 {
            return None;
        }
        self.dirty_len -= usize::from(!old.is_clean());
        // What was put further on because this place was taken moves up.
        let mut next = self.after(hole);
        while self.entries[next].bits != 0 {
            let home = self.home(self.entries[next].key());
            let is_reached = match hole <= next {
                true => hole < home && home <= next,
                false => hole < home || home <= next,
            };
            if !is_reached {
                self.entries[hole] = self.entries[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.entries[hole] = FREE;
        self.len -= 1;
        Some(old)
    }

    /// The backing has the same now, if the block still is at that page.
    pub(crate) fn mark_clean(&mut self, key: Key, page: u32) {
        let place = self.find(key);
        let entry = &mut self.entries[place];
        if entry.bits != 0 && entry.page == page {
            self.dirty_len -= usize::from(!entry.is_clean());
            entry.bits |= FLAG_CLEAN;
        }
    }

    /// A patch is laid over it. It is clean only if it was, and the backing has the patch as well.
    pub(crate) fn mark_patched(&mut self, key: Key, is_clean: bool) {
        let place = self.find(key);
        let entry = &mut self.entries[place];
        if entry.bits != 0 {
            entry.bits |= FLAG_PATCHED;
            if entry.is_clean() && !is_clean {
                entry.bits &= !FLAG_CLEAN;
                self.dirty_len += 1;
            }
        }
    }

    /// It was read.
    pub(crate) fn mark_used(&mut self, key: Key) {
        let place = self.find(key);
        let entry = &mut self.entries[place];
        if entry.bits != 0 {
            entry.bits |= FLAG_USED;
        }
    }

    /// All entries, in no order that means anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().copied().filter(|entry| entry.bits != 0)
    }

    /// The entries of a range of blocks.
    pub(crate) fn in_range(&self, first: Key, count: u64) -> Vec<Entry> {
        let end = first.block + count;
        if count <= self.entries.len() as u64 {
            let keys = (first.block..end).map(|block| Key { block, ..first });
            return keys.filter_map(|key| self.get(key)).collect();
        }
        let is_in = |entry: &Entry| {
            let key = entry.key();
            key.volume == first.volume && (first.block..end).contains(&key.block)
        };
        self.iter().filter(is_in).collect()
    }
}

const _: () = assert!(size_of::<Entry>() == 16);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(block: u64) -> Key {
        Key {
            volume: 1 + (block % 3) as u32,
            block,
        }
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(
            steps in prop::collection::vec((0u64..40, any::<bool>(), any::<u32>()), 1..400)
        ) {
            let (mut table, mut map) = (Table::new(40), BTreeMap::new());
            for (block, is_removed, page) in steps {
                let key = key(block);
                if is_removed {
                    prop_assert_eq!(table.remove(key), map.remove(&key));
                } else {
                    let entry = Entry::new(key, page, !page, page % 2 == 0);
                    prop_assert_eq!(table.insert(entry), map.insert(key, entry));
                }
                prop_assert_eq!(table.len(), map.len());
                let dirty = map.values().filter(|entry| !entry.is_clean()).count();
                prop_assert_eq!(table.dirty_len(), dirty);
                for block in 0..40 {
                    let key = super::tests::key(block);
                    prop_assert_eq!(table.get(key), map.get(&key).copied());
                }
            }
            let range = table.in_range(Key { volume: 2, block: 5 }, 20).len();
            let in_map = map.keys().filter(|key| key.volume == 2 && (5..25).contains(&key.block));
            prop_assert_eq!(range, in_map.count());
        }
    }
}
