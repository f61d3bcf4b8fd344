//! How fast Forebay is beside the fastest of the others.

use serde::Serialize;

use super::Spread;

/// Forebay's throughput over that of the fastest other design, as printed or with the cleaner, round by round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Which that is.
    pub fastest_other: String,
    /// The middle of the rounds.
    pub ops_per_s_vs_fastest: f64,
    /// The least of them.
    pub ops_per_s_vs_fastest_least: f64,
    /// The most of them.
    pub ops_per_s_vs_fastest_most: f64,
}

impl Standing {
    /// Of these rounds, beside those of others, each by name.
    pub fn among<'o>(
        ours: &[Option<f64>],
        others: impl Iterator<Item = (String, &'o [Option<f64>])>,
    ) -> Option<Standing> {
        let ratios =
            others.filter_map(|(name, theirs)| Some((name, Spread::of_ratios(ours, theirs)?)));
        let least = ratios.min_by(|(_, left), (_, right)| left.median.total_cmp(&right.median));
        least.map(|(fastest_other, ratio)| Standing {
            fastest_other,
            ops_per_s_vs_fastest: ratio.median,
            ops_per_s_vs_fastest_least: ratio.least,
            ops_per_s_vs_fastest_most: ratio.most,
        })
    }
}
