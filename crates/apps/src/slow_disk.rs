//! A directory on a slow disk: an ext4 on a loop device over a disk in memory, which this program serves by FUSE and every
//! request of which takes at least as long as a seek. The machine's own disk has no part in it.
//!
//! It waits only while it is told to, so that what is not measured need not be waited for. Everything of it is taken away
//! from the top to the bottom when it is dropped, whatever happened.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_harness::Result;
use forebay_serve::{BlockDevice, DeviceError, DiskMount, DiskOptions};
use tempfile::TempDir;

use forebay::{BackingStore, FaultyStore, MemoryStore, WriteRun};

use crate::loop_files::LoopFiles;

/// As much of it as is written takes memory.
const DISK_BYTES: u64 = 2 << 30;
const BLOCK_BYTES: u32 = 4096;
/// What a read, a write or a flush takes at least, wherever it is: as a seek of an HDD of 7,200 rotations a minute.
pub const REQUEST_DELAY: Duration = Duration::from_millis(4);
const INODES: u32 = 16_384;

/// The disk as a front end sees it. A write is durable when it is answered.
struct Delayed(Arc<FaultyStore>);

impl BlockDevice for Delayed {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn block_size(&self) -> u32 {
        BLOCK_BYTES
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), DeviceError> {
        self.check_range(offset, buffer.len() as u64)?;
        Ok(self.0.read_at(offset, buffer)?)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
        self.check_range(offset, bytes.len() as u64)?;
        let results = self.0.write_runs(&[WriteRun { offset, bytes }]);
        Ok(results.into_iter().collect::<io::Result<()>>()?)
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        self.check_range(offset, length)?;
        Ok(self.0.zero_range(offset, length)?)
    }

    fn discard(&self, offset: u64, length: u64) -> std::result::Result<(), DeviceError> {
        self.write_zeroes(offset, length)
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        Ok(self.0.sync()?)
    }
}

/// The file system, empty when it is made.
pub struct SlowDisk {
    disk: Arc<FaultyStore>,
    files: Option<LoopFiles>,
    served: Option<DiskMount>,
    /// Where the disk is served, and where the file system is mounted.
    folder: TempDir,
}

impl std::fmt::Debug for SlowDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlowDisk")
            .field("folder", &self.folder.path())
            .finish_non_exhaustive()
    }
}

impl SlowDisk {
    /// Makes it below the folder `memory`; it does not wait yet.
    ///
    /// Errors: it cannot be served or mounted here.
    pub fn make(memory: &Path) -> Result<SlowDisk> {
        let store = Arc::new(MemoryStore::new(DISK_BYTES));
        let mut slow = SlowDisk {
            disk: Arc::new(FaultyStore::new(store)),
            files: None,
            served: None,
            folder: forebay_harness::temporary_folder(memory)?,
        };
        let front = slow.folder.path().join("front");
        std::fs::create_dir(&front)?;
        std::fs::create_dir(slow.root())?;
        let device = Delayed(Arc::clone(&slow.disk));
        let options = DiskOptions::default();
        let served = DiskMount::new(device, &front, &options, || {})
            .map_err(|error| format!("{}: {error}", front.display()))?;
        let disk_path = served.disk_path();
        slow.served = Some(served);
        slow.files = Some(LoopFiles::make(&disk_path, slow.root(), INODES)?);
        Ok(slow)
    }

    /// The root of the file system.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// What `work` gives while the disk waits.
    pub fn waiting<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.disk.delay_requests(REQUEST_DELAY);
        let done = work();
        self.disk.delay_requests(Duration::ZERO);
        done
    }
}

impl Drop for SlowDisk {
    fn drop(&mut self) {
        self.disk.delay_requests(Duration::ZERO);
        self.files = None;
        if let Some(served) = self.served.take() {
            // It fails where the kernel still has the loop device; then the end of the mount comes with the last user.
            let _ = served.unmount(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_slow_disk_waits_only_while_it_is_told_to() {
        let store = Arc::new(MemoryStore::new(1 << 30));
        let disk = Arc::new(FaultyStore::new(store));
        let device = Delayed(Arc::clone(&disk));
        device.write_at(512 << 20, &[7; 4096]).expect("written");
        let mut read = [0; 4096];
        device.read_at(512 << 20, &mut read).expect("read");
        assert_eq!(read, [7; 4096]);
        device.discard(512 << 20, 4096).expect("zeroed");
        device.read_at(512 << 20, &mut read).expect("read");
        assert_eq!(read, [0; 4096]);
        assert!(device.write_at(1 << 30, &[7]).is_err(), "past the end");
        disk.delay_requests(REQUEST_DELAY);
        let began = Instant::now();
        device.write_at(512 << 20, &[7; 4096]).expect("written");
        assert!(began.elapsed() >= REQUEST_DELAY);
    }
}
