//! Long ranges of zeroes: a backing zeroes them piece by piece, each in a turn, and a segment goes without waiting for the rest.

use super::core::{Log, Options};
use super::create::create;
use super::open::open;
use crate::backing::Backing;
use crate::page::PAGE_BYTES;
use crate::shadow::{Image, ShadowDevice, ShadowState};
use crate::transaction::Transaction;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const SEGMENT_PAGES: u32 = 16;
const SEGMENTS: usize = 10;
/// Blocks that are zeroed in a turn.
const PIECE: u64 = 8;
/// Blocks of a range.
const LONG: u64 = 100;
/// What a disk holds before anything is written.
const OLD: u8 = 7;

/// A disk that counts what it is to zero.
struct Disk {
    blocks: Mutex<Vec<u8>>,
    zeroings: AtomicU64,
    /// The most blocks zeroed between two syncs, and those since the last.
    most: AtomicU64,
    unsynced: AtomicU64,
    fails: AtomicBool,
    is_unanswered: AtomicBool,
    /// A zeroing waits while this is set, and says that it does.
    holds: AtomicBool,
    is_held: AtomicBool,
}

impl Disk {
    fn new() -> Arc<Disk> {
        Arc::new(Disk {
            blocks: Mutex::new(vec![OLD; 200]),
            zeroings: AtomicU64::new(0),
            most: AtomicU64::new(0),
            unsynced: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            is_unanswered: AtomicBool::new(false),
            holds: AtomicBool::new(false),
            is_held: AtomicBool::new(false),
        })
    }

    fn zeroes(&self) -> u64 {
        let blocks = self.blocks.lock().unwrap();
        blocks.iter().filter(|byte| **byte == 0).count() as u64
    }

    fn check(&self) -> io::Result<()> {
        match self.fails.load(Ordering::Relaxed) {
            true => Err(io::Error::other("made to fail")),
            false => Ok(()),
        }
    }
}

impl Backing for Disk {
    fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(self.blocks.lock().unwrap()[block as usize]);
        Ok(())
    }

    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        self.check()?;
        self.blocks.lock().unwrap()[block as usize] = bytes[0];
        Ok(())
    }

    fn zero(&self, first: u64, count: u64) -> io::Result<()> {
        while self.holds.load(Ordering::Relaxed) {
            self.is_held.store(true, Ordering::Relaxed);
            std::thread::yield_now();
        }
        self.check()?;
        self.zeroings.fetch_add(1, Ordering::Relaxed);
        let unsynced = self.unsynced.fetch_add(count, Ordering::Relaxed) + count;
        self.most.fetch_max(unsynced, Ordering::Relaxed);
        self.blocks.lock().unwrap()[first as usize..][..count as usize].fill(0);
        Ok(())
    }

    fn unanswered(&self) -> Option<io::Error> {
        let is_unanswered = self.is_unanswered.load(Ordering::Relaxed);
        is_unanswered.then(|| io::Error::other("no answer"))
    }

    fn sync(&self) -> io::Result<()> {
        self.unsynced.store(0, Ordering::Relaxed);
        self.check()
    }
}

fn options() -> Options {
    Options {
        seed: Some(7),
        segment_pages: Some(SEGMENT_PAGES),
        zeroed_at_once_blocks: PIECE,
        ..Options::default()
    }
}

/// A pool of two volumes, the first of which has a long range to be zeroed in its oldest segment; other segments follow.
fn pool() -> (Arc<ShadowDevice>, Log, Arc<Disk>) {
    let pages = SEGMENT_PAGES as usize * (SEGMENTS + 1);
    let state = ShadowState::new(Image::zeroed(pages), PAGE_BYTES);
    let device = Arc::new(ShadowDevice::new(state));
    let log = create(device.clone(), options()).unwrap();
    let disk = Disk::new();
    log.attach(1, disk.clone());
    log.attach(2, Disk::new());
    write(&log, (1, 0), 1);
    let mut transaction = Transaction::new();
    transaction.zero(1, 50, LONG).unwrap();
    log.commit(transaction).unwrap();
    write(&log, (1, 60), 2);
    for block in 0..2 * u64::from(SEGMENT_PAGES) {
        write(&log, (2, block % 8), 3);
    }
    (device, log, disk)
}

fn write(log: &Log, (volume, block): (u32, u64), byte: u8) {
    let mut transaction = Transaction::new();
    let bytes = [byte; PAGE_BYTES];
    transaction.write(volume, block, &bytes).unwrap();
    log.commit(transaction).unwrap();
}

/// What is read of the range is right, wherever it is.
fn check(log: &Log) {
    for block in 0..200 {
        let mut out = [9; PAGE_BYTES];
        log.read(1, block, &mut out).unwrap();
        let expected = match block {
            0 => 1,
            60 => 2,
            50..150 => 0,
            _ => OLD,
        };
        assert_eq!(out[0], expected, "block {block}");
    }
}

