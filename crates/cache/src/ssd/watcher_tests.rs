//! A watcher of a flush may use the volume, whatever other threads do with it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::pool::SsdPool;
use super::volume::SsdVolume;
use crate::backing::{Backing, MemoryStore};
use crate::options::{Medium, PoolOptions, RuntimeOptions};

const BLOCK: usize = forebay_log::PAGE_BYTES;
/// More than the pool has pages, so that its writer waits for room.
const LAP_BLOCKS: u64 = 4000;
const AT_ONCE: usize = 16;
/// After so long a test counts as hung.
const PATIENCE: Duration = Duration::from_secs(120);

struct Rig {
    pool: SsdPool,
    store: Arc<MemoryStore>,
    volume: SsdVolume,
    _directory: tempfile::TempDir,
}

/// A volume of odd size, with dirty blocks.
fn rig(test: &str, has_thread: bool) -> Option<Rig> {
    let directory = tempfile::tempdir().unwrap();
    let runtime = RuntimeOptions::default().background(has_thread);
    let options = PoolOptions::new(directory.path().join("pool"), 12 << 20).medium(Medium::Ssd);
    let pool = match SsdPool::create(&options.runtime(runtime)) {
        Ok(pool) => pool,
        Err(error) => {
            eprintln!("skipped {test}: {error}");
            return None;
        }
    };
    let store = Arc::new(MemoryStore::new(64 << 20 | 100));
    let volume = pool.attach(Backing::from_store(store.clone()), false);
    let volume = volume.unwrap();
    for block in 0..300 {
        volume.write(block, &[1; BLOCK]).unwrap();
    }
    Some(Rig {
        pool,
        store,
        volume,
        _directory: directory,
    })
}

/// Runs it, and fails where it hangs.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (ended, ends) = mpsc::channel();
    let working = std::thread::spawn(move || {
        work();
        ended.send(()).unwrap();
    });
    match ends.recv_timeout(PATIENCE) {
        Ok(()) => working.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("it failed"),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
    }
}

/// A flush whose watcher reads, writes and waits for room; `other` begins when the watcher is first called, which goes on when `other`
/// has the volume for itself, or has ended.
fn flush_beside(rig: &Rig, other: impl FnOnce() + Send) {
    let Rig { volume, pool, .. } = rig;
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut other = Some(|| {
            other();
            has_ended.store(true, Ordering::Relaxed);
        });
        let mut calls = 0;
        let flushed = volume.flush_watched(&mut |_| {
            calls += 1;
            let Some(other) = other.take() else {
                return ControlFlow::Continue(());
            };
            scope.spawn(other);
            while !has_ended.load(Ordering::Relaxed) && volume.known().gate.try_read().is_ok() {
                std::thread::yield_now();
            }
            let is_here = || pool.check_known(volume).is_ok();
            let read = volume.read(7, &mut [0; BLOCK]);
            assert!(read.is_ok() || !is_here(), "{read:?}");
            for first in (0..LAP_BLOCKS).step_by(AT_ONCE) {
                let written = volume.write(first, &[2; AT_ONCE * BLOCK]);
                assert!(written.is_ok() || !is_here(), "{written:?}");
            }
            ControlFlow::Continue(())
        });
        assert!(flushed.is_ok() || pool.check_known(volume).is_err());
        assert!(calls > 1, "{calls} calls");
    });
}

#[test]
fn a_volume_grows_while_the_watcher_of_its_flush_uses_it() {
    for has_thread in [true, false] {
        let Some(rig) = rig("a_volume_grows_while_the_watcher", has_thread) else {
            return;
        };
        in_time(move || {
            let size_bytes = rig.volume.size_bytes() + 10_000;
            rig.store.resize(size_bytes);
            flush_beside(&rig, || {
                assert_eq!(rig.pool.grow_volume(&rig.volume).unwrap(), size_bytes);
            });
            rig.volume.flush().unwrap();
            let backing = rig.store.snapshot();
            let written = &backing[..LAP_BLOCKS as usize * BLOCK];
            assert!(written.iter().all(|byte| *byte == 2));
        });
    }
}

#[test]
fn a_volume_goes_while_the_watcher_of_its_flush_uses_it() {
    for has_thread in [true, false] {
        let Some(rig) = rig("a_volume_goes_while_the_watcher", has_thread) else {
            return;
        };
        in_time(move || {
            flush_beside(&rig, || {
                let go_on = &mut |_: &_| ControlFlow::Continue(());
                rig.pool.detach_watched(&rig.volume, go_on).unwrap();
            });
            assert!(rig.pool.check_known(&rig.volume).is_err());
            let backing = rig.store.snapshot();
            let flushed = &backing[..300 * BLOCK];
            assert!(flushed.iter().all(|byte| [1, 2].contains(byte)));
        });
    }
}

#[test]
fn what_is_written_into_a_range_that_a_flush_zeroes_counts_when_it_is_known() {
    const WRITTEN: usize = 1600;
    let Some(rig) = rig("what_is_written_into_a_range", true) else {
        return;
    };
    rig.volume.flush().unwrap();
    rig.volume.discard(0..10_000).unwrap();
    let mut told = Vec::new();
    let flushed = rig.volume.flush_watched(&mut |progress| {
        if told.is_empty() {
            for first in (0..WRITTEN as u64).step_by(AT_ONCE) {
                rig.volume.write(first, &[3; AT_ONCE * BLOCK]).unwrap();
            }
        }
        told.push((progress.dirty_blocks, progress.written_blocks));
        ControlFlow::Continue(())
    });
    flushed.unwrap();
    assert_eq!(told[0], (0, 0));
    let last = told.len() - 1;
    assert_eq!(told[last].0, 0);
    let known = |(dirty, written): &(u64, u64)| dirty + written <= WRITTEN as u64;
    assert!(told.iter().all(known), "{told:?}");
    let backing = rig.store.snapshot();
    assert!(backing[..WRITTEN * BLOCK].iter().all(|byte| *byte == 3));
    assert!(
        backing[WRITTEN * BLOCK..10_000 * BLOCK]
            .iter()
            .all(|byte| *byte == 0)
    );
}
