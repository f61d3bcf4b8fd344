//! What is written, and where: random blocks and bytes, the same for both sides of a comparison.

use fastrand::Rng;

/// Bytes of a block in every pool measured here.
pub const BLOCK_BYTES: usize = 4096;

const LINE_BYTES: usize = 64;

/// Places that blocks are cut from; with a block they fit a first-level cache.
const PLACES: usize = (24 << 10) / LINE_BYTES;

/// From one block's place to the next one's; has no divisor in common with their number, so that all
/// have their turn.
const STRIDE: usize = 37;

/// Blocks of data of which no two are alike, so that comparing them gains nothing: a window of
/// random bytes of which every line has changed before a block is cut from the same place again.
pub struct Payload {
    bytes: Vec<u8>,
    start: usize,
    place: usize,
    stamp: u64,
}

impl Payload {
    /// A stream of blocks for one thread.
    pub fn new(seed: u64) -> Payload {
        let mut random = Rng::with_seed(seed);
        let mut bytes = vec![0; PLACES * LINE_BYTES + BLOCK_BYTES + LINE_BYTES];
        random.fill(&mut bytes);
        // Callers with fast paths in mind align their buffers; both sides gain by it.
        let start = bytes.as_ptr().align_offset(LINE_BYTES);
        Payload {
            bytes,
            start,
            place: 0,
            stamp: seed << 32,
        }
    }

    /// The next block.
    #[inline]
    pub fn next(&mut self) -> &[u8] {
        // What the last block began with is not part of this one, so no load waits for these
        // stores.
        self.change_line(self.place);
        if self.place < BLOCK_BYTES / LINE_BYTES {
            self.change_line(PLACES + self.place);
        }
        self.place = (self.place + STRIDE) % PLACES;
        let at = self.start + self.place * LINE_BYTES;
        &self.bytes[at..at + BLOCK_BYTES]
    }

    #[inline]
    fn change_line(&mut self, line: usize) {
        self.stamp += 1;
        let mut word = self.stamp;
        let at = self.start + line * LINE_BYTES;
        for bytes in self.bytes[at..at + LINE_BYTES].as_chunks_mut::<8>().0 {
            word = word.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
            bytes.copy_from_slice(&word.to_le_bytes());
        }
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
