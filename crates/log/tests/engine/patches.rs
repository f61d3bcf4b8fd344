//! Small parts of blocks, which stand in records.

use crate::fixtures::*;
use forebay_log::shadow::{ShadowDevice, ShadowPage};
use forebay_log::{Device, Log, LogError, Options, PAGE_BYTES, Transaction, create, open};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

fn part(block: u64, offset: usize, bytes: &[u8]) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.write_part(1, block, offset, bytes).unwrap();
    transaction
}

fn append(block: u64, offset: usize, bytes: &[u8]) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.append(1, block, offset, bytes).unwrap();
    transaction
}

/// Pages that a commit writes.
fn pages_of(device: &ShadowDevice, log: &Log, transaction: Transaction) -> u64 {
    let before = device.counters();
    log.commit(transaction).unwrap();
    device.counters().since(&before).pages_written
}

/// The block with parts laid over it.
fn with(mut block: Vec<u8>, parts: &[(usize, &[u8])]) -> Vec<u8> {
    for (offset, bytes) in parts {
        block[*offset..][..bytes.len()].copy_from_slice(bytes);
    }
    block
}

fn reopened(device: &Arc<ShadowDevice>, backing: &Arc<MemoryBacking>) -> Log {
    let log = open(device.clone(), options()).unwrap();
    log.attach(1, backing.clone());
    log
}

#[test]
fn a_part_costs_a_page_where_the_pool_has_the_block_and_lasts() {
    let (device, backing, log) = small();
    // The backing has it: a whole block, as are large parts.
    assert_eq!(pages_of(&device, &log, part(0, 0, &[1; 9])), 3);
    assert_eq!(pages_of(&device, &log, part(0, 0, &[2; 2049])), 2);
    assert_eq!(pages_of(&device, &log, part(0, 5, &[3; 2048])), 1);
    assert_eq!(pages_of(&device, &log, append(0, 4000, &[4; 5])), 1);
    let mut several = part(0, 1, &[5]);
    several.write(1, 1, &bytes(6)).unwrap();
    several.zero(1, 9, 2).unwrap();
    assert_eq!(pages_of(&device, &log, several), 2);
    let mut expected = with(
        vec![0; PAGE_BYTES],
        &[(0, &[2; 2049]), (5, &[3; 2048]), (4000, &[4; 5]), (1, &[5])],
    );
    assert_eq!(read(&log, 0), expected);
    log.close().unwrap();
    let log = reopened(&device, &backing);
    assert_eq!(read(&log, 0), expected);
    assert_eq!(log.is_clean(1, 0), Some(false));
    // Killed behind one more.
    log.commit(part(0, 4090, &[7; 6])).unwrap();
    expected[4090..].fill(7);
    drop(log);
    let log = reopened(&device, &backing);
    assert_eq!(read(&log, 0), expected);
    log.write_back(1).unwrap();
    assert_eq!(backing.bytes(0), Some(expected.clone()));
    assert_eq!((log.is_clean(1, 0), read(&log, 0)), (Some(true), expected));
}

#[test]
fn what_is_behind_an_append_is_zero() {
    let (device, backing, log) = small();
    log.commit(one(3, 8)).unwrap();
    assert_eq!(pages_of(&device, &log, append(3, 100, &[1; 10])), 1);
    // To a block that the pool does not have.
    assert_eq!(pages_of(&device, &log, append(4, 0, &[2; 10])), 1);
    assert_eq!(pages_of(&device, &log, append(4, 10, &[3; 10])), 1);
    assert_eq!(pages_of(&device, &log, append(4, 20, &[])), 1);
    let third = [&bytes(8)[..100], &[1; 10], &[0; PAGE_BYTES - 110]].concat();
    let fourth = [&[2; 10][..], &[3; 10], &[0; PAGE_BYTES - 20]].concat();
    for _ in 0..2 {
        let log = reopened(&device, &backing);
        assert_eq!(read(&log, 3), third);
        assert_eq!(read(&log, 4), fourth);
        let mut both = vec![0; 2 * PAGE_BYTES];
        let readings = log.begin_reads(1, 3, 2);
        let found = log.finish_reads(&readings, &mut both);
        assert!(found.into_iter().all(|one| one.unwrap().is_some()));
        assert_eq!(both, [&third[..], &fourth].concat());
        assert_eq!(log.check_all(&mut |_, _| {}), (2, vec![]));
        log.close().unwrap();
    }
}

