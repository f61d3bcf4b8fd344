//! What comes first on the page: every figure and table of the five papers, theirs, ours, whether it holds and why; and where
//! Forebay loses.
//!
//! A verdict is of what this run measured, or of another program's report that was there when it was written, whose commit and
//! date it names. There is none of anything else.

use forebay_harness::{Section, TextTable, digits};
use serde_json::{Value, json};

use super::catalogue::{Entry, Standing, catalogue};
use super::compare::{Comparison, compare, why};
use super::losses;
use super::{FigureResult, Paper};
use crate::elsewhere::{Claim, Report, Reports, Source, Verdict};
use crate::measure::CountsRow;

const HOLDS: &str = "A number holds if ours is within a factor of 1.25 of the paper's and tells the designs apart as it does: a ratio at least half as far from \
     1, on the same side; of a share what lacks to all of it is near, too. A flat answer holds nothing. Times that were measured while others \
     used the processors are not judged, neither here nor below; counts are. “On a model” is a figure whose real program the lab does \
     not run. What other programs measure is judged by their reports, of the commit and date that stand there.";

/// More claims of one figure are told by those that do not hold.
const CLAIMS_SHOWN: usize = 12;

/// A figure or table, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// Whose.
    pub(super) paper: Paper,
    /// Its name, like `Tinca, Figure 7a`, and what it shows.
    pub(super) figure: [String; 2],
    /// What reproduces it.
    pub(super) command: String,
    /// The paper's numbers.
    pub(super) theirs: String,
    /// Ours of each, in their order; what does not hold is marked.
    pub(super) ours: String,
    /// What became of it.
    pub(super) verdict: String,
    /// Why, or what is missing.
    pub(super) why: String,
    /// How many of the paper's numbers and orders were judged.
    pub(super) judged: usize,
    /// How many of them hold.
    pub(super) held: usize,
}

/// One for each entry of the catalogue.
pub(super) fn rows(results: &[FigureResult], reports: &Reports) -> Vec<Row> {
    catalogue()
        .map(|entry| entry_row(entry, results, reports))
        .collect()
}

/// How many hold of each paper's, in words; none where nothing was judged.
pub(super) fn shares(rows: &[Row]) -> Option<String> {
    let of = |paper: Paper| {
        let rows = rows.iter().filter(move |row| row.paper == paper);
        rows.fold((0, 0), |(judged, held), row| {
            (judged + row.judged, held + row.held)
        })
    };
    let shares = Paper::ALL.map(|paper| (paper, of(paper)));
    let all: usize = shares.iter().map(|(_, (judged, _))| judged).sum();
    let held: usize = shares.iter().map(|(_, (_, held))| held).sum();
    let words = shares.iter().filter(|(_, (judged, _))| *judged > 0);
    let words = words.map(|(paper, (judged, held))| format!("{} {held} of {judged}", paper.name()));
    let words: Vec<String> = words.collect();
    (all > 0).then(|| {
        format!(
            "Of the {all} numbers and orders of the papers' texts that could be judged {held} hold: {}.",
            words.join(", ")
        )
    })
}

