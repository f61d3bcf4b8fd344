//! Looking at a pool that no process serves, without changing it.

use std::path::PathBuf;

use forebay::{Pool, Region};
use forebay_command::{Failure, Trust};

/// Opens a pool on private copies of its members' mappings: recovery runs in full, for real, and
/// whatever is stored goes nowhere.
pub fn open_private(paths: &[PathBuf], trust: Trust) -> Result<Pool, Failure> {
    let regions = paths
        .iter()
        .map(|path| Region::open_read_only_with(path, &trust.region()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(forebay::Error::from)?;
    if let Some(region) = regions.iter().find(|region| region.is_open_elsewhere()) {
        return Err(Failure::InUse(format!(
            "{} is open in another process; ask the daemon that serves it with forebay stat, or end it first",
            region.path().display()
        )));
    }
    let options = trust.runtime().background(false);
    Ok(Pool::open_on(regions, options)?)
}
