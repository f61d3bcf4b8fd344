//! What came out: numbers for programs, a line each for people, and what failed.

use forebay_harness::{Result, Row, RunOptions};

#[derive(Debug, Default)]
pub struct Report {
    rows: Vec<Row>,
    failures: Vec<String>,
}

impl Report {
    pub fn row(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds the number of `name` where it went well, and the failure where not; the number, 0 then.
    pub fn take(&mut self, name: &str, unit: &str, outcome: Result<u64>) -> u64 {
        match outcome {
            Ok(count) => {
                self.ok(&format!("{name}: {count} {unit}"));
                self.row(Row::new(name, count as f64, unit));
                count
            }
            Err(error) => {
                self.fail(format!("{name}: {error}"));
                self.row(Row::new(name, 0.0, unit));
                0
            }
        }
    }

    pub fn ok(&mut self, text: &str) {
        eprintln!("  ok: {text}");
    }

    pub fn fail(&mut self, text: String) {
        eprintln!("  FAILED: {text}");
        self.failures.push(text);
    }

    pub fn skip(&mut self, what: &str, lack: &str) {
        eprintln!("skipped {what}: {lack}");
    }

    /// Writes and prints the rows; true if nothing failed.
    pub fn finish(mut self, options: &RunOptions) -> Result<bool> {
        let count = self.failures.len() as f64;
        self.row(Row::new("torture_failures", count, "failures"));
        options.finish("torture", &self.rows)?;
        for failure in &self.failures {
            eprintln!("FAILED: {failure}");
        }
        Ok(self.failures.is_empty())
    }
}