/// The section of a page.
pub(super) fn section(rows: &[Row], results: &[FigureResult], counts: &[CountsRow]) -> Section {
    let texts = rows.iter().map(|row| {
        let figure = row.figure.join(": ");
        [&figure, &row.theirs, &row.ours, &row.verdict, &row.why]
            .map(String::clone)
            .into()
    });
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
        rows: texts.collect(),
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
pub(super) fn to_json(rows: &[Row]) -> Value {
    let rows = rows.iter().map(|row| {
        json!({
            "figure": row.figure.join(": "),
            "command": row.command,
            "paper": row.theirs,
            "ours": row.ours,
            "verdict": row.verdict,
            "why": row.why,
            "judged": row.judged,
            "held": row.held,
        })
    });
    rows.collect()
}

/// That of one entry.
pub(super) fn entry_row(entry: &Entry, results: &[FigureResult], reports: &Reports) -> Row {
    let empty = Row {
        paper: entry.paper,
        figure: [entry.name(), entry.title.to_owned()],
        command: entry.command(),
        theirs: String::new(),
        ours: String::new(),
        verdict: String::new(),
        why: entry.words.to_owned(),
        judged: 0,
        held: 0,
    };
    if let Some(source) = entry.source() {
        return by_report(empty, entry, source, reports.of(source));
    }
    let mut results = results.iter();
    match results.find(|result| entry.figure() == Some(result.figure.name)) {
        Some(result) => by_result(empty, entry, result),
        None if entry.standing == Standing::Drawing => Row {
            verdict: "nothing to measure".into(),
            ..empty
        },
        None => Row {
            verdict: format!("not in this run: {}", entry.command()),
            ..empty
        },
    }
}

/// How many hold of those that were judged.
fn counted(judged: usize, held: usize) -> String {
    match held {
        held if held == judged => format!("holds ({judged} of {judged})"),
        0 => format!("does not hold (0 of {judged})"),
        held => format!("in part ({held} of {judged})"),
    }
}

fn marked(ours: &str, is_held: Option<bool>) -> String {
    let mark = if is_held == Some(false) { " ✗" } else { "" };
    format!("{ours}{mark}")
}

/// By what this run measured.
fn by_result(empty: Row, entry: &Entry, result: &FigureResult) -> Row {
    let comparisons = compare(result);
    let theirs = comparisons.iter();
    let theirs = theirs.map(|one| format!("{} {}", one.what, digits(one.paper)));
    let ours = comparisons.iter().map(|one| {
        let ours = one.ours.map_or("–".into(), digits);
        marked(&ours, one.is_like())
    });
    let likes: Vec<bool> = comparisons.iter().filter_map(Comparison::is_like).collect();
    let held = likes.iter().filter(|holds| **holds).count();
    let verdict = match likes.len() {
        0 if comparisons.is_empty() => "the text has no number".into(),
        0 if comparisons.iter().any(Comparison::is_put_off) => {
            "times of a loaded machine: not judged".into()
        }
        0 if comparisons.iter().all(|one| !one.reported.is_shape) => "not judged".into(),
        0 => "its numbers are of what is not in this report".into(),
        judged => counted(judged, held),
    };
    let model = match entry.standing {
        Standing::Modelled(_) => ", on a model",
        _ => "",
    };
    let needs_reasons = held < likes.len() || verdict == "not judged";
    let mut reasons: Vec<String> = Vec::new();
    reasons.extend(needs_reasons.then(|| why(result)).into_iter().flatten());
    reasons.extend((!empty.why.is_empty()).then(|| empty.why.clone()));
    Row {
        theirs: theirs.collect::<Vec<_>>().join("; "),
        ours: ours.collect::<Vec<_>>().join("; "),
        verdict: verdict + model,
        why: reasons.join(" "),
        judged: likes.len(),
        held,
        ..empty
    }
}

/// By what another program's report has; the paper's numbers stand there without one, too.
fn by_report(empty: Row, entry: &Entry, source: Source, report: &Report) -> Row {
    let claims: Vec<&Claim> = report.claims(entry.number).collect();
    let likes: Vec<bool> = claims
        .iter()
        .filter_map(|claim| claim.verdict.is_held())
        .collect();
    let held = likes.iter().filter(|holds| **holds).count();
    let verdict = match (report.about(), likes.len()) {
        (Err(""), _) => format!("not in this run: {}", source.command()),
        (Err(error), _) => format!("not in this run: {} ({error})", source.command()),
        (Ok(about), 0) if claims.is_empty() => format!("nothing of it; {about}"),
        (Ok(about), 0) => format!("not judged; {about}"),
        (Ok(about), judged) => format!("{}; {about}", counted(judged, held)),
    };
    // Of what was measured; without a report nothing was.
    let open = report
        .about()
        .is_ok()
        .then(|| open(&claims))
        .into_iter()
        .flatten();
    let reasons = open.chain((!empty.why.is_empty()).then(|| empty.why.clone()));
    let (theirs, ours) = told(&claims);
    Row {
        theirs,
        ours,
        verdict,
        why: reasons.collect::<Vec<_>>().join(" "),
        judged: likes.len(),
        held,
        ..empty
    }
}

/// The papers' and ours; of many the number, and those that do not hold.
fn told(claims: &[&Claim]) -> (String, String) {
    let shown = |claim: &&Claim| marked(&claim.ours, claim.verdict.is_held());
    if claims.len() <= CLAIMS_SHOWN {
        let theirs = claims
            .iter()
            .map(|claim| format!("{}: {}", claim.what, claim.paper));
        let ours = claims.iter().map(shown);
        return (
            theirs.collect::<Vec<_>>().join("; "),
            ours.collect::<Vec<_>>().join("; "),
        );
    }
    let refuted = claims
        .iter()
        .filter(|claim| claim.verdict == Verdict::DoesNotHold);
    let refuted = refuted.map(|claim| format!("{}, {}: {}", claim.what, claim.paper, shown(claim)));
    (
        format!("{} numbers and orders", claims.len()),
        refuted.collect::<Vec<_>>().join("; "),
    )
}

/// Why some were not judged, each reason once, and how many there is nothing of.
fn open(claims: &[&Claim]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for claim in claims {
        if let Verdict::NotJudged(why) = &claim.verdict {
            let reason = format!("Not judged: {why}.");
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    let absent = claims
        .iter()
        .filter(|claim| claim.verdict == Verdict::NotMeasured);
    let absent = absent.count();
    if absent > 0 {
        reasons.push(format!("Not measured: {absent} of {}.", claims.len()));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::{figure, loaded};
    use std::fs;
    use std::path::Path;

    fn row_of(name: &str, results: &[FigureResult], reports: &Reports) -> Row {
        let mut rows = rows(results, reports).into_iter();
        let row = rows.find(|row| row.figure[0] == name);
        row.expect("it is in the catalogue")
    }

    #[test]
    fn every_figure_says_what_became_of_it() {
        let values: [(&'static str, &[f64]); 3] = [
            ("classic", &[100.0, 100.0, 100.0]),
            ("tinca", &[250.0, 210.0, 90.0]),
            ("forebay", &[80.0, 300.0, 300.0]),
        ];
        let none = Reports::none();
        let results = [figure("tinca-7a", &["3/7", "5/5", "7/3"], &values)];
        let row = row_of("Tinca, Figure 7a", &results, &none);
        assert_eq!(row.ours, "2.50; 2.10; 0.900 ✗");
        assert_eq!(row.verdict, "in part (2 of 3)");
        assert!(!row.why.is_empty(), "a reason");
        let loaded = [loaded("tinca-7a", &["3/7", "5/5", "7/3"], &values)];
        let row = row_of("Tinca, Figure 7a", &loaded, &none);
        assert_eq!(row.ours, "2.50; 2.10; 0.900");
        assert_eq!(row.verdict, "times of a loaded machine: not judged");
        let verdict = |name: &str| row_of(name, &results, &none).verdict;
        let wanted = "not in this run: forebay-lab run tinca-7b";
        assert_eq!(verdict("Tinca, Figure 7b"), wanted);
        let wanted = "not in this run: make rig-grid";
        assert_eq!(verdict("block cache study, Figure 1"), wanted);
        assert_eq!(verdict("Tinca, Figure 5"), "nothing to measure");
        let shares = shares(&rows(&results, &none)).expect("judged");
        assert!(shares.ends_with("3 numbers and orders of the papers' texts that could be judged 2 hold: Tinca 2 of 3."), "{shares}");
        assert_eq!(super::shares(&rows(&[], &none)), None);
    }

    /// Without reports nothing that another program measures has a verdict, whatever was measured here.
    #[test]
    fn what_no_report_says_is_not_in_the_run() {
        let values: [(&'static str, &[f64]); 2] = [("raw", &[100.0; 2]), ("forebay", &[90.0; 2])];
        let results = [figure("study-7a", &["1", "16"], &values)];
        for row in rows(&results, &Reports::none()) {
            let is_open =
                row.verdict.starts_with("not in this run: ") || row.verdict == "nothing to measure";
            assert!(is_open && (row.judged, row.held) == (0, 0), "{row:?}");
        }
        let row = row_of("block cache study, Figure 7a", &results, &Reports::none());
        assert!(
            row.theirs
                .contains("1: bcache ÷ the fast device alone: 0.670"),
            "{}",
            row.theirs
        );
    }

    #[test]
    fn what_a_model_was_given_is_not_judged() {
        let values: [(&'static str, &[f64]); 1] = [("tinca", &[200.0, 100.0])];
        let results = [figure("tinca-13", &["fileserver", "webproxy"], &values)];
        let row = row_of("Tinca, Figure 13", &results, &Reports::none());
        assert_eq!((row.verdict.as_str(), row.judged), ("not judged", 0));
        assert!(row.why.contains("put in"), "{}", row.why);
    }

    fn write(folder: &Path, name: &str, json: &Value) {
        fs::write(folder.join(name), json.to_string()).expect("written");
    }

    /// The same report with another number in it has another verdict, and each names the report.
    #[test]
    fn verdicts_of_other_programs_are_their_reports() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("lab");
        let rig = folder.path().join("rig");
        fs::create_dir_all(&out)
            .and(fs::create_dir_all(&rig))
            .expect("made");
        let verdict = |bcache: f64, repaired: u64| {
            let rows = json!([
                {"name": "fig8b_writes1_bcache", "value": bcache},
                {"name": "fig8b_writes1_raw_fast", "value": 100},
                {"name": "commit_hash", "value": "abcdef"},
            ]);
            write(&rig, "grid.json", &rows);
            let bugs = json!({
                "design": "tvarak", "bugs_lost_write_injected": 50, "bugs_lost_write_detected": 50, "bugs_lost_write_repaired": repaired,
                "wrong_bytes": 0, "commit_hash": "abcdef", "date": "2019-08-23 14:05",
            });
            write(&out, "tvarak-bugs.json", &bugs);
            let reports = Reports::beside(&out);
            let of = |name: &str| row_of(name, &[], &reports).verdict;
            [of("block cache study, Figure 8b"), of("TVARAK, Figure 1")]
        };
        let [grid, bugs] = verdict(57.0, 50);
        assert!(
            grid.starts_with("holds (1 of 1); rig/grid.json of commit abcdef, "),
            "{grid}"
        );
        assert_eq!(
            bugs,
            "holds (1 of 1); tvarak-bugs.json of commit abcdef, 2019-08-23 14:05 UTC"
        );
        let [grid, bugs] = verdict(99.0, 49);
        assert!(grid.starts_with("does not hold (0 of 1); "), "{grid}");
        assert!(bugs.starts_with("does not hold (0 of 1); "), "{bugs}");
    }

    #[test]
    fn of_many_claims_those_that_do_not_hold_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let claim = |number: usize| {
            let verdict = ["held", "not held", "not measured"][number % 3];
            json!({"claim": format!("c{number}"), "section": "4.2", "verdict": verdict, "paper": "2 times", "ours": "1.4"})
        };
        let claims: Vec<Value> = (0..15).map(claim).collect();
        write(folder.path(), "tvarak.json", &json!({"claims": claims}));
        let row = row_of("TVARAK, Figure 8", &[], &Reports::beside(folder.path()));
        assert!(
            row.verdict.starts_with("in part (5 of 10); tvarak.json"),
            "{}",
            row.verdict
        );
        assert_eq!(row.theirs, "15 numbers and orders");
        assert!(
            row.ours.starts_with("c1, 2 times: 1.4 ✗; c4, "),
            "{}",
            row.ours
        );
        assert!(row.why.starts_with("Not measured: 5 of 15."), "{}", row.why);
    }
}
