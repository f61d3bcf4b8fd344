//! What the block cache study's text says, beside what was measured.

use forebay_harness::{Section, TextTable, digits};
use forebay_lab::paper::{is_as_uneven, is_near};

/// What the verdicts mean.
const MEANING: &str = "A number holds if ours is within a factor of 1.25 of the study's and, of a ratio, on the same side of 1 and half as far \
     from it at least. An order holds if ours is the same.";

/// One thing that the text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Of which figure or table.
    figure: &'static str,
    /// What it is of.
    what: String,
    /// The study's number or order.
    paper: String,
    ours: String,
    verdict: &'static str,
}

impl Claim {
    /// A ratio or a share.
    pub fn number(
        figure: &'static str,
        what: impl Into<String>,
        paper: f64,
        ours: Option<f64>,
    ) -> Claim {
        Claim {
            figure,
            what: what.into(),
            paper: digits(paper),
            ours: ours.map_or("–".into(), digits),
            verdict: verdict(ours.map(|ours| is_near(ours, paper) && is_as_uneven(ours, paper))),
        }
    }

    /// That the first of two numbers is the smaller one.
    pub fn order(figure: &'static str, what: impl Into<String>, ours: Option<(f64, f64)>) -> Claim {
        Claim {
            figure,
            what: what.into(),
            paper: "so".into(),
            ours: ours.map_or("–".into(), |(first, second)| {
                format!("{} and {}", digits(first), digits(second))
            }),
            verdict: verdict(ours.map(|(first, second)| first < second)),
        }
    }
}

fn verdict(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "holds",
        Some(false) => "does not hold",
        None => "not measured",
    }
}

/// The section of a page; empty where nothing that the text says was measured.
pub fn section(claims: &[Claim]) -> Section {
    let words = (!claims.is_empty()).then(|| ("What the study's text says".into(), table(claims)));
    Section {
        heading: "The study's text".into(),
        paragraphs: vec![MEANING.into()],
        words: words.into_iter().collect(),
        ..Section::default()
    }
}

/// A line for each: figure, what it is of, theirs, ours, verdict.
pub fn table(claims: &[Claim]) -> TextTable {
    let row = |claim: &Claim| {
        let texts = [
            claim.figure,
            claim.what.as_str(),
            &claim.paper,
            &claim.ours,
            claim.verdict,
        ];
        texts.map(str::to_owned).into()
    };
    TextTable {
        columns: ["figure", "what", "the study", "here", "verdict"]
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
        assert_eq!(verdict(0.67, Some(0.6)), "holds");
        assert_eq!(verdict(0.9, Some(0.99)), "does not hold");
        assert_eq!(verdict(0.29, Some(0.6)), "does not hold");
        assert_eq!(verdict(1.0, Some(0.9)), "holds");
        assert_eq!(verdict(1.0, None), "not measured");
    }

    #[test]
    fn an_order_is_of_two_numbers() {
        let claim = |ours| Claim::order("1", "less", ours);
        assert_eq!(claim(Some((1.0, 2.0))).verdict, "holds");
        assert_eq!(claim(Some((2.0, 1.0))).verdict, "does not hold");
        assert_eq!(table(&[claim(None)]).rows[0][4], "not measured");
    }
}
