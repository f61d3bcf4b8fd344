//! What is written, and where: random blocks and bytes, the same for both sides of a comparison.

use fastrand::Rng;

/// Bytes of a block in every pool measured here.
pub const BLOCK_BYTES: usize = 4096;

const LINE_BYTES: usize = 64;

/// Random bytes that blocks are cut from; with a block they fit a first-level cache.
const WINDOW_BYTES: usize = 24 << 10;

/// Blocks of data of which no two are alike, so that nobody gains by comparing them.
pub struct Payload {
    bytes: Vec<u8>,
    start: usize,
    random: Rng,
    stamp: u64,
}

impl Payload {
    /// A stream of blocks for one thread.
    pub fn new(seed: u64) -> Payload {
        let mut random = Rng::with_seed(seed);
        let mut bytes = vec![0; WINDOW_BYTES + BLOCK_BYTES + LINE_BYTES];
        random.fill(&mut bytes);
        // Callers with fast paths in mind align their buffers; both sides gain by it.
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        Payload {
            bytes,
            start,
            random,
            stamp: seed << 32,
        }
    }

    /// The next block.
    #[inline]
    pub fn next(&mut self) -> &[u8] {
        let at = self.start + self.random.usize(0..WINDOW_BYTES / LINE_BYTES) * LINE_BYTES;
        let block = &mut self.bytes[at..at + BLOCK_BYTES];
        self.stamp += 1;
        // At the end, where the copy comes last and the store has long left the store buffer.
        block[BLOCK_BYTES - 8..].copy_from_slice(&self.stamp.to_le_bytes());
        block
    }
}

/// Uniformly random numbers of a range, for one thread.
pub struct Blocks {
    random: Rng,
    first: u64,
    count: u64,
}

impl Blocks {
    /// Numbers `first..first + count`.
    pub fn new(seed: u64, first: u64, count: u64) -> Blocks {
        Blocks {
            random: Rng::with_seed(seed),
            first,
            count,
        }
    }

    /// One of them.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.first + self.random.u64(0..self.count)
    }

    /// Some of them, no two the same.
    #[inline]
    pub fn next_distinct<const N: usize>(&mut self) -> [u64; N] {
        let mut chosen = [u64::MAX; N];
        for number in 0..N {
            let mut block = self.next();
            while chosen[..number].contains(&block) {
                block = self.next();
            }
            chosen[number] = block;
        }
        chosen
    }
}
