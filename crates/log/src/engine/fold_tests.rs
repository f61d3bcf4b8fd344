//! Folds beside write-back, and what a thread may not do between its joining and its waiting.

use super::core::{Log, Options};
use super::create::create;
use crate::backing::Backing;
use crate::media::Key;
use crate::page::PAGE_BYTES;
use crate::shadow::{Image, ShadowDevice, ShadowState};
use crate::transaction::Transaction;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

#[derive(Default)]
struct Disk {
    blocks: Mutex<HashMap<u64, Vec<u8>>>,
    /// Is called by each read.
    on_read: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Backing for Disk {
    fn read(&self, block: u64, out: &mut [u8]) -> io::Result<()> {
        if let Some(on_read) = self.on_read.get() {
            on_read();
        }
        match self.blocks.lock().unwrap().get(&block) {
            Some(bytes) => out.copy_from_slice(bytes),
            None => out.fill(0),
        }
        Ok(())
    }

    fn write(&self, block: u64, bytes: &[u8]) -> io::Result<()> {
        self.blocks.lock().unwrap().insert(block, bytes.to_vec());
        Ok(())
    }

    fn zero(&self, first: u64, count: u64) -> io::Result<()> {
        let is_out = |block: &u64, _: &mut Vec<u8>| !(first..first + count).contains(block);
        self.blocks.lock().unwrap().retain(is_out);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A pool that folds as soon as there are three patches.
fn pool() -> (Arc<Log>, Arc<ShadowDevice>, Arc<Disk>) {
    let state = ShadowState::new(Image::zeroed(16 * 9), PAGE_BYTES);
    let device = Arc::new(ShadowDevice::new(state));
    let options = Options {
        seed: Some(7),
        segment_pages: Some(16),
        patches_max: Some(4),
        ..Options::default()
    };
    let log = create(device.clone(), options).unwrap();
    let disk = Arc::new(Disk::default());
    log.attach(1, disk.clone());
    log.attach(2, Arc::new(Disk::default()));
    for block in 0..3 {
        append(&log, block, 0);
    }
    assert_eq!(log.patches(), (3, 4));
    (Arc::new(log), device, disk)
}

fn append(log: &Log, block: u64, offset: usize) {
    let mut transaction = Transaction::new();
    transaction.append(1, block, offset, &[7; 9]).unwrap();
    log.commit(transaction).unwrap();
}

fn entry(log: &Log, block: u64) -> crate::state::Entry {
    let key = Key { volume: 1, block };
    log.lock().table.get(key).expect("the pool has it")
}

#[test]
fn a_block_that_is_folded_behind_a_look_at_it_is_brought_from_where_it_is() {
    let (log, _, disk) = pool();
    let seen = entry(&log, 0);
    let fold = log.load_fold();
    let folded = log.join_fold(fold, false).unwrap().expect("the oldest");
    log.wait(&folded).unwrap();
    assert_ne!(entry(&log, 0).page, seen.page);
    let brought = log.bring(&*disk, (Vec::new(), vec![seen])).unwrap();
    log.sync_brought((1, &*disk), brought).unwrap();
    assert_eq!(log.is_clean(1, 0), Some(true));
    log.forget(1, &[(0, 1)]).unwrap();
    let mut bytes = vec![0; PAGE_BYTES];
    log.read(1, 0, &mut bytes).unwrap();
    assert_eq!(bytes[..10], [7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
}

#[test]
fn nothing_is_folded_beside_a_thread_that_maintains_the_log() {
    let (log, ..) = pool();
    let seen = entry(&log, 0);
    let turn = log.maintain();
    append(&log, 1, 9);
    std::thread::scope(|scope| {
        scope.spawn(|| append(&log, 2, 9));
    });
    // The second found no room as a patch, and is a whole block.
    assert_eq!((entry(&log, 0), log.patches()), (seen, (3, 4)));
    drop(turn);
    append(&log, 1, 18);
    assert_ne!(entry(&log, 0).page, seen.page);
    assert!(!entry(&log, 0).is_patched());
}

#[test]
fn a_fold_has_the_turn_until_it_is_published() {
    let (log, device, _) = pool();
    let seen = entry(&log, 0);
    let turns = Arc::new(Mutex::new(Vec::new()));
    let (noted, weak) = (turns.clone(), Arc::downgrade(&log));
    device.observe(Some(Box::new(move |_: &ShadowState| {
        let log = weak.upgrade().expect("it is open");
        let has_turn = log.is_maintained_here();
        assert_eq!(log.try_maintain().is_none(), has_turn);
        noted.lock().unwrap().push(has_turn);
    })));
    append(&log, 3, 0);
    let has_turn = turns.lock().unwrap().clone();
    assert!(!has_turn.is_empty() && has_turn.iter().all(|has_turn| *has_turn));
    assert_ne!(entry(&log, 0).page, seen.page);
    assert!(log.try_maintain().is_some());
    device.observe(None);
}

#[test]
fn a_thread_that_waits_for_a_backing_is_in_no_group_and_has_no_turn() {
    let (log, _, disk) = pool();
    let (reads, weak) = (Arc::new(Mutex::new(0)), Arc::downgrade(&log));
    let counted = reads.clone();
    let on_read = move || {
        let log = weak.upgrade().expect("it is open");
        assert!(log.lock().queue.is_empty());
        assert!(log.try_maintain().is_some());
        // As another thread does meanwhile.
        let mut transaction = Transaction::new();
        transaction.write(2, 0, &[5; PAGE_BYTES]).unwrap();
        log.commit(transaction).unwrap();
        *counted.lock().unwrap() += 1;
    };
    assert!(disk.on_read.set(Box::new(on_read)).is_ok());
    let seen = entry(&log, 0);
    let mut part = Transaction::new();
    part.write_part(1, 9, 100, &[3; 9]).unwrap();
    log.commit(part).unwrap();
    assert_eq!(*reads.lock().unwrap(), 1);
    assert_ne!(entry(&log, 0).page, seen.page);
}
