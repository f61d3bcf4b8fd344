//! What the volume table may say: for each number the row that was acknowledged last, and one that is being written.

use forebay_log::VolumeRow;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A path of more than one unit, so that a row is torn by a crash that tears its page.
pub fn path_of(number: u64) -> PathBuf {
    format!("/disk/{number}").repeat(100).into()
}

/// The rows that are legal, by their numbers.
#[derive(Clone, Default)]
pub struct Rows(BTreeMap<u32, Vec<VolumeRow>>);

impl Rows {
    /// A table that says this.
    pub fn new(rows: Vec<VolumeRow>) -> Rows {
        Rows(
            rows.into_iter()
                .map(|row| (row.number, vec![row]))
                .collect(),
        )
    }

    /// A row is being written.
    pub fn begin(&mut self, row: VolumeRow) {
        self.0.entry(row.number).or_default().push(row);
    }

    /// It is acknowledged.
    pub fn end(&mut self, number: u32) {
        let legal = self.0.get_mut(&number).expect("it was begun");
        let newest = legal.pop().expect("it was begun");
        *legal = vec![newest];
    }

    /// What was acknowledged last.
    pub fn current(&self, number: u32) -> &VolumeRow {
        &self.0[&number][0]
    }

    /// Compares what was found. The error names a number.
    pub fn check(&self, found: &[VolumeRow]) -> Result<(), String> {
        for (number, legal) in &self.0 {
            let row = found.iter().find(|row| row.number == *number);
            if !row.is_some_and(|row| legal.contains(row)) {
                return Err(format!(
                    "row {number} of the volume table says {row:?}, and {} may stand there",
                    legal.len()
                ));
            }
        }
        match found.iter().find(|row| !self.0.contains_key(&row.number)) {
            None => Ok(()),
            Some(row) => Err(format!("a row that was never written: {row:?}")),
        }
    }
}
