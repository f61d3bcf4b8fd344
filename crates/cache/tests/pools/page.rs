//! A pool on a plain file: a fence is fdatasync, records start on fresh pages.

use std::sync::Arc;

use crate::fixtures::{block_of, get, put, quiet};
use forebay::{Backing, MemoryStore, PersistenceDomain, Pool, PoolOptions, RegionOptions};
use forebay_pmem::shadow::{Shadow, ShadowModel};

const BYTES: usize = 4096;

fn options(folder: &tempfile::TempDir) -> PoolOptions {
    PoolOptions::new(folder.path().join("pool"), 2 << 20)
        .lanes(2)
        .lane_bytes(64 << 10)
        .runtime(quiet())
        .region(RegionOptions::default().domain(PersistenceDomain::Page))
}

/// Two lives on a real file, more commits than the log holds, every shape of change.
#[test]
fn a_real_file_end_to_end() {
    // Beside the test program: a disk, not memory, wherever the build folder is.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("build folder");
    let options = options(&folder);
    let store = Arc::new(MemoryStore::new(64 * BYTES as u64));
    let backing = || Backing::from_store(store.clone());
    let pool = Pool::create(&options).expect("create");
    assert!(!pool.survives().is_empty());
    let volume = pool.attach(backing()).expect("attach");
    for version in 1..=3 {
        for number in 0..20 {
            put(&volume, number, &block_of(BYTES, number, version));
        }
    }
    assert!(pool.stats().checkpoints > 0, "the log wrapped");
    let mut transaction = volume.begin();
    transaction
        .write_at(5 * BYTES as u64 + 100, b"delta")
        .expect("delta");
    transaction.append(30, 0, b"start").expect("append");
    transaction.discard(6..8).expect("discard");
    transaction.commit().expect("commit");
    drop((volume, pool));

    let runtime = options.runtime_options().clone();
    let pool = Pool::open_with(options.paths(), runtime.clone()).expect("open");
    assert!(pool.recovery_report().records > 0);
    let volume = pool.attach(backing()).expect("attach");
    let mut patched = block_of(BYTES, 5, 3);
    patched[100..105].copy_from_slice(b"delta");
    assert!(get(&volume, 5).expect("read") == patched);
    assert!(get(&volume, 4).expect("read") == block_of(BYTES, 4, 3));
    assert!(get(&volume, 7).expect("read").iter().all(|byte| *byte == 0));
    assert!(get(&volume, 30).expect("read").starts_with(b"start\0"));
    put(&volume, 4, &block_of(BYTES, 4, 9));
    drop(volume);
    pool.close().expect("close");

    let pool = Pool::open_with(options.paths(), runtime).expect("open");
    assert_eq!(pool.recovery_report().records, 0, "closing empties the log");
    let volume = pool.attach(backing()).expect("attach");
    volume.flush().expect("flush");
    let behind = store.snapshot();
    assert!(behind[4 * BYTES..5 * BYTES] == block_of(BYTES, 4, 9));
    assert!(behind[5 * BYTES..6 * BYTES] == patched);
}

/// Power cuts with any subset of the unsynced sectors on the disk, some of them torn.
#[test]
fn power_cuts_keep_what_was_acknowledged() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm");
    let options = options(&folder);
    let mut rng = fastrand::Rng::with_seed(7);
    for strict in [false, true] {
        let options = options.clone().strict(strict);
        let shadow = Arc::new(Shadow::new(1 << 20, ShadowModel::Pages));
        let region = forebay::Region::on_shadow(shadow.clone());
        let pool = Pool::create_on(vec![region], &options).expect("create");
        let store = Arc::new(MemoryStore::new(64 * BYTES as u64));
        let volume = pool
            .attach(Backing::from_store(store.clone()))
            .expect("attach");
        for version in 1..40 {
            let number = version % 7;
            put(&volume, number, &block_of(BYTES, number, version));
            let mut transaction = volume.begin();
            transaction
                .write_at(number * BYTES as u64, b"patched")
                .expect("write");
            transaction.commit().expect("commit");
            let image = shadow.crash_state().sample(&mut rng);
            let region = forebay::Region::shadow_page_from(&image);
            let reopened = Pool::open_on(vec![region], quiet()).expect("open");
            let again = reopened
                .attach(Backing::from_store(store.clone()))
                .expect("attach");
            for other in version.saturating_sub(6).max(1)..=version {
                let mut expected = block_of(BYTES, other % 7, other);
                expected[..7].copy_from_slice(b"patched");
                assert!(
                    get(&again, other % 7).expect("read") == expected,
                    "{version} {other}"
                );
            }
        }
    }
}
