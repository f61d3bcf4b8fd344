//! A ring that is full of what no backing takes: what makes room in it, and that it does after any kill.

use crate::fixtures::*;
use forebay_log::shadow::ShadowDevice;
use forebay_log::{Log, LogError, Transaction, open};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A range of zeroes with as many holes as blocks are written into it, of a volume without a backing.
fn zeroes_with_holes(log: &Log, volume: u32, holes: u64) {
    let mut zeroes = Transaction::new();
    zeroes.zero(volume, 0, 1000).unwrap();
    log.commit(zeroes).unwrap();
    for hole in 0..holes {
        commit_on(log, volume, 2 * hole + 1).unwrap();
    }
}

fn commit_on(log: &Log, volume: u32, block: u64) -> Result<(), LogError> {
    let mut transaction = Transaction::new();
    transaction.write(volume, block, &bytes(block)).unwrap();
    log.commit(transaction)
}

/// Writes blocks until there is no room.
fn fill_up(log: &Log, volume: u32) {
    let mut block = 100_000;
    while commit_on(log, volume, block).is_ok() {
        block += 1;
    }
}

/// A pool whose second volume has no backing, full of its blocks; its oldest segment is to be carried as more elements than a segment takes.
fn full_of_holes() -> (Arc<ShadowDevice>, Log) {
    let device = device(12);
    let log = forebay_log::create(device.clone(), options()).unwrap();
    log.attach(1, Arc::new(MemoryBacking::default()));
    zeroes_with_holes(&log, 2, 2 * u64::from(SEGMENT_PAGES));
    fill_up(&log, 2);
    (device, log)
}

#[test]
fn what_has_no_room_as_a_whole_is_not_begun() {
    let (_, log) = full_of_holes();
    let free = log.free_segments();
    for _ in 0..10 {
        let error = log.recycle().unwrap_err();
        assert!(
            matches!(error, LogError::Backing { .. } | LogError::Transaction(_)),
            "{error}"
        );
        assert_eq!(log.free_segments(), free, "nothing was taken for nothing");
    }
    assert_eq!(log.tallies().carried, 0);
}

#[test]
fn a_volume_that_is_given_up_makes_room_after_any_kill() {
    let (device, mut log) = full_of_holes();
    // Each opening that carries something and is killed takes a segment.
    for _ in 0..5 {
        drop(log.recycle());
        drop(log);
        log = open(device.clone(), options()).unwrap();
    }
    assert!(log.free_segments() >= 1);
    log.discard_volume(2).unwrap();
    while log.free_segments() < 6 {
        assert!(log.recycle().unwrap());
    }
    assert_eq!(log.cached_blocks(), 0);
    commit_on(&log, 2, 7).unwrap();
}

/// A pool with blocks of both volumes in its oldest segment, neither of which is taken, and one free segment: each of the
/// rescues was killed after its first group.
fn one_left() -> (Arc<Dying>, Arc<MemoryBacking>, Log) {
    one_left_killed(true)
}

/// The same; the last of these rescues is not killed, unless told so: its segment is the one in use.
fn one_left_killed(is_killed: bool) -> (Arc<Dying>, Arc<MemoryBacking>, Log) {
    let device = Arc::new(Dying(device(SEGMENTS), AtomicU64::new(u64::MAX)));
    let mut log = forebay_log::create(device.clone(), options()).unwrap();
    let backing = Arc::new(MemoryBacking::default());
    log.attach(1, backing.clone());
    backing.fails.store(true, Ordering::Relaxed);
    commit_on(&log, 1, 0).unwrap();
    fill_up(&log, 2);
    while log.free_segments() > 1 {
        let mut recycling = log.begin_recycling().unwrap().expect("a full ring");
        log.clean_segment(&mut recycling).unwrap();
        let ticket = log.carry(&mut recycling).unwrap();
        log.wait(&ticket.expect("something is to be carried"))
            .unwrap();
        if log.free_segments() == 1 && !is_killed {
            break;
        }
        drop(log);
        log = open(device.clone(), options()).unwrap();
        log.attach(1, backing.clone());
    }
    (device, backing, log)
}

/// Recycles until as much is free as a transaction wants, and one segment more.
fn make_room(log: &Log) {
    while log.free_segments() < 4 {
        assert!(log.recycle().unwrap());
    }
}

#[test]
fn the_last_segment_is_for_what_frees_one() {
    let (_, backing, log) = one_left();
    assert!(log.recycle().is_err());
    // Of the volume that has no backing; the other one's holds the oldest segment as well.
    let refused = log.discard_volume(2).unwrap_err();
    assert!(matches!(refused, LogError::NoRoom { .. }), "{refused}");
    assert_eq!(log.free_segments(), 1);
    assert!(log.usage(2).1 > 0, "nothing of it is gone");
    backing.fails.store(false, Ordering::Relaxed);
    log.discard_volume(2).unwrap();
    assert_eq!(log.usage(2), (0, 0));
    make_room(&log);
    assert_eq!(read(&log, 0), bytes(0));
}

