//! Cells that were measured, in a file to which each is appended when it is done: what an interrupted run did is not
//! done again. A cell is found again if simulator, parameters, scale and seed are the same.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use forebay_tvarak::Parameters;
use forebay_tvarak::figures::cell::Cell;
use forebay_tvarak::figures::measured::Measured;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The file's name.
const NAME: &str = "tvarak-cells.jsonl";

/// What all cells of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common<'a> {
    /// The parameters, not scaled.
    pub parameters: &'a Parameters,
    /// By how much caches and work are smaller.
    pub scale_divisor: u64,
}

/// A cell that was measured.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// What it took.
    pub measured: Measured,
    /// How long a processor of this host took.
    pub host_ms: u64,
}

/// The file and what it has.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    kept: HashMap<String, Kept>,
    /// What a workload on a design took a processor, by any version of the simulator: the scale and milliseconds.
    costs_ms: HashMap<String, Vec<(u64, u64)>>,
}

impl Store {
    /// Opens the file in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be read or written; the error names it.
    pub fn open(folder: &Path) -> io::Result<Store> {
        let path = folder.join(NAME);
        let opened = || {
            std::fs::create_dir_all(folder)?;
            let mut file = OpenOptions::new()
                .read(true)
                .append(true)
                .create(true)
                .open(&path)?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            if bytes.last().is_some_and(|last| *last != b'\n') {
                // A run was killed while it wrote: what it began is a line that is skipped.
                file.write_all(b"\n")?;
            }
            Ok((file, bytes))
        };
        let (file, bytes) = opened().map_err(|error: io::Error| {
            io::Error::new(
                error.kind(),
                format!("{}: cannot keep cells: {error}", path.display()),
            )
        })?;
        let mut inner = Inner {
            file,
            kept: HashMap::new(),
            costs_ms: HashMap::new(),
        };
        for line in bytes.split(|byte| *byte == b'\n') {
            inner.take(line);
        }
        Ok(Store {
            path,
            inner: Mutex::new(inner),
        })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is kept of a cell.
    pub fn get(&self, common: Common<'_>, cell: &Cell) -> Option<Kept> {
        self.inner.lock().kept.get(&key(common, cell)?).copied()
    }

    /// What a workload on a design took a processor lately, in milliseconds: at this scale, or else at another one and as much
    /// more as it is larger, and half of that besides where it is: the host's caches hold less of it.
    pub fn cost_ms(&self, scale_divisor: u64, cell: &Cell) -> Option<u64> {
        let inner = self.inner.lock();
        let costs = inner
            .costs_ms
            .get(&cost_name(cell.workload.as_str(), cell.design.as_str()))?;
        let at_scale = costs
            .iter()
            .rev()
            .find(|(scale, _)| *scale == scale_divisor);
        let (scale, ms) = at_scale.or(costs.last())?;
        let ms = ms * scale / scale_divisor;
        Some(if *scale > scale_divisor {
            ms * 3 / 2
        } else {
            ms
        })
    }

    /// Keeps a cell.
    ///
    /// # Errors
    /// The file cannot be written; the error names it.
    pub fn put(&self, common: Common<'_>, cell: &Cell, kept: Kept) -> io::Result<()> {
        let record = json!({
            "key": key(common, cell),
            "workload": cell.workload.as_str(),
            "design": cell.design.as_str(),
            "scale_divisor": common.scale_divisor,
            "host_ms": kept.host_ms,
            "measured": kept.measured,
        });
        let line = record.to_string() + "\n";
        let mut inner = self.inner.lock();
        inner.take(line.as_bytes());
        // One write: another process that appends does not come between.
        inner.file.write_all(line.as_bytes()).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("{}: cannot keep a cell: {error}", self.path.display()),
            )
        })
    }
}

impl Inner {
    /// Takes a line, unless it is none of ours.
    fn take(&mut self, line: &[u8]) -> Option<()> {
        let record: Value = serde_json::from_slice(line).ok()?;
        let measured = serde_json::from_value(record["measured"].clone()).ok()?;
        let host_ms = record["host_ms"].as_u64()?;
        let key = record["key"].as_str()?.to_owned();
        let [workload, design] = [record["workload"].as_str()?, record["design"].as_str()?];
        let costs = self
            .costs_ms
            .entry(cost_name(workload, design))
            .or_default();
        costs.push((record["scale_divisor"].as_u64()?, host_ms));
        self.kept.insert(key, Kept { measured, host_ms });
        Some(())
    }
}

fn cost_name(workload: &str, design: &str) -> String {
    format!("{workload} {design}")
}

/// Everything that an outcome depends on; none where there is no such machine.
fn key(common: Common<'_>, cell: &Cell) -> Option<String> {
    cell.key(common.parameters, common.scale_divisor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_tvarak::figures::plan::Figure;

    #[test]
    fn what_was_kept_is_there_again_and_a_torn_line_is_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let parameters = Parameters::paper();
        let common = Common {
            parameters: &parameters,
            scale_divisor: 32,
        };
        let cells = Figure::Fig9.cells(1);
        let kept = Kept {
            measured: Measured {
                runtime_ns: 7,
                ..Measured::default()
            },
            host_ms: 1500,
        };
        let store = Store::open(folder.path()).expect("opened");
        store.put(common, &cells[0], kept).expect("kept");
        let torn = OpenOptions::new().append(true).open(store.path());
        torn.expect("there")
            .write_all(b"{\"key\": \"to")
            .expect("torn");

        let store = Store::open(folder.path()).expect("opened again");
        store.put(common, &cells[1], kept).expect("kept");
        let store = Store::open(folder.path()).expect("opened again");
        for cell in &cells[..2] {
            let found = store.get(common, cell).expect("it was kept");
            assert_eq!(found.measured, kept.measured);
            assert_eq!(store.cost_ms(32, cell), Some(1500));
            assert_eq!(store.cost_ms(1, cell), Some(32 * 1500 * 3 / 2));
        }
        assert!(store.get(common, &cells[2]).is_none());
        // Another scale, or other parameters, is another cell.
        let full = Common {
            scale_divisor: 1,
            ..common
        };
        assert!(store.get(full, &cells[0]).is_none());
        let other = Parameters::paper_with("nvm.banks", [2, 1]).expect("a parameter");
        let other = Common {
            parameters: &other,
            ..common
        };
        assert!(store.get(other, &cells[0]).is_none());
    }
}
