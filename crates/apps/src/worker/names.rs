//! Many small files: created, and removed again, none of them synced.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::outcome::Outcome;
use forebay_harness::Result;

const FILE_BYTES: usize = 128;
/// Files of a folder.
const FOLDER_FILES: usize = 1000;

fn path(directory: &Path, number: usize) -> PathBuf {
    let folder = directory.join(format!("folder-{}", number / FOLDER_FILES));
    folder.join(format!("file-{number}"))
}

/// Creates so many files in folders that are there, and removes them.
///
/// Errors: a call fails; a file is missing, or is there after all.
pub fn run(directory: &Path, files: usize) -> Result<Outcome> {
    for number in (0..files).step_by(FOLDER_FILES) {
        let file = path(directory, number);
        std::fs::create_dir(file.parent().expect("a folder"))?;
    }
    let rate = |name: &str, began: Instant| {
        Outcome::rate(
            name,
            files as f64 / began.elapsed().as_secs_f64(),
            "files/s",
        )
    };
    let began = Instant::now();
    for number in 0..files {
        File::create_new(path(directory, number))?.write_all(&[0x22; FILE_BYTES])?;
    }
    let created = rate("create_50k", began);
    let length = std::fs::metadata(path(directory, files - 1))?.len();
    if length != FILE_BYTES as u64 {
        return Err(format!("the last file has {length} bytes").into());
    }
    let began = Instant::now();
    for number in 0..files {
        std::fs::remove_file(path(directory, number))?;
    }
    let removed = rate("delete_50k", began);
    // Empty: otherwise it stays.
    for number in (0..files).step_by(FOLDER_FILES) {
        std::fs::remove_dir(path(directory, number).parent().expect("a folder"))?;
    }
    Ok(created.and(removed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rates_are_measured_and_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let outcome = run(folder.path(), 1500).expect("it runs");
        let names = outcome.rows.iter().map(|row| row.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["create_50k", "delete_50k"]);
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0);
    }
}
