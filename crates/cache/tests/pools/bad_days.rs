//! Bad days: what is around the pool fails. Each ends in a clear error, a pool that serves on, and
//! nothing lost that was acknowledged. The media's own faults are in `faults.rs`, refused pools in
//! `refusals.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::rig::{BLOCK, behind, bytes_of, faulty, get, put, rig, rig_with, try_put, wait_until};
use forebay::{Backing, ErrorKind, FaultyStore, Pool, PoolOptions, RegionOptions, Volume};

/// A small file system of its own; `None`, said aloud, where the test may not mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(test: &str, size_bytes: u64) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={size_bytes}"),
                "forebay-test",
            ])
            .arg(folder.path())
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(folder));
        }
        eprintln!("skipped {test}: needs root to mount a tmpfs");
        None
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn remount(&self, option: &str) {
        let status = Command::new("mount")
            .args(["-o", &format!("remount,{option}")])
            .arg(self.0.path())
            .status();
        assert!(status.unwrap().success());
    }

    /// Takes up all room that is left.
    fn fill(&self) -> PathBuf {
        let filler = self.path("filler");
        let mut file = std::fs::File::create(&filler).unwrap();
        let chunk = [1; 4096];
        while std::io::Write::write_all(&mut file, &chunk).is_ok() {}
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

fn image(path: &Path, blocks: usize) -> PathBuf {
    let file = std::fs::File::create(path).unwrap();
    file.set_len((blocks * BLOCK) as u64).unwrap();
    path.to_owned()
}

fn last_error(pool: &Pool) -> String {
    pool.stats().volumes[0]
        .last_error
        .clone()
        .unwrap_or_default()
}

/// The volume's backing fails in the middle of write-back, and all goes on without it.
fn assert_degraded(pool: &Pool, volume: &Volume, words: &str) {
    let error = volume.flush().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Backing { .. }), "{error}");
    assert!(error.to_string().contains(words), "{error}");
    assert!(last_error(pool).contains(words), "{}", last_error(pool));
    assert!(pool.stats().volumes[0].degraded);
    put(volume, 7, 7);
    assert_eq!(get(volume, 7), bytes_of(7, 7));
}

#[test]
fn a_pool_too_small_to_hold_anything_says_so_and_leaves_no_file() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("pool");
    for bytes in [0, 4096, 64 << 10] {
        let error = Pool::create(&PoolOptions::new(&path, bytes)).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("no room for a single block"),
            "{bytes}: {message}"
        );
        assert!(!path.exists());
    }
}

#[test]
fn a_disk_too_full_for_the_pool_refuses_it_and_leaves_no_file() {
    let test = "a_disk_too_full_for_the_pool_refuses_it";
    let Some(disk) = SmallDisk::mount(test, 8 << 20) else {
        return;
    };
    let path = disk.path("pool");
    let error = Pool::create(&PoolOptions::new(&path, 16 << 20)).unwrap_err();
    assert!(error.to_string().contains("space"), "{error}");
    assert!(!path.exists());
    let options =
        PoolOptions::new(&path, 4 << 20).region(RegionOptions::default().huge_pages(false));
    drop(Pool::create(&options).unwrap());
    // A copy with holes, as cp makes it: its first store would meet the full disk.
    let holes = disk.path("holes");
    std::fs::copy(&path, &holes).unwrap();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&holes)
        .unwrap();
    file.set_len(1 << 20).unwrap();
    file.set_len(4 << 20).unwrap();
    drop(file);
    disk.fill();
    let error = Pool::open(&[&holes]).unwrap_err();
    assert!(error.to_string().contains("space"), "{error}");
    let pool = Pool::open(&[&path]).unwrap();
    let volume = pool.attach(Backing::memory(1 << 20)).unwrap();
    put(&volume, 1, 1);
    assert_eq!(get(&volume, 1), bytes_of(1, 1), "what is reserved is there");
}

#[test]
fn a_sparse_backing_on_a_full_disk_drains_when_there_is_room_again() {
    let test = "a_sparse_backing_on_a_full_disk_drains";
    let Some(disk) = SmallDisk::mount(test, 4 << 20) else {
        return;
    };
    let rig = rig(8 << 20, false);
    let path = image(&disk.path("image"), 512);
    let volume = rig.pool.attach(Backing::file(&path).unwrap()).unwrap();
    let filler = disk.fill();
    for block in 0..100 {
        put(&volume, block, 1);
    }
    assert_degraded(&rig.pool, &volume, "No space left");
    std::fs::remove_file(filler).unwrap();
    volume.flush().unwrap();
    assert_eq!(rig.pool.stats().dirty_blocks, 0);
    let found = std::fs::read(&path).unwrap();
    assert!(found[9 * BLOCK..10 * BLOCK] == bytes_of(9, 1));
}