#[test]
fn what_lets_go_with_the_last_segment_is_whole_after_a_kill() {
    let (device, backing, log) = one_left();
    backing.fails.store(false, Ordering::Relaxed);
    log.discard_volume(2).unwrap();
    drop(log);
    let log = open(device, options()).unwrap();
    log.attach(1, backing);
    assert_eq!(log.usage(2), (0, 0));
    assert!(log.free_segments() >= 1);
    make_room(&log);
    assert_eq!(read(&log, 0), bytes(0));
}

#[test]
fn what_lets_go_with_the_last_page_of_the_head_is_not_half_done() {
    let (device, backing, log) = one_left_killed(false);
    // Volumes without a block, let go of in the rest of the head until it is full.
    let mut volume = 3;
    while log.discard_volume(volume).is_ok() {
        volume += 1;
    }
    assert_eq!(log.free_segments(), 1);
    backing.fails.store(false, Ordering::Relaxed);
    let held = log.usage(2);
    // Its group, which has the page that is kept for a record of the tail, is not written.
    device.1.store(0, Ordering::Relaxed);
    log.discard_volume(2).unwrap_err();
    drop(log);
    assert_eq!(device.1.swap(u64::MAX, Ordering::Relaxed), 0);
    let log = open(device, options()).unwrap();
    assert_eq!(log.usage(2), held, "nothing of it is gone");
    log.attach(1, backing);
    log.discard_volume(2).unwrap();
    assert_eq!(log.usage(2), (0, 0));
    make_room(&log);
    assert_eq!(read(&log, 0), bytes(0));
}

#[test]
fn a_backing_that_comes_back_makes_room_with_one_segment_left() {
    let (_, _, log) = one_left();
    log.attach(1, Arc::new(MemoryBacking::default()));
    log.attach(2, Arc::new(MemoryBacking::default()));
    make_room(&log);
}

#[test]
fn clean_blocks_go_all_or_none_where_there_is_little_room() {
    let (_, _, log) = small();
    let write = |blocks: &[u64]| {
        for block in blocks {
            log.commit(one(*block, 7)).unwrap();
        }
    };
    // Every other block is dirty, so each clean one is a range of its own, and three records let go of them.
    write(&(0..24).collect::<Vec<_>>());
    log.write_back(1).unwrap();
    write(&(0..12).map(|block| 2 * block).collect::<Vec<_>>());
    fill_up(&log, 2);
    let (held, free) = (log.usage(1), log.free_segments());
    assert_eq!(held, (24, 12));
    let refused = log.forget_clean(1).unwrap_err();
    assert!(matches!(refused, LogError::NoRoom { .. }), "{refused}");
    assert_eq!((log.usage(1), log.free_segments()), (held, free));
    // What takes one record is let go of in the same ring.
    write_back_even(&log);
    log.forget_clean(1).unwrap();
    assert_eq!(log.usage(1), (0, 0));
}

/// Zeroes so many blocks of the second volume, each of which cuts a range.
fn cut(log: &Log, first: u64, holes: u64) -> Result<(), LogError> {
    let mut zeroes = Transaction::new();
    for hole in first..first + holes {
        zeroes.zero(2, 2 * hole + 1, 1).unwrap();
    }
    log.commit(zeroes)
}

/// Commits of one block that a segment has: each takes two pages.
const COMMITS: u64 = 6;

/// A pool as it is served, whose oldest segment has a range of a volume without a backing, cut into pieces, and clean blocks else; its head
/// is full, and so many segments are free.
fn range_in_the_tail(pieces: u64, free: u64) -> Log {
    let log = forebay_log::create(device(12), options()).unwrap();
    log.keep_back();
    log.attach(1, Arc::new(MemoryBacking::default()));
    zeroes_with_holes(&log, 2, 0);
    let fill = |count| (0..count).for_each(|block| commit_on(&log, 1, block).unwrap());
    fill(COMMITS);
    for hole in 0..pieces - 1 {
        commit_on(&log, 2, 2 * hole + 1).unwrap();
    }
    while log.free_segments() > free {
        fill(1);
    }
    fill(COMMITS - 1);
    // One page is left.
    let mut zero = Transaction::new();
    zero.zero(1, 500, 1).unwrap();
    log.commit(zero).unwrap();
    assert_eq!(log.free_segments(), free);
    log
}

