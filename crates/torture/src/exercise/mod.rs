//! A file used at random in every way a program can, each answer compared with the bytes in memory:
//! after the operations of the classic `fsx`, and more ways to open.
//!
//! Every call goes through libc, so that a preloaded library sees it.

mod bytes;
mod descriptor;
mod exercised;
mod names;
mod operations;
mod others;
mod shape;

use std::fs::File;
use std::path::Path;

use exercised::Exercise;
use forebay_harness::Result;
use operations::OPERATIONS;

const COMPARE_INTERVAL: u64 = 500;

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
        done += u64::from(step(&mut exercise, with_mappings).map_err(|error| {
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

/// One operation, and the size afterwards; false if this file system does not know the operation.
fn step(exercise: &mut Exercise, with_mappings: bool) -> Result<bool> {
    let operations = OPERATIONS
        .iter()
        .filter(|operation| with_mappings || !operation.is_mapping);
    let total = operations.clone().map(|operation| operation.weight).sum();
    let mut drawn = exercise.rng.u32(0..total);
    for operation in operations {
        if drawn >= operation.weight {
            drawn -= operation.weight;
            continue;
        }
        exercise.count += 1;
        let name = operation.name;
        exercise.note(name.to_owned());
        let is_known = (operation.run)(exercise).map_err(|error| format!("{name}: {error}"))?;
        exercise
            .check_size()
            .map_err(|error| format!("{name}: {error}"))?;
        if exercise.count.is_multiple_of(COMPARE_INTERVAL) {
            exercise.compare_all()?;
        }
        return Ok(is_known);
    }
    unreachable!("a draw below the sum of the weights hits one")
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
