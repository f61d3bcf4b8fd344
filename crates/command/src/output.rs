//! What goes to the terminal: colours there and nowhere else, JSON where a script asked. What comes
//! from elsewhere, such as a file's name, stays in its line and moves no cursor.

use std::io::{ErrorKind, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::plain::{plain, plain_json};

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

/// What stands before errors and notes.
static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Says that this process is another program than `forebay`. Called once, at the start.
pub fn name_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// What this program is called.
pub fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("forebay")
}

// A reader that went away (`forebay stat | head`) is no reason to fail. A full disk is one, once the command has ended.

/// Results that could not be written.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Whether any of what was to go to standard output was lost.
pub fn is_lost() -> bool {
    IS_LOST.load(Ordering::Relaxed)
}

/// An error, on standard error.
pub fn error(message: &str) {
    let (program, message) = (program(), error_line(message));
    let _ = writeln!(anstream::stderr(), "{RED}{BOLD}{program}:{RESET} {message}");
}

/// Prints what a person should know beside the result, on standard error.
pub fn note(message: &str) {
    let _ = writeln!(anstream::stderr(), "{}: {}", program(), plain(message));
}

/// An error as it is shown.
pub fn error_line(message: &str) -> String {
    plain(message).into_owned()
}

/// One line of result for a person.
pub fn line(text: &str) {
    text_of_ours(&plain(text));
}

/// Lines that are ours to the last letter, or that their maker has made plain.
pub fn text_of_ours(text: &str) {
    let mut out = anstream::stdout();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if written.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe) {
        IS_LOST.store(true, Ordering::Relaxed);
    }
}

/// A line of JSON for a program.
pub fn json(value: &Value) {
    text_of_ours(&plain_json(&value.to_string()));
}

/// A JSON object as it is, or for a person: a name and a value a line, nested names indented, shares
/// in percent.
pub fn object(value: &Value, as_json: bool) {
    for line in object_lines(value, as_json, (BOLD, RESET)) {
        text_of_ours(&line);
    }
}

/// What [`object`] prints; titles stand between the two texts.
pub fn object_lines(value: &Value, as_json: bool, around_titles: (&str, &str)) -> Vec<String> {
    let mut lines = Vec::new();
    match as_json {
        true => lines.push(plain_json(&value.to_string()).into_owned()),
        false => indented(value, 0, around_titles, &mut lines),
    }
    lines
}

fn indented(value: &Value, depth: usize, around_titles: (&str, &str), lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            let width = fields.keys().map(String::len).max().unwrap_or(0);
            for (name, field) in fields {
                let (name, is_share) = match name.strip_suffix("_per_mille") {
                    Some(share) => (share, true),
                    None => (name.as_str(), false),
                };
                let label = name.replace('_', " ");
                if let Some(text) = in_one_line(field, is_share) {
                    let line = format!("{indent}{label:<width$}  {text}");
                    lines.push(plain(&line).into_owned());
                } else {
                    let (before, after) = around_titles;
                    lines.push(format!("{indent}{before}{}{after}", plain(&label)));
                    indented(field, depth + 1, around_titles, lines);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    lines.push(String::new());
                }
                indented(item, depth, around_titles, lines);
            }
        }
        other => {
            let line = format!("{indent}{}", shown(other, false));
            lines.push(plain(&line).into_owned());
        }
    }
}

/// The value, unless it has names of its own.
fn in_one_line(value: &Value, is_share: bool) -> Option<String> {
    match value {
        Value::Object(fields) => fields.is_empty().then(|| "none".to_owned()),
        Value::Array(items) => {
            if items.iter().any(|item| item.is_object() || item.is_array()) {
                return None;
            }
            let texts: Vec<String> = items.iter().map(|item| shown(item, is_share)).collect();
            Some(if texts.is_empty() {
                "none".to_owned()
            } else {
                texts.join(", ")
            })
        }
        other => Some(shown(other, is_share)),
    }
}

fn shown(value: &Value, is_share: bool) -> String {
    match value {
        Value::String(text) if text.is_empty() => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Null => "none".to_owned(),
        Value::Number(number) if is_share => {
            format!("{} %", number.as_f64().unwrap_or_default() / 10.0)
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn people_see_lists_in_a_line_nothing_as_none_and_shares_in_percent() {
        let shown = |value: Value, is_share| in_one_line(&value, is_share).unwrap();
        assert_eq!(shown(json!([3, 45]), true), "0.3 %, 4.5 %");
        assert_eq!(shown(json!(500), true), "50 %");
        assert_eq!(shown(json!(["/a", "/b"]), false), "/a, /b");
        for nothing in [json!([]), json!({}), json!(null), json!("")] {
            assert_eq!(shown(nothing, false), "none");
        }
        assert_eq!(in_one_line(&json!([{"a": 1}]), false), None);
    }
}
