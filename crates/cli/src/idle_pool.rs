//! Opening a pool that no process serves, to work on it or to look at it without changing it.

use std::path::{Path, PathBuf};

use forebay::{Pool, Region, RuntimeOptions};
use forebay_command::Failure;

use crate::arguments::Opening;

/// Opens a pool, and recovers it. Members that were named and are not there are left out: whether a mirror can do
/// without them is its roster's to say.
///
/// # Errors
/// As [`Pool::open_with`].
pub fn open(paths: &[PathBuf], options: RuntimeOptions) -> Result<Pool, Failure> {
    let (present, absent) = split(paths);
    Pool::open_with(&present, options).map_err(|error| naming(error.into(), &absent))
}

/// Opens a pool on private copies of its members' mappings: recovery runs in full, for real, and
/// whatever is stored goes nowhere.
pub fn open_private(paths: &[PathBuf], opening: Opening) -> Result<Pool, Failure> {
    open_private_with(paths, opening.runtime())
}

/// The same with other options.
pub fn open_private_with(paths: &[PathBuf], options: RuntimeOptions) -> Result<Pool, Failure> {
    let (present, absent) = split(paths);
    if let Some(pool) = Pool::look_at_ssd(&present, options.clone())? {
        return Ok(pool);
    }
    let regions = present
        .iter()
        .map(|path| Region::open_read_only_with(path, options.region_options()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(forebay::Error::from)?;
    if let Some(region) = regions.iter().find(|region| region.is_open_elsewhere()) {
        return Err(Failure::InUse(format!(
            "{} is open in another process; ask the daemon that serves it with forebay stat, or end it first",
            region.path().display()
        )));
    }
    Pool::open_on(regions, options.background(false)).map_err(|error| naming(error.into(), &absent))
}

/// The members that are there, and those that are not; where none is, opening them says so.
pub fn split(paths: &[PathBuf]) -> (Vec<&Path>, Vec<&Path>) {
    let paths = paths.iter().map(PathBuf::as_path);
    let is_there = |path: &&Path| path.try_exists().unwrap_or(true);
    let (present, absent): (Vec<_>, Vec<_>) = paths.partition(is_there);
    match present.is_empty() {
        true => (absent, Vec::new()),
        false => (present, absent),
    }
}

/// A refusal of the members that are there names those that are not.
fn naming(failure: Failure, absent: &[&Path]) -> Failure {
    match failure {
        Failure::Damaged(message) if !absent.is_empty() => {
            let absent: Vec<_> = absent
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            Failure::Damaged(format!("{message} (not there: {})", absent.join(", ")))
        }
        other => other,
    }
}
