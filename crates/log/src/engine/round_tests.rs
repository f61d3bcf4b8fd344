//! A flush and other threads that maintain the log, which come to their turn between two steps of the flush; a watcher that does it
//! itself; how much one step writes.

use super::core::{Log, Options};
use super::create::create;
use super::write_back::BROUGHT_AT_ONCE;
use crate::backing::Backing;
use crate::page::PAGE_BYTES;
use crate::shadow::{Image, ShadowDevice, ShadowState};
use crate::transaction::Transaction;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const SEGMENT_PAGES: u32 = 128;
/// Of volume 1: several steps.
const BLOCKS: u64 = 600;

#[derive(Default)]
struct Disk {
    blocks: Mutex<HashMap<u64, Vec<u8>>>,
    zeroed: AtomicU64,
    written: AtomicU64,
    /// A write waits while this is set, and says that it does.
    holds: AtomicBool,
    is_held: AtomicBool,
}

impl Disk {
    /// The first byte of a block.
    fn first(&self, block: u64) -> u8 {
        self.blocks
            .lock()
            .unwrap()
            .get(&block)
            .map_or(0, |bytes| bytes[0])
    }
}

impl Backing for Disk {
    fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()> {
        out.fill(self.first(block));
        Ok(())
    }

    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        while self.holds.load(Ordering::Relaxed) {
            self.is_held.store(true, Ordering::Relaxed);
            std::thread::yield_now();
        }
        self.written.fetch_add(1, Ordering::Relaxed);
        self.blocks.lock().unwrap().insert(block, bytes.to_vec());
        Ok(())
    }

    fn zero(&self, first: u64, count: u64) -> io::Result<()> {
        let is_out = |block: &u64, _: &mut Vec<u8>| !(first..first + count).contains(block);
        self.blocks.lock().unwrap().retain(is_out);
        self.zeroed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn pool() -> (Log, Arc<Disk>) {
    let pages = SEGMENT_PAGES as usize * 20;
    let state = ShadowState::new(Image::zeroed(pages), PAGE_BYTES);
    let options = Options {
        seed: Some(7),
        segment_pages: Some(SEGMENT_PAGES),
        zeroed_at_once_blocks: 1 << 20,
        ..Options::default()
    };
    let log = create(Arc::new(ShadowDevice::new(state)), options).unwrap();
    let disks: [Arc<Disk>; 2] = Default::default();
    for (number, disk) in (1..).zip(&disks) {
        log.attach(number, disk.clone());
    }
    // The oldest segment is of volume 2 alone.
    for block in 0..u64::from(SEGMENT_PAGES) {
        write(&log, (2, block), 1);
    }
    for block in 0..BLOCKS {
        write(&log, (1, block), 1);
    }
    let [disk, _] = disks;
    (log, disk)
}

fn write(log: &Log, (volume, block): (u32, u64), byte: u8) {
    let mut transaction = Transaction::new();
    let bytes = [byte; PAGE_BYTES];
    transaction.write(volume, block, &bytes).unwrap();
    log.commit(transaction).unwrap();
}

/// Flushes volume 1, and lets another thread, which has so many turns, wait for the first of them during the first step: so the flush
/// has another turn after that.
fn flush_beside(log: &Log, disk: &Disk, (turns, other): (u64, impl FnOnce() + Send)) {
    disk.holds.store(true, Ordering::Relaxed);
    let before = log.turns.served();
    std::thread::scope(|scope| {
        let flushed = scope.spawn(|| log.write_back(1));
        while !disk.is_held.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        scope.spawn(other);
        while !log.turns.is_wanted() {
            std::thread::yield_now();
        }
        disk.holds.store(false, Ordering::Relaxed);
        flushed.join().unwrap().unwrap();
    });
    let served = log.turns.served() - before;
    assert!(served >= turns + 2, "{served} turns");
}

#[test]
fn recycling_goes_on_while_a_volume_is_flushed() {
    let (log, disk) = pool();
    flush_beside(&log, &disk, (1, || assert!(log.recycle().unwrap())));
    assert_eq!(log.tallies().recycled, 1);
    assert_eq!(log.usage(1), (BLOCKS, 0));
    assert!((0..BLOCKS).all(|block| disk.first(block) == 1));
}

#[test]
fn what_another_thread_wrote_back_meanwhile_is_not_written_over() {
    let (log, disk) = pool();
    let last = BLOCKS - 1;
    let other = || {
        write(&log, (1, last), 2);
        log.write_back_blocks(1, &[last]).unwrap();
    };
    flush_beside(&log, &disk, (1, other));
    assert_eq!(disk.first(last), 2);
}

#[test]
fn what_is_zeroed_or_carried_forward_meanwhile_is_on_the_backing_when_a_flush_ends() {
    let (log, disk) = pool();
    let last = BLOCKS - 1;
    let other = || {
        let mut transaction = Transaction::new();
        transaction.zero(1, last - 1, 2).unwrap();
        log.commit(transaction).unwrap();
        // A lap of everything that is not the flush's: its blocks move.
        while log.tallies().recycled < 3 {
            assert!(log.recycle().unwrap());
        }
    };
    flush_beside(&log, &disk, (3, other));
    assert_eq!((disk.first(last - 1), disk.first(last)), (0, 0));
    assert!((0..last - 1).all(|block| disk.first(block) == 1));
    assert_eq!(log.usage(1).1, 0);
}

#[test]
fn a_watcher_may_do_what_needs_a_turn() {
    let (log, disk) = pool();
    let mut calls = 0;
    let flushed = log.write_back_watched(1, &mut |left| {
        calls += 1;
        assert!(!log.is_maintained_here());
        if calls == 2 {
            assert_eq!(left, 0, "four steps have written all");
        }
        if calls == 1 {
            assert_eq!(left, BLOCKS);
            assert!(log.recycle().unwrap());
            write(&log, (1, 3), 2);
            log.write_back_blocks(1, &[3]).unwrap();
            log.write_back(2).unwrap();
            let mut within = 0;
            log.write_back_watched(1, &mut |_| {
                within += 1;
                within < 2
            })
            .unwrap();
            log.forget(2, &[(0, 1)]).unwrap();
        }
        true
    });
    assert!(flushed.unwrap());
    assert_eq!(calls, 2);
    assert_eq!((log.usage(1).1, disk.first(3)), (0, 2));
}

#[test]
fn a_step_is_bounded_where_much_was_written_into_a_range_that_it_zeroes() {
    let (log, disk) = pool();
    let most = BROUGHT_AT_ONCE as u64;
    let mut transaction = Transaction::new();
    transaction.zero(1, 0, 1 << 20).unwrap();
    log.commit(transaction).unwrap();
    let mut round = log.begin_round(1);
    assert_eq!(round.left(), 0);
    // Every second block: as many parts are left of the range.
    let written = 2 * most + 9;
    for first in (0..written).step_by(16) {
        let mut transaction = Transaction::new();
        for block in first..written.min(first + 16) {
            let bytes = [3; PAGE_BYTES];
            transaction.write(1, 2 * block, &bytes).unwrap();
        }
        log.commit(transaction).unwrap();
    }
    let (mut steps, mut zeroed, mut blocks) = (0, 0, 0);
    while log.write_some(&mut round).unwrap() {
        steps += 1;
        let (zeroed_now, blocks_now) = (
            disk.zeroed.load(Ordering::Relaxed),
            disk.written.load(Ordering::Relaxed),
        );
        assert!(zeroed_now - zeroed <= most && blocks_now - blocks <= most);
        (zeroed, blocks) = (zeroed_now, blocks_now);
        // Between two steps a range changes once more.
        if steps == 1 {
            write(&log, (1, 2 * written + 1), 4);
        }
    }
    assert_eq!(steps, 3);
    log.finish_round(round).unwrap();
    assert_eq!((blocks, log.usage(1).1), (written, 1), "one is newer");
    log.write_back(1).unwrap();
    assert_eq!((log.usage(1).1, disk.first(2 * written + 1)), (0, 4));
    assert!((0..2 * written).all(|block| disk.first(block) == (3 * ((block + 1) % 2)) as u8));
}

#[test]
fn a_range_that_is_zeroed_while_a_flush_runs_is_zeroed_once_on_the_backing() {
    let (log, disk) = pool();
    let mut is_first = true;
    let flushed = log.write_back_watched(1, &mut |_| {
        if std::mem::take(&mut is_first) {
            let mut transaction = Transaction::new();
            transaction.zero(1, 0, BLOCKS).unwrap();
            log.commit(transaction).unwrap();
        }
        true
    });
    assert!(flushed.unwrap());
    assert_eq!(disk.zeroed.load(Ordering::Relaxed), 1);
    assert!((0..BLOCKS).all(|block| disk.first(block) == 0));
    assert_eq!(log.usage(1).1, 0);
}

#[test]
fn a_flush_ends_however_often_a_range_is_written_and_zeroed_meanwhile() {
    let (log, disk) = pool();
    log.write_back(1).unwrap();
    let most = BROUGHT_AT_ONCE as u64;
    let blocks = 2 * most + 9;
    let zero = || {
        let mut transaction = Transaction::new();
        transaction.zero(1, 0, 4 * blocks).unwrap();
        log.commit(transaction).unwrap();
    };
    let write_all = |byte| {
        for first in (0..blocks).step_by(16) {
            let mut transaction = Transaction::new();
            for block in first..blocks.min(first + 16) {
                let bytes = [byte; PAGE_BYTES];
                transaction.write(1, 2 * block, &bytes).unwrap();
            }
            // The ring is smaller than all that is written.
            while log.free_segments() < 8 {
                assert!(log.recycle().unwrap());
            }
            log.commit(transaction).unwrap();
        }
    };
    zero();
    let mut round = log.begin_round(1);
    let mut steps = 0;
    write_all(3);
    while log.write_some(&mut round).unwrap() {
        steps += 1;
        assert!(steps < 20, "it does not end");
        log.pause_round(&mut round).unwrap();
        zero();
        write_all(4);
    }
    log.finish_round(round).unwrap();
    assert!(log.usage(1).1 > 0, "what is newer is dirty");
    log.write_back(1).unwrap();
    assert_eq!(log.usage(1).1, 0);
    assert!((0..2 * blocks).all(|block| disk.first(block) == (4 * ((block + 1) % 2)) as u8));
}
