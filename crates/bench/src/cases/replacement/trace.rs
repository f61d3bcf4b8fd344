//! Reference traces and the hit ratio of a policy on them.
//!
//! Traces are made from a seed, so a hit ratio is an exact number: the same on every machine.

use std::collections::HashMap;

use forebay::unstable::replace::Replacement;

/// SplitMix64: small, fast, and the same everywhere.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in [0, 1).
    fn next_unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws ranks `0..keys` with probability proportional to `1 / (rank + 1)^skew`.
struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    fn new(keys: usize, skew: f64) -> Self {
        assert!(keys > 0, "a trace needs at least one key");
        let mut sum = 0.0;
        let cumulative = (1..=keys)
            .map(|rank| {
                sum += (rank as f64).powf(-skew);
                sum
            })
            .collect();
        Self { cumulative }
    }

    fn draw(&self, random: &mut SplitMix64) -> u64 {
        let total = self.cumulative[self.cumulative.len() - 1];
        let point = random.next_unit() * total;
        self.cumulative.partition_point(|&sum| sum <= point) as u64
    }
}

/// `len` references to `keys` blocks, Zipf-distributed with exponent `skew`; key 0 is the hottest.
///
/// # Panics
/// Where `keys` is zero.
#[must_use]
pub fn zipf_trace(keys: usize, skew: f64, len: usize, seed: u64) -> Vec<u64> {
    let zipf = Zipf::new(keys, skew);
    let mut random = SplitMix64(seed);
    (0..len).map(|_| zipf.draw(&mut random)).collect()
}

/// Shape of [`scan_mixed_trace`].
#[derive(Clone, Copy, Debug)]
pub struct ScanMix {
    /// Blocks of the skewed part.
    pub keys: usize,
    /// Its Zipf exponent.
    pub skew: f64,
    /// Blocks of the loop, which lie beyond the skewed part's.
    pub loop_keys: usize,
    /// Skewed references between two bursts of the loop.
    pub skewed_between: usize,
    /// Consecutive loop references in a burst; the next burst goes on where it ended.
    pub burst: usize,
}

/// `len` references: skewed ones, interrupted by bursts of one long loop, as a backup, a table scan
/// or a log checkpoint makes them.
///
/// # Panics
/// Where the mix has no skewed or no looping blocks.
#[must_use]
pub fn scan_mixed_trace(mix: ScanMix, len: usize, seed: u64) -> Vec<u64> {
    assert!(mix.loop_keys > 0, "a loop needs at least one key");
    let zipf = Zipf::new(mix.keys, mix.skew);
    let mut random = SplitMix64(seed);
    let mut next_in_loop = 0;
    let round = (mix.skewed_between + mix.burst).max(1);
    (0..len)
        .map(|step| {
            if step % round < mix.skewed_between {
                zipf.draw(&mut random)
            } else {
                let key = (mix.keys + next_in_loop) as u64;
                next_in_loop = (next_in_loop + 1) % mix.loop_keys;
                key
            }
        })
        .collect()
}

/// Replays `trace` through an empty `policy` with room for `capacity` blocks; returns hits ÷ references.
///
/// # Panics
/// Where `capacity` is zero or the policy finds no victim in a full cache in which all are eligible.
#[must_use]
pub fn simulate_hit_ratio(policy: &dyn Replacement, trace: &[u64], capacity: usize) -> f64 {
    assert!(capacity > 0 && policy.is_empty());
    let mut entry_of: HashMap<u64, u32> = HashMap::with_capacity(capacity);
    let mut key_of = vec![0; capacity];
    let mut used = 0;
    let mut victims = Vec::new();
    let mut hits = 0u64;
    for &key in trace {
        if let Some(&entry) = entry_of.get(&key) {
            hits += 1;
            policy.on_hit(entry);
            continue;
        }
        let entry = if used < capacity {
            used += 1;
            (used - 1) as u32
        } else {
            victims.clear();
            policy.victims(1, &mut |_| true, &mut victims);
            let victim = *victims.first().expect("a full cache has a victim");
            entry_of.remove(&key_of[victim as usize]);
            policy.on_remove(victim);
            victim
        };
        entry_of.insert(key, entry);
        key_of[entry as usize] = key;
        policy.on_insert(entry);
    }
    if trace.is_empty() {
        0.0
    } else {
        hits as f64 / trace.len() as f64
    }
}
