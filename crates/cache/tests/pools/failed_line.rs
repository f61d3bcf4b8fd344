//! A description of a volume whose fence fails: what it was to replace may be all that is durable, and is not written over.

use std::ops::ControlFlow::Continue;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::fixtures::{BLOCK, Rig, block, get, put, quiet, tiny};
use forebay::{Backing, ErrorKind, Pool, PoolOptions, Redundancy, Region, ScrubOptions, Volume};
use forebay_pmem::shadow::{Distribution, FenceFailure, ShadowEventKind};

const BLOCKS: u64 = 10;
/// Images of each kind that are drawn of a crash.
const IMAGES: usize = 30;

/// Pools of one copy, and how many fences a description has in them.
fn pools() -> [(PoolOptions, u32); 2] {
    let sealed = tiny().redundancy(Redundancy::Checksum);
    [(tiny(), 1), (sealed, 2)]
}

/// A pool without a volume, over a backing of `BLOCKS` blocks.
fn rig(options: &PoolOptions) -> Rig {
    Rig::with_backing(options, 1, BLOCKS * BLOCK as u64)
}

fn store_of(rig: &Rig) -> Backing {
    Backing::from_store(rig.store.clone())
}

/// The next fence but so many fails.
fn fail_fence(rig: &Rig, after: u32) {
    rig.shadows[0].set_fence_failure(FenceFailure::After(after));
}

fn is_poisoned<T>(result: forebay::Result<T>) -> bool {
    result.is_err_and(|error| matches!(error.kind(), ErrorKind::Poisoned { .. }))
}

/// Cuts the power in every way, many times each, and looks at what is left of the volume.
fn cut_power(rig: &Rig, look: &dyn Fn(&Volume)) {
    let mut rng = fastrand::Rng::with_seed(181);
    let state = rig.shadows[0].crash_state();
    let mut image = Vec::new();
    for distribution in Distribution::ALL {
        for _ in 0..IMAGES {
            state.sample_from(distribution, &mut rng, &mut image);
            let regions = vec![Region::shadow_from(&image)];
            let pool = Pool::open_on(regions, quiet()).expect("open after the cut");
            look(&pool.attach(store_of(rig)).expect("attach after the cut"));
        }
    }
}

/// Both lines of the volume were stored and neither was durable: torn, both of them, the volume was forgotten, and what was
/// acknowledged with it.
#[test]
fn a_volume_that_was_grown_again_after_a_failed_fence_is_still_there_after_a_crash() {
    for (options, fences) in pools() {
        for after in 0..fences {
            let rig = rig(&options);
            let volume = rig.attach();
            put(&volume, 3, &block(3, 1));
            rig.store.resize(2 * BLOCKS * BLOCK as u64);
            fail_fence(&rig, after);
            let error = rig.pool.grow_volume(&volume).expect_err("a fence failed");
            assert!(matches!(error.kind(), ErrorKind::Media(_)), "{error}");
            // The table seems to have this size already, and it need not be durable.
            assert!(is_poisoned(rig.pool.grow_volume(&volume)));
            rig.store.resize(3 * BLOCKS * BLOCK as u64);
            assert!(is_poisoned(rig.pool.grow_volume(&volume)));
            assert_eq!(volume.blocks(), BLOCKS, "as before");
            cut_power(&rig, &|volume| {
                assert!([BLOCKS, 2 * BLOCKS].contains(&volume.blocks()));
                assert!(get(volume, 3).expect("read") == block(3, 1));
            });
        }
    }
}

#[test]
fn a_volume_whose_lines_fence_fails_as_it_comes_is_free_or_there_after_a_crash() {
    for (options, fences) in pools() {
        for after in 0..fences {
            let rig = rig(&options);
            fail_fence(&rig, after);
            let error = rig.pool.attach(store_of(&rig)).expect_err("a fence failed");
            assert!(matches!(error.kind(), ErrorKind::Media(_)), "{error}");
            assert!(is_poisoned(rig.pool.attach(store_of(&rig))), "and said so");
            cut_power(&rig, &|volume| {
                put(volume, 1, &block(1, 1));
                assert!(get(volume, 1).expect("read") == block(1, 1));
            });
        }
    }
}

/// A scrub that begins while a description's first line is not fenced yet, and of which the rest may come later.
#[test]
fn a_scrub_does_not_write_over_the_line_that_is_all_that_is_durable() {
    let options = tiny().redundancy(Redundancy::Checksum);
    let rig = rig(&options);
    let volume = rig.attach();
    rig.store.resize(2 * BLOCKS * BLOCK as u64);
    let (begin, begins) = channel();
    let (done, is_done) = channel::<()>();
    let hooks = Mutex::new(Some((begin, is_done)));
    rig.shadows[0].set_hook(Some(Arc::new(move |event| {
        if event.kind == ShadowEventKind::Fence {
            let first = hooks.lock().expect("no test thread panicked").take();
            first.into_iter().for_each(|(begin, is_done)| {
                begin.send(()).expect("a scrub waits");
                give_time(&is_done);
            });
        }
    })));
    let pool = &rig.pool;
    let report = std::thread::scope(|scope| {
        let scrub = scope.spawn(move || {
            begins.recv().expect("a fence");
            let scrubbed = pool.scrub(&ScrubOptions::default(), &mut |_| Continue(()));
            // Nobody hears it where the scrub had to wait, as it should.
            let _ = done.send(());
            scrubbed
        });
        pool.grow_volume(&volume).expect("grow");
        scrub.join().expect("a scrub").expect("scrub")
    });
    rig.shadows[0].set_hook(None);
    assert_eq!(
        (report.found, report.repaired, report.is_whole),
        (0, 0, true)
    );
    assert_eq!(volume.blocks(), 2 * BLOCKS);
}

/// Until a scrub has ended, which one that waits for the lines does not: that long it could have gone wrong.
fn give_time(is_done: &Receiver<()>) {
    let _ = is_done.recv_timeout(Duration::from_millis(500));
}
