//! Volumes grow with their backing, while they are in use; they never shrink, and what lies behind
//! their end is not touched until they have grown.

use std::sync::Arc;

use crate::fixtures::{BLOCK, Rig, block, get, open, put, quiet, tiny};
use forebay::{Backing, Error, ErrorKind};

fn store_of(rig: &Rig) -> Backing {
    Backing::from_store(rig.store.clone())
}

fn volume_refused<T>(result: forebay::Result<T>) -> String {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::Volume(message)) => message,
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("no error"),
    }
}

#[test]
fn a_grown_volume_has_the_new_size_at_once_and_after_a_crash() {
    let rig = Rig::with_backing(&tiny(), 1, 10 * BLOCK as u64);
    let volume = rig.attach();
    put(&volume, 3, &block(3, 1));
    assert_eq!(
        rig.pool.grow_volume(&volume).expect("nothing to do"),
        volume.size_bytes()
    );
    rig.store.resize(20 * BLOCK as u64);
    assert!(volume.write(12, &block(12, 1)).is_err(), "not yet");
    let size_bytes = rig.pool.grow_volume(&volume).expect("grow");
    assert_eq!((size_bytes, volume.blocks()), (20 * BLOCK as u64, 20));
    put(&volume, 12, &block(12, 1));
    let pool = open(&rig.images(), quiet()).expect("open");
    let again = pool.attach(store_of(&rig)).expect("attach");
    assert_eq!(again.size_bytes(), size_bytes);
    assert!(get(&again, 12).expect("read") == block(12, 1));
    assert!(get(&again, 3).expect("read") == block(3, 1));
    again.flush().expect("flush");
    assert!(rig.store.snapshot()[12 * BLOCK..13 * BLOCK] == block(12, 1));
}

#[test]
fn a_backing_that_grew_between_two_lives_is_attached_with_the_old_size() {
    let rig = Rig::with_backing(&tiny(), 1, 10 * BLOCK as u64);
    let volume = rig.attach();
    put(&volume, 9, &block(9, 1));
    rig.store.resize(12 * BLOCK as u64);
    let pool = open(&rig.images(), quiet()).expect("open");
    let again = pool.attach(store_of(&rig)).expect("attach");
    assert_eq!(again.blocks(), 10);
    assert_eq!(pool.grow_volume(&again).expect("grow"), 12 * BLOCK as u64);
    assert_eq!(again.blocks(), 12);
}

#[test]
fn a_shrunk_backing_is_refused() {
    let rig = Rig::with_backing(&tiny(), 1, 10 * BLOCK as u64);
    let volume = rig.attach();
    rig.store.resize(9 * BLOCK as u64);
    let message = volume_refused(rig.pool.grow_volume(&volume));
    assert!(message.contains("shrink"), "{message}");
    assert_eq!(volume.blocks(), 10);
    let pool = open(&rig.images(), quiet()).expect("open");
    let shrunk = Arc::new(Shrunk(rig.store.clone()));
    let refused = pool.attach(Backing::from_store(shrunk));
    let refused = refused.expect_err("it shrank");
    assert!(
        matches!(refused.kind(), ErrorKind::Stale { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("1152 bytes"), "{refused}");
}

/// Bytes were appended to the backing before the volume grew: the block with the old end has both.
#[test]
fn what_the_backing_got_behind_an_odd_end_is_there_afterwards() {
    for in_use in ["not cached", "clean", "dirty"] {
        let odd = 9 * BLOCK + 50;
        let rig = Rig::with_backing(&tiny(), 1, odd as u64);
        let volume = rig.attach();
        let mut before = block(9, 1);
        before[50..].fill(0);
        let mut transaction = volume.begin();
        transaction
            .write_at(9 * BLOCK as u64, &before[..50])
            .expect("edit");
        transaction.commit().expect("commit");
        volume.flush().expect("flush");
        if in_use == "not cached" {
            assert_eq!(rig.pool.reclaim_once(1).expect("reclaim"), 1);
        }
        rig.store.resize(11 * BLOCK as u64);
        append(&rig, odd, b"appended by a thread");
        assert!(get(&volume, 9).expect("read") == before, "{in_use}");
        if in_use == "dirty" {
            let mut transaction = volume.begin();
            transaction
                .write_at(9 * BLOCK as u64, b"new")
                .expect("edit");
            transaction.commit().expect("commit");
            before[..3].copy_from_slice(b"new");
        }
        rig.pool.grow_volume(&volume).expect("grow");
        let mut after = before;
        after[50..70].copy_from_slice(b"appended by a thread");
        assert!(get(&volume, 9).expect("read") == after, "{in_use}");
        volume.flush().expect("flush");
        assert!(
            rig.store.snapshot()[9 * BLOCK..10 * BLOCK] == after,
            "{in_use}"
        );
    }
}

fn append(rig: &Rig, offset: usize, bytes: &[u8]) {
    use forebay::{BackingStore, WriteRun};
    rig.store.refresh_size().expect("size");
    let run = WriteRun {
        offset: offset as u64,
        bytes,
    };
    rig.store.write_runs(&[run]).remove(0).expect("append");
}

/// A store that has lost its last block.
struct Shrunk(Arc<forebay::MemoryStore>);

impl forebay::BackingStore for Shrunk {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes() - BLOCK as u64
    }
    fn identity(&self) -> forebay::BackingIdentity {
        forebay::BackingIdentity {
            size_bytes: self.size_bytes(),
            ..self.0.identity()
        }
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[forebay::WriteRun<'_>]) -> Vec<std::io::Result<()>> {
        self.0.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> std::io::Result<()> {
        self.0.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> std::io::Result<()> {
        self.0.sync()
    }
    fn counters(&self) -> forebay::BackingCounters {
        self.0.counters()
    }
    fn transport(&self) -> String {
        self.0.transport()
    }
}
