//! A call that waits for room does not hold the lock of its volume.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::pool::SsdPool;
use super::volume::{Durable, SsdVolume};
use crate::backing::{Backing, FaultyStore, MemoryStore};
use crate::options::{Medium, PoolOptions, RuntimeOptions};

/// How long the tests look for a wait.
const DEADLINE: Duration = Duration::from_secs(5);

/// A pool whose ring one volume has filled, whose backing takes nothing, and another volume of odd size, of which nothing is
/// dirty. Its callers wait for a thread to make room, and there is none: so they wait until their deadline.
fn full(directory: &std::path::Path, odd: &Arc<MemoryStore>) -> Option<(SsdPool, SsdVolume)> {
    let runtime = RuntimeOptions::default().throttle_deadline(Duration::from_millis(300));
    let runtime = runtime.background(false);
    let options = PoolOptions::new(directory.join("pool"), 12 << 20).medium(Medium::Ssd);
    let pool = match SsdPool::create(&options.runtime(runtime)) {
        Ok(pool) => pool,
        Err(error) => {
            eprintln!("skipped gate_tests: {error}");
            return None;
        }
    };
    let failing = Arc::new(FaultyStore::new(Arc::new(MemoryStore::new(64 << 20))));
    failing.fail_writes(u64::MAX);
    let filling = pool.attach(Backing::from_store(failing), false).unwrap();
    let volume = pool
        .attach(Backing::from_store(odd.clone()), false)
        .unwrap();
    pool.shared().work.begin_thread();
    let block = [7; forebay_log::PAGE_BYTES];
    // A page may be left where a write needs two.
    let mut refused = 0;
    for number in 0.. {
        let mut transaction = forebay_log::Transaction::new();
        transaction.write(filling.number(), number, &block).unwrap();
        refused += u32::from(filling.commit(&transaction, Durable::AtOnce).is_err());
        if refused > 3 {
            break;
        }
    }
    Some((pool, volume))
}

/// Another thread gets the volume's lock while `call` waits for room. The call is made again where it found some.
fn assert_free_while_it_waits(call: impl Fn(&SsdPool, &SsdVolume, &MemoryStore) -> bool + Sync) {
    let directory = tempfile::tempdir().unwrap();
    let odd = Arc::new(MemoryStore::new(10_000));
    let Some((pool, volume)) = full(directory.path(), &odd) else {
        return;
    };
    let (deadline, is_seen) = (Instant::now() + DEADLINE, AtomicBool::new(false));
    let goes_on = || !is_seen.load(Ordering::Relaxed) && Instant::now() < deadline;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| while goes_on() && call(&pool, &volume, &odd) {});
        while goes_on() && !waiting.is_finished() {
            let is_free = volume.known().gate.try_write().is_ok();
            let waits = volume.shared().work.waiting_writers() > 0;
            is_seen.fetch_or(is_free && waits, Ordering::Relaxed);
        }
    });
    assert!(is_seen.into_inner());
}

#[test]
fn a_call_that_waits_for_room_to_let_go_of_blocks_does_not_hold_the_volume() {
    assert_free_while_it_waits(|_, volume, _| volume.forget_blocks([0]).is_ok());
}

#[test]
fn a_volume_that_waits_for_room_to_grow_is_in_use_meanwhile() {
    // Where it finds room it grows once more.
    assert_free_while_it_waits(|pool, volume, odd| {
        odd.resize(volume.size_bytes() + 10_000);
        pool.grow_volume(volume).is_ok()
    });
}
