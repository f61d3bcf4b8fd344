//! One thing that a paper's text says, beside what was measured.

use forebay_harness::{TextTable, digits};

use crate::paper::{is_as_uneven, is_near};

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Ours says the same.
    Holds,
    /// Ours says something else.
    DoesNotHold,
    /// There is no number of ours.
    NotMeasured,
    /// There is one, but this machine cannot tell, for this reason.
    NotJudged(String),
}

impl Verdict {
    fn of(holds: Option<bool>) -> Verdict {
        match holds {
            Some(true) => Verdict::Holds,
            Some(false) => Verdict::DoesNotHold,
            None => Verdict::NotMeasured,
        }
    }

    /// Whether it holds; none where that was not judged.
    #[must_use]
    pub const fn is_held(&self) -> Option<bool> {
        match self {
            Verdict::Holds => Some(true),
            Verdict::DoesNotHold => Some(false),
            Verdict::NotMeasured | Verdict::NotJudged(_) => None,
        }
    }

    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Verdict::Holds => "holds".into(),
            Verdict::DoesNotHold => "does not hold".into(),
            Verdict::NotMeasured => "not measured".into(),
            Verdict::NotJudged(why) => format!("not judged: {why}"),
        }
    }
}

/// One thing that a paper's text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Of which figure or table, by its number there, like `Figure 7a`.
    pub figure: &'static str,
    /// What it is of.
    pub what: String,
    /// The paper's number or order.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// What became of it.
    pub verdict: Verdict,
}

impl Claim {
    /// A ratio or a share.
    #[must_use]
    pub fn number(
        figure: &'static str,
        what: impl Into<String>,
        paper: f64,
        ours: Option<f64>,
    ) -> Claim {
        // What no division gives is no number.
        let ours = ours.filter(|ours| ours.is_finite() && *ours > 0.0);
        Claim {
            figure,
            what: what.into(),
            paper: digits(paper),
            ours: ours.map_or("–".into(), digits),
            verdict: Verdict::of(
                ours.map(|ours| is_near(ours, paper) && is_as_uneven(ours, paper)),
            ),
        }
    }

    /// That the first of two numbers is the smaller one.
    #[must_use]
    pub fn order(figure: &'static str, what: impl Into<String>, ours: Option<(f64, f64)>) -> Claim {
        Claim {
            figure,
            what: what.into(),
            paper: "so".into(),
            ours: ours.map_or("–".into(), |(first, second)| {
                format!("{} and {}", digits(first), digits(second))
            }),
            verdict: Verdict::of(ours.map(|(first, second)| first < second)),
        }
    }

    /// The same, where ours was measured but cannot be held against the paper's for a reason.
    #[must_use]
    pub fn unless(mut self, obstacle: Option<String>) -> Claim {
        if let (Some(_), Some(why)) = (self.verdict.is_held(), obstacle) {
            self.verdict = Verdict::NotJudged(why);
        }
        self
    }
}

/// A line for each: figure, what it is of, the paper's, ours, verdict.
#[must_use]
pub fn table(claims: &[Claim]) -> TextTable {
    let row = |claim: &Claim| {
        let texts = [claim.figure, &claim.what, &claim.paper, &claim.ours];
        let texts = texts.map(str::to_owned).into_iter();
        texts.chain([claim.verdict.words()]).collect()
    };
    TextTable {
        columns: ["figure", "what", "the paper", "here", "verdict"]
            .map(str::to_owned)
            .into(),
        rows: claims.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_to_be_near_and_say_the_same() {
        let verdict = |paper, ours| Claim::number("1", "it", paper, ours).verdict;
        assert_eq!(verdict(0.67, Some(0.6)), Verdict::Holds);
        assert_eq!(verdict(0.9, Some(0.99)), Verdict::DoesNotHold);
        assert_eq!(verdict(0.29, Some(0.6)), Verdict::DoesNotHold);
        assert_eq!(verdict(1.0, Some(0.9)), Verdict::Holds);
        for nothing in [None, Some(f64::NAN), Some(f64::INFINITY), Some(0.0)] {
            assert_eq!(verdict(1.0, nothing), Verdict::NotMeasured);
        }
    }

    #[test]
    fn an_order_is_of_two_numbers() {
        let claim = |ours| Claim::order("1", "less", ours);
        assert_eq!(claim(Some((1.0, 2.0))).verdict, Verdict::Holds);
        assert_eq!(claim(Some((2.0, 1.0))).verdict, Verdict::DoesNotHold);
        assert_eq!(table(&[claim(None)]).rows[0][4], "not measured");
    }

    #[test]
    fn an_obstacle_takes_a_verdict_away_and_nothing_else() {
        let why = || Some("two processors".to_owned());
        let judged = Claim::number("1", "it", 2.0, Some(2.0)).unless(why());
        assert_eq!(judged.verdict.words(), "not judged: two processors");
        assert_eq!(judged.ours, "2.00");
        let absent = Claim::number("1", "it", 2.0, None).unless(why());
        assert_eq!(absent.verdict, Verdict::NotMeasured);
        let open = Claim::number("1", "it", 2.0, Some(2.0)).unless(None);
        assert_eq!(open.verdict, Verdict::Holds);
    }
}
