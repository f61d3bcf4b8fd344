//! A new pool's members: files made, devices taken, whatever was in them gone.

use std::ops::Range;
use std::path::Path;

use forebay_pmem::{Region, RegionOptions};

use crate::error::{Result, refused};
use crate::options::PoolOptions;
use crate::signature::refuse_unless_blank;

pub(super) fn member_region(path: &Path, options: &PoolOptions) -> Result<Region> {
    new_region(
        path,
        options.member_bytes,
        options.force,
        &options.runtime.region,
    )
}

/// A region to make something new on: a file of `len` bytes, which is made, or a device. What exists
/// is taken with `force` only, and a file is then replaced.
///
/// # Errors
/// Something is there already, or in use; there is no room.
pub fn new_region(
    path: &Path,
    len: u64,
    force: bool,
    region_options: &RegionOptions,
) -> Result<Region> {
    if !path.exists() {
        return Ok(Region::create(path, len, region_options)?);
    }
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    if is_file {
        if !force {
            return Err(refused(
                path,
                "the file exists already",
                "name another one, or overwrite it with force (on the command line --force)",
            ));
        }
        remove_unlocked(path)?;
        return Ok(Region::create(path, len, region_options)?);
    }
    let region = Region::open(path, region_options)?;
    if !force {
        refuse_unless_blank(path, region.len(), &mut |offset, out| {
            region.read(offset, out);
            Ok(())
        })?;
    }
    Ok(region)
}

/// Removes a file that no process serves, whatever is in it.
pub(crate) fn remove_unlocked(path: &Path) -> Result<()> {
    let removed = std::fs::File::open(path).and_then(|file| {
        file.try_lock()?;
        std::fs::remove_file(path)
    });
    removed.map_err(|error| {
        refused(
            path,
            format!("the file there cannot be replaced: {error}"),
            "end the process that uses it, or name another file",
        )
    })
}

/// Zeroes these bytes, whole lines, of every member, durably: nothing old in them looks valid.
pub(super) fn clear<'r>(
    regions: impl IntoIterator<Item = &'r Region>,
    bytes: Range<u64>,
) -> Result<()> {
    let zeroes = vec![0; 1 << 16];
    for region in regions {
        let mut offset = bytes.start;
        while offset < bytes.end {
            let len = (zeroes.len() as u64).min(bytes.end - offset);
            region.stream(offset, &zeroes[..len as usize]);
            offset += len;
        }
        region.fence()?;
    }
    Ok(())
}
