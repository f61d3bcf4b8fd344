//! What small writes go to: a file, or memory without any.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use forebay_pmem::{Region, RegionOptions};

use forebay_harness::Result;

/// Filled by pieces of so many bytes.
const FILL_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub enum Target {
    /// Synced by `fdatasync`.
    File(File),
    /// Written past the processor's cache and synced by a fence, as a pool is.
    Memory {
        /// All of it was touched before.
        region: Region,
        /// Where the next piece goes that has no place; after the last byte comes the first.
        end: u64,
    },
}

impl Target {
    /// A new one at `path`: memory of `bytes`, or a file, of so many bytes if `is_filled` and of none else.
    pub fn create(path: &Path, is_raw: bool, bytes: u64, is_filled: bool) -> Result<Target> {
        let fill = vec![1; FILL_BYTES];
        let pieces = bytes / FILL_BYTES as u64;
        if is_raw {
            let region = Region::create(path, bytes, &RegionOptions::default())?;
            for piece in 0..pieces {
                region.stream(piece * FILL_BYTES as u64, &fill);
            }
            region.fence()?;
            return Ok(Target::Memory { region, end: 0 });
        }
        let mut file = File::create_new(path)?;
        for _ in 0..if is_filled { pieces } else { 0 } {
            file.write_all(&fill)?;
        }
        Ok(Target::File(file))
    }

    /// Writes at `place`, or at the end.
    pub fn write(&mut self, piece: &[u8], place: Option<u64>) -> Result<()> {
        match (self, place) {
            (Target::File(file), Some(place)) => file.write_all_at(piece, place)?,
            (Target::File(file), None) => file.write_all(piece)?,
            (Target::Memory { region, end }, place) => {
                let place = place.unwrap_or(*end);
                region.stream(place, piece);
                *end = (place + piece.len() as u64) % region.len();
            }
        }
        Ok(())
    }

    /// Makes what was written durable, as far as the medium goes; `is_whole` is for all that there is to know
    /// of a file, its name too.
    pub fn sync(&self, is_whole: bool) -> Result<()> {
        match (self, is_whole) {
            (Target::File(file), true) => file.sync_all()?,
            (Target::File(file), false) => file.sync_data()?,
            (Target::Memory { region, .. }, _) => region.fence()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_anew_at_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("memory");
        let bytes = 2 * FILL_BYTES as u64;
        let mut target = Target::create(&path, true, bytes, false).expect("memory");
        for number in 0..3 {
            target
                .write(&vec![2 + number; FILL_BYTES], None)
                .expect("room");
        }
        target.write(&[9; 64], Some(128)).expect("room");
        target.sync(false).expect("durable");
        let there = std::fs::read(&path).expect("a file");
        assert_eq!([there[0], there[128], there[191], there[192]], [4, 9, 9, 4]);
        assert_eq!(there[FILL_BYTES..], vec![3; FILL_BYTES]);
    }
}
