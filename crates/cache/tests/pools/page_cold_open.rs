//! Opening a pool on a plain file of which nothing is in memory: its pages are mapped for single
//! stores, so recovery asks for what it will read. Alone in its program: the system counts the page
//! faults of a process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use crate::fixtures::{block_of, quiet};
use forebay::{Backing, MediaKind, MemoryStore, Pool, PoolOptions};

const POOL_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 2048;

/// Page faults of this process so far that waited for a disk.
#[allow(
    unsafe_code,
    reason = "counts of faults are the system's own interface"
)]
fn major_faults() -> i64 {
    // SAFETY: an all-zero rusage is valid, and is filled by the call.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage.ru_majflt
    }
}

/// Writes the file's pages out and drops them.
#[allow(unsafe_code, reason = "advice is the system's own interface")]
fn drop_from_memory(file: &File) {
    file.sync_all().expect("sync");
    // SAFETY: a plain system call on our own descriptor.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}

#[test]
fn a_cold_open_read_log_table_and_tested_slots_page_by_page() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("build folder");
    let path = folder.path().join("pool");
    let options = PoolOptions::new(&path, POOL_BYTES).runtime(quiet());
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK_BYTES as u64));
    let backing = || Backing::from_store(store.clone());
    let pool = Pool::create(&options).expect("create");
    if pool.survives() != MediaKind::PlainFile.survives() {
        eprintln!("skipped cold open: the build folder is no plain file system");
        return;
    }
    let volume = pool.attach(backing()).expect("attach");
    for first in (0..BLOCKS).step_by(64) {
        let mut transaction = volume.begin();
        for number in first..first + 64 {
            let bytes = block_of(BLOCK_BYTES, number, 1);
            transaction.write(number, &bytes).expect("write");
        }
        transaction.commit().expect("commit");
    }
    drop((volume, pool));

    drop_from_memory(&File::open(&path).expect("the pool"));
    let before = major_faults();
    let pool = Pool::open_with(&[&path], quiet()).expect("open");
    let faults = major_faults() - before;
    assert!(pool.recovery_report().records > 0);
    // Log and table are hundreds of pages, and the tested record has 64 slots.
    assert!(faults < 50, "{faults} faults that waited for the disk");
}
