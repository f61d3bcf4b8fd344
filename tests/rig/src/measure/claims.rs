//! What the block cache study's text says, beside what was measured, by the laboratory's rule.

use forebay_harness::Section;
use forebay_lab::elsewhere::{Claim, Verdict, table};

/// What the verdicts mean.
const MEANING: &str = "A number holds if ours is within a factor of 1.25 of the study's and, of a ratio, on the same side of 1 and half as far \
     from it at least. An order holds if ours is the same.";

/// The section of a page; of figures of which nothing was measured nothing is said.
pub fn section(claims: &[Claim]) -> Section {
    let is_measured = |figure: &str| {
        let mut of = claims.iter().filter(|claim| claim.figure == figure);
        of.any(|claim| claim.verdict != Verdict::NotMeasured)
    };
    let said: Vec<Claim> = claims
        .iter()
        .filter(|claim| is_measured(claim.figure))
        .cloned()
        .collect();
    let words = (!said.is_empty()).then(|| ("What the study's text says".into(), table(&said)));
    Section {
        heading: "The study's text".into(),
        paragraphs: vec![MEANING.into()],
        words: words.into_iter().collect(),
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_figures_of_which_something_was_measured_are_spoken_of() {
        let claims = [
            Claim::order("Figure 1", "less", None),
            Claim::order("Figure 4", "less", Some((1.0, 2.0))),
            Claim::order("Figure 4", "least", None),
        ];
        let section = section(&claims);
        let figures = section.words[0].1.rows.iter().map(|row| row[0].as_str());
        assert_eq!(figures.collect::<Vec<_>>(), ["Figure 4", "Figure 4"]);
        assert!(super::section(&claims[..1]).is_empty());
    }
}
