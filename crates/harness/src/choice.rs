//! Which record, or which place in a file, comes next: uniformly, by Zipf's law, or the latest first. The
//! same seed chooses the same.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};

use crate::Result;

/// The skew that YCSB takes.
const EXPONENT: f64 = 0.99;

/// How things are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// All alike.
    Uniform,
    /// Few often, most hardly ever; the favourites are spread over all.
    Zipf,
    /// The newer, the more often.
    Latest,
}

/// A source of choices.
#[derive(Debug)]
pub struct Choice {
    rng: SmallRng,
    zipf: Zipf<f64>,
    law: Law,
}

impl Choice {
    /// Among about `count` things.
    ///
    /// # Errors
    /// There are none.
    pub fn new(law: Law, count: u64, seed: u64) -> Result<Choice> {
        Ok(Choice {
            rng: SmallRng::seed_from_u64(seed),
            zipf: Zipf::new(count as f64, EXPONENT)?,
            law,
        })
    }

    /// One of the `count` things that there are now.
    pub fn next(&mut self, count: u64) -> u64 {
        match self.law {
            Law::Uniform => self.rng.random_range(0..count),
            Law::Zipf => spread(self.rank()) % count,
            Law::Latest => count - 1 - self.rank() % count,
        }
    }

    /// A number from 1 to `most`, all alike.
    pub fn length(&mut self, most: u64) -> u64 {
        self.rng.random_range(1..=most)
    }

    /// Whether something happens that does so in this share of all cases.
    pub fn happens(&mut self, share: f64) -> bool {
        self.rng.random_bool(share)
    }

    fn rank(&mut self) -> u64 {
        self.zipf.sample(&mut self.rng) as u64 - 1
    }
}

/// FNV-1a of the number's bytes.
pub fn spread(number: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    number
        .to_le_bytes()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(law: Law) -> Vec<usize> {
        let mut choice = Choice::new(law, 100, 7).expect("a hundred");
        let mut counts = vec![0; 100];
        for _ in 0..100_000 {
            counts[choice.next(100) as usize] += 1;
        }
        counts
    }

    #[test]
    fn each_law_chooses_as_it_says() {
        let uniform = counts(Law::Uniform);
        assert!(
            uniform.iter().all(|count| (800..1200).contains(count)),
            "{uniform:?}"
        );
        // Rank 1 of 100 at an exponent of 0.99 has about a fifth of all.
        let latest = counts(Law::Latest);
        assert!((17_000..22_000).contains(&latest[99]), "{latest:?}");
        assert!(latest[99] > latest[98] && latest[98] > latest[90]);
        let zipf = counts(Law::Zipf);
        let favourite = (spread(0) % 100) as usize;
        assert!(zipf[favourite] >= 17_000, "{zipf:?}");
    }

    #[test]
    fn the_same_seed_chooses_the_same() {
        let choose = || {
            let mut choice = Choice::new(Law::Zipf, 1000, 3).expect("a thousand");
            (0..100).map(|_| choice.next(1000)).collect::<Vec<u64>>()
        };
        assert_eq!(choose(), choose());
    }
}
