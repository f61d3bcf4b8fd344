//! The middle of several runs, and how far the others are from it.

use forebay_harness::median;

/// The middle of some numbers, and their ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// In the middle.
    pub median: f64,
    /// The lowest.
    pub least: f64,
    /// The highest.
    pub most: f64,
}

impl Spread {
    /// Of these numbers; none of none.
    #[must_use]
    pub fn of(numbers: Vec<f64>) -> Option<Spread> {
        let ends = numbers.iter().copied();
        let (least, most) = ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
            (least.min(one), most.max(one))
        });
        Some(Spread {
            median: median(numbers)?,
            least,
            most,
        })
    }

    /// Of the ratios of rounds: each divided by itself, so that what slows a round down slows both of its sides. A round of which one
    /// side failed has none.
    #[must_use]
    pub fn of_ratios(of: &[Option<f64>], over: &[Option<f64>]) -> Option<Spread> {
        let rounds = of.iter().zip(over);
        let ratios = rounds.filter_map(|(of, over)| {
            let over = over.filter(|over| *over > 0.0)?;
            Some((*of)? / over)
        });
        Spread::of(ratios.collect())
    }
}
