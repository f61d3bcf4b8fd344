//! What a pool does from its making to its opening after a crash.

use crate::fixtures::*;
use forebay_log::shadow::{Fault, ShadowDevice};
use forebay_log::{Found, LogError, PAGE_BYTES, Transaction, open};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn what_was_committed_is_read_before_and_after_a_power_cut() {
    let (device, _, log) = small();
    let mut transaction = one(3, 1);
    transaction.write(1, 9, &bytes(2)).unwrap();
    transaction.write_part(1, 11, 100, &[5; 10]).unwrap();
    log.commit(transaction).unwrap();
    let mut transaction = Transaction::new();
    transaction.write_part(1, 3, 0, &[6; 8]).unwrap();
    transaction.zero(1, 9, 1 << 30).unwrap();
    log.commit(transaction).unwrap();
    let mut expected = bytes(1);
    expected[..8].fill(6);
    assert_eq!(read(&log, 3), expected);
    assert_eq!(read(&log, 9), vec![0; PAGE_BYTES]);
    assert_eq!(read(&log, 11), vec![0; PAGE_BYTES]);
    assert_eq!(read(&log, 500), vec![0; PAGE_BYTES]);

    let mut rng = fastrand::Rng::with_seed(1);
    let cut = device.state().cut(&mut rng);
    let cut = forebay_log::shadow::ShadowState::new(cut, PAGE_BYTES);
    let log = open(Arc::new(ShadowDevice::new(cut)), options()).unwrap();
    let mut out = vec![0; PAGE_BYTES];
    assert_eq!(log.read(1, 3, &mut out).unwrap(), Found::Cached);
    assert_eq!(out, expected);
    assert_eq!(log.read(1, 9, &mut out).unwrap(), Found::Zeroes);
    assert_eq!(log.read(1, 1 << 29, &mut out).unwrap(), Found::Zeroes);
    assert_eq!(log.is_clean(1, 3), Some(false));
}

#[test]
fn a_pool_that_was_closed_opens_again_and_again() {
    let (device, backing, mut log) = small();
    for turn in 0..6 {
        log.commit(one(turn, turn + 10)).unwrap();
        log.close().unwrap();
        log = open(device.clone(), options()).unwrap();
        log.attach(1, backing.clone());
        for block in 0..=turn {
            assert_eq!(read(&log, block), bytes(block + 10));
        }
        while log.free_segments() < 4 {
            assert!(log.recycle().unwrap());
        }
    }
}

#[test]
fn the_ring_laps_and_what_leaves_it_is_on_the_backing() {
    let (_, _, log) = small();
    let mut refused = 0;
    for number in 0..400 {
        while let Err(error) = log.commit(one(number % 90, number)) {
            assert!(matches!(error, LogError::NoRoom { .. }), "{error}");
            assert!(log.recycle().unwrap());
            refused += 1;
        }
    }
    assert!(refused > 20, "{refused}");
    for block in 0..90 {
        let newest = (0..400).rev().find(|number| number % 90 == block).unwrap();
        assert_eq!(read(&log, block), bytes(newest));
    }
}

#[test]
fn blocks_of_a_backing_that_fails_are_carried_forward() {
    let (device, backing, log) = small();
    backing.fails.store(true, Ordering::Relaxed);
    log.commit(one(0, 1)).unwrap();
    let mut zeroes = Transaction::new();
    zeroes.zero(1, 50, 10).unwrap();
    zeroes.write(1, 55, &bytes(77)).unwrap();
    log.commit(zeroes).unwrap();
    let mut recycled = 0;
    for number in 0..200 {
        // The same few blocks, so that most of a segment is dead.
        while let Err(error) = log.commit(one(1 + number % 3, number)) {
            assert!(matches!(error, LogError::NoRoom { .. }), "{error}");
            assert!(log.recycle().unwrap());
            recycled += 1;
        }
    }
    assert!(recycled > 5, "{recycled}");
    let check = |log: &forebay_log::Log| {
        assert_eq!(read(log, 0), bytes(1));
        assert_eq!(read(log, 55), bytes(77));
        assert_eq!(read(log, 56), vec![0; PAGE_BYTES]);
        assert_eq!(log.is_clean(1, 0), Some(false));
        assert_eq!(log.is_clean(1, 50), Some(false));
    };
    check(&log);
    drop(log);
    let log = open(device, options()).unwrap();
    check(&log);
    backing.fails.store(false, Ordering::Relaxed);
    log.attach(1, backing);
    log.write_back(1).unwrap();
    assert_eq!(log.is_clean(1, 0), Some(true));
    assert_eq!(log.is_clean(1, 50), None);
}

