//! Stores of two halves, of which one fails.

use std::io;
use std::time::Instant;

use super::*;
use crate::background::stages::TICK;
use crate::backing::{BackingCounters, BackingIdentity, BackingStore, WriteRun};
use crate::{FaultyStore, MemoryStore, Pool, PoolOptions, Region, Volume};

const BLOCK: usize = 128;
/// Blocks of each half of the store.
const HALF: u64 = 10_000;
const HALF_BYTES: u64 = HALF * BLOCK as u64;

/// Two stores, one behind the other.
struct Halves([FaultyStore; 2]);

impl Halves {
    fn new() -> Halves {
        let half = || FaultyStore::new(Arc::new(MemoryStore::new(HALF_BYTES)));
        Halves([half(), half()])
    }

    fn half(&self, offset: u64) -> (&FaultyStore, u64) {
        let half = &self.0[(offset / HALF_BYTES) as usize];
        (half, offset % HALF_BYTES)
    }
}

impl BackingStore for Halves {
    fn size_bytes(&self) -> u64 {
        2 * HALF_BYTES
    }
    fn identity(&self) -> BackingIdentity {
        BackingIdentity {
            size_bytes: self.size_bytes(),
            ..self.0[0].identity()
        }
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (half, offset) = self.half(offset);
        half.read_at(offset, out)
    }
    fn write_runs(&self, runs: &[WriteRun<'_>]) -> Vec<io::Result<()>> {
        let write = |run: &WriteRun<'_>| {
            let (half, offset) = self.half(run.offset);
            let bytes = run.bytes;
            assert!(
                offset + bytes.len() as u64 <= HALF_BYTES,
                "a run of one domain"
            );
            half.write_runs(&[WriteRun { offset, bytes }]).remove(0)
        };
        runs.iter().map(write).collect()
    }
    fn zero_range(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let (half, offset) = self.half(offset);
        half.zero_range(offset, len_bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.sync_domains().into_values().next().map_or(Ok(()), Err)
    }
    fn domain_at(&self, offset: u64) -> FaultDomain {
        FaultDomain(offset / HALF_BYTES)
    }
    fn sync_domains(&self) -> FailedDomains {
        let halves = (0..).map(FaultDomain).zip(&self.0);
        let failed = halves.filter_map(|(domain, half)| Some((domain, half.sync().err()?)));
        failed.collect()
    }
    fn domain_name(&self, domain: FaultDomain) -> Option<String> {
        Some(format!("half {}", domain.0))
    }
    fn counters(&self) -> BackingCounters {
        BackingCounters::default()
    }
    fn transport(&self) -> String {
        "halves".into()
    }
}

fn rig(background: bool) -> (Pool, Volume, Arc<Halves>) {
    let mut options = PoolOptions::default();
    options.format.block_bytes = BLOCK as u32;
    options.format.unit_bytes = 256;
    options.format.volumes = 2;
    options.runtime.background = background;
    let pool = Pool::create_on(vec![Region::shadow(1 << 20)], &options).expect("create");
    let halves = Arc::new(Halves::new());
    let backing = Backing::from_store(halves.clone());
    let volume = pool.attach(backing).expect("attach");
    (pool, volume, halves)
}

fn put(volume: &Volume, block: u64, fill: u8) {
    volume.write(block, &[fill; BLOCK]).expect("write");
}

fn behind(halves: &Halves, block: u64) -> u8 {
    let mut out = [0; BLOCK];
    halves
        .read_at(block * BLOCK as u64, &mut out)
        .expect("read");
    out[7]
}

#[test]
fn a_part_that_fails_keeps_its_own_blocks_and_no_others() {
    for is_sync in [false, true] {
        let (pool, volume, halves) = rig(false);
        // Neighbours across the border, too.
        let blocks = HALF - 20..HALF + 30;
        for block in blocks.clone() {
            put(&volume, block, 5);
        }
        match is_sync {
            true => halves.0[0].fail_syncs(u64::MAX),
            false => halves.0[0].fail_writes(u64::MAX),
        }
        for round in 1..4 {
            pool.write_back_once().expect_err("the first half fails");
            let stats = pool.stats();
            assert_eq!(stats.dirty_blocks, 20, "round {round}");
            assert_eq!(stats.totals.write_backs, 30);
            assert_eq!(stats.totals.write_back_errors, round);
        }
        let error = pool.stats().volumes[0]
            .last_error
            .clone()
            .expect("in trouble");
        assert!(error.starts_with("half 0: "), "{error}");
        volume.flush().expect_err("the first half fails");
        volume
            .flush_blocks(HALF..HALF + 30)
            .expect("the other one is well");
        assert_eq!(pool.reclaim_once(1000).expect("reclaim"), 30);
        assert!(blocks.clone().all(|block| {
            let mut out = [0; BLOCK];
            volume.read(block, &mut out).expect("read");
            out == [5; BLOCK]
        }));
        halves.0[0].fail_syncs(0);
        halves.0[0].fail_writes(0);
        pool.write_back_once().expect("all is well");
        let stats = pool.stats();
        assert_eq!((stats.dirty_blocks, stats.degraded_volumes), (0, 0));
        assert!(blocks.clone().all(|block| behind(&halves, block) == 5));
    }
}

#[test]
fn a_pool_fills_with_what_cannot_go_and_the_rest_passes_through() {
    let (pool, volume, halves) = rig(true);
    let slots = pool.stats().slots;
    let stuck = slots * 3 / 4;
    halves.0[0].fail_writes(u64::MAX);
    for block in 0..stuck {
        put(&volume, block, 1);
    }
    // Many times the room that is left, in time.
    for lap in 0..8 {
        for block in HALF..HALF + slots / 2 {
            put(&volume, block, lap);
        }
    }
    volume
        .flush_blocks(HALF..2 * HALF)
        .expect("the second half is well");
    assert_eq!(pool.stats().dirty_blocks, stuck);
    assert!((HALF..HALF + slots / 2).all(|block| behind(&halves, block) == 7));
    halves.0[0].fail_writes(0);
    // The longest pause, and some.
    let deadline = Instant::now() + Duration::from_secs(60);
    while pool.stats().degraded_volumes > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    volume.flush().expect("all is well");
    assert_eq!(pool.stats().dirty_blocks, 0);
    assert!((0..stuck).all(|block| behind(&halves, block) == 1));
}

#[test]
fn a_second_flusher_looked_each_millisecond_where_the_rate_is_limited() {
    let (pool, volume, halves) = rig(false);
    let in_memory = volume.memory().expect("in memory");
    let pipeline = &in_memory.pipeline;
    halves.0[0].fail_writes(u64::MAX);
    put(&volume, 1, 5);
    pipeline.begin_background();
    pool.set_flush_rate_limit(1 << 20);
    pool.write_back_once().expect_err("the first half fails");
    while pipeline.next_retry() != Some(Duration::ZERO) {
        std::thread::yield_now();
    }
    // It is due, and the first flusher's to ask.
    let errors = || pool.stats().totals.write_back_errors;
    for _ in 0..10 {
        assert_eq!(pipeline.flush_beside_stage(), TICK);
    }
    assert_eq!(errors(), 1);
    pool.set_flush_rate_limit(0);
    pipeline.flush_beside_stage();
    assert_eq!(errors(), 2);
}
