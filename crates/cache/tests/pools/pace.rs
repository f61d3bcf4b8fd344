//! Writers that outrun the backing: slowed smoothly, never stuck, and not at all while there is room.
//!
//! The tests count. The campaign, which measures, is the same load for longer:
//! `FOREBAY_PACE_SECONDS=600 cargo test --release -p forebay --test pace -- --nocapture`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::rig::{BLOCK, Rig, bytes_of, faulty, get, put, rig_with, wait_until};
use forebay::{ErrorKind, Volume};

const BLOCKS: u64 = 100_000;
/// What the backing takes, in bytes a second.
const BACKING_RATE: u64 = 40 << 20;
/// Writes of each writer after the pool is as full as it gets.
const STEADY_WRITES: usize = 3000;

/// What a writer saw once the level was steady.
#[derive(Default)]
struct Load {
    latencies: Vec<Duration>,
    /// The highest dirty level of all.
    dirty_max: u64,
}

fn campaign() -> Option<Duration> {
    let seconds = std::env::var("FOREBAY_PACE_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("seconds")))
}

/// Writes blocks that are never the same twice in a lap, and notes how long each took.
fn outrun(rig: &Rig, volume: &Volume, thread: u64, threads: u64, warm_up: u64) -> Load {
    let mut load = Load::default();
    let started = Instant::now();
    for step in 0.. {
        let is_over = match campaign() {
            Some(duration) => started.elapsed() >= duration,
            None => load.latencies.len() >= STEADY_WRITES,
        };
        if is_over {
            break;
        }
        let block = (step * threads + thread) * 7919 % BLOCKS;
        let before = Instant::now();
        // Both ways in which a writer comes.
        if step % 2 == 0 {
            put(volume, block, step);
        } else {
            volume.write(block, &bytes_of(block, step)).expect("write");
        }
        if step >= warm_up {
            load.latencies.push(before.elapsed());
        }
        if step % 64 == 0 {
            load.dirty_max = load.dirty_max.max(rig.pool.stats().dirty_blocks);
        }
    }
    load
}

fn report(name: &str, latencies: &mut [Duration], rig: &Rig) {
    latencies.sort_unstable();
    let at = |per_mille: usize| latencies[(latencies.len() - 1) * per_mille / 1000];
    let totals = rig.pool.stats().totals;
    println!(
        "{name}: {} writes, p50 {:?}, p99.9 {:?} ({:.0} times p50), longest {:?}; paced {} times, \
         throttled {}",
        latencies.len(),
        at(500),
        at(999),
        at(999).as_secs_f64() / at(500).as_secs_f64(),
        latencies[latencies.len() - 1],
        totals.paced,
        totals.throttled,
    );
}

fn check_load(threads: u64) {
    let rig = rig_with(32 << 20, |options| options);
    let (_, store, backing) = faulty(BLOCKS as usize);
    let volume = rig.pool.attach(backing).unwrap();
    store.limit_write_rate(BACKING_RATE);
    let stats = rig.pool.stats();
    let high = stats.slots * u64::from(rig.pool.tuning().dirty_high_per_mille) / 1000;
    let warm_up = stats.slots * 2 / threads;
    let loads: Vec<Load> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..threads)
            .map(|thread| {
                let (rig, volume) = (&rig, &volume);
                scope.spawn(move || outrun(rig, volume, thread, threads, warm_up))
            })
            .collect();
        let joined = writers.into_iter().map(|writer| writer.join().unwrap());
        joined.collect()
    });
    let dirty_max = loads.iter().map(|load| load.dirty_max).max().unwrap();
    let mut latencies: Vec<Duration> = loads.into_iter().flat_map(|l| l.latencies).collect();
    report(&format!("{threads} writers"), &mut latencies, &rig);
    let stats = rig.pool.stats();
    println!(
        "dirty at most {dirty_max} of {} slots, high mark {high}",
        stats.slots
    );
    assert!(stats.totals.paced > 0, "{stats:?}");
    // A machine that keeps the flusher from running may let the level reach the end now and then.
    let writes = latencies.len() as u64;
    assert!(stats.totals.throttled * 100 <= writes, "{stats:?}");
    // The bound of the queue: the level does not run away beyond the high mark.
    assert!(dirty_max < stats.slots, "{dirty_max} of {}", stats.slots);
}

#[test]
fn a_writer_that_outruns_the_backing_never_meets_a_full_pool() {
    check_load(1);
}