#[test]
fn a_full_pool_whose_backing_fails_says_so() {
    let (_, backing, log) = small();
    backing.fails.store(true, Ordering::Relaxed);
    for number in 0.. {
        if log.commit(one(number, number)).is_err() {
            break;
        }
    }
    let failed = loop {
        match log.recycle() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(
        matches!(failed, LogError::Backing { volume: 1, .. }),
        "{failed}"
    );
    // It goes on as soon as the backing does.
    backing.fails.store(false, Ordering::Relaxed);
    while log.free_segments() < 4 {
        assert!(log.recycle().unwrap());
    }
    log.commit(one(0, 99)).unwrap();
    assert_eq!(read(&log, 0), bytes(99));
    assert_eq!(read(&log, 1), bytes(1));
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_and_the_next_opening_goes_on() {
    for fault in [
        Fault::Error,
        Fault::ErrorButDurable,
        Fault::Short,
        Fault::NoSpace,
    ] {
        let (device, _, log) = small();
        log.commit(one(1, 1)).unwrap();
        device.fail(0, fault);
        assert!(matches!(
            log.commit(one(1, 2)),
            Err(LogError::Poisoned { .. })
        ));
        assert!(matches!(
            log.commit(one(1, 3)),
            Err(LogError::Poisoned { .. })
        ));
        assert_eq!(read(&log, 1), bytes(1), "what failed is not seen");
        assert!(log.close().is_err());
        let log = open(device, options()).unwrap();
        let expected = match fault {
            Fault::ErrorButDurable => [2, 2],
            _ => [1, 1],
        };
        assert!(expected.map(bytes).contains(&read(&log, 1)), "{fault:?}");
        log.commit(one(1, 4)).unwrap();
        assert_eq!(read(&log, 1), bytes(4));
    }
}

#[test]
fn what_is_let_go_of_and_never_published_holds_up_no_writer_for_ever() {
    let (device, _, log) = small();
    log.commit(one(1, 1)).unwrap();
    log.write_back(1).unwrap();
    let gone = log.stage_forget(1, 1, 1).unwrap();
    device.fail(0, Fault::Error);
    assert!(matches!(log.wait(&gone), Err(LogError::Poisoned { .. })));
    let (told, answer) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut part = Transaction::new();
        part.write_part(1, 1, 5, &[1]).unwrap();
        told.send(log.stage(part).err())
    });
    let answer = answer.recv_timeout(std::time::Duration::from_secs(20));
    assert!(matches!(answer, Ok(Some(LogError::Poisoned { .. }))));
}

#[test]
fn write_back_makes_clean_and_a_clean_point_outlives_a_crash() {
    let (device, backing, log) = small();
    log.commit(one(1, 1)).unwrap();
    log.commit(one(2, 2)).unwrap();
    log.write_back(1).unwrap();
    log.commit(one(2, 3)).unwrap();
    drop(log);
    let log = open(device, options()).unwrap();
    log.attach(1, backing);
    assert_eq!(log.is_clean(1, 1), Some(true));
    assert_eq!(log.is_clean(1, 2), Some(false));
}

#[test]
fn a_fill_is_kept_only_if_nothing_came_between() {
    let (_, _, log) = small();
    let version = log.begin_read(1, 5).version();
    let ticket = log.stage_fill(1, 5, &bytes(5), version).unwrap().unwrap();
    log.wait(&ticket).unwrap();
    assert_eq!(log.is_clean(1, 5), Some(true));
    let version = log.begin_read(1, 6).version();
    log.commit(one(6, 1)).unwrap();
    assert!(log.stage_fill(1, 6, &bytes(6), version).unwrap().is_none());
    assert!(matches!(
        log.stage_forget(1, 0, 10),
        Err(LogError::Transaction(_))
    ));
    log.write_back(1).unwrap();
    let ticket = log.stage_forget(1, 0, 10).unwrap();
    log.wait(&ticket).unwrap();
    assert_eq!(log.cached_blocks(), 0);
}

/// A pool with dirty blocks in all segments that may be used, none of which could be cleaned; with so many of other volumes.
fn behind(log: &forebay_log::Log, others: u64) -> u64 {
    let mut written = 0;
    while log.commit(one(written, written + 1)).is_ok() {
        written += 1;
    }
    for _ in 0..2 * SEGMENTS {
        // Each fails but those that find nothing.
        drop(log.clean_ahead());
    }
    assert!(log.cleaned_ahead() > 2 && log.dirty_blocks() as u64 == written + others);
    written
}

fn clean_all(log: &forebay_log::Log) {
    let mut steps = 0;
    while log.clean_ahead().unwrap() {
        steps += 1;
        assert!(steps < 4 * SEGMENTS, "it ends");
    }
}

#[test]
fn what_was_passed_over_without_a_backing_is_cleaned_when_there_is_one() {
    let log = forebay_log::create(device(SEGMENTS), options()).unwrap();
    let written = behind(&log, 0);
    let backing = Arc::new(MemoryBacking::default());
    log.attach(1, backing);
    assert_eq!(log.cleaned_ahead(), 0);
    clean_all(&log);
    let left = log.dirty_blocks() as u64;
    assert!(
        left < u64::from(SEGMENT_PAGES),
        "{left} of {written} are dirty"
    );
}

#[test]
fn what_a_backing_did_not_take_is_written_when_it_does() {
    let (_, backing, log) = small();
    backing.fails.store(true, Ordering::Relaxed);
    behind(&log, 0);
    backing.fails.store(false, Ordering::Relaxed);
    clean_all(&log);
    assert_eq!(log.dirty_blocks(), 0);
    assert!(!log.clean_ahead().unwrap(), "nothing is left");
}