#[test]
fn blocks_with_patches_leave_the_ring_whole() {
    for fails in [false, true] {
        let (device, backing, log) = small();
        backing.fails.store(fails, Ordering::Relaxed);
        let mut expected = [bytes(5), append_only(&[9; 100])];
        log.commit(one(0, 5)).unwrap();
        log.commit(append(1, 0, &[9; 100])).unwrap();
        for number in 0..200 {
            let transaction = || match number % 10 {
                0 => part(number / 10 % 2, 200 + number as usize, &[number as u8; 4]),
                _ => one(2 + number % 3, number),
            };
            while let Err(error) = log.commit(transaction()) {
                assert!(matches!(error, LogError::NoRoom { .. }), "{error}");
                assert!(log.recycle().unwrap());
            }
            if number % 10 == 0 {
                expected[number as usize / 10 % 2][200 + number as usize..][..4].fill(number as u8);
            }
        }
        assert!(log.tallies().recycled > 2, "{:?}", log.tallies());
        assert_eq!([read(&log, 0), read(&log, 1)], expected);
        drop(log);
        let log = reopened(&device, &backing);
        assert_eq!([read(&log, 0), read(&log, 1)], expected);
    }
}

fn append_only(bytes: &[u8]) -> Vec<u8> {
    with(vec![0; PAGE_BYTES], &[(0, bytes)])
}

#[test]
fn the_oldest_are_written_whole_before_there_are_too_many() {
    let device = device(SEGMENTS);
    let options = Options {
        patches_max: Some(8),
        ..options()
    };
    let log = create(device.clone(), options).unwrap();
    log.attach(1, Arc::new(MemoryBacking::default()));
    for block in 0..30 {
        let transaction = || append(block % 20, 0, &[block as u8 + 1; 3]);
        while log.commit(transaction()).is_err() {
            assert!(log.recycle().unwrap());
        }
        let (count, max) = log.patches();
        assert!(count <= 8 && max == 8, "{count} patches");
    }
    for block in 0..20 {
        let last = if block < 10 { block + 20 } else { block };
        assert_eq!(read(&log, block), append_only(&[last as u8 + 1; 3]));
    }
}

#[test]
fn a_damaged_patch_is_an_error_for_its_block_alone() {
    let (device, backing, log) = small();
    log.commit(one(0, 5)).unwrap();
    log.commit(part(0, 7, &[1; 9])).unwrap();
    log.commit(append(1, 0, &[2; 9])).unwrap();
    log.close().unwrap();
    let mut image = device.state().cut(&mut fastrand::Rng::with_seed(1));
    // Header, record and block, and then the record of the part.
    let page = SEGMENT_PAGES as usize + 3;
    let mut damaged = vec![0; PAGE_BYTES];
    device.read(page as u64, &mut damaged).unwrap();
    let at = damaged.iter().rposition(|byte| *byte != 0).unwrap();
    damaged[at] ^= 1;
    image.set(page, ShadowPage::new(&damaged));
    let state = forebay_log::shadow::ShadowState::new(image, PAGE_BYTES);
    let device = Arc::new(ShadowDevice::new(state));
    let log = reopened(&device, &backing);
    let mut out = vec![0; PAGE_BYTES];
    let error = log.read(1, 0, &mut out).unwrap_err();
    assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
    assert_eq!(log.check_all(&mut |_, _| {}), (1, vec![(1, 0)]));
    assert_eq!(read(&log, 1), append_only(&[2; 9]));
    log.commit(part(0, 2100, &[3; 9])).unwrap();
    assert!(log.read(1, 0, &mut out).is_err());
    assert!(log.commit(part(0, 0, &[3; 2100])).is_err());
    log.commit(one(0, 6)).unwrap();
    assert_eq!(read(&log, 0), bytes(6));
}