#[test]
fn a_backing_that_shrank_takes_nothing_and_drains_when_it_is_restored() {
    let rig = rig(8 << 20, false);
    let folder = tempfile::tempdir().unwrap();
    let path = image(&folder.path().join("image"), 100);
    let volume = rig.pool.attach(Backing::file(&path).unwrap()).unwrap();
    for block in 0..50 {
        put(&volume, block, 1);
    }
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(BLOCK as u64).unwrap();
    assert_degraded(&rig.pool, &volume, "shorter than when it was attached");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), BLOCK as u64);
    let mut out = vec![0; BLOCK];
    let error = volume.read(80, &mut out).unwrap_err();
    assert!(
        error.to_string().contains("shorter"),
        "no zeroes made up: {error}"
    );
    file.set_len((100 * BLOCK) as u64).unwrap();
    volume.flush().unwrap();
    assert!(!rig.pool.stats().volumes[0].degraded);
    assert!(std::fs::read(&path).unwrap()[..BLOCK] == bytes_of(0, 1));
}

#[test]
fn a_backing_that_was_removed_keeps_its_blocks_in_the_pool() {
    let rig = rig(8 << 20, false);
    let folder = tempfile::tempdir().unwrap();
    let path = image(&folder.path().join("image"), 100);
    let volume = rig.pool.attach(Backing::file(&path).unwrap()).unwrap();
    for block in 0..50 {
        put(&volume, block, 1);
    }
    std::fs::remove_file(&path).unwrap();
    assert_degraded(&rig.pool, &volume, "was removed");
    assert_eq!(rig.pool.stats().dirty_blocks, 50);
    assert_eq!(get(&volume, 99), vec![0; BLOCK], "it is still read");
    let error = Backing::file(&path).unwrap_err();
    assert!(error.to_string().contains("cannot be looked up"), "{error}");
}

#[test]
fn a_read_only_backing_is_refused_and_one_that_turns_so_is_survived() {
    let test = "a_read_only_backing_is_refused";
    if let Some(disk) = SmallDisk::mount(test, 4 << 20) {
        let path = image(&disk.path("image"), 100);
        disk.remount("ro");
        let error = Backing::file(&path).unwrap_err().to_string();
        assert!(error.contains("Read-only file system"), "{error}");
        assert!(error.contains("image"), "{error}");
    }
    let rig = rig(8 << 20, false);
    let (memory, store, backing) = faulty(100);
    let volume = rig.pool.attach(backing).unwrap();
    put(&volume, 3, 1);
    store.fail_with(libc::EROFS);
    store.fail_writes(u64::MAX);
    assert_degraded(&rig.pool, &volume, "Read-only file system");
    store.fail_writes(0);
    volume.flush().unwrap();
    assert_eq!(behind(&memory, 3), bytes_of(3, 1));
}

/// What a backing does to the pool while it is gone: writes, syncs and reads fail in every mixture.
fn outage(store: &FaultyStore, phase: u64) {
    store.fail_writes([u64::MAX, 0, 5, u64::MAX][phase as usize % 4]);
    store.fail_syncs([0, u64::MAX, 3, u64::MAX][phase as usize % 4]);
    store.fail_reads([0, 2, 0, u64::MAX][phase as usize % 4]);
}

