//! What a caller of the library sees: transactions, reads, reopening, refusals.

use std::path::PathBuf;

use forebay::{Backing, ErrorKind, Pool, PoolOptions, RuntimeOptions};

const BLOCK: usize = 4096;

/// A directory in /dev/shm that goes away with the test.
fn shm() -> tempfile::TempDir {
    tempfile::Builder::new()
        .prefix("forebay-test-")
        .tempdir_in("/dev/shm")
        .expect("/dev/shm")
}

fn options(dir: &tempfile::TempDir) -> PoolOptions {
    PoolOptions::new(dir.path().join("pool"), 16 << 20).background(false)
}

fn quiet() -> RuntimeOptions {
    RuntimeOptions::default().background(false)
}

fn backing_file(dir: &tempfile::TempDir) -> PathBuf {
    let path = dir.path().join("disk");
    std::fs::File::create(&path)
        .expect("disk")
        .set_len(64 << 20)
        .expect("size");
    path
}

fn block(fill: u8) -> Vec<u8> {
    (0..BLOCK).map(|n| fill ^ (n % 251) as u8).collect()
}

#[test]
fn what_was_committed_is_there_after_reopening() {
    let dir = shm();
    let disk = backing_file(&dir);
    let pool = Pool::create(&options(&dir)).expect("create");
    let volume = pool
        .attach(Backing::file(&disk).expect("backing"))
        .expect("attach");
    let mut transaction = volume.begin();
    transaction.write(5, &block(1)).expect("write");
    transaction.write(9, &block(2)).expect("write");
    let mut out = block(0);
    transaction.read(5, &mut out).expect("own write");
    assert_eq!(out, block(1));
    volume.read(5, &mut out).expect("read");
    assert_eq!(out, vec![0; BLOCK], "others see nothing before the commit");
    transaction.commit().expect("commit");
    volume.read(9, &mut out).expect("read");
    assert_eq!(out, block(2));
    drop((volume, pool));

    let pool = Pool::open_with(&[dir.path().join("pool")], quiet()).expect("open");
    assert_eq!(pool.recovery_report().records, 1);
    let volume = pool
        .attach(Backing::file(&disk).expect("backing"))
        .expect("attach");
    for (number, fill) in [(5, 1), (9, 2)] {
        volume.read(number, &mut out).expect("read");
        assert_eq!(out, block(fill));
    }
    volume.flush().expect("flush");
    let on_disk = std::fs::read(&disk).expect("disk");
    assert_eq!(on_disk[5 * BLOCK..6 * BLOCK], block(1));
    assert_eq!(pool.stats().dirty_blocks, 0);
}

#[test]
fn an_aborted_transaction_leaves_nothing() {
    let dir = shm();
    let pool = Pool::create(&options(&dir)).expect("create");
    let volume = pool.attach(Backing::memory(1 << 20)).expect("attach");
    let free = pool.stats().free_slots;
    let mut transaction = volume.begin();
    transaction.write(1, &block(1)).expect("write");
    transaction
        .write_at(3 * BLOCK as u64 + 7, b"bytes")
        .expect("write");
    transaction.abort();
    let mut out = block(0);
    volume.read(1, &mut out).expect("read");
    assert_eq!(out, vec![0; BLOCK]);
    drop(volume);
    assert!(
        pool.stats().free_slots >= free - 1,
        "only the fill of block 1 took a slot"
    );
}

#[test]
fn deltas_appends_and_zeroes_survive() {
    let dir = shm();
    let disk = backing_file(&dir);
    let pool = Pool::create(&options(&dir)).expect("create");
    let volume = pool
        .attach(Backing::file(&disk).expect("backing"))
        .expect("attach");
    let mut expected = block(3);
    let mut transaction = volume.begin();
    transaction.write(0, &expected).expect("write");
    transaction.write(2, &block(4)).expect("write");
    transaction.commit().expect("commit");

    let mut transaction = volume.begin();
    transaction.write_at(100, b"hello").expect("delta");
    transaction
        .write_at(103, b"p me")
        .expect("overlapping delta");
    transaction.discard(2..3).expect("zero");
    transaction.append(4, 0, b"first ").expect("append");
    transaction.commit().expect("commit");
    let mut transaction = volume.begin();
    transaction.append(4, 6, b"second").expect("append");
    transaction.commit().expect("commit");
    expected[100..107].copy_from_slice(b"help me");
    let mut tail = vec![0; BLOCK];
    tail[..12].copy_from_slice(b"first second");
    let check = |volume: &forebay::Volume| {
        let mut out = block(0);
        for (number, want) in [(0, &expected), (2, &vec![0; BLOCK]), (4, &tail)] {
            volume.read(number, &mut out).expect("read");
            assert!(&out == want, "block {number}");
        }
    };
    check(&volume);
    let totals = pool.stats().totals;
    assert_eq!(
        (
            totals.deltas_written,
            totals.appends_written,
            totals.blocks_zeroed
        ),
        (1, 1, 1)
    );
    drop((volume, pool));

    let pool = Pool::open_with(&[dir.path().join("pool")], quiet()).expect("open");
    let volume = pool
        .attach(Backing::file(&disk).expect("backing"))
        .expect("attach");
    check(&volume);
    volume.flush().expect("flush");
    check(&volume);
    while pool.reclaim_once(64).expect("reclaim") > 0 {}
    assert_eq!(pool.stats().cached_blocks, 0);
    check(&volume);
}

#[test]
fn a_transaction_beyond_the_limit_is_refused_by_name() {
    let dir = shm();
    let pool = Pool::create(&options(&dir)).expect("create");
    let volume = pool.attach(Backing::memory(64 << 20)).expect("attach");
    let limit = pool.transaction_limit_bytes();
    let mut transaction = volume.begin();
    transaction
        .write(0, &vec![7; limit as usize])
        .expect("up to the limit");
    let error = transaction
        .write(limit / BLOCK as u64, &block(1))
        .expect_err("beyond");
    assert!(
        matches!(error.kind(), ErrorKind::TransactionTooLarge { limit_bytes, .. } if *limit_bytes == limit)
    );
    transaction.commit().expect("commit");
}

#[test]
fn more_than_the_pool_holds_goes_through_it() {
    let dir = shm();
    let disk = backing_file(&dir);
    let options = options(&dir).member_bytes(4 << 20);
    let pool = Pool::create(&options).expect("create");
    let volume = pool
        .attach(Backing::file(&disk).expect("backing"))
        .expect("attach");
    for number in 0..4096 {
        let mut transaction = volume.begin();
        transaction
            .write(number, &block(number as u8))
            .expect("write");
        transaction.commit().expect("commit");
    }
    let mut out = block(0);
    for number in (0..4096).rev() {
        volume.read(number, &mut out).expect("read");
        assert!(out == block(number as u8), "block {number}");
    }
}

#[test]
fn a_second_owner_is_told() {
    let dir = shm();
    let pool = Pool::create(&options(&dir)).expect("create");
    let error = Pool::open(&[dir.path().join("pool")]).expect_err("in use");
    assert!(error.to_string().contains("pool"), "{error}");
    drop(pool);
    Pool::open(&[dir.path().join("pool")]).expect("free again");
}
