//! Regions for one measurement, which vanish with the process however that ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use forebay::{Region, RegionOptions, Result};

/// Tells the regions of one process apart.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// Removes the file when it goes out of scope, also where mapping it failed half-way.
struct Unlinked(PathBuf);

impl Drop for Unlinked {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Maps `bytes` of fresh memory in `folder`.
///
/// The file has no name any more once it is mapped: the kernel gives the memory back when the region
/// is dropped or the process ends, and a killed run leaves nothing behind.
///
/// # Errors
/// The folder has no room or cannot be written.
pub(crate) fn region(folder: &Path, bytes: u64, options: &RegionOptions) -> Result<Region> {
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let file = Unlinked(folder.join(format!("forebay-lab-{}-{number}", std::process::id())));
    Ok(Region::create(&file.0, bytes, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_works_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let region = region(folder.path(), 1 << 20, &RegionOptions::default()).expect("a region");
        assert_eq!(std::fs::read_dir(folder.path()).expect("read").count(), 0);
        region.stream(0, &[7; 64]);
        region.fence().expect("durable");
        assert_eq!(region.load_u64(0), 0x0707_0707_0707_0707);
    }
}
