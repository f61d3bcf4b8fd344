//! SQLite, one transaction for each row.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::outcome::Outcome;
use forebay_harness::Result;

const ROW_BYTES: usize = 100;

/// Inserts rows for so long, and counts what is there at the end.
///
/// Errors: SQLite's; another number of rows is there than was committed.
pub fn run(path: &Path, journal: &str, seconds: f64) -> Result<Outcome> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", journal)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != journal {
        return Err(format!("SQLite keeps journal mode {mode}, not {journal}").into());
    }
    connection.execute(
        "CREATE TABLE entry (id INTEGER PRIMARY KEY, content BLOB)",
        [],
    )?;
    let mut insert = connection.prepare("INSERT INTO entry (content) VALUES (?)")?;
    let content = [7_u8; ROW_BYTES];
    let length = Duration::from_secs_f64(seconds);
    let mut rows = 0_u64;
    let began = Instant::now();
    while began.elapsed() < length {
        insert.execute([&content])?;
        rows += 1;
    }
    let elapsed = began.elapsed();
    let there: i64 = connection.query_row("SELECT count(*) FROM entry", [], |row| row.get(0))?;
    if there as u64 != rows {
        return Err(format!("{}: {there} rows, committed {rows}", path.display()).into());
    }
    let rate = rows as f64 / elapsed.as_secs_f64();
    Ok(Outcome::rate(
        &format!("sqlite_{journal}"),
        rate,
        "transactions/s",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_journals_are_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        for journal in ["delete", "wal"] {
            let outcome = run(&folder.path().join(journal), journal, 0.01).expect("it runs");
            assert_eq!(outcome.rows[0].name, format!("sqlite_{journal}"));
        }
        assert!(run(&folder.path().join("other"), "no such mode", 0.01).is_err());
    }
}