#[test]
fn a_pool_of_an_earlier_version_stays_one() {
    let device = device(SEGMENTS);
    let options = Options {
        has_inline: false,
        ..options()
    };
    let log = create(device.clone(), options.clone()).unwrap();
    log.attach(1, Arc::new(MemoryBacking::default()));
    log.commit(one(0, 5)).unwrap();
    assert_eq!(pages_of(&device, &log, part(0, 7, &[1; 9])), 2);
    log.close().unwrap();
    // Whatever this program makes.
    let log = open(device.clone(), crate::fixtures::options()).unwrap();
    assert_eq!(pages_of(&device, &log, part(0, 7, &[2; 9])), 3);
    assert_eq!(read(&log, 0), with(bytes(5), &[(7, &[2; 9])]));
}

#[test]
fn a_part_of_a_clean_block_that_cannot_be_read_is_refused() {
    let device = Arc::new(Unreadable(device(SEGMENTS), Mutex::new(0..0)));
    let log = create(device.clone(), options()).unwrap();
    let backing = Arc::new(MemoryBacking::default());
    log.attach(1, backing.clone());
    log.commit(one(0, 5)).unwrap();
    log.write_back(1).unwrap();
    // Header, record and the block.
    let page = u64::from(SEGMENT_PAGES) + 2;
    *device.1.lock().unwrap() = page..page + 1;
    let refused = log.commit(part(0, 7, &[1; 9])).unwrap_err();
    assert!(matches!(refused, LogError::Device { .. }), "{refused}");
    // The backing has it still, and nothing hides that.
    assert_eq!((log.is_clean(1, 0), log.patches().0), (Some(true), 0));
    *device.1.lock().unwrap() = 0..0;
    // Read, and written whole; then the pool alone has it.
    assert_eq!(pages_of(&device.0, &log, part(0, 7, &[1; 9])), 2);
    assert_eq!(pages_of(&device.0, &log, part(0, 9, &[2; 9])), 1);
    let expected = with(bytes(5), &[(7, &[1; 9]), (9, &[2; 9])]);
    assert_eq!(read(&log, 0), expected);
}

#[test]
fn a_part_is_laid_over_a_page_that_memory_has() {
    let device = device(SEGMENTS);
    let options = Options {
        keeps_recent: true,
        ..options()
    };
    let log = create(device.clone(), options).unwrap();
    log.attach(1, Arc::new(MemoryBacking::default()));
    log.commit(one(0, 5)).unwrap();
    log.commit(part(0, 7, &[1; 9])).unwrap();
    let before = device.counters();
    assert_eq!(read(&log, 0), with(bytes(5), &[(7, &[1; 9])]));
    assert_eq!(device.counters().since(&before).pages_read, 0);
}

#[test]
fn a_part_that_is_staged_over_the_oldest_segment_is_written_back_with_its_block() {
    let (_, backing, log) = small();
    log.commit(one(0, 5)).unwrap();
    for number in 0..2 * u64::from(SEGMENT_PAGES) {
        log.commit(one(1 + number % 2, number)).unwrap();
    }
    let staged = log.stage(part(0, 7, &[1; 9])).unwrap();
    assert!(log.recycle().unwrap());
    log.wait(&staged).unwrap();
    // It is published before the segment is written back: else its block became dirty behind that, and had to be carried.
    let tallies = log.tallies();
    assert_eq!((tallies.recycled, tallies.carried), (1, 0));
    let expected = with(bytes(5), &[(7, &[1; 9])]);
    assert_eq!(backing.bytes(0), Some(expected.clone()));
    assert_eq!(read(&log, 0), expected);
}
