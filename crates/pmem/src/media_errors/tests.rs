//! What another thread sees between the steps of the handler, and how pages are named.

use super::*;
use crate::{Region, RegionOptions};
use std::fs::File;

/// The thread whose faults stop at each step, its steps, and those that the test has looked at.
static STOPPED_THREAD: AtomicUsize = AtomicUsize::new(0);
static STEPS: AtomicUsize = AtomicUsize::new(0);
static LOOKED: AtomicUsize = AtomicUsize::new(0);

fn this_thread() -> usize {
    // SAFETY: no more than this thread's number.
    unsafe { libc::pthread_self() as usize }
}

/// Called by the handler between its steps: nothing but atomics.
pub(super) fn pause() {
    if STOPPED_THREAD.load(Ordering::Acquire) != this_thread() {
        return;
    }
    let step = STEPS.fetch_add(1, Ordering::AcqRel) + 1;
    while LOOKED.load(Ordering::Acquire) < step {
        std::hint::spin_loop();
    }
}

const PAGE: u64 = PAGE_BYTES as u64;

/// A page that was never touched, and that is gone.
fn region_without_its_last_page(directory: &tempfile::TempDir) -> Region {
    let path = directory.path().join("region");
    let options = RegionOptions {
        huge_pages: false,
        ..RegionOptions::default()
    };
    let region = Region::create(&path, 2 * PAGE, &options).unwrap();
    region.store(0, &[0xAB; 2 * PAGE_BYTES]);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(PAGE).unwrap();
    region
}

/// A thread that reads zeroes where the page was asks next, and must hear that they are none.
#[test]
fn a_lost_page_is_told_of_before_anybody_can_read_its_zeroes() {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let region = region_without_its_last_page(&directory);
    std::thread::scope(|scope| {
        let region = &region;
        let reader = scope.spawn(move || {
            STOPPED_THREAD.store(this_thread(), Ordering::Release);
            let word = region.load_u64(PAGE);
            STOPPED_THREAD.store(0, Ordering::Release);
            word
        });
        let mut looked = 0;
        let mut was_told = Vec::new();
        while !reader.is_finished() || looked < STEPS.load(Ordering::Acquire) {
            if looked == STEPS.load(Ordering::Acquire) {
                std::thread::yield_now();
                continue;
            }
            // Where the page is not replaced yet, this is a fault of this thread's own.
            let word = region.load_u64(PAGE);
            was_told.push(word != 0 || region.has_media_error(PAGE, 8));
            looked += 1;
            LOOKED.store(looked, Ordering::Release);
        }
        assert_eq!(reader.join().unwrap(), 0);
        assert!(was_told.len() >= 2, "{was_told:?}");
        assert!(was_told.iter().all(|told| *told), "{was_told:?}");
    });
}

#[test]
fn threads_that_meet_one_lost_page_do_not_use_up_the_names_of_others() {
    let errors = MediaErrors::new();
    for _ in 0..=PAGES_MAX {
        errors.record(5 * PAGE, &pause);
    }
    assert_eq!(errors.pages(), [5 * PAGE]);
    assert!(errors.overlap(5 * PAGE, 1));
    assert!(!errors.overlap(6 * PAGE, 1), "one page is lost, not all");
}

#[test]
fn pages_that_threads_lose_at_once_are_all_named() {
    let errors = MediaErrors::new();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let errors = &errors;
            scope.spawn(move || {
                for page in (0..PAGES_MAX as u64).map(|page| (page + first * 16) % 64) {
                    errors.record(page * PAGE, &pause);
                    assert!(!errors.is_empty() && errors.overlap(page * PAGE, 1));
                }
            });
        }
    });
    assert_eq!(errors.pages().len(), PAGES_MAX);
    assert!(!errors.overlap(PAGES_MAX as u64 * PAGE, 1), "all are named");
    errors.record(PAGES_MAX as u64 * PAGE, &pause);
    assert!(errors.overlap(1000 * PAGE, 1), "one has no name");
}
