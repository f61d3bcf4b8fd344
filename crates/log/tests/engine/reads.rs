//! Reads of several blocks at once: what they ask of the device, and that each block is for itself.

use crate::fixtures::*;
use forebay_log::{
    Device, DeviceCounters, FileDevice, Found, Log, LogError, Options, PAGE_BYTES, Pages,
    Transaction, create,
};
use std::sync::Arc;

/// Reads blocks from `first` on at once.
fn read_many(log: &Log, first: u64, out: &mut [u8]) -> Vec<forebay_log::Result<Option<Found>>> {
    let count = (out.len() / PAGE_BYTES) as u64;
    log.finish_reads(&log.begin_reads(1, first, count), out)
}

/// What a read of blocks that have their own numbers asks of the device.
fn counted(device: &dyn Device, log: &Log, (first, count): (u64, usize)) -> DeviceCounters {
    let before = device.counters();
    let mut out = Pages::zeroed(count);
    for read in read_many(log, first, &mut out) {
        assert_eq!(read.unwrap(), Some(Found::Cached));
    }
    for (block, found) in (first..).zip(out.chunks_exact(PAGE_BYTES)) {
        assert!(found == bytes(block), "block {block}");
    }
    device.counters().since(&before)
}

/// Nothing is read from memory.
fn from_device() -> Options {
    Options {
        keeps_recent: false,
        ..Options::default()
    }
}

#[test]
fn a_batch_is_one_call_and_what_lies_side_by_side_one_read() {
    let folder = tempfile::tempdir().unwrap();
    let device = match FileDevice::create(&folder.path().join("pool"), 32 << 20) {
        Ok(device) => Arc::new(device),
        Err(error) => {
            eprintln!("skipped a_batch_is_one_call: {error}");
            return;
        }
    };
    let log = create(device.clone(), from_device()).unwrap();
    // Each by itself, so that a record lies between two of them; the last ones together.
    for block in 0..100 {
        log.commit(one(block, block)).unwrap();
    }
    let mut transaction = Transaction::new();
    for block in 100..132 {
        transaction.write(1, block, &bytes(block)).unwrap();
    }
    log.commit(transaction).unwrap();
    let seen = |first, count| {
        let counted = counted(&*device, &log, (first, count));
        (counted.reads, counted.pages_read, counted.read_calls)
    };
    assert_eq!(seen(7, 1), (1, 1, 1));
    assert_eq!(seen(100, 32), (1, 32, 1), "side by side");
    let (reads, pages, calls) = seen(40, 32);
    assert_eq!((reads, pages), (32, 32));
    if calls == 32 {
        eprintln!("skipped a_batch_is_one_call: there is no io_uring");
        return;
    }
    assert_eq!(calls, 1, "all at once");
    let (reads, pages, calls) = seen(0, 132);
    assert_eq!((reads, pages), (101, 132));
    // 32 are under way at most, and a call hands over eight more at least.
    assert!(calls <= 1 + (101 - 32_u64).div_ceil(8), "{calls} calls");
    // The other way, for memory that is not aligned: 64 blocks at a time.
    let before = device.counters();
    let mut out = vec![0; 132 * PAGE_BYTES + 1];
    for read in read_many(&log, 0, &mut out[1..]) {
        read.unwrap();
    }
    for (block, found) in (0..).zip(out[1..].chunks_exact(PAGE_BYTES)) {
        assert!(found == bytes(block), "block {block}");
    }
    let counted = device.counters().since(&before);
    assert_eq!((counted.reads, counted.pages_read), (102, 132));
}

#[test]
fn without_rings_each_read_is_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let device = match FileDevice::create(&folder.path().join("pool"), 32 << 20) {
        Ok(device) => Arc::new(device.without_rings()),
        Err(error) => {
            eprintln!("skipped without_rings: {error}");
            return;
        }
    };
    let log = create(device.clone(), from_device()).unwrap();
    for block in 0..32 {
        log.commit(one(block, block)).unwrap();
    }
    let counted = counted(&*device, &log, (0, 32));
    assert_eq!((counted.reads, counted.read_calls), (32, 32));
}

#[test]
fn an_error_of_one_block_is_that_blocks() {
    let device = Arc::new(Unreadable(device(SEGMENTS), Default::default()));
    let log = create(device.clone(), options()).unwrap();
    log.attach(1, Arc::new(MemoryBacking::default()));
    let mut transaction = Transaction::new();
    for block in 0..4 {
        transaction.write(1, block, &bytes(block)).unwrap();
    }
    log.commit(transaction).unwrap();
    // A header and a record, then the blocks.
    let page = u64::from(SEGMENT_PAGES) + 2;
    *device.1.lock().unwrap() = page + 2..page + 3;
    for offset in [0, 1] {
        let mut memory = Pages::zeroed(7);
        // Block 4 is on the backing, 5 as well.
        let out = &mut memory[offset..][..6 * PAGE_BYTES];
        out.fill(0xEE);
        let reads = read_many(&log, 0, out);
        for (block, read) in reads.iter().enumerate() {
            match block {
                2 => assert!(matches!(read, Err(LogError::Device { .. })), "{read:?}"),
                0..4 => assert_eq!(read.as_ref().unwrap(), &Some(Found::Cached)),
                _ => assert_eq!(read.as_ref().unwrap(), &Some(Found::Backing)),
            }
        }
        for (block, found) in out.chunks_exact(PAGE_BYTES).enumerate() {
            match block {
                // Aligned, it is as the device left it; nothing of others in any case.
                2 => assert_eq!(found, [0xEE; PAGE_BYTES]),
                0..4 => assert_eq!(found, bytes(block as u64)),
                _ => assert_eq!(found, [0; PAGE_BYTES]),
            }
        }
    }
}

#[test]
fn a_block_that_changed_meanwhile_is_to_be_looked_for_again_and_no_other() {
    let (_device, _backing, log) = small();
    let mut transaction = Transaction::new();
    for block in 0..4 {
        transaction.write(1, block, &bytes(block)).unwrap();
    }
    log.commit(transaction).unwrap();
    let mut transaction = Transaction::new();
    transaction.zero(1, 4, 2).unwrap();
    log.commit(transaction).unwrap();
    let readings = log.begin_reads(1, 0, 6);
    log.commit(one(1, 100)).unwrap();
    log.commit(one(5, 101)).unwrap();
    let mut out = vec![0xEE; 6 * PAGE_BYTES];
    let found: Vec<_> = log
        .finish_reads(&readings, &mut out)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let cached = Some(Found::Cached);
    let expected = [cached, None, cached, cached, Some(Found::Zeroes), None];
    assert_eq!(found, expected);
    assert_eq!(&out[2 * PAGE_BYTES..3 * PAGE_BYTES], bytes(2));
    assert!(
        out[4 * PAGE_BYTES..5 * PAGE_BYTES]
            .iter()
            .all(|byte| *byte == 0)
    );
}

#[test]
fn write_back_reads_what_lies_side_by_side_at_once() {
    let (device, backing, log) = small();
    let mut transaction = Transaction::new();
    for block in 0..4 {
        transaction.write(1, block, &bytes(block)).unwrap();
    }
    log.commit(transaction).unwrap();
    let before = device.counters();
    log.write_back(1).unwrap();
    let counted = device.counters().since(&before);
    assert_eq!((counted.reads, counted.pages_read), (1, 4));
    for block in 0..4 {
        assert_eq!(backing.bytes(block), Some(bytes(block)));
    }
}
