//! What goes to the terminal: colours there and nowhere else, JSON where a script asked.

use std::io::Write;

use serde_json::Value;

const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

// A reader that went away (`forebay stat | head`) is no reason to fail, hence `let _`.

/// An error, on standard error.
pub fn error(message: &str) {
    let _ = writeln!(anstream::stderr(), "{RED}{BOLD}forebay:{RESET} {message}");
}

/// One line of result for a person.
pub fn line(text: &str) {
    let _ = writeln!(anstream::stdout(), "{text}");
}

/// A JSON object as it is, or for a person: a name and a value a line, nested names indented.
pub fn object(value: &Value, as_json: bool) {
    if as_json {
        line(&value.to_string());
    } else {
        print_indented(value, 0);
    }
}

fn print_indented(value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            let width = fields.keys().map(String::len).max().unwrap_or(0);
            for (name, field) in fields {
                let label = name.replace('_', " ");
                if matches!(field, Value::Object(_) | Value::Array(_)) {
                    line(&format!("{indent}{BOLD}{label}{RESET}"));
                    print_indented(field, depth + 1);
                } else {
                    line(&format!("{indent}{label:<width$}  {}", plain(field)));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    line("");
                }
                print_indented(item, depth);
            }
        }
        other => line(&format!("{indent}{}", plain(other))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}
