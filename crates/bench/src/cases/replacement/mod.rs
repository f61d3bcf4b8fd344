//! Hit ratio of the default policy beside LRU's: exact numbers, from traces made of a seed.

mod trace;

use forebay::ReplacementPolicy;

use super::Bench;
use forebay_harness::{Result, Row};
use trace::{ScanMix, scan_mixed_trace, simulate_hit_ratio, zipf_trace};

const KEYS: usize = 100_000;
const REFERENCES: usize = 1_000_000;
const SKEW: f64 = 0.99;
const SEED: u64 = 61;

/// The worse of the two traces, in a cache for a tenth of the blocks.
pub fn against_lru(bench: &Bench) -> Result<Vec<Row>> {
    let capacity = KEYS / 10;
    let mix = ScanMix {
        keys: KEYS,
        skew: SKEW,
        loop_keys: 2 * KEYS,
        skewed_between: 2 * capacity,
        burst: capacity / 2,
    };
    let traces = [
        ("Zipf", zipf_trace(KEYS, SKEW, REFERENCES, SEED)),
        ("scan-mixed", scan_mixed_trace(mix, REFERENCES, SEED)),
    ];
    let mut worst = f64::INFINITY;
    for (name, trace) in &traces {
        let [ours, lru] = [ReplacementPolicy::default(), ReplacementPolicy::Lru]
            .map(|policy| simulate_hit_ratio(&*policy.build(capacity), trace, capacity));
        bench.say(&format!(
            "  {name}: hit ratio {ours:.4}, LRU {lru:.4}, {:.4} x",
            ours / lru
        ));
        worst = worst.min(ours / lru);
    }
    Ok(vec![Row::new(
        "replacement_hit_ratio_vs_lru",
        worst,
        "ratio",
    )])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The traces the default is chosen by: name, references, cache size in blocks.
    fn reference_traces() -> Vec<(String, Vec<u64>, usize)> {
        const KEYS: usize = 20_000;
        const LEN: usize = 200_000;
        let mut traces = Vec::new();
        for capacity in [KEYS / 100, KEYS / 10, KEYS / 3] {
            for skew in [0.8, 0.99, 1.2] {
                let name = format!("zipf {skew}, {capacity} blocks");
                traces.push((name, zipf_trace(KEYS, skew, LEN, 1), capacity));
            }
            for (burst, loop_keys) in [
                (capacity / 2, 20 * capacity),
                (capacity * 2, capacity * 3 / 2),
            ] {
                let mix = ScanMix {
                    keys: KEYS,
                    skew: 0.99,
                    loop_keys,
                    skewed_between: 2 * capacity,
                    burst,
                };
                let name = format!("zipf 0.99 + loop of {loop_keys}, {capacity} blocks");
                traces.push((name, scan_mixed_trace(mix, LEN, 2), capacity));
            }
        }
        traces
    }

    #[test]
    fn the_default_hits_at_least_as_often_as_lru_on_every_trace() {
        for (name, trace, capacity) in reference_traces() {
            let lru =
                simulate_hit_ratio(&*ReplacementPolicy::Lru.build(capacity), &trace, capacity);
            let default = ReplacementPolicy::default().build(capacity);
            let ratio = simulate_hit_ratio(&*default, &trace, capacity);
            println!(
                "{name}: default {ratio:.4}, LRU {lru:.4}, {:.3} x",
                ratio / lru
            );
            assert!(ratio >= lru, "{name}: default {ratio}, LRU {lru}");
        }
    }
}
