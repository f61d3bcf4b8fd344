//! Volumes that are detached while a caller still uses them: nothing acknowledged is lost, and no block of
//! theirs stays behind.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::fixtures::{BLOCK, Rig, block, get, open, put, quiet, tiny};
use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, Error, ErrorKind, MemoryStore, Volume,
    WriteRun,
};
use forebay_pmem::shadow::FenceFailure;

fn is_refused(result: forebay::Result<()>) -> bool {
    matches!(
        result.as_ref().map_err(Error::kind),
        Err(ErrorKind::Volume(_))
    )
}

fn try_put(volume: &Volume, number: u64, version: u64) -> forebay::Result<()> {
    let mut transaction = volume.begin();
    transaction.write(number, &block(number, version))?;
    transaction.commit()
}

fn behind(rig: &Rig, number: u64) -> Vec<u8> {
    rig.store.snapshot()[number as usize * BLOCK..][..BLOCK].to_vec()
}

#[test]
fn what_is_left_of_a_detached_volume_neither_reads_nor_writes() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    put(&volume, 1, &block(1, 1));
    let left = volume.clone();
    let mut begun = left.begin();
    begun.write(2, &block(2, 1)).expect("write");
    rig.pool.detach(volume).expect("detach");
    assert!(is_refused(begun.commit()));
    assert!(is_refused(left.write(3, &block(3, 1))));
    assert!(is_refused(left.discard(1..3)), "nor behind the cache");
    let mut in_place = left.begin();
    let edited = in_place.write_at(BLOCK as u64 + 5, b"delta");
    assert!(is_refused(edited.and_then(|()| in_place.commit())));
    assert!(is_refused(get(&left, 1).map(drop)));
    assert!(is_refused(left.read(1, &mut [0; 3 * BLOCK])), "a run");
    assert!(is_refused(left.read_atomic(1, &mut [0; 2 * BLOCK])));
    assert!(is_refused(left.block_states(0..8, |_, _| true)));
    assert!(behind(&rig, 1) == block(1, 1));
    assert_eq!(rig.pool.stats().cached_blocks, 0, "no read brings it back");
    assert!(rig.pool.detach(left).is_err(), "once is enough");
    let pool = open(&rig.images(), quiet()).expect("no block of an unknown volume");
    assert_eq!(pool.stats().cached_blocks, 0);
}

#[test]
fn a_volume_that_comes_back_is_another_one() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    let old = volume.clone();
    rig.pool.detach(volume).expect("detach");
    let new = rig.attach();
    put(&new, 1, &block(1, 2));
    assert!(is_refused(try_put(&old, 1, 1)));
    assert!(
        is_refused(get(&old, 1).map(drop)),
        "older than the new one's"
    );
    assert!(get(&new, 1).expect("read") == block(1, 2));
}

