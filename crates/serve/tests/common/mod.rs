//! What the tests of mounted disks share: a mount that always goes away, aligned buffers, skips.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use forebay::{Backing, Pool, PoolOptions};
use forebay_serve::{BlockDevice, DiskMount, DiskOptions, MemoryDevice, VolumeDevice};

/// Says, past the capture of test output, that a test could not run here; `make test` counts it.
pub fn skip(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

/// Why FUSE cannot be used here, if it cannot.
pub fn no_fuse() -> Option<&'static str> {
    let has_device = Path::new("/dev/fuse").exists();
    (!has_device || !rustix::process::geteuid().is_root())
        .then_some("needs root and /dev/fuse to mount")
}

/// Why loop devices cannot be used here, if they cannot.
pub fn no_loop() -> Option<&'static str> {
    no_fuse().or_else(|| {
        let works = Command::new("losetup").arg("-f").output();
        (!works.is_ok_and(|output| output.status.success()))
            .then_some("needs losetup and a free loop device")
    })
}

/// A mounted disk in a directory of its own, unmounted lazily whatever happens.
pub struct TestMount {
    pub mount: Option<DiskMount>,
    pub ended: Receiver<()>,
    directory: tempfile::TempDir,
}

impl TestMount {
    pub fn new(device: Arc<impl BlockDevice>) -> Self {
        Self::made(|directory, on_end| {
            DiskMount::new(device, directory, &DiskOptions::default(), on_end)
        })
    }

    /// One that is made in another way, with what it is to call at its end.
    pub fn made(
        mount: impl FnOnce(&Path, Box<dyn FnOnce() + Send + Sync>) -> std::io::Result<DiskMount>,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (sender, ended) = channel();
        let on_end = Box::new(move || sender.send(()).unwrap_or_default());
        let mount = mount(directory.path(), on_end);
        TestMount {
            mount: Some(mount.unwrap()),
            ended,
            directory,
        }
    }

    pub fn disk_path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        if let Some(mount) = self.mount.take() {
            let _ = mount.unmount(true);
            if !std::thread::panicking() {
                mount.join().unwrap();
            }
        }
    }
}

/// A loop device over `file`, detached on drop.
pub struct LoopDevice {
    pub path: PathBuf,
}

impl LoopDevice {
    pub fn new(file: &Path, is_direct: bool) -> Self {
        Self::with_sectors(file, is_direct, 512)
    }

    pub fn with_sectors(file: &Path, is_direct: bool, sector_bytes: u32) -> Self {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(format!("--sector-size={sector_bytes}"))
            .arg(format!(
                "--direct-io={}",
                if is_direct { "on" } else { "off" }
            ))
            .arg(file)
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "losetup failed: {message}");
        let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
        // An older loop driver falls back in silence, and the test would not test what it says.
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let dio = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio")).unwrap();
        let looped = LoopDevice { path };
        assert_eq!(
            dio.trim() == "1",
            is_direct,
            "direct I/O of the loop device"
        );
        let sectors = format!("/sys/block/{name}/queue/logical_block_size");
        let sectors = std::fs::read_to_string(sectors).unwrap();
        assert_eq!(sectors.trim(), sector_bytes.to_string(), "sector size");
        looped
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}

/// Opens a file to read and write it, with these flags.
pub fn open(path: &Path, flags: i32) -> File {
    File::options()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .open(path)
        .unwrap()
}

/// Writes so many bytes from `offset` on, which the device then has, and reads them back.
pub fn check_transfer(
    file: &File,
    device: &MemoryDevice,
    (offset, length): (u64, usize),
    seed: u64,
) {
    let mut data = AlignedBuffer::new(length);
    fill_pattern(data.as_mut(), seed);
    file.write_all_at(data.as_mut(), offset).unwrap();
    let mut stored = vec![0; length];
    device.read_at(offset, &mut stored).unwrap();
    assert!(stored == data.as_mut(), "write of {length} at {offset}");
    let mut back = AlignedBuffer::new(length);
    file.read_exact_at(back.as_mut(), offset).unwrap();
    assert!(
        back.as_mut() == data.as_mut(),
        "read of {length} at {offset}"
    );
}

/// Bytes at an address that direct I/O accepts.
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    pub fn new(length: usize) -> Self {
        let bytes = vec![0_u8; length + 4096];
        let start = bytes.as_ptr().align_offset(4096);
        AlignedBuffer {
            bytes,
            start,
            length,
        }
    }

    pub fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// Fills `buffer` with bytes that depend on the seed and on every position.
pub fn fill_pattern(buffer: &mut [u8], seed: u64) {
    for (index, chunk) in buffer.chunks_mut(8).enumerate() {
        let word = (seed ^ 0x9E37_79B9_7F4A_7C15)
            .wrapping_add(index as u64)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let word = (word ^ (word >> 31)).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// A file in the build's folder, of blocks of 4 KiB each of which is a pattern of its number.
pub fn patterned_file(blocks: u64) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for block in 0..blocks {
        let offset = block * 4096;
        file.as_file()
            .write_all_at(&pattern_of(block), offset)
            .unwrap();
    }
    file.as_file().sync_all().unwrap();
    file
}

/// What such a file has in a block.
pub fn pattern_of(block: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    fill_pattern(&mut bytes, block);
    bytes
}

/// A volume over memory, in a pool of its own in /dev/shm, with background threads.
pub struct TestVolume {
    pub device: Arc<VolumeDevice>,
    pub pool: Pool,
    _folder: tempfile::TempDir,
}

impl TestVolume {
    pub fn new(pool_bytes: u64, disk_bytes: u64) -> Self {
        Self::before(Backing::memory(disk_bytes), pool_bytes)
    }

    /// The same over any backing.
    pub fn before(backing: Backing, pool_bytes: u64) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let options = PoolOptions::new(folder.path().join("pool"), pool_bytes);
        let pool = Pool::create(&options).unwrap();
        let volume = pool.attach(backing).unwrap();
        TestVolume {
            device: Arc::new(VolumeDevice::new(volume)),
            pool,
            _folder: folder,
        }
    }
}