#[test]
fn a_backing_with_errors_for_a_while_costs_nothing_and_drains_by_itself() {
    let rig = rig_with(16 << 20, |options| {
        options.dirty_low_per_mille(5).dirty_high_per_mille(600)
    });
    let (memory, store, backing) = faulty(4000);
    let volume = rig.pool.attach(backing).unwrap();
    for phase in 0..8 {
        outage(&store, phase);
        for block in 0..200 {
            put(&volume, phase * 200 + block, phase);
            put(&volume, block, 100 + phase);
        }
        for block in 0..200 {
            assert_eq!(get(&volume, block), bytes_of(block, 100 + phase));
        }
    }
    wait_until("the outage shows", || rig.pool.stats().volumes[0].degraded);
    assert!(rig.pool.stats().totals.write_back_errors > 0);
    assert!(last_error(&rig.pool).contains("os error 5"));
    outage(&store, 1);
    store.fail_syncs(0);
    store.fail_reads(0);
    wait_until("it drains", || {
        rig.pool.stats().dirty_blocks <= rig.pool.stats().slots / 200
    });
    volume.flush().unwrap();
    assert!(!rig.pool.stats().volumes[0].degraded);
    let found = memory.snapshot();
    for block in 0..1600 {
        let version = if block < 200 { 107 } else { block / 200 };
        let at = block as usize * BLOCK;
        assert!(
            found[at..at + BLOCK] == bytes_of(block, version),
            "block {block}"
        );
    }
}

#[test]
fn a_full_pool_in_an_outage_is_an_error_in_time_and_the_writer_may_try_again() {
    let rig = rig_with(4 << 20, |options| {
        options.throttle_deadline(Duration::from_millis(200))
    });
    let (_, store, backing) = faulty(4000);
    let volume = rig.pool.attach(backing).unwrap();
    store.fail_writes(u64::MAX);
    let refused = (0..4000).find_map(|block| try_put(&volume, block, 1).err().map(|e| (block, e)));
    let (block, error) = refused.expect("it cannot hold all");
    assert!(error.to_string().contains("check the backing"), "{error}");
    for held in 0..block {
        assert!(get(&volume, held) == bytes_of(held, 1), "block {held}");
    }
    store.fail_writes(0);
    wait_until("the writer gets through", || {
        try_put(&volume, block, 1).is_ok()
    });
}

#[test]
fn zeroes_behind_the_cache_that_no_sync_covered_are_not_brought_in() {
    let rig = rig(8 << 20, false);
    let (_, store, backing) = faulty(1000);
    let volume = rig.pool.attach(backing).unwrap();
    let fills = || rig.pool.stats().totals.fills;
    store.fail_syncs(1);
    volume.discard(100..200).unwrap_err();
    assert_eq!(get(&volume, 150), vec![0; BLOCK]);
    assert_eq!(fills(), 0, "a crash may take these zeroes back");
    get(&volume, 250);
    assert_eq!(fills(), 1, "others are as good as ever");
    volume.discard(50..300).unwrap();
    get(&volume, 150);
    assert_eq!(fills(), 2);
}

#[test]
fn a_second_owner_of_pool_or_backing_is_told_and_the_first_serves_on() {
    let rig = rig(8 << 20, true);
    let folder = tempfile::tempdir().unwrap();
    let path = image(&folder.path().join("image"), 100);
    let volume = rig.pool.attach(Backing::file(&path).unwrap()).unwrap();
    put(&volume, 1, 1);
    let error = Pool::open(&[&rig.path]).unwrap_err().to_string();
    assert!(
        error.contains("another process") || error.contains("in use"),
        "{error}"
    );
    let error = Backing::file(&path).unwrap_err().to_string();
    assert!(error.contains("already the backing"), "{error}");
    put(&volume, 2, 2);
    volume.flush().unwrap();
    assert_eq!(get(&volume, 1), bytes_of(1, 1));
}

/// Deadlines and pauses are measured by a clock that cannot be set. Only marks tell people since when a
/// backing is open; nothing is decided by that.
#[test]
fn nothing_in_the_core_asks_what_time_it_is() {
    let mut sources: Vec<PathBuf> = vec!["src".into(), "../pmem/src".into()];
    let mut looked_at = 0;
    while let Some(path) = sources.pop() {
        if path.is_dir() {
            sources.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        // What a mark and a scrub say of when is for people to read, and decides nothing.
        if path.ends_with("src/marks/mark.rs") || path.ends_with("src/repeatable.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for name in ["SystemTime", "UNIX_EPOCH", "CLOCK_REALTIME"] {
            assert!(!text.contains(name), "{} uses {name}", path.display());
        }
        looked_at += 1;
    }
    assert!(looked_at > 50);
}

#[test]
fn a_store_that_a_test_shares_fails_only_as_told() {
    let (_, store, backing) = faulty(4);
    let store: Arc<FaultyStore> = store;
    store.fail_with(libc::ENXIO);
    store.fail_reads(1);
    let error = backing.read_at(0, &mut [0; 16]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENXIO));
    backing.read_at(0, &mut [0; 16]).unwrap();
}
