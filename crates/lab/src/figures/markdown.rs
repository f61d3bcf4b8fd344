//! The verdicts as a table of a page in Markdown: of a report that was written, and of other programs' reports as they are now.

use serde_json::Value;

use super::catalogue::{Entry, catalogue};
use super::verdicts::{Row, entry_row, shares};
use crate::elsewhere::Reports;

/// Between these lines a page has what is printed here.
const BEGIN: &str = "<!-- Printed by forebay-lab verdicts: -->";
const END: &str = "<!-- That was printed. -->";

/// Words of a reason that lead to a page beside the one with the table.
const LINKS: [(&str, &str); 2] = [
    (
        "served with these delays: make bench-tpcc",
        "served with these delays: `make bench-tpcc` ([what came out](../measured/applications.md#slow-memory-and-slow-disks))",
    ),
    (
        "served as a disk: make bench-tpcc",
        "served as a disk: `make bench-tpcc` ([what came out](../measured/applications.md#tpc-c-on-disks-behind-caches))",
    ),
];

/// What `lab.json` was measured on, how many of the papers' numbers hold, and a line for each of their figures and tables.
///
/// # Errors
/// It is no such report; in words.
pub fn verdicts_to_markdown(lab: &Value, reports: &Reports) -> Result<String, String> {
    let told = lab.get("verdicts").and_then(Value::as_array);
    let told = told.ok_or("it has no verdicts; forebay-lab run all writes them")?;
    let rows: Vec<Row> = catalogue().map(|entry| row(entry, told, reports)).collect();
    let lead = [Some(setting(lab)), shares(&rows)];
    let lead: Vec<String> = lead.into_iter().flatten().collect();
    let mut text = lead.join(" ");
    text += "\n\n| figure | command | verdict | why, or what is missing |\n|---|---|---|---|\n";
    for row in &rows {
        let cells = [
            row.figure[0].clone(),
            commands(&row.command),
            row.verdict.clone(),
            match row.why.is_empty() {
                true => row.figure[1].clone(),
                false => linked(&row.why),
            },
        ];
        let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        text += &format!("| {} |\n", cells.join(" | "));
    }
    Ok(text)
}

/// A page with `text` in the place of what was printed into it before; none where it has no such place.
#[must_use]
pub fn filled(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!(
        "{before}{BEGIN}\n\n{}\n\n{END}{after}",
        text.trim_end()
    ))
}

/// Of this report where it measured the figure, else as without it.
fn row(entry: &Entry, told: &[Value], reports: &Reports) -> Row {
    let fresh = entry_row(entry, &[], reports);
    if entry.source().is_some() {
        return fresh;
    }
    let name = fresh.figure.join(": ");
    let mut told = told.iter();
    let Some(kept) = told.find(|row| row.get("figure").and_then(Value::as_str) == Some(&name))
    else {
        return fresh;
    };
    let text = |name: &str| {
        kept.get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let count = |name: &str| kept.get(name).and_then(Value::as_u64).unwrap_or(0) as usize;
    Row {
        verdict: text("verdict"),
        why: text("why"),
        judged: count("judged"),
        held: count("held"),
        ..fresh
    }
}

/// Where and when, as far as it is told.
fn setting(lab: &Value) -> String {
    let machine = lab.get("machine").unwrap_or(&Value::Null);
    let text = |name: &str| {
        machine
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or("unknown")
            .to_owned()
    };
    let number = |value: Option<&Value>| {
        value
            .and_then(Value::as_f64)
            .map_or("an unknown number of".into(), forebay_harness::digits)
    };
    let commit: String = text("commit_hash").chars().take(12).collect();
    let quick = match lab.get("is_quick") == Some(&Value::Bool(true)) {
        true => " --quick",
        false => "",
    };
    let loaded = match machine.get("is_loaded") == Some(&Value::Bool(true)) {
        true => " The machine was loaded: times that others' load spoilt are not judged.",
        false => "",
    };
    let runs = lab.get("runs").and_then(Value::as_u64).unwrap_or(0);
    format!(
        "The laboratory's own are of `forebay-lab run all{quick}` of commit {commit}, {} UTC: {runs} runs of each, {}, {} processors, {}, copies \
         by {}; others took {} processors meanwhile.{loaded} The designs are as printed.",
        text("date"),
        text("processor"),
        machine.get("cores").and_then(Value::as_u64).unwrap_or(0),
        text("system"),
        text("copies"),
        number(machine.get("others_processors")),
    )
}

fn commands(command: &str) -> String {
    let commands = command.split("; ").map(|one| match one {
        "–" => one.to_owned(),
        one => format!("`{one}`"),
    });
    commands.collect::<Vec<_>>().join("; ")
}

fn linked(why: &str) -> String {
    let links = LINKS.iter();
    links.fold(why.to_owned(), |why, (words, link)| {
        why.replace(words, link)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lab() -> Value {
        let row = |figure: &str, verdict: &str, why: &str, judged: u64, held: u64| json!({"figure": figure, "verdict": verdict, "why": why, "judged": judged, "held": held});
        json!({
            "is_quick": true,
            "runs": 3,
            "machine": {"commit_hash": "0123456789abcdef", "date": "2019-08-23 14:05", "cores": 2, "others_processors": 0.02},
            "verdicts": [
                row("Tinca, Figure 7a: fio: write throughput", "in part (2 of 3)", "a | b", 3, 2),
                row("Tinca, Figure 8a: TPC-C: throughput", "does not hold (0 of 4), on a model", "served as a disk: make bench-tpcc. More.", 4, 0),
                row("block cache study, Figure 1: devices and caches", "remembered", "", 9, 9),
            ],
        })
    }

    #[test]
    fn a_line_for_each_figure_of_the_report_and_of_what_is_beside_it() {
        let text = verdicts_to_markdown(&lab(), &Reports::none()).expect("a report");
        for wanted in [
            "run all --quick` of commit 0123456789ab, 2019-08-23 14:05 UTC: 3 runs",
            ", 2 processors,",
            "others took 0.020 processors",
            "Of the 7 numbers and orders of the papers' texts that could be judged 2 hold: Tinca 2 of 7.",
            "| Tinca, Figure 7a | `forebay-lab run tinca-7a` | in part (2 of 3) | a \\| b |\n",
            "disk: `make bench-tpcc` ([what came out](../measured/applications.md#tpc-c-on-disks-behind-caches)). More. |\n",
            "| block cache study, Figure 1 | `make rig-grid` | not in this run: make rig-grid |",
            "| block cache study, Figure 7a | `make rig-grid`; `forebay-lab run study-7a` | not",
            "| Tinca, Figure 1 | – | nothing to measure | architectures |\n",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
        assert!(!text.contains("remembered"));
        assert_eq!(text.matches("\n| ").count(), 1 + catalogue().count());
        assert!(verdicts_to_markdown(&json!([]), &Reports::none()).is_err());
    }

    #[test]
    fn a_page_is_filled_between_its_lines_and_again() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = filled(&page, "new\n").expect("it has a place");
        assert_eq!(new, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(filled(&new, "new\n").as_ref(), Some(&new));
        assert_eq!(filled("before", "new"), None);
    }

    /// The documentation can be filled, and has the lines that would be printed.
    #[test]
    fn the_documentation_has_the_place() {
        let page = include_str!("../../../../docs/inside/papers.md");
        assert!(filled(page, "").is_some());
    }
}