#[test]
fn eight_writers_that_outrun_the_backing_share_its_pace() {
    check_load(8);
}

#[test]
fn below_the_low_mark_no_writer_waits_and_nothing_is_written_back() {
    let rig = rig_with(32 << 20, |options| options);
    let (_, store, backing) = faulty(BLOCKS as usize);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    store.limit_write_rate(1);
    let low = rig.pool.stats().slots * u64::from(rig.pool.tuning().dirty_low_per_mille) / 1000;
    for step in 0..3 {
        for block in 0..low {
            put(&volume, block, step);
        }
    }
    let totals = rig.pool.stats().totals;
    assert_eq!((totals.paced, totals.throttled), (0, 0));
    assert_eq!(backing.counters().blocks_written, 0);
    store.limit_write_rate(0);
}

#[test]
fn watermarks_can_be_moved_while_writers_wait() {
    let rig = rig_with(32 << 20, |options| options);
    let (memory, store, backing) = faulty(BLOCKS as usize);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    store.limit_write_rate(BACKING_RATE);
    let refused = rig.pool.set_watermarks(700, 600).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Options(_)), "{refused}");
    rig.pool.set_watermarks(10, 1001).unwrap_err();
    rig.pool.set_watermarks(0, 100).unwrap();
    let tuning = rig.pool.tuning();
    assert_eq!(
        (tuning.dirty_low_per_mille, tuning.dirty_high_per_mille),
        (0, 100)
    );
    let stop = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                put(&volume, written.load(Ordering::Relaxed) % BLOCKS, 1);
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until("the writer is slowed", || {
            rig.pool.stats().totals.paced > 20
        });
        rig.pool.set_watermarks(1000, 1000).unwrap();
        let paced = rig.pool.stats().totals.paced;
        let before = written.load(Ordering::Relaxed);
        wait_until("it runs on", || {
            written.load(Ordering::Relaxed) > before + 500
        });
        assert!(
            rig.pool.stats().totals.paced <= paced + 1,
            "only one delay was under way"
        );
        stop.store(true, Ordering::Relaxed);
    });
    rig.pool.set_watermarks(0, 100).unwrap();
    wait_until("everything is written back", || {
        rig.pool.stats().dirty_blocks == 0
    });
    let behind = memory.snapshot();
    let written = written.load(Ordering::Relaxed);
    for (block, found) in (0..written).zip(behind.chunks(BLOCK)) {
        assert!(found == bytes_of(block, 1), "block {block}");
    }
}

#[test]
fn the_flush_rate_limit_holds_and_can_be_lifted() {
    let rig = rig_with(32 << 20, |options| options.dirty_low_per_mille(0));
    let (_, _, backing) = faulty(BLOCKS as usize);
    // Four blocks a second: a step at a time, however many wait.
    rig.pool.set_flush_rate_limit(4 * BLOCK as u64);
    let volume = rig.pool.attach(backing.clone()).unwrap();
    let started = Instant::now();
    for block in 0..200 {
        put(&volume, block, 1);
    }
    wait_until("write-back begins", || {
        backing.counters().blocks_written > 0
    });
    let (written, took) = (backing.counters().blocks_written, started.elapsed());
    assert!(
        written as f64 <= 4.0 * took.as_secs_f64() + 1.0,
        "{written} in {took:?}"
    );
    assert_eq!(
        rig.pool.tuning().flush_rate_limit_bytes_per_s,
        4 * BLOCK as u64
    );
    rig.pool.set_flush_rate_limit(0);
    wait_until("everything is written back", || {
        rig.pool.stats().dirty_blocks == 0
    });
    for block in 0..200 {
        assert_eq!(get(&volume, block), bytes_of(block, 1));
    }
    assert!(rig.pool.tuning().write_back_bytes_per_s > 0);
}

#[test]
fn writers_that_wait_for_room_lift_the_flush_rate_limit() {
    let rig = rig_with(8 << 20, |options| options);
    let (_, _, backing) = faulty(BLOCKS as usize);
    // No writer is paced below 990 per mille; one block a second would never make room in time.
    rig.pool.set_watermarks(990, 1000).unwrap();
    rig.pool.set_flush_rate_limit(BLOCK as u64);
    let volume = rig.pool.attach(backing).unwrap();
    let blocks = rig.pool.stats().slots + 500;
    for block in 0..blocks {
        put(&volume, block, 1);
    }
    for block in 0..blocks {
        assert_eq!(get(&volume, block), bytes_of(block, 1));
    }
}