/// What a kill leaves, opened again.
fn killed(device: &Arc<ShadowDevice>, log: Log, disk: &Arc<Disk>) -> Log {
    drop(log);
    let log = open(device.clone(), options()).unwrap();
    log.attach(1, disk.clone());
    log.attach(2, Disk::new());
    log
}

#[test]
fn a_segment_goes_when_a_piece_of_its_range_is_zeroed() {
    let (device, log, disk) = pool();
    assert!(log.recycle().unwrap());
    assert_eq!(log.tallies().recycled, 1);
    assert_eq!(
        (disk.most.load(Ordering::Relaxed), disk.zeroes()),
        (PIECE, PIECE)
    );
    assert!(log.has_rest());
    check(&log);
    let log = killed(&device, log, &disk);
    check(&log);
    // What was carried forward is the rest alone.
    assert_eq!(log.usage(1).1, LONG - 1 - PIECE);
    let mut turns = 0;
    while log.zero_rest().unwrap() {
        turns += 1;
        assert_eq!(disk.most.load(Ordering::Relaxed), PIECE);
    }
    assert_eq!(turns, (LONG - PIECE).div_ceil(PIECE));
    assert!(!log.has_rest());
    assert_eq!((log.usage(1).1, disk.zeroes()), (0, LONG - 1));
    check(&log);
}

#[test]
fn cleaning_ahead_goes_on_behind_a_long_range_and_comes_back_to_its_rest() {
    let (device, log, disk) = pool();
    assert!(log.clean_ahead().unwrap());
    assert_eq!((log.cleaned_ahead(), disk.zeroes()), (1, PIECE));
    // The clean point has not passed it: after a kill the whole of it is to be zeroed.
    let log = killed(&device, log, &disk);
    check(&log);
    assert!(log.usage(1).1 > LONG);
    let mut turns = 0;
    while log.clean_ahead().unwrap() {
        turns += 1;
        assert!(turns < 100, "it ends");
    }
    assert_eq!(disk.most.load(Ordering::Relaxed), PIECE);
    assert_eq!((log.usage(1).1, disk.zeroes()), (0, LONG - 1));
    check(&log);
}

#[test]
fn others_have_their_turns_between_two_pieces_of_a_flush() {
    let (_, log, disk) = pool();
    disk.holds.store(true, Ordering::Relaxed);
    let zeroed = std::thread::scope(|scope| {
        let flushed = scope.spawn(|| log.write_back(1));
        while !disk.is_held.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let other = scope.spawn(|| {
            let _turn = log.maintain();
            disk.zeroes()
        });
        while !log.turns.is_wanted() {
            std::thread::yield_now();
        }
        disk.holds.store(false, Ordering::Relaxed);
        flushed.join().unwrap().unwrap();
        other.join().unwrap()
    });
    assert_eq!(zeroed, PIECE, "the other thread's turn is the next one");
    assert_eq!(disk.most.load(Ordering::Relaxed), PIECE);
    assert_eq!((log.usage(1).1, disk.zeroes()), (0, LONG - 1));
    check(&log);
}

#[test]
fn the_flush_of_a_block_zeroes_no_more_than_its_window() {
    let (_, log, disk) = pool();
    log.write_back_blocks(1, &[70, 71]).unwrap();
    assert_eq!(
        (disk.zeroes(), disk.zeroings.load(Ordering::Relaxed)),
        (PIECE, 1)
    );
    check(&log);
}

#[test]
fn of_a_backing_that_fails_the_whole_range_is_carried_forward() {
    let (device, log, disk) = pool();
    disk.fails.store(true, Ordering::Relaxed);
    drop(log.recycle());
    assert_eq!(log.tallies().recycled, 1);
    assert_eq!(disk.zeroes(), 0);
    let log = killed(&device, log, &disk);
    check(&log);
    assert!(log.zero_rest().is_err());
    disk.fails.store(false, Ordering::Relaxed);
    assert!(log.zero_rest().unwrap());
    log.write_back(1).unwrap();
    assert_eq!((log.usage(1).1, disk.zeroes()), (0, LONG - 1));
    check(&log);
}

#[test]
fn a_backing_that_does_not_answer_is_not_asked_for_a_segment() {
    let (device, log, disk) = pool();
    disk.is_unanswered.store(true, Ordering::Relaxed);
    // A thread that asks it would wait for ever.
    disk.holds.store(true, Ordering::Relaxed);
    let before = log.usage(1).1;
    while log.tallies().recycled < 2 * SEGMENTS as u64 {
        drop(log.recycle());
        write(&log, (2, 0), 3);
    }
    drop(log.clean_ahead());
    assert!(log.zero_rest().is_err());
    assert_eq!((log.usage(1).1, disk.zeroes()), (before, 0));
    check(&log);
    let log = killed(&device, log, &disk);
    check(&log);
    disk.is_unanswered.store(false, Ordering::Relaxed);
    disk.holds.store(false, Ordering::Relaxed);
    log.write_back(1).unwrap();
    assert_eq!((log.usage(1).1, disk.zeroes()), (0, LONG - 1));
    check(&log);
}
