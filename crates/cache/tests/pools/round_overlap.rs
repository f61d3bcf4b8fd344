//! Where rounds of write-back are long, one writes while the one before is synced.

use std::sync::{Arc, Condvar, Mutex};

use forebay::{
    Backing, BackingCounters, BackingIdentity, BackingStore, MemoryStore, Pool, Volume, WriteRun,
};

use crate::rig::{self, Rig, rig_with};

/// Blocks of a round without background threads.
const ROUND_BLOCKS: u64 = 1024;

#[derive(Default)]
struct State {
    blocks_written: u64,
    syncs_begun: u64,
    syncs_let_go: u64,
    syncs_under_way: u64,
    /// Writes that came while a sync was under way.
    overlapping: u64,
    /// Numbers of syncs that fail.
    failing: Vec<u64>,
}

/// A store whose syncs wait to be let go.
struct Gated {
    memory: MemoryStore,
    state: Mutex<State>,
    changed: Condvar,
}

impl Gated {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        changed
    }

    fn wait(&self, what: &str, mut holds: impl FnMut(&State) -> bool) {
        let state = self.state.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(state, rig::PATIENCE, |state| !holds(state));
        assert!(!waited.unwrap().1.timed_out(), "never happened: {what}");
    }
}

impl BackingStore for Gated {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn identity(&self) -> BackingIdentity {
        self.memory.identity()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.memory.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<std::io::Result<()>> {
        let results = self.memory.write_runs(runs);
        let bytes: usize = runs.iter().map(|run| run.bytes.len()).sum();
        self.change(|state| {
            state.blocks_written += (bytes / rig::BLOCK) as u64;
            state.overlapping += u64::from(state.syncs_under_way > 0);
        });
        results
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> std::io::Result<()> {
        self.memory.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> std::io::Result<()> {
        let number = self.change(|state| {
            state.syncs_begun += 1;
            state.syncs_under_way += 1;
            state.syncs_begun
        });
        self.wait("the sync is let go", |state| state.syncs_let_go >= number);
        let fails = self.change(|state| {
            state.syncs_under_way -= 1;
            state.failing.contains(&number)
        });
        match fails {
            true => Err(std::io::Error::from_raw_os_error(libc::EIO)),
            false => Ok(()),
        }
    }
    fn prefers_long_rounds(&self) -> bool {
        true
    }
    fn counters(&self) -> BackingCounters {
        self.memory.counters()
    }
    fn transport(&self) -> String {
        self.memory.transport()
    }
}

fn gated() -> Arc<Gated> {
    Arc::new(Gated {
        memory: MemoryStore::new(64 << 20),
        state: Mutex::default(),
        changed: Condvar::new(),
    })
}

/// A pool with so many rounds of dirty blocks, all syncs of its backing so far let go.
fn with_dirty_rounds(rounds: u64) -> (Rig, Arc<Gated>, Volume) {
    let rig = rig_with(32 << 20, |options| options.background(false));
    let store = gated();
    store.change(|state| state.syncs_let_go = u64::MAX);
    let volume = rig.pool.attach(Backing::from_store(store.clone())).unwrap();
    for block in 0..rounds * ROUND_BLOCKS {
        rig::put(&volume, block, 1);
    }
    store.change(|state| {
        (state.syncs_begun, state.blocks_written) = (0, 0);
        state.syncs_let_go = 0;
    });
    (rig, store, volume)
}

fn dirty(pool: &Pool) -> u64 {
    pool.stats().dirty_blocks
}

#[test]
fn a_round_is_written_while_the_one_before_is_synced_and_retired_after_its_own_sync() {
    let (rig, store, _volume) = with_dirty_rounds(3);
    let pool = &rig.pool;
    std::thread::scope(|scope| {
        let rounds: Vec<_> = (1..=2)
            .map(|number| {
                let round = scope.spawn(|| pool.write_back_once().unwrap());
                store.wait("it has written", |state| {
                    state.blocks_written == number * ROUND_BLOCKS
                });
                store.wait("the first is synced", |state| state.syncs_begun == 1);
                round
            })
            .collect();
        // A third one waits for the state of rounds.
        let third = scope.spawn(|| pool.write_back_once().unwrap());
        assert_eq!(dirty(pool), 3 * ROUND_BLOCKS, "nothing is retired yet");
        store.change(|state| state.syncs_let_go = 1);
        store.wait("the second is synced", |state| state.syncs_begun == 2);
        store.wait("the third has written", |state| {
            state.blocks_written == 3 * ROUND_BLOCKS
        });
        rig::wait_until("the first is retired", || dirty(pool) == 2 * ROUND_BLOCKS);
        store.change(|state| state.syncs_let_go = 3);
        let cleaned: usize = rounds.into_iter().map(|round| round.join().unwrap()).sum();
        assert_eq!(cleaned + third.join().unwrap(), 3 * ROUND_BLOCKS as usize);
    });
    assert_eq!(dirty(pool), 0);
    let state = store.state.lock().unwrap();
    assert_eq!(
        (state.syncs_begun, state.blocks_written),
        (3, 3 * ROUND_BLOCKS)
    );
}

#[test]
fn a_round_that_had_written_before_a_sync_failed_was_retired() {
    let (rig, store, _volume) = with_dirty_rounds(2);
    let pool = &rig.pool;
    store.change(|state| state.failing = vec![1]);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| pool.write_back_once());
        store.wait("the first is synced", |state| state.syncs_begun == 1);
        let second = scope.spawn(|| pool.write_back_once());
        store.wait("the second has written", |state| {
            state.blocks_written == 2 * ROUND_BLOCKS
        });
        store.change(|state| state.syncs_let_go = u64::MAX);
        first.join().unwrap().expect_err("its sync failed");
        second.join().unwrap().expect_err("another one's did");
    });
    assert_eq!(dirty(pool), 2 * ROUND_BLOCKS);
    assert_eq!(pool.write_back_once().unwrap(), ROUND_BLOCKS as usize);
    assert_eq!(pool.write_back_once().unwrap(), ROUND_BLOCKS as usize);
    assert_eq!(dirty(pool), 0);
}