#[test]
fn what_is_cut_since_the_segment_was_looked_through_counts() {
    let log = range_in_the_tail(1, 5);
    let mut recycling = log.begin_recycling().unwrap().unwrap();
    log.clean_segment(&mut recycling).unwrap();
    // They are published, and no more than one segment may be begun now; the pieces want more elements than it takes.
    (0..4).for_each(|some| cut(&log, 4 * some, 4).unwrap());
    assert_eq!(log.free_segments(), 4);
    let refused = log.carry(&mut recycling).err().expect("no room for all");
    assert!(matches!(refused, LogError::NoRoom { .. }), "{refused}");
    assert_eq!((log.free_segments(), log.tallies().recycled), (4, 0));
}

#[test]
fn nobody_takes_the_room_of_what_is_carried_by_several_groups() {
    // As many pieces as two segments take.
    let log = range_in_the_tail(2 * u64::from(SEGMENT_PAGES), 5);
    let mut recycling = log.begin_recycling().unwrap().unwrap();
    log.clean_segment(&mut recycling).unwrap();
    let (mut carried, mut refused) = (0, 0);
    while let Some(ticket) = log.carry(&mut recycling).unwrap() {
        log.wait(&ticket).unwrap();
        carried += 1;
        match cut(&log, 100 + 4 * carried, 4) {
            Ok(()) => {}
            Err(LogError::NoRoom { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(carried >= 8 && refused > 0, "{carried}, {refused}");
    assert!(log.release(&recycling));
    log.wait(&log.stage_tail().unwrap()).unwrap();
    assert_eq!(log.free_segments(), 4);
    // Then there is room again, as segments that hold clean blocks alone come free.
    for _ in 0..SEGMENTS {
        drop(log.recycle());
    }
    cut(&log, 300, 1).unwrap();
}

/// A pool as it is served, full of blocks of a volume without a backing. Each segment has as many as it takes, if so told.
fn full_ring(is_packed: bool) -> (Arc<ShadowDevice>, Log) {
    let device = device(10);
    let log = forebay_log::create(device.clone(), options()).unwrap();
    log.keep_back();
    let mut block = 0;
    let counts = if is_packed { [4, 4, 2] } else { [1, 1, 1] };
    for count in counts.into_iter().cycle() {
        let mut transaction = Transaction::new();
        for _ in 0..count {
            transaction.write(2, block, &bytes(block)).unwrap();
            block += 1;
        }
        if log.commit(transaction).is_err() {
            break;
        }
    }
    assert_eq!(log.free_segments(), 4);
    (device, log)
}

#[test]
fn the_detach_of_a_healthy_disk_leaves_the_segment_that_a_rescue_counts_on() {
    let (_, log) = full_ring(true);
    let refused = log.empty_volume(3).unwrap_err();
    assert!(matches!(refused, LogError::NoRoom { .. }), "{refused}");
    log.recycle().unwrap_err();
    assert_eq!((log.tallies().recycled, log.free_segments()), (1, 4));
    // What is given up makes room, so it may begin it.
    log.discard_volume(2).unwrap();
    assert_eq!(log.free_segments(), 3);
    assert!(log.recycle().unwrap());
    log.empty_volume(3).unwrap();
}

/// What a pool that is opened again commits before it is served.
fn opened_again(device: Arc<ShadowDevice>, log: Log) -> Log {
    drop(log);
    let log = open(device, options()).unwrap();
    commit_on(&log, 1, 0).unwrap();
    log.keep_back();
    assert_eq!(log.free_segments(), 3);
    let refused = commit_on(&log, 1, 0).unwrap_err();
    assert!(matches!(refused, LogError::NoRoom { .. }), "{refused}");
    log
}

#[test]
fn the_head_of_an_opening_is_for_what_is_carried_where_that_has_room() {
    let (device, log) = full_ring(false);
    let log = opened_again(device, log);
    assert!(log.recycle().unwrap());
    assert_eq!((log.tallies().recycled, log.free_segments()), (1, 4));
}

#[test]
fn the_head_of_an_opening_is_for_transactions_where_what_is_carried_has_no_room() {
    let (device, log) = full_ring(true);
    let log = opened_again(device, log);
    log.recycle().unwrap_err();
    assert_eq!((log.tallies().recycled, log.free_segments()), (0, 3));
    // The rest of its pages, and no other segment.
    (1..COMMITS).for_each(|block| commit_on(&log, 1, block).unwrap());
    commit_on(&log, 1, 0).unwrap_err();
    assert_eq!(log.free_segments(), 3);
}

fn write_back_even(log: &Log) {
    let even: Vec<u64> = (0..12).map(|block| 2 * block).collect();
    log.write_back_blocks(1, &even).unwrap();
}
