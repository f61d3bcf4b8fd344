//! What comes first on the page: every figure and table of the five papers, theirs, ours, whether it holds and why; and where
//! Forebay loses.

use forebay_harness::{Section, TextTable, digits};
use serde_json::{Value, json};

use super::FigureResult;
use super::catalogue::{Entry, Standing, catalogue};
use super::compare::{Comparison, compare, why};
use super::losses;
use crate::measure::CountsRow;

const HOLDS: &str = "A number holds if ours is within a factor of 1.25 of the paper's and tells the designs apart as it does: a ratio at least half as far from \
     1, on the same side; of a share what lacks to all of it is near, too. A flat answer holds nothing. Times that were measured while others \
     used the processors are not judged, neither here nor below; counts are. “On a model” is a figure whose real program the lab does \
     not run.";

/// The section of a page.
pub(super) fn section(results: &[FigureResult], counts: &[CountsRow]) -> Section {
    let rows = catalogue().map(|entry| row(entry, results).into());
    let verdicts = TextTable {
        columns: [
            "figure",
            "the paper's",
            "ours",
            "verdict",
            "why, or what is missing",
        ]
        .map(str::to_owned)
        .into(),
        rows: rows.collect(),
    };
    let mut words = vec![("Figure by figure".into(), verdicts)];
    let losses = losses::table(results, counts);
    if !losses.rows.is_empty() {
        words.push((
            "Where Forebay loses to one of the other caches".into(),
            losses,
        ));
    }
    Section {
        heading: "What holds of the five papers".into(),
        paragraphs: [HOLDS, losses::RULE].map(str::to_owned).into(),
        words,
        ..Section::default()
    }
}

/// The same for programs.
pub(super) fn to_json(results: &[FigureResult]) -> Value {
    let rows = catalogue().map(|entry| {
        let [figure, paper, ours, verdict, why] = row(entry, results);
        json!({
            "figure": figure,
            "command": entry.command(),
            "paper": paper,
            "ours": ours,
            "verdict": verdict,
            "why": why,
        })
    });
    rows.collect()
}

fn row(entry: &Entry, results: &[FigureResult]) -> [String; 5] {
    let result = results
        .iter()
        .find(|result| entry.figure() == Some(result.figure.name));
    let comparisons = result.map(compare).unwrap_or_default();
    let papers = comparisons.iter();
    let papers = papers.map(|one| format!("{} {}", one.what, digits(one.paper)));
    let (verdict, why) = verdict(entry, result, &comparisons);
    [
        format!("{}: {}", entry.name(), entry.title),
        papers.collect::<Vec<_>>().join("; "),
        ours(&comparisons),
        verdict,
        why,
    ]
}

/// Ours of each of the paper's numbers, in their order; what does not hold is marked.
fn ours(comparisons: &[Comparison]) -> String {
    let texts = comparisons.iter().map(|one| {
        let mark = if one.is_like() == Some(false) {
            " ✗"
        } else {
            ""
        };
        one.ours.map_or("–".into(), digits) + mark
    });
    texts.collect::<Vec<_>>().join("; ")
}

fn verdict(
    entry: &Entry,
    result: Option<&FigureResult>,
    comparisons: &[Comparison],
) -> (String, String) {
    let model = match entry.standing {
        Standing::Modelled(_) => ", on a model",
        _ => "",
    };
    let Some(result) = result else {
        let verdict = match entry.standing {
            Standing::Here(_) | Standing::Modelled(_) => {
                format!("not in this run: {}", entry.command())
            }
            Standing::Elsewhere(command) => format!("elsewhere: {command}"),
            Standing::Drawing => "nothing to measure".into(),
        };
        return (verdict, entry.words.into());
    };
    let likes: Vec<bool> = comparisons.iter().filter_map(Comparison::is_like).collect();
    let holding = likes.iter().filter(|holds| **holds).count();
    let verdict = match (likes.len(), holding) {
        (0, _) if comparisons.is_empty() => "the text has no number".into(),
        (0, _) if comparisons.iter().any(Comparison::is_put_off) => {
            "times of a loaded machine: not judged".into()
        }
        (0, _) => "its numbers are of what is not in this report".into(),
        (all, holding) if holding == all => format!("holds ({all} of {all})"),
        (all, 0) => format!("does not hold (0 of {all})"),
        (all, holding) => format!("in part ({holding} of {all})"),
    };
    let mut reasons = Vec::new();
    if holding < likes.len() {
        reasons.extend(why(result));
    }
    if !entry.words.is_empty() {
        reasons.push(entry.words.to_owned());
    }
    (verdict + model, reasons.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::{figure, loaded};

    fn row_of(name: &str, results: &[FigureResult]) -> Vec<String> {
        let rows = section(results, &[]).words[0].1.rows.clone();
        let mut rows = rows.into_iter();
        let row = rows.find(|row| row[0].starts_with(name));
        row.expect("it is in the catalogue")
    }

    #[test]
    fn every_figure_says_what_became_of_it() {
        let values: [(&'static str, &[f64]); 3] = [
            ("classic", &[100.0, 100.0, 100.0]),
            ("tinca", &[250.0, 210.0, 90.0]),
            ("forebay", &[80.0, 300.0, 300.0]),
        ];
        let results = [figure("tinca-7a", &["3/7", "5/5", "7/3"], &values)];
        let row = row_of("Tinca, Figure 7a", &results);
        assert_eq!(row[2], "2.50; 2.10; 0.900 ✗");
        assert_eq!(row[3], "in part (2 of 3)");
        assert!(!row[4].is_empty(), "a reason");
        let loaded = [loaded("tinca-7a", &["3/7", "5/5", "7/3"], &values)];
        let row = row_of("Tinca, Figure 7a", &loaded);
        assert_eq!(row[2], "2.50; 2.10; 0.900");
        assert_eq!(row[3], "times of a loaded machine: not judged");
        assert_eq!(
            row_of("Tinca, Figure 7b", &results)[3],
            "not in this run: forebay-lab run tinca-7b"
        );
        assert_eq!(
            row_of("block cache study, Figure 1:", &results)[3],
            "elsewhere: make rig-grid"
        );
    }
}
