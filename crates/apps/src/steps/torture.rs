//! What `forebay-verify torture` counts: file operations compared with a model, POSIX checks, kills without a
//! loss.

use std::process::Command;
use std::time::Duration;

use forebay_harness::{Result, rows};

use crate::context::Context;
use crate::steps::Measured;

const DEADLINE: Duration = Duration::from_secs(900);

/// Everything that it does.
///
/// Errors: it says nothing that is a report.
pub fn run(context: &Context) -> Result<Measured> {
    let mut command = Command::new(&context.own);
    command
        .args(["torture", "--json", "--forebay"])
        .arg(&context.forebay)
        .arg("--disk")
        .arg(&context.disk)
        .arg("--report")
        .arg(context.workshop.path().join("torture.json"));
    if context.pace.is_quick {
        command.arg("--quick");
    }
    let ended = forebay_harness::run(&mut command, DEADLINE)?;
    let rows = rows::parse(&ended.printed)
        .map_err(|error| format!("no report: {error}\n{}", ended.told()))?;
    Ok(Measured {
        rows,
        complaint: (!ended.status.success()).then(|| ended.told()),
    })
}