#[test]
fn a_store_that_is_attached_to_a_pool_in_use_had_one_flusher() {
    let rig = rig_with(32 << 20, |options| options.background(true));
    let (pool, store) = (&rig.pool, gated());
    store.change(|state| state.syncs_let_go = u64::MAX);
    let volume = pool.attach(Backing::from_store(store.clone())).unwrap();
    pool.set_watermarks(0, 1000).unwrap();
    store.change(|state| (state.syncs_begun, state.syncs_let_go) = (0, 0));
    for block in 0..4 * ROUND_BLOCKS {
        rig::put(&volume, block, 1);
    }
    // As long as a sync is under way another round may be written.
    for number in 1.. {
        let goes_on = |state: &State| state.syncs_begun >= number || state.overlapping > 0;
        store.wait("a round is synced beside another one's writes", goes_on);
        std::thread::sleep(std::time::Duration::from_millis(20));
        if store.change(|state| {
            state.syncs_let_go = number;
            state.overlapping > 0
        }) {
            break;
        }
    }
    store.change(|state| state.syncs_let_go = u64::MAX);
}

#[test]
fn what_takes_blocks_away_waits_for_a_round_that_is_synced() {
    let (rig, store, volume) = with_dirty_rounds(1);
    let pool = &rig.pool;
    std::thread::scope(|scope| {
        let round = scope.spawn(|| pool.write_back_once().unwrap());
        store.wait("it is synced", |state| state.syncs_begun == 1);
        let forgotten = scope.spawn(|| volume.forget_blocks([0]).unwrap());
        // It has no way to say that it waits; a block that is being written back and goes is an assertion.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(volume.is_resident(0..1));
        store.change(|state| state.syncs_let_go = u64::MAX);
        assert_eq!(round.join().unwrap(), ROUND_BLOCKS as usize);
        forgotten.join().unwrap();
    });
    assert!(!volume.is_resident(0..1));
}
