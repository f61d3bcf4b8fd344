//! Hit ratio of the default policy beside LRU's: exact numbers, from traces made of a seed.

use forebay::ReplacementPolicy;
use forebay::replace::trace::{ScanMix, scan_mixed_trace, simulate_hit_ratio, zipf_trace};

use super::Bench;
use crate::Result;
use crate::report::Row;

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
