//! Which blocks of data the machine's DRAM holds above the cache: the kernel's page cache, by least
//! recent use. Data is read and written through it in ext4's mode `data=journal`, which has no direct
//! I/O.

use std::collections::{BTreeMap, HashMap};

/// Numbers of blocks by when they were used.
#[derive(Default)]
pub(super) struct PageCache {
    blocks_max: usize,
    /// When each block was used last.
    used_at: HashMap<u64, u64>,
    /// The same the other way round.
    by_age: BTreeMap<u64, u64>,
    uses: u64,
}

impl PageCache {
    pub(super) fn new(blocks_max: usize) -> PageCache {
        PageCache {
            blocks_max,
            ..PageCache::default()
        }
    }

    /// Notes that a block is read or written, and returns whether it was there.
    pub(super) fn touch(&mut self, block: u64) -> bool {
        if self.blocks_max == 0 {
            return false;
        }
        self.uses += 1;
        let before = self.used_at.insert(block, self.uses);
        if let Some(before) = before {
            self.by_age.remove(&before);
        }
        self.by_age.insert(self.uses, block);
        if self.by_age.len() > self.blocks_max
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.used_at.remove(&oldest);
        }
        assert_eq!(self.used_at.len(), self.by_age.len());
        before.is_some()
    }

    /// Drops a block that was freed.
    pub(super) fn forget(&mut self, block: u64) {
        if let Some(used_at) = self.used_at.remove(&block) {
            self.by_age.remove(&used_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_block_leaves() {
        let mut cache = PageCache::new(2);
        assert_eq!(
            [1, 2, 1, 3, 1, 2].map(|block| cache.touch(block)),
            [false, false, true, false, true, false]
        );
        cache.forget(1);
        cache.forget(9);
        assert_eq!([2, 1].map(|block| cache.touch(block)), [true, false]);
        assert!(!PageCache::new(0).touch(1));
    }
}
