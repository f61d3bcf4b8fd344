//! What ways divided at run time win back of what Table 3's division costs beside the best fixed one, from the cells of the figures.

use crate::change::Change;
use crate::claims::Metric;
use crate::design::Design;
use crate::figures::plan::{WAYS, diff_ways, redundancy_ways};
use crate::figures::results::{Results, Side};
use crate::name::Workload;

/// What is asked to be won back.
pub const GAIN_ASKED: f64 = 0.8;
/// By how much nothing is to take longer than with Table 3's division.
pub const SLOWER_MOST: f64 = 0.01;
/// Fixed ways hurt where Table 3's division takes so much longer than the best fixed one.
const HURTS: f64 = 0.01;

const FIXED: Side = (Design::Tvarak, Change::Nothing);
const ADAPTIVE: Side = (Design::Adaptive, Change::Nothing);

/// A workload's ways, fixed and divided at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// The workload.
    pub workload: Workload,
    /// Time over that of Table 3's division.
    pub over_fixed: f64,
    /// The best fixed division that was measured, and its time over that of Table 3's; none where Figure 10 does not have the workload.
    pub best: Option<(String, f64)>,
}

impl Gain {
    /// What is won back, of what the best fixed division does; none where fixed ways do not hurt.
    pub fn won_back(&self) -> Option<f64> {
        let (_, best) = self.best.as_ref()?;
        let lost = 1.0 - best;
        (lost > HURTS * best).then(|| (1.0 - self.over_fixed) / lost)
    }

    /// Whether it is as good as was asked: as much is won back, or nothing lost, where there is nothing to win.
    pub fn is_good(&self) -> bool {
        let is_won = self.won_back().is_none_or(|gain| gain >= GAIN_ASKED);
        is_won && self.over_fixed <= 1.0 + SLOWER_MOST
    }
}

/// The fixed divisions of all figures: those of Figure 10, and the steps of Figure 9 that have no diffs, or no ways at all.
fn fixed() -> Vec<Side> {
    let changes = WAYS.map(redundancy_ways).into_iter();
    let changes = changes.chain(WAYS.map(diff_ways));
    let ways = changes.map(|change| (Design::Tvarak, change));
    let steps = [Design::Cached, Design::LineSums].map(|design| (design, Change::Nothing));
    ways.chain(steps).collect()
}

/// Of every workload that was run with ways divided at run time and with those of Table 3.
pub fn gains(results: &Results) -> Vec<Gain> {
    let over_fixed = |workload, side| {
        let ratio = results.ratio(workload, [side, FIXED], Metric::Runtime)?;
        Some(ratio.mean)
    };
    let has_ways = |workload| {
        let mut ways = WAYS.map(redundancy_ways).into_iter();
        ways.any(|change| {
            change != Change::Nothing && over_fixed(workload, (Design::Tvarak, change)).is_some()
        })
    };
    let gain = |workload| {
        let each = fixed().into_iter().filter_map(|side| {
            let (design, change) = side;
            let what = match change {
                Change::Nothing => design.as_str().to_owned(),
                change => format!("{} {change}", design.as_str()),
            };
            Some((what, over_fixed(workload, side)?))
        });
        let best = each.min_by(|(_, one), (_, other)| one.total_cmp(other));
        Some(Gain {
            workload,
            over_fixed: over_fixed(workload, ADAPTIVE)?,
            best: best.filter(|_| has_ways(workload)),
        })
    };
    Workload::all().into_iter().filter_map(gain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::measured::Measured;
    use crate::figures::plan::{Figure, cells};

    fn of(adaptive: u64, best: u64) -> Vec<Gain> {
        let mut results = Results::new(1);
        for cell in cells(&Figure::ALL, 1) {
            let runtime_ns = match (cell.design, cell.change) {
                (Design::Adaptive, _) => adaptive,
                // No other than one of eight ways is as good.
                (_, Change::RedundancyWays(8)) => best,
                _ => 1000,
            };
            let measured = Measured {
                runtime_ns,
                ..Measured::default()
            };
            results.put(&cell, measured);
        }
        gains(&results)
    }

    #[test]
    fn every_way_of_figure_10_may_be_the_best() {
        let gains = of(920, 900);
        let named = |name| Workload::named(name).expect("a workload")[0];
        let gain = |name| {
            let mut all = gains.iter();
            let found = all.find(|gain| gain.workload == named(name));
            found.expect("it was run")
        };
        let triad = gain("stream-triad");
        assert_eq!(triad.best.as_ref().map(|(_, best)| *best), Some(0.9));
        let won_back = triad.won_back().expect("fixed ways hurt");
        assert!((won_back - 0.8).abs() < 1e-9, "{won_back}");
        // Figure 10 does not have it.
        assert_eq!(gain("stream-copy").best, None);
    }

    #[test]
    fn nothing_may_take_a_hundredth_longer_nor_win_back_too_little() {
        for (adaptive, best, is_good) in [
            (1000, 1000, true),
            (1009, 995, true),
            (1011, 1000, false),
            (950, 900, false),
            (915, 900, true),
        ] {
            let gains = of(adaptive, best);
            let presented = |gain: &&Gain| gain.best.is_some();
            let mut presented = gains.iter().filter(presented);
            assert!(
                presented.all(|gain| gain.is_good() == is_good),
                "{adaptive} {best}"
            );
        }
    }
}
