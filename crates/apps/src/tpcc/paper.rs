//! What the text of Tinca's paper says of its Figures 8 and 12c, and whether ours is like it.

use forebay_lab::paper::{is_as_uneven, is_near};

use crate::tpcc::contender::Contender;
use crate::tpcc::results::{Metric, Results};

/// What a number of the paper's is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Of {
    /// Tinca over Classic.
    TincaOverClassic,
    Classic,
    Tinca,
}

/// A number of the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Said {
    pub figure: &'static str,
    pub metric: Metric,
    pub users: u32,
    pub of: Of,
    pub value: f64,
}

const fn said(figure: &'static str, metric: Metric, users: u32, of: Of, value: f64) -> Said {
    Said {
        figure,
        metric,
        users,
        of,
        value,
    }
}

/// §5.2.2 and §5.4.2; Figure 12c is of 20 users.
pub const SAID: [Said; 10] = [
    said("8a", Metric::Rate, 5, Of::TincaOverClassic, 1.8),
    said("8a", Metric::Rate, 60, Of::TincaOverClassic, 1.7),
    said("8b", Metric::Lines, 5, Of::TincaOverClassic, 0.298),
    said("8b", Metric::Lines, 60, Of::TincaOverClassic, 0.362),
    said("8c", Metric::DiskBlocks, 5, Of::Classic, 4.2),
    said("8c", Metric::DiskBlocks, 5, Of::Tinca, 1.9),
    said("8c", Metric::DiskBlocks, 60, Of::Classic, 7.0),
    said("8c", Metric::DiskBlocks, 60, Of::Tinca, 3.0),
    said("12c", Metric::WriteHits, 20, Of::Classic, 0.80),
    said("12c", Metric::WriteHits, 20, Of::Tinca, 0.93),
];

impl Said {
    pub fn title(&self) -> String {
        let what = match self.of {
            Of::TincaOverClassic => "Tinca ÷ Classic",
            Of::Classic => "Classic",
            Of::Tinca => "Tinca",
        };
        let unit = match self.of {
            Of::TincaOverClassic => "",
            _ => match self.metric {
                Metric::WriteHits => ", share",
                _ => ", blocks",
            },
        };
        format!("{}, {} users: {what}{unit}", self.figure, self.users)
    }

    /// Ours in the place of the paper's Tinca: `contender`, or Classic where that is what it says.
    pub fn ours(&self, results: &Results, contender: Contender) -> Option<f64> {
        let (metric, users) = (self.metric, self.users);
        match self.of {
            Of::TincaOverClassic => results.ratio(metric, users, (contender, Contender::Classic)),
            Of::Classic => results.median(metric, users, Contender::Classic),
            Of::Tinca => results.median(metric, users, contender),
        }
    }

    /// Whether a number of ours says what the paper's does: it is within a factor of 1.25; a ratio is at least
    /// half as far from 1, on the same side; of hits the misses are near, too.
    pub fn holds(&self, ours: f64) -> bool {
        let theirs = self.value;
        let misses_are_near = || is_near(1.0 - ours, 1.0 - theirs);
        match (self.of, self.metric) {
            (Of::TincaOverClassic, _) => ratio_holds(ours, theirs),
            (_, Metric::WriteHits) => is_near(ours, theirs) && misses_are_near(),
            _ => is_near(ours, theirs),
        }
    }
}

/// Whether a ratio says what the paper's does: it is near, and at least half as far from 1, on the same side.
pub fn ratio_holds(ours: f64, theirs: f64) -> bool {
    is_near(ours, theirs) && is_as_uneven(ours, theirs)
}

/// What the paper has of a contender under so many users; its Tinca stands for both of ours.
pub fn absolute(metric: Metric, users: u32, contender: Contender) -> Option<f64> {
    let of = match contender {
        Contender::Classic => Of::Classic,
        Contender::Tinca | Contender::TincaWithoutJournal => Of::Tinca,
        _ => return None,
    };
    find(metric, users, of)
}

/// What it has of Tinca over Classic.
pub fn ratio(metric: Metric, users: u32) -> Option<f64> {
    find(metric, users, Of::TincaOverClassic)
        .or_else(|| Some(find(metric, users, Of::Tinca)? / find(metric, users, Of::Classic)?))
}

fn find(metric: Metric, users: u32, of: Of) -> Option<f64> {
    let mut all = SAID.iter();
    let found = all.find(|said| (said.metric, said.users, said.of) == (metric, users, of));
    found.map(|said| said.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_answer_holds_nothing() {
        let lines = SAID[2];
        assert!(lines.holds(0.298) && lines.holds(0.25));
        assert!(!lines.holds(1.0));
        let rate = SAID[1];
        assert!(rate.holds(1.4) && !rate.holds(1.3));
        let hits = SAID[9];
        assert!(
            hits.holds(0.92) && !hits.holds(1.0),
            "all hits are not 93 %"
        );
    }

    #[test]
    fn numbers_are_found_by_what_they_are_of() {
        let blocks = |contender| absolute(Metric::DiskBlocks, 5, contender);
        assert_eq!(blocks(Contender::Classic), Some(4.2));
        assert_eq!(blocks(Contender::TincaWithoutJournal), Some(1.9));
        assert_eq!(blocks(Contender::Forebay), None);
        assert_eq!(ratio(Metric::Rate, 60), Some(1.7));
        assert_eq!(ratio(Metric::DiskBlocks, 60), Some(3.0 / 7.0));
        assert_eq!(ratio(Metric::Fences, 60), None);
    }
}
