//! Which bank and which set of the shared cache a line goes to: a hash of its number, as in zsim and in Intel's caches.
//!
//! Without one, regions of threads that lie a power of two apart would meet in few sets.

/// The banks.
#[derive(Clone, Copy, Debug)]
pub struct Banks {
    count: u32,
    bank_sets: u32,
}

impl Banks {
    /// So many, each of so many sets.
    pub fn new(count: u32, bank_sets: u32) -> Banks {
        Banks { count, bank_sets }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Sets of all banks.
    pub fn sets(&self) -> usize {
        (self.count * self.bank_sets) as usize
    }

    /// The set of a line, over all banks: Knuth's multiplicative hash of the line's number, folded.
    #[inline]
    pub fn set(&self, line: u32) -> usize {
        let hash = (line ^ line >> 15).wrapping_mul(0x9E37_79B1);
        ((u64::from(hash) * u64::from(self.count * self.bank_sets)) >> 32) as usize
    }

    /// The bank of a line.
    #[inline]
    pub fn bank(&self, line: u32) -> usize {
        (self.set(line) as u32 / self.bank_sets) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_spread_over_all_sets_whatever_lies_between_them() {
        let banks = Banks::new(12, 2048);
        for stride in [1, 3, 64, 4096, 1 << 19] {
            let mut lines_of = vec![0_u32; banks.sets()];
            for line in 0..4096_u32 {
                lines_of[banks.set(line * stride)] += 1;
            }
            let most = lines_of.iter().max().copied();
            assert!(most < Some(8), "{most:?} lines of stride {stride} in a set");
        }
    }
}
