//! A file used at random in every way a program can, each answer compared with the bytes in memory:
//! after the operations of the classic `fsx`, and more ways to open.
//!
//! Every call goes through libc, so that a preloaded library sees it.

mod bytes;
mod descriptor;
mod names;
mod operations;
mod others;
mod shape;

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use fastrand::Rng;

use descriptor::Descriptor;
use forebay_harness::Result;
use operations::OPERATIONS;

const FILE_BYTES_MAX: usize = 512 << 10;
const OPERATION_BYTES_MAX: usize = 64 << 10;
const COMPARE_INTERVAL: u64 = 500;
const RECENT_MAX: usize = 40;

#[derive(Debug)]
struct Exercise {
    directory: PathBuf,
    /// Which of the names it has now.
    path: PathBuf,
    descriptors: Vec<Descriptor>,
    contents: Vec<u8>,
    rng: Rng,
    /// How many operations it took part in; bytes written are drawn from it.
    count: u64,
    /// The latest operations, in words.
    recent: VecDeque<String>,
}

/// Does so many operations in `directory`, mappings among them or not; the number of those that the file system
/// knew.
///
/// Errors: a call failed, or an answer was not what the model says; the message has the latest operations.
pub fn run(directory: &Path, operations: u64, seed: u64, with_mappings: bool) -> Result<u64> {
    let mut exercise = Exercise::new(directory, seed);
    File::create(&exercise.path)?;
    exercise.open_again()?;
    let mut done = 0;
    while done < operations {
        done += u64::from(exercise.step(with_mappings).map_err(|error| {
            let recent = Vec::from(exercise.recent.clone()).join("\n  ");
            format!(
                "seed {seed}, after {done} operations: {error}\n  {recent}\n{}",
                exercise.path.display()
            )
        })?);
    }
    exercise.compare_all()?;
    exercise.remove()?;
    Ok(done)
}

impl Exercise {
    fn new(directory: &Path, seed: u64) -> Exercise {
        Exercise {
            directory: directory.to_owned(),
            path: directory.join("exercised"),
            descriptors: Vec::new(),
            contents: Vec::new(),
            rng: Rng::with_seed(seed),
            count: 0,
            recent: VecDeque::new(),
        }
    }

    /// One operation, and the size afterwards; false if this file system does not know the operation.
    fn step(&mut self, with_mappings: bool) -> Result<bool> {
        let operations = OPERATIONS
            .iter()
            .filter(|operation| with_mappings || !operation.is_mapping);
        let total = operations.clone().map(|operation| operation.weight).sum();
        let mut drawn = self.rng.u32(0..total);
        for operation in operations {
            if drawn >= operation.weight {
                drawn -= operation.weight;
                continue;
            }
            self.count += 1;
            let name = operation.name;
            self.note(name.to_owned());
            let is_known = (operation.run)(self).map_err(|error| format!("{name}: {error}"))?;
            self.check_size()
                .map_err(|error| format!("{name}: {error}"))?;
            if self.count.is_multiple_of(COMPARE_INTERVAL) {
                self.compare_all()?;
            }
            return Ok(is_known);
        }
        unreachable!("a draw below the sum of the weights hits one")
    }

    fn note(&mut self, text: String) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(text);
    }

    /// Says more about the latest operation.
    fn detail(&mut self, text: &str) {
        if let Some(last) = self.recent.back_mut() {
            last.push_str(text);
        }
    }

    fn check_size(&mut self) -> Result<()> {
        let which = self.rng.usize(..self.descriptors.len());
        let found = self.descriptors[which].file.metadata()?;
        self.expect_size("fstat", found.size())?;
        if self.count.is_multiple_of(7) {
            let found = std::fs::metadata(&self.path)?.size();
            self.expect_size("stat", found)?;
        }
        Ok(())
    }

    fn expect_size(&self, call: &str, found: u64) -> Result<()> {
        let wanted = self.contents.len() as u64;
        match found == wanted {
            true => Ok(()),
            false => Err(format!("{call} says {found} bytes; the file has {wanted}").into()),
        }
    }

    /// Everything, by any descriptor that reads without rules of its own.
    fn compare_all(&mut self) -> Result<()> {
        let mut found = vec![0; self.contents.len() + 1];
        let file = self.readable()?;
        let mut done = 0;
        while done < found.len() {
            match file.read_at(&mut found[done..], done as u64)? {
                0 => break,
                more => done += more,
            }
        }
        found.truncate(done);
        self.expect(0, &found)
    }

    /// What was read at `offset` against the model.
    fn expect(&self, offset: usize, found: &[u8]) -> Result<()> {
        let start = offset.min(self.contents.len());
        let end = (offset + found.len()).min(self.contents.len());
        let wanted = &self.contents[start..end];
        if wanted == found {
            return Ok(());
        }
        if wanted.len() != found.len() {
            let (found, wanted) = (found.len(), wanted.len());
            return Err(format!("read {found} bytes at {offset}, {wanted} are there").into());
        }
        let is_bad = |at: &usize| wanted[*at] != found[*at];
        let first = (0..found.len()).find(is_bad).unwrap_or(0);
        let last = (0..found.len()).rev().find(is_bad).unwrap_or(0);
        Err(format!(
            "bytes {} to {} differ: the first is {:#04x}, not {:#04x}",
            offset + first,
            offset + last,
            found[first],
            wanted[first]
        )
        .into())
    }

    fn open_path(&self) -> &Path {
        &self.path
    }

    fn remove(mut self) -> Result<()> {
        self.descriptors.clear();
        Ok(std::fs::remove_file(&self.path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_file_system_passes() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        for with_mappings in [false, true] {
            let done = run(folder.path(), 3000, 11, with_mappings).expect("clean");
            assert_eq!(done, 3000);
        }
        assert_eq!(folder.path().read_dir().expect("a folder").count(), 0);
    }

    #[test]
    fn a_byte_that_changed_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut exercise = Exercise::new(folder.path(), 1);
        std::fs::write(&exercise.path, b"abc").expect("written");
        exercise.contents = b"abd".to_vec();
        exercise.open_again().expect("opened");
        let error = exercise.compare_all().expect_err("it differs");
        assert!(error.to_string().contains("bytes 2 to 2"), "{error}");
    }
}
