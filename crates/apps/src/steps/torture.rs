//! What `forebay-torture` counts: file operations compared with a model, POSIX checks, kills without a loss.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use forebay_harness::Row;
use serde_json::Value;

use crate::Result;
use crate::context::Context;
use crate::steps::Measured;

const DEADLINE: Duration = Duration::from_secs(900);

/// It is built into the same folder as this program.
fn program(context: &Context) -> PathBuf {
    context.own.with_file_name("forebay-torture")
}

/// The program.
pub fn lacks(context: &Context) -> Option<String> {
    let program = program(context);
    (!program.is_file()).then(|| program.display().to_string())
}

/// Everything that it does.
///
/// Errors: it says nothing that is a report.
pub fn run(context: &Context) -> Result<Measured> {
    let mut command = Command::new(program(context));
    command
        .args(["all", "--json", "--forebay"])
        .arg(&context.forebay)
        .arg("--disk")
        .arg(&context.disk);
    if context.pace.is_quick {
        command.arg("--quick");
    }
    let ended = forebay_harness::run(&mut command, DEADLINE)?;
    match rows(&ended.printed) {
        Ok(rows) => Ok(Measured {
            rows,
            complaint: (!ended.status.success()).then(|| ended.told()),
        }),
        Err(_) => Err(ended.told().into()),
    }
}

/// From a list of `{"name", "value", "unit"}`.
fn rows(printed: &str) -> Result<Vec<Row>> {
    let list: Vec<Value> = serde_json::from_str(printed)
        .map_err(|error| format!("forebay-torture printed no report: {error}\n{printed}"))?;
    let row = |value: &Value| {
        let unit = value["unit"].as_str().unwrap_or_default();
        Some(Row::new(
            value["name"].as_str()?,
            value["value"].as_f64(),
            unit,
        ))
    };
    // The commit is a row too, and not a number.
    let numbers = list.iter().filter(|value| value["name"] != "commit_hash");
    Ok(numbers.filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_over_and_the_commit_is_not() {
        let printed = r#"[{"name":"kill_losses","value":0,"unit":"losses"},
            {"name":"commit_hash","value":"abc","unit":null}]"#;
        assert_eq!(
            rows(printed).expect("a report"),
            [Row::new("kill_losses", 0.0, "losses")]
        );
        assert!(rows("no").is_err());
    }
}
