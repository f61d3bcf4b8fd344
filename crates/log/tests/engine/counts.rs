//! What a commit asks of the device, exactly, and what recovery reads.

use crate::fixtures::*;
use forebay_log::{Device, FileDevice, Log, Options, PAGE_BYTES, Transaction, create, open};
use std::sync::Arc;

/// Pages of a segment of a pool of usual size.
const USUAL_SEGMENT_PAGES: u32 = 4096;
/// Sequential commits that fill several segments.
const COMMITS: u64 = 8_000;

fn usual_pool() -> (Arc<forebay_log::shadow::ShadowDevice>, Log) {
    let pages = USUAL_SEGMENT_PAGES as usize * 17;
    let state = forebay_log::shadow::ShadowState::new(
        forebay_log::shadow::Image::zeroed(pages),
        PAGE_BYTES,
    );
    let device = Arc::new(forebay_log::shadow::ShadowDevice::new(state));
    let options = Options {
        segment_pages: Some(USUAL_SEGMENT_PAGES),
        ..options()
    };
    let log = create(device.clone(), options).unwrap();
    log.attach(1, Arc::new(MemoryBacking::default()));
    (device, log)
}

fn pages_and_flushes(blocks: u64, commits: u64) -> (f64, f64) {
    let (device, log) = usual_pool();
    let before = device.counters();
    for number in 0..commits {
        let mut transaction = Transaction::new();
        for block in 0..blocks {
            transaction
                .write(1, (number * 7 + block * 31) % 9_000, &bytes(number))
                .unwrap();
        }
        log.commit(transaction).unwrap();
    }
    let counted = device.counters().since(&before);
    let commits = commits as f64;
    (
        counted.pages_written as f64 / commits,
        counted.flushes as f64 / commits,
    )
}

#[test]
fn a_block_costs_two_pages_and_one_flush() {
    let (pages, flushes) = pages_and_flushes(1, COMMITS);
    assert!(pages <= 2.05, "{pages} pages a commit");
    assert!(flushes <= 1.001, "{flushes} flushes a commit");
}

#[test]
fn sixteen_blocks_cost_little_more_than_themselves() {
    let (pages, flushes) = pages_and_flushes(16, COMMITS / 8);
    assert!(pages / 16.0 <= 1.10, "{} pages a block", pages / 16.0);
    assert!(flushes <= 1.01, "{flushes} flushes a commit");
}

/// Pages a commit of appends of 256 bytes, to files of which each block is new.
fn pages_of_appends(files: u64, commits: u64) -> (f64, Log) {
    let (device, log) = usual_pool();
    let before = device.counters();
    for number in 0..commits {
        let (file, at) = (number % files, number / files * 256);
        let mut transaction = Transaction::new();
        let block = file * 10_000 + at / PAGE_BYTES as u64;
        let within = (at % PAGE_BYTES as u64) as usize;
        let appended = &bytes(number | 1)[..256];
        transaction.append(1, block, within, appended).unwrap();
        log.commit(transaction).unwrap();
    }
    let counted = device.counters().since(&before);
    (counted.pages_written as f64 / commits as f64, log)
}

#[test]
fn an_append_of_256_bytes_costs_one_page() {
    let (pages, log) = pages_of_appends(1, COMMITS);
    assert!(pages <= 1.10, "{pages} pages an append");
    let (count, max) = log.patches();
    assert!(count <= max, "{count} patches of {max}");
    // Each of them: what is there is what was appended.
    for block in 0..COMMITS / 16 {
        let appended = (0..16).flat_map(|one| bytes((block * 16 + one) | 1)[..256].to_vec());
        assert_eq!(read(&log, block), appended.collect::<Vec<_>>(), "{block}");
    }
    let (pages, _) = pages_of_appends(3, COMMITS);
    assert!(
        pages <= 1.10,
        "{pages} pages an append to one of three files"
    );
}

#[test]
fn recovery_of_a_closed_pool_reads_summaries_alone() {
    let (device, log) = usual_pool();
    // All segments but those that are kept free.
    let mut number = 0;
    loop {
        let mut transaction = Transaction::new();
        for block in 0..16 {
            transaction
                .write(1, number * 16 + block, &bytes(block))
                .unwrap();
        }
        if log.commit(transaction).is_err() {
            break;
        }
        number += 1;
    }
    log.close().unwrap();
    let before = device.counters();
    let log = open(device.clone(), options()).unwrap();
    let read = device.counters().since(&before).pages_read as f64 * PAGE_BYTES as f64;
    assert_eq!(log.cached_blocks() as u64, number * 16);
    let gib = (17.0 * f64::from(USUAL_SEGMENT_PAGES) * PAGE_BYTES as f64) / f64::from(1 << 30);
    let mib = read / gib / f64::from(1 << 20);
    assert!(mib <= 8.0, "{mib} MiB read a GiB");
}

#[test]
fn a_file_is_written_as_the_shadow_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let device = match FileDevice::create(&path, 32 << 20) {
        Ok(device) => Arc::new(device),
        Err(error) => {
            eprintln!("skipped a_file_is_written_as_the_shadow_is: {error}");
            return;
        }
    };
    let error = FileDevice::open(&path).err().expect("it is locked");
    assert!(
        error.to_string().contains("another process has it open"),
        "{error}"
    );
    let log = create(device.clone(), Options::default()).unwrap();
    let before = device.counters();
    for number in 0..50 {
        log.commit(one(number % 20, number)).unwrap();
    }
    let counted = device.counters().since(&before);
    assert_eq!((counted.flushes, counted.pages_written), (50, 101));
    drop(log);
    drop(device);
    let log = open(
        Arc::new(FileDevice::open(&path).unwrap()),
        Options::default(),
    )
    .unwrap();
    for block in 0..20 {
        let newest = (0..50).rev().find(|number| number % 20 == block).unwrap();
        assert_eq!(read(&log, block), bytes(newest));
    }
}
