//! A flush and another thread that maintains the log, which comes to its turn between two steps of the flush.

use super::core::{Log, Options};
use super::create::create;
use crate::backing::Backing;
use crate::page::PAGE_BYTES;
use crate::shadow::{Image, ShadowDevice, ShadowState};
use crate::transaction::Transaction;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const SEGMENT_PAGES: u32 = 128;
/// Of volume 1: several steps.
const BLOCKS: u64 = 600;

#[derive(Default)]
struct Disk {
    blocks: Mutex<HashMap<u64, Vec<u8>>>,
    zeroed: AtomicU64,
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

/// Flushes volume 1, and lets another thread wait for its turn before the first step. How many blocks were left when `is_done`
/// was first true between two steps.
fn flush_beside(log: &Log, other: impl FnOnce() + Send, is_done: impl Fn() -> bool) -> Option<u64> {
    let mut left_then = None;
    std::thread::scope(|scope| {
        let mut other = Some(other);
        let flushed = log.write_back_watched(1, &mut |left| {
            if let Some(other) = other.take() {
                scope.spawn(other);
                while !log.turns.is_wanted() {
                    std::thread::yield_now();
                }
            } else if is_done() && left_then.is_none() {
                left_then = Some(left);
            }
            true
        });
        assert!(flushed.unwrap());
    });
    left_then
}

#[test]
fn recycling_goes_on_while_a_volume_is_flushed() {
    let (log, disk) = pool();
    let other = || assert!(log.recycle().unwrap());
    let left = flush_beside(&log, other, || log.tallies().recycled == 1);
    assert!(left.is_some_and(|left| left > 0), "{left:?} were left");
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
    let is_clean = || log.is_clean(1, last) == Some(true);
    let left = flush_beside(&log, other, is_clean);
    assert!(left.is_some_and(|left| left > 0), "{left:?} were left");
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
    let left = flush_beside(&log, other, || log.tallies().recycled > 0);
    assert!(left.is_some_and(|left| left > 0), "{left:?} were left");
    assert_eq!((disk.first(last - 1), disk.first(last)), (0, 0));
    assert!((0..last - 1).all(|block| disk.first(block) == 1));
    assert_eq!(log.usage(1).1, 0);
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
