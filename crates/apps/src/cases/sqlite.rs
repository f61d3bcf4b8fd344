//! SQLite with `synchronous=FULL`: each row a transaction of its own, with a rollback journal and with a
//! write-ahead log.

use crate::Result;
use crate::outcome::Outcome;
use crate::place::Session;

/// Both journals, one after the other.
///
/// Errors: SQLite's.
pub fn run(session: &Session<'_>) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    for journal in ["delete", "wal"] {
        let mut command = session.command(&session.context.own)?;
        command
            .args(["worker", "sqlite", "--journal", journal, "--file"])
            .arg(session.data().join(journal))
            .args(["--seconds", &session.context.pace.seconds.to_string()]);
        outcome = outcome.and(Outcome::from_json(&session.output(command)?)?);
    }
    Ok(outcome)
}
