//! What is written: other bytes each time, since a buffer need not persist what is there already.

/// How many different pieces there are.
const PIECES: usize = 4093;

/// Pieces of one size, cut from random bytes, each a byte further.
#[derive(Debug)]
pub(super) struct Pieces {
    bytes: Vec<u8>,
    unit_bytes: usize,
}

impl Pieces {
    /// Of so many bytes; the same for the same seed.
    pub(super) fn new(unit_bytes: usize, seed: u64) -> Pieces {
        let mut rng = fastrand::Rng::with_seed(seed);
        Pieces {
            bytes: (0..unit_bytes + PIECES).map(|_| rng.u8(..)).collect(),
            unit_bytes,
        }
    }

    /// The one of this number.
    pub(super) fn of(&self, number: u64) -> &[u8] {
        let at = (number % PIECES as u64) as usize;
        &self.bytes[at..at + self.unit_bytes]
    }
}
