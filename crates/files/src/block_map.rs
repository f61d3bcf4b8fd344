//! Which blocks of a file may be in the pool.

use std::collections::HashMap;

const CHUNK_BLOCKS: u64 = 512;
const NO_BLOCK: u64 = u64::MAX;

/// A set of block numbers. Blocks that the pool has released meanwhile stay in it: a block that is not
/// in the set is not in the pool, which is what readers must know.
#[derive(Debug)]
pub(crate) struct BlockMap {
    chunks: HashMap<u64, [u64; CHUNK_BLOCKS as usize / 64]>,
    /// Writers mostly go on where they were.
    last: u64,
}

impl Default for BlockMap {
    fn default() -> BlockMap {
        BlockMap {
            chunks: HashMap::new(),
            last: NO_BLOCK,
        }
    }
}

fn place(block: u64) -> (u64, usize, u64) {
    let within = block % CHUNK_BLOCKS;
    let bit = 1 << (within % 64);
    (block / CHUNK_BLOCKS, within as usize / 64, bit)
}

impl BlockMap {
    /// Adds a block.
    #[inline]
    pub(crate) fn insert(&mut self, block: u64) {
        if block == self.last {
            return;
        }
        let (chunk, word, bit) = place(block);
        self.chunks.entry(chunk).or_default()[word] |= bit;
        self.last = block;
    }

    /// Whether a block may be in the pool.
    pub(crate) fn contains(&self, block: u64) -> bool {
        let (chunk, word, bit) = place(block);
        self.chunks
            .get(&chunk)
            .is_some_and(|words| words[word] & bit != 0)
    }

    /// Removes all blocks from `first` on.
    pub(crate) fn cut(&mut self, first: u64) {
        self.last = NO_BLOCK;
        let (last_chunk, _, _) = place(first);
        self.chunks.retain(|chunk, words| {
            if *chunk == last_chunk {
                for block in first % CHUNK_BLOCKS..CHUNK_BLOCKS {
                    words[block as usize / 64] &= !(1 << (block % 64));
                }
            }
            *chunk <= last_chunk
        });
    }

    /// All blocks, in order.
    pub(crate) fn to_vec(&self) -> Vec<u64> {
        let mut blocks = Vec::new();
        for (chunk, words) in &self.chunks {
            for (number, word) in words.iter().enumerate() {
                let first = chunk * CHUNK_BLOCKS + number as u64 * 64;
                let bits = (0..64).filter(|bit| word >> bit & 1 != 0);
                blocks.extend(bits.map(|bit| first + bit));
            }
        }
        blocks.sort_unstable();
        blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_and_go_from_the_end() {
        let mut map = BlockMap::default();
        let blocks = [0, 63, 64, 511, 512, 1000, 1 << 40];
        for block in blocks {
            map.insert(block);
            map.insert(block);
        }
        assert_eq!(map.to_vec(), blocks);
        assert!(map.contains(511) && !map.contains(510));
        map.cut(64);
        assert_eq!(map.to_vec(), [0, 63]);
        map.insert(64);
        assert!(map.contains(64));
        map.cut(0);
        assert!(map.to_vec().is_empty());
    }
}