#[test]
fn a_volume_that_is_behind_is_written_back_in_turns() {
    let few = forebay_log::Options {
        zeroed_at_once_blocks: 8,
        ..options()
    };
    let log = forebay_log::create(device(SEGMENTS), few).unwrap();
    let backing = Arc::new(MemoryBacking::default());
    backing.fails.store(true, Ordering::Relaxed);
    log.attach(1, backing.clone());
    let mut left = behind(&log, 0);
    backing.fails.store(false, Ordering::Relaxed);
    while left > 0 {
        assert!(log.clean_ahead().unwrap());
        let dirty = log.dirty_blocks() as u64;
        assert!(dirty < left && left - dirty <= 8, "{left} and then {dirty}");
        left = dirty;
    }
    // What was written since the table was looked through would be found now, unless the last turn had all that was left.
    let looks = (0..3).take_while(|_| log.clean_ahead().unwrap()).count();
    assert!(looks <= 1, "nothing is left");
}

#[test]
fn a_volume_that_goes_on_is_not_held_up_by_one_that_fails() {
    let few = forebay_log::Options {
        zeroed_at_once_blocks: 8,
        ..options()
    };
    let log = forebay_log::create(device(SEGMENTS), few).unwrap();
    let (failing, backing) = <(Arc<MemoryBacking>, Arc<MemoryBacking>)>::default();
    failing.fails.store(true, Ordering::Relaxed);
    backing.fails.store(true, Ordering::Relaxed);
    log.attach(1, backing.clone());
    log.attach(2, failing);
    let mut other = Transaction::new();
    other.write(2, 0, &bytes(0)).unwrap();
    log.commit(other).unwrap();
    behind(&log, 1);
    backing.fails.store(false, Ordering::Relaxed);
    while log.usage(1).1 > 0 {
        assert!(log.clean_ahead().unwrap(), "a turn that brought something");
    }
    // Where nothing is brought any more the caller is told, and pauses.
    assert!(log.clean_ahead().is_err());
    assert_eq!(log.usage(2).1, 1);
}

#[test]
fn a_block_that_the_device_does_not_give_holds_up_no_other() {
    let device = Arc::new(Unreadable(device(SEGMENTS), Default::default()));
    let log = forebay_log::create(device.clone(), options()).unwrap();
    let backing = Arc::new(MemoryBacking::default());
    log.attach(1, backing);
    for block in 0..3 {
        log.commit(one(block, block + 1)).unwrap();
    }
    // The first segment: a header and a record, then the block, then a record and a block each.
    let first = u64::from(SEGMENT_PAGES);
    let is_bad = |page: u64| {
        *device.1.lock().unwrap() = page..page + 1;
        log.check_all(&mut |_, _| {}) == (2, vec![(1, 0)])
    };
    let bad = (first..2 * first).find(|page| is_bad(*page));
    let bad = bad.expect("one page has the block alone");
    let error = log.write_back(1).unwrap_err();
    assert!(matches!(error, LogError::Device { .. }), "{error}");
    assert_eq!(
        (log.is_clean(1, 0), log.is_clean(1, 1)),
        (Some(false), Some(true))
    );
    *device.1.lock().unwrap() = 0..0;
    log.write_back(1).unwrap();
    // Clean and read, it would be carried forward; it goes, and the others stay.
    for block in 0..3 {
        read(&log, block);
    }
    let mut other = 100;
    // With room for what is carried.
    while log.free_segments() > 4 {
        log.commit(one(other, other)).unwrap();
        other += 1;
    }
    *device.1.lock().unwrap() = bad..bad + 1;
    assert!(log.recycle().unwrap());
    assert_eq!((log.is_clean(1, 0), log.is_clean(1, 1)), (None, Some(true)));
    assert_eq!(read(&log, 0), bytes(1));
}

#[test]
fn blocks_that_no_volume_has_are_refused_and_none_of_the_next_volume_goes() {
    let (_device, _backing, log) = small();
    let next = Arc::new(MemoryBacking::default());
    log.attach(2, next);
    let mut transaction = Transaction::new();
    transaction.write(2, 0, &bytes(2)).unwrap();
    log.commit(transaction).unwrap();
    log.commit(one(0, 1)).unwrap();
    // Were there bits for it, it would be block 0 of volume 2.
    let too_large = 1u64 << 36;
    for ranges in [
        [(0, 1), (too_large, 1)],
        [(0, 1), (0, too_large + 1)],
        [(0, 1), (u64::MAX, 1)],
        [(0, 1), (1, u64::MAX)],
    ] {
        let error = log.forget(1, &ranges).unwrap_err();
        assert!(matches!(error, LogError::Transaction(_)), "{error}");
    }
    for block in [too_large, u64::MAX] {
        let error = log.write_back_blocks(1, &[0, block]).unwrap_err();
        assert!(matches!(error, LogError::Transaction(_)), "{error}");
    }
    assert_eq!(
        (log.is_clean(1, 0), log.is_clean(2, 0)),
        (Some(false), Some(false))
    );
}