/// A store that does something once, after it has answered a read.
struct Between {
    store: MemoryStore,
    after: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl BackingStore for Between {
    fn size_bytes(&self) -> u64 {
        self.store.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.store.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.store.read_at(offset, out)?;
        let after = self.after.lock().expect("no thread panicked").take();
        after.into_iter().for_each(|after| after());
        Ok(())
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        self.store.write_runs(runs)
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        self.store.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.store.sync()
    }
    fn counters(&self) -> BackingCounters {
        self.store.counters()
    }
    fn transport(&self) -> String {
        self.store.transport()
    }
}

#[test]
fn a_read_that_a_detach_overtakes_mixes_nothing_of_the_next_volume_in() {
    let rig = Rig::new(&tiny(), 1);
    let store = Arc::new(Between {
        store: MemoryStore::new(64 * BLOCK as u64),
        after: Mutex::new(None),
    });
    let pool = Arc::new(rig.pool);
    let old = pool
        .attach(Backing::from_store(store.clone()))
        .expect("attach");
    let (again, attached) = (Arc::downgrade(&pool), store.clone());
    let (gone, next) = (old.clone(), Arc::new(Mutex::new(None)));
    let kept = next.clone();
    // Block 0 is read by now, and block 1 is not.
    *store.after.lock().expect("lock") = Some(Box::new(move || {
        let pool = again.upgrade().expect("the pool is open");
        pool.detach(gone).expect("detach");
        let new = pool.attach(Backing::from_store(attached)).expect("attach");
        let both = [block(0, 2), block(1, 2)].concat();
        new.write(0, &both).expect("write");
        new.flush().expect("flush");
        *kept.lock().expect("lock") = Some(new);
    }));
    let mut both = vec![1; 2 * BLOCK];
    let read = old.read_atomic(0, &mut both);
    assert!(store.after.lock().expect("lock").is_none(), "it was read");
    assert!(is_refused(read));
    let new = next.lock().expect("lock").take().expect("attached");
    assert!(get(&new, 1).expect("read") == block(1, 2));
}

#[test]
fn another_pool_does_not_take_it_for_its_own() {
    let (one, other) = (Rig::new(&tiny(), 1), Rig::new(&tiny(), 1));
    let (volume, theirs) = (one.attach(), other.attach());
    assert_eq!(volume.id(), theirs.id());
    assert!(is_refused(other.pool.detach(volume.clone())));
    try_put(&volume, 1, 1).expect("still attached");
    try_put(&theirs, 1, 1).expect("this one, too");
}

#[test]
fn a_detach_that_fails_leaves_the_volume_in_use() {
    let rig = Rig::new(&tiny(), 1);
    drop(rig.attach());
    let pool = open(&rig.images(), quiet()).expect("open");
    let volume = pool.volumes().remove(0);
    try_put(&volume, 1, 1).expect("a whole block needs no backing");
    assert!(pool.detach(volume.clone()).is_err(), "it is dirty");
    try_put(&volume, 1, 2).expect("as before");
    let attached = pool.attach(Backing::from_store(rig.store.clone()));
    pool.detach(attached.expect("attach")).expect("detach");
    assert!(behind(&rig, 1) == block(1, 2));
}

/// Each writer has its own blocks; the backing has at least what each was told is durable.
#[test]
fn writers_at_work_during_a_detach_lose_nothing_that_was_acknowledged() {
    const WRITERS: u64 = 2;
    const EACH: u64 = 8;
    for _ in 0..20 {
        let rig = Rig::new(&tiny(), 1);
        let volume = rig.attach();
        let started = AtomicBool::new(false);
        let write_until_refused = |writer: u64| {
            let volume = volume.clone();
            let mut acknowledged = [0; EACH as usize];
            for version in 1.. {
                for at in 0..EACH {
                    let number = writer * EACH + at;
                    drop(get(&volume, number));
                    if try_put(&volume, number, version).is_err() {
                        return acknowledged;
                    }
                    acknowledged[at as usize] = version;
                    started.store(true, Ordering::Relaxed);
                }
            }
            unreachable!("the detach ends it")
        };
        let last = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| scope.spawn(move || write_until_refused(writer)))
                .collect();
            while !started.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            rig.pool.detach(volume.clone()).expect("detach");
            let lasts = writers.into_iter().map(|writer| writer.join());
            lasts
                .map(|last| last.expect("no panic"))
                .collect::<Vec<_>>()
        });
        for (number, version) in (0..).zip(last.iter().flatten()) {
            let found = behind(&rig, number);
            let expected = match version {
                0 => vec![0; BLOCK],
                version => block(number, *version),
            };
            assert!(found == expected, "block {number}, version {version}");
        }
        assert_eq!(rig.pool.stats().cached_blocks, 0);
        open(&rig.images(), quiet()).expect("open");
    }
}

fn dirty(volume: &Volume, blocks: u64) {
    for number in 0..blocks {
        put(volume, number, &block(number, 1));
    }
}

#[test]
fn a_detach_tells_how_much_is_left_and_can_be_stopped() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    dirty(&volume, 20);
    let stopped = rig.pool.detach_watched(volume.clone(), &mut |progress| {
        assert_eq!((progress.dirty_blocks, progress.written_blocks), (20, 0));
        assert!(progress.remaining().is_none());
        ControlFlow::Break(())
    });
    assert!(matches!(
        stopped.as_ref().map_err(Error::kind),
        Err(ErrorKind::Cancelled {
            dirty_blocks: 20,
            ..
        })
    ));
    put(&volume, 1, &block(1, 2));
    let mut left = Vec::new();
    let done = rig.pool.detach_watched(volume, &mut |progress| {
        left.push(progress.dirty_blocks);
        assert_eq!(progress.dirty_blocks + progress.written_blocks, 20);
        ControlFlow::Continue(())
    });
    done.expect("detach");
    assert_eq!((left.first(), left.last()), (Some(&20), Some(&0)));
    assert!(rig.store.snapshot()[BLOCK..2 * BLOCK] == block(1, 2));
    assert!(rig.pool.volumes().is_empty());
}

/// The second stop is the last moment: its users are cut off already.
#[test]
fn a_detach_that_is_stopped_late_leaves_the_volume_in_use() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    dirty(&volume, 5);
    let mut clean_twice = 0;
    let stopped = rig.pool.detach_watched(volume.clone(), &mut |progress| {
        clean_twice += u32::from(progress.dirty_blocks == 0);
        match clean_twice {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert!(matches!(
        stopped.as_ref().map_err(Error::kind),
        Err(ErrorKind::Cancelled { .. })
    ));
    put(&volume, 1, &block(1, 2));
    rig.pool.detach(volume).expect("detach");
}

/// The line that says so may be durable or not: a record of the volume would make the pool one that
/// does not open.
#[test]
fn a_pool_took_writes_after_the_last_fence_of_a_detach_had_failed() {
    for fences in 0.. {
        let rig = Rig::new(&tiny(), 1);
        let volume = rig.attach();
        put(&volume, 1, &block(1, 1));
        rig.shadows[0].set_fence_failure(FenceFailure::After(fences));
        let detached = rig.pool.detach(volume.clone());
        let written = try_put(&volume, 2, 1);
        open(&rig.images(), quiet()).unwrap_or_else(|error| panic!("fence {fences}: {error}"));
        assert!(written.is_err(), "fence {fences}");
        if detached.is_ok() {
            break;
        }
        assert!(rig.pool.stats().poisoned, "fence {fences}");
    }
}
