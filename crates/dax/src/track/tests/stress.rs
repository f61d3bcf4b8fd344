//! Many threads store at random while a pass takes, copies and looks again: no store is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{ALL, AtEnd, Mapped, for_each_tracker, peek, take};
use crate::track::Tracker;

const PAGES: u64 = 96;
const THREADS: usize = 4;
const STORES: u64 = 8_000;
/// A thread stores no more than this for each pass that has begun and two more, and a pass begins when half of what the ones before
/// allow is stored, so that the two run side by side on any machine.
const STORES_A_PASS: u64 = 100;

/// What each thread has stored to each page for certain, or what a copy of the page has of it.
type Words = Vec<[u64; THREADS]>;

/// What the threads have stored and finished; a value rises with each store of its thread.
struct Finished(Vec<[AtomicU64; THREADS]>);

impl Finished {
    fn read(&self) -> Words {
        let read = |page: &[AtomicU64; THREADS]| {
            std::array::from_fn(|thread| page[thread].load(Ordering::Acquire))
        };
        self.0.iter().map(read).collect()
    }
}

fn writer(
    mapped: &Mapped,
    finished: &Finished,
    thread: usize,
    (passes, progress): (&AtomicU64, &AtomicU64),
) {
    let mut random = fastrand::Rng::with_seed(thread as u64);
    for value in 1..=STORES {
        while value / STORES_A_PASS > passes.load(Ordering::Relaxed) + 2 {
            std::thread::yield_now();
        }
        // Half of the stores go to few pages: pages that never rest, and such as rest for long.
        let page = match random.bool() {
            true => random.u64(0..4),
            false => random.u64(0..PAGES),
        };
        mapped.word(page, thread).store(value, Ordering::Relaxed);
        finished.0[page as usize][thread].store(value, Ordering::Release);
        progress.store(value, Ordering::Relaxed);
    }
}

fn copy_page(mapped: &Mapped, page: u64) -> [u64; THREADS] {
    std::array::from_fn(|thread| mapped.word(page, thread).load(Ordering::Relaxed))
}

/// One pass, with the oracle's checks; how many pages it found, and how many of them were written again.
fn pass(
    mapped: &Mapped,
    tracker: &dyn Tracker,
    finished: &Finished,
    copies: &mut Words,
) -> (u64, u64) {
    let before = finished.read();
    let taken: Vec<u64> = take(tracker, 0..PAGES).into_iter().flatten().collect();
    // On a machine with one core to spare the writers would come between passes only.
    std::thread::yield_now();
    for &page in &taken {
        copies[page as usize] = copy_page(mapped, page);
    }
    for (page, copy) in copies.iter().enumerate() {
        for (thread, value) in copy.iter().enumerate() {
            let stored = before[page][thread];
            assert!(
                *value >= stored,
                "page {page}: thread {thread} had stored {stored} before the take, and the copy has {value}"
            );
        }
    }
    std::thread::yield_now();
    let before = finished.read();
    let again: Vec<u64> = peek(tracker, 0..PAGES).into_iter().flatten().collect();
    for page in (0..PAGES).filter(|page| !again.contains(page)) {
        let page = page as usize;
        let is_whole = (0..THREADS).all(|thread| copies[page][thread] >= before[page][thread]);
        assert!(
            is_whole,
            "page {page} was stored to after its copy, and is not seen again"
        );
    }
    let torn = taken.iter().filter(|page| again.contains(page)).count();
    (taken.len() as u64, torn as u64)
}

#[test]
fn no_store_is_lost_to_a_pass() {
    for_each_tracker(&ALL, PAGES, |mapped, tracker| {
        let word = || std::array::from_fn(|_| AtomicU64::new(0));
        let finished = Finished((0..PAGES).map(|_| word()).collect());
        let is_over = AtomicBool::new(false);
        let mut copies: Words = vec![[0; THREADS]; PAGES as usize];
        let passes = AtomicU64::new(0);
        let progress: [AtomicU64; THREADS] = Default::default();
        let (mut found, mut torn) = (0, 0);
        std::thread::scope(|scope| {
            let (finished, passes, progress) = (&finished, &passes, &progress);
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        writer(mapped, finished, thread, (passes, &progress[thread]))
                    })
                })
                .collect();
            let is_over = &is_over;
            // Writers of a test that fails need not wait for its passes.
            let _end = AtEnd(|| passes.store(STORES, Ordering::Relaxed));
            scope.spawn(move || {
                writers
                    .into_iter()
                    .for_each(|writer| writer.join().unwrap());
                is_over.store(true, Ordering::Release);
            });
            while !is_over.load(Ordering::Acquire) {
                let begun = passes.load(Ordering::Relaxed);
                let half = STORES
                    .min(begun * STORES_A_PASS)
                    .saturating_sub(STORES_A_PASS / 2);
                let is_behind = |stored: &AtomicU64| stored.load(Ordering::Relaxed) < half;
                if progress.iter().any(is_behind) {
                    std::thread::yield_now();
                    continue;
                }
                passes.store(begun + 1, Ordering::Relaxed);
                let (taken, again) = pass(mapped, tracker, finished, &mut copies);
                found += taken;
                torn += again;
            }
        });
        pass(mapped, tracker, &finished, &mut copies);
        assert_eq!(
            copies,
            finished.read(),
            "the last take has every last store"
        );
        assert_eq!(take(tracker, 0..PAGES), []);
        assert!(found > 0 && torn > 0, "passes and stores ran side by side");
        println!(
            "{}: {found} pages taken, {torn} of them stored to meanwhile",
            tracker.kind()
        );
    });
}
