//! Bad days around a daemon: real devices with errors, and a process without file descriptors.

mod common;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{TestMount, no_fuse, skip};
use forebay::{Backing, Pool, PoolOptions, RegionOptions, Volume};
use forebay_serve::{BlockDevice, DeviceError, MemoryDevice};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const DISK_BYTES: usize = 16 << 20;
const BLOCK: usize = 4096;

/// A disk whose writes fail while it is told so: through FUSE they fail as a device's do.
struct FaultyDisk {
    memory: MemoryDevice,
    is_broken: AtomicBool,
}

impl FaultyDisk {
    fn check(&self) -> Result<(), DeviceError> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::EIO).into());
        }
        Ok(())
    }
}

impl BlockDevice for FaultyDisk {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn block_size(&self) -> u32 {
        self.memory.block_size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check()?;
        self.memory.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.check()?;
        self.memory.write_at(offset, data)
    }
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.check()?;
        self.memory.write_zeroes(offset, length)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.write_zeroes(offset, length)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

fn block(number: u64, version: u8) -> Vec<u8> {
    (0..BLOCK)
        .map(|at| (at as u64 * 7 + number) as u8 ^ version)
        .collect()
}

fn get(volume: &Volume, number: u64) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    volume.read(number, &mut out).unwrap();
    out
}

fn create_pool(folder: &Path, name: &str) -> Pool {
    let options = PoolOptions::new(folder.join(name), 8 << 20)
        .dirty_low_per_mille(10)
        .region(RegionOptions::default().huge_pages(false));
    Pool::create(&options).unwrap()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "never happened: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_device_with_errors_for_a_while_costs_nothing() {
    if let Some(why) = no_fuse() {
        return skip("a_device_with_errors_for_a_while_costs_nothing", why);
    }
    let disk = Arc::new(FaultyDisk {
        memory: MemoryDevice::new(DISK_BYTES, 4096),
        is_broken: AtomicBool::new(false),
    });
    let mount = TestMount::new(Arc::clone(&disk));
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = create_pool(folder.path(), "pool");
    let volume = pool
        .attach(Backing::file(mount.disk_path()).unwrap())
        .unwrap();
    for version in 1..=3 {
        disk.is_broken.store(version != 2, Ordering::SeqCst);
        for number in 0..300 {
            volume.write(number, &block(number, version)).unwrap();
        }
        wait_until("the failure is seen, or its end", || {
            pool.stats().volumes[0].degraded == (version != 2)
        });
        assert!((0..300).all(|number| get(&volume, number) == block(number, version)));
    }
    let error = volume.flush().unwrap_err().to_string();
    assert!(
        error.contains("os error 5") && error.contains("disk"),
        "{error}"
    );
    disk.is_broken.store(false, Ordering::SeqCst);
    volume.flush().unwrap();
    assert!(!pool.stats().volumes[0].degraded);
    let mut behind = vec![0; 300 * BLOCK];
    disk.memory.read_at(0, &mut behind).unwrap();
    for (number, found) in (0..).zip(behind.chunks(BLOCK)) {
        assert!(found == block(number, 3), "block {number}");
    }
    // The pool lets go of the mounted file before the mount goes.
    drop((volume, pool));
    // Neither the disk nor its folder has room for the mark that names the pool.
    forget_marks_of(&mount.disk_path());
}

/// Takes away what attaching a backing left in the folder of marks.
fn forget_marks_of(path: &Path) {
    let folder = path.parent().and_then(Path::file_name).unwrap();
    let folder = folder.to_string_lossy();
    for mark in std::fs::read_dir("/var/lib/forebay").into_iter().flatten() {
        let mark = mark.unwrap();
        if mark.file_name().to_string_lossy().contains(&*folder) {
            std::fs::remove_file(mark.path()).unwrap();
        }
    }
}

/// Tells the process that is to run out of file descriptors where it may work.
const POOR_VARIABLE: &str = "FOREBAY_TEST_POOR_FOLDER";

/// Not a test of its own: the next one runs it in a process whose limits it may lower.
#[test]
fn poor_process() {
    let Ok(folder) = std::env::var(POOR_VARIABLE) else {
        return;
    };
    let folder = Path::new(&folder);
    for name in ["image", "other"] {
        let image = File::create(folder.join(name)).unwrap();
        image.set_len(DISK_BYTES as u64).unwrap();
    }
    let pool = create_pool(folder, "pool");
    let volume = pool
        .attach(Backing::file(folder.join("image")).unwrap())
        .unwrap();
    let limit = getrlimit(Resource::Nofile);
    let lowered = Rlimit {
        current: Some(32),
        ..limit
    };
    setrlimit(Resource::Nofile, lowered).unwrap();
    let mut hoard = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        hoard.push(file);
    }
    for number in 0..300 {
        volume.write(number, &block(number, 1)).unwrap();
    }
    volume.flush().unwrap();
    pool.checkpoint().unwrap();
    assert!((0..300).all(|number| get(&volume, number) == block(number, 1)));
    let error = Backing::file(folder.join("other")).unwrap_err().to_string();
    assert!(error.contains("Too many open files"), "{error}");
    assert!(error.contains("other"), "{error}");
    let error = Pool::open(&[folder.join("pool")]).unwrap_err().to_string();
    assert!(error.contains("Too many open files"), "{error}");
    // Enough for the file itself, not for a ring: the same as where the ring finds no memory.
    hoard.truncate(hoard.len() - 2);
    let other = Backing::file(folder.join("other")).unwrap();
    let transport = other.transport();
    assert!(
        transport.contains("pwrite (no io_uring: Too many open files"),
        "{transport}"
    );
    let other = pool.attach(other).unwrap();
    other.write(5, &block(5, 9)).unwrap();
    other.flush().unwrap();
    let written = std::fs::metadata(folder.join("other")).unwrap();
    assert!(written.len() == DISK_BYTES as u64);
    hoard.clear();
    let found = std::fs::read(folder.join("other")).unwrap();
    assert!(found[5 * BLOCK..6 * BLOCK] == block(5, 9));
}

#[test]
fn without_file_descriptors_the_pool_serves_on() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "poor_process", "--nocapture"])
        .env(POOR_VARIABLE, folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
