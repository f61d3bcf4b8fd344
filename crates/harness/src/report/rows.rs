//! A report as a list of `{"name", "value", "unit"}` rows in a JSON file, for other tools to read.
//! A number that is not to be trusted too far has a `"note"` besides.
//!
//! The commit that the numbers belong to is a row itself, `commit_hash`, and has no unit.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

/// One number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What it is called; names are fixed, other tools look for them.
    pub name: String,
    /// The number; none where it could not be measured.
    #[serde(serialize_with = "whole_without_fraction")]
    pub value: Option<f64>,
    /// What it counts.
    pub unit: String,
    /// A caveat about the number, short; none for most.
    #[serde(skip_serializing_if = "Option::is_none", skip_deserializing)]
    pub note: Option<&'static str>,
}

impl Row {
    /// A row.
    pub fn new(
        name: impl Into<String>,
        value: impl Into<Option<f64>>,
        unit: impl Into<String>,
    ) -> Row {
        Row {
            name: name.into(),
            value: value.into(),
            unit: unit.into(),
            note: None,
        }
    }

    /// The same, with a note or without.
    #[must_use]
    pub fn with_note(self, note: Option<&'static str>) -> Row {
        Row { note, ..self }
    }

    fn to_json(&self) -> Value {
        json!(self)
    }
}

fn whole_without_fraction<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() < EXACT_MAX => {
            (*value as i64).serialize(to)
        }
        other => other.serialize(to),
    }
}

/// The rows of a report that a program printed; the commit, which is a row too and not a number, is left out.
///
/// # Errors
/// It is not a list of rows.
pub fn parse(text: &str) -> serde_json::Result<Vec<Row>> {
    let list: Vec<Value> = serde_json::from_str(text)?;
    let numbers = list.into_iter().filter(|row| !is_commit(row));
    numbers.map(serde_json::from_value).collect()
}

/// Replaces the report at `path`.
///
/// Errors: the file cannot be written; it is then as it was.
pub fn write(path: &Path, rows: &[Row]) -> io::Result<()> {
    let list = rows.iter().map(Row::to_json).collect();
    write_list(path, list, &commit_hash())
}

/// Adds `rows` to the report at `path`, in the place of those of the same name. What else is there stays
/// if it is of the same commit, and goes if not: numbers of two trees are no report. A file that is not
/// a report is replaced.
///
/// Errors: the file cannot be written; it is then as it was.
pub fn merge(path: &Path, rows: &[Row]) -> io::Result<()> {
    merge_of_commit(path, rows, &commit_hash())
}

fn merge_of_commit(path: &Path, rows: &[Row], commit: &str) -> io::Result<()> {
    let mut list = read(path);
    let is_of_commit = list
        .iter()
        .any(|row| is_commit(row) && row["value"] == *commit);
    if !is_of_commit {
        list.clear();
    }
    list.retain(|row| !is_commit(row) && !rows.iter().any(|new| row["name"] == new.name.as_str()));
    list.extend(rows.iter().map(Row::to_json));
    write_list(path, list, commit)
}

fn read(path: &Path) -> Vec<Value> {
    let bytes = std::fs::read(path).ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn is_commit(row: &Value) -> bool {
    row["name"] == "commit_hash"
}

fn write_list(path: &Path, list: Vec<Value>, commit: &str) -> io::Result<()> {
    super::write_file(path, text(list, commit)?.as_bytes())
}

/// The list and the commit, as it stands in a file.
fn text(mut list: Vec<Value>, commit: &str) -> io::Result<String> {
    list.push(json!({"name": "commit_hash", "value": commit}));
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}

/// Prints rows for people, a line each, or for programs, as in the file.
///
/// Errors: standard output does not take it.
pub fn print(rows: &[Row], is_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if is_json {
        let list = rows.iter().map(Row::to_json).collect();
        return out.write_all(text(list, &commit_hash())?.as_bytes());
    }
    for row in rows {
        let value = row
            .value
            .map_or("-".into(), |value| match value.fract() == 0.0 {
                true => super::group_thousands(value),
                false => super::digits(value),
            });
        let note = row.note.unwrap_or("");
        let line = format!("{:<46} {value:>12} {} {note}", row.name, row.unit);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// The commit of the source tree, with `-dirty` where it has changes, or `unknown`.
#[must_use]
pub fn commit_hash() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(["-C", env!("CARGO_MANIFEST_DIR")])
            .args(arguments)
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(hash) = git(&["rev-parse", "HEAD"]) else {
        return "unknown".into();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => hash,
        _ => hash + "-dirty",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_and_values(path: &Path) -> Vec<(String, Value)> {
        let rows = read(path).into_iter();
        rows.map(|row| {
            (
                row["name"].as_str().unwrap_or("").to_owned(),
                row["value"].clone(),
            )
        })
        .collect()
    }

    #[test]
    fn rows_of_one_commit_are_merged_and_those_of_another_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        let row = |name: &str, value: f64| Row::new(name, value, "ns");
        merge_of_commit(&path, &[row("a", 1.0), row("b", 2.0)], "one").expect("written");
        merge_of_commit(&path, &[row("b", 2.5), row("c", 3.0)], "one").expect("merged");
        let entry = |name: &str, value: Value| (name.to_owned(), value);
        assert_eq!(
            names_and_values(&path),
            [
                entry("a", json!(1)),
                entry("b", json!(2.5)),
                entry("c", json!(3)),
                entry("commit_hash", json!("one"))
            ]
        );
        merge_of_commit(&path, &[row("d", 4.0)], "two").expect("replaced");
        assert_eq!(
            names_and_values(&path),
            [entry("d", json!(4)), entry("commit_hash", json!("two"))]
        );
    }

    #[test]
    fn what_was_not_measured_is_null_and_a_foreign_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        std::fs::write(&path, "not JSON").expect("written");
        merge(&path, &[Row::new("absent", None, "ns")]).expect("replaced");
        assert_eq!(
            read(&path)[0],
            json!({"name": "absent", "value": null, "unit": "ns"})
        );
    }

    #[test]
    fn what_is_printed_is_read_and_the_commit_is_not() {
        let rows = [
            Row::new("kill_losses", 0.0, "losses"),
            Row::new("share", 0.5, "x"),
        ];
        let list = rows.iter().map(Row::to_json).collect();
        let printed = text(list, "abc").expect("a report");
        assert_eq!(parse(&printed).expect("a report"), rows);
        assert!(parse("no").is_err());
    }

    #[test]
    fn a_note_stands_with_its_row_alone() {
        let noted = Row::new("a", 1.0, "ns").with_note(Some("noisy"));
        let expected = json!({"name": "a", "value": 1, "unit": "ns", "note": "noisy"});
        assert_eq!(noted.to_json(), expected);
        assert!(noted.with_note(None).to_json()["note"].is_null());
    }
}
