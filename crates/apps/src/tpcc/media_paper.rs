//! What the text of Tinca's paper says of its Figures 12a and 12b, and ours beside it.

use crate::tpcc::contender::Contender;
use crate::tpcc::medium::Medium;
use crate::tpcc::paper::ratio_holds;
use crate::tpcc::results::{Metric, Results};

/// Users of both figures.
pub const USERS: u32 = 20;

/// What a ratio of transactions a minute is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Of {
    /// Tinca over Classic, on one medium.
    TincaOverClassic(Medium),
    /// The HDD over the SSD, of Classic.
    ClassicsHddOverSsd,
    /// The same of Tinca.
    TincasHddOverSsd,
}

/// A ratio of the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    pub figure: &'static str,
    pub of: Of,
    pub value: f64,
}

const fn said(figure: &'static str, of: Of, value: f64) -> Said {
    Said { figure, of, value }
}

/// §5.4.1. It says that on the HDD Classic is about 5 times slower and Tinca about 3 times.
pub const SAID: [Said; 7] = [
    said("12a", Of::TincaOverClassic(Medium::PcmSsd), 1.7),
    said("12a", Of::TincaOverClassic(Medium::PcmHdd), 2.8),
    said("12a", Of::ClassicsHddOverSsd, 1.0 / 5.0),
    said("12a", Of::TincasHddOverSsd, 1.0 / 3.0),
    said("12b", Of::TincaOverClassic(Medium::PcmSsd), 1.7),
    said("12b", Of::TincaOverClassic(Medium::SttRamSsd), 1.6),
    said("12b", Of::TincaOverClassic(Medium::NvdimmSsd), 1.6),
];

impl Said {
    pub fn title(&self) -> String {
        let what = match self.of {
            Of::TincaOverClassic(medium) => format!("{}: Tinca ÷ Classic", medium.title()),
            Of::ClassicsHddOverSsd => "Classic: HDD ÷ SSD".to_owned(),
            Of::TincasHddOverSsd => "Tinca: HDD ÷ SSD".to_owned(),
        };
        format!("{}, {what}", self.figure)
    }

    /// Ours, with `contender` in the place of the paper's Tinca and `base` in that of its Classic.
    pub fn ours(&self, results: &Results, [contender, base]: [Contender; 2]) -> Option<f64> {
        let change = |of| {
            let ssd = results.of(Medium::PcmSsd);
            let hdd = results.of(Medium::PcmHdd);
            hdd.ratio_to(&ssd, Metric::Rate, USERS, (of, of))
        };
        match self.of {
            Of::TincaOverClassic(medium) => {
                let results = results.of(medium);
                results.ratio(Metric::Rate, USERS, (contender, base))
            }
            Of::ClassicsHddOverSsd => change(base),
            Of::TincasHddOverSsd => change(contender),
        }
    }

    /// Whether ours says what the paper's does.
    pub fn holds(&self, ours: f64) -> bool {
        ratio_holds(ours, self.value)
    }
}

/// The paper's ratio on a medium.
pub fn ratio(medium: Medium) -> Option<f64> {
    let mut all = SAID.iter();
    let found = all.find(|said| said.of == Of::TincaOverClassic(medium));
    found.map(|said| said.value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tpcc::results::Measured;
    use crate::tpcc::results::tests::measured;

    /// A hundred transactions in so many seconds.
    fn took(contender: Contender, medium: Medium, round: usize, seconds: u64) -> Measured {
        Measured {
            medium: Some(medium),
            elapsed: Duration::from_secs(seconds),
            ..measured(contender, USERS, round, 1)
        }
    }

    #[test]
    fn ratios_are_of_a_medium_or_between_two_and_always_of_a_round() {
        let (classic, tinca) = (Contender::Classic, Contender::TincaWithoutJournal);
        let mut results = Results::default();
        // The second round is three times as slow.
        for (round, slower) in [(0, 1), (1, 3)] {
            results.add(took(classic, Medium::PcmSsd, round, 4 * slower));
            results.add(took(tinca, Medium::PcmSsd, round, 2 * slower));
            results.add(took(classic, Medium::PcmHdd, round, 20 * slower));
        }
        results.add(took(tinca, Medium::PcmHdd, 1, 30));
        let ours: Vec<Option<f64>> = SAID
            .iter()
            .map(|said| said.ours(&results, [tinca, classic]))
            .collect();
        let expected = [
            Some(2.0),
            Some(2.0),
            Some(0.2),
            Some(0.2),
            Some(2.0),
            None,
            None,
        ];
        assert_eq!(ours, expected);
        assert!(SAID[0].holds(2.0) && !SAID[0].holds(1.0) && !SAID[1].holds(2.0));
        assert_eq!(ratio(Medium::SttRamSsd), Some(1.6));
    }
}
