//! Writers that are held: none of their stores lands meanwhile, and all land after.

use std::io::Read;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    ALL, AtEnd, Mapped, Memory, alone, async_tracker, for_each_tracker, peek, take, until,
};
use crate::track::async_wp::AsyncTracker;
use crate::track::fault::FaultTracker;
use crate::track::guard::Counts;
use crate::track::maps::{FileId, Maps};
use crate::track::{Hold, Tracker};

/// Stores to its word of the page without end, until told.
fn store_all_the_time(mapped: &Mapped, page: u64, word: usize, is_over: &AtomicBool) {
    let mut value = 0;
    while !is_over.load(Ordering::Relaxed) {
        value += 1;
        mapped.word(page, word).store(value, Ordering::Relaxed);
        if value % 64 == 0 {
            std::thread::yield_now();
        }
    }
}

/// How writers are held.
#[derive(Clone, Copy, Debug)]
enum How {
    Exactly,
    Hot,
}

fn held<'t>(tracker: &'t dyn Tracker, how: How, pages: Range<u64>) -> Hold<'t> {
    let hold = match how {
        How::Exactly => tracker.hold(pages),
        How::Hot => tracker.hold_hot(pages),
    };
    hold.unwrap().expect("it can hold")
}

fn hold_while_threads_store(
    mapped: &Mapped,
    tracker: &dyn Tracker,
    how: How,
    counts: impl Fn() -> Counts,
) {
    const THREADS: usize = 3;
    let is_over = AtomicBool::new(false);
    // What is held hot cannot even be read where it was.
    let alias = mapped.alias();
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let _end = AtEnd(|| is_over.store(true, Ordering::Relaxed));
        for word in 0..THREADS {
            // Two pages, one of which has one writer.
            let page = 8 + (word as u64) % 2;
            scope.spawn(move || store_all_the_time(mapped, page, word, is_over));
        }
        let values = || -> [u64; THREADS] {
            std::array::from_fn(|word| {
                let page = 8 + (word as u64) % 2;
                alias.word(page, word).load(Ordering::Relaxed)
            })
        };
        for _ in 0..20 {
            let waited = counts().waited;
            let hold = held(tracker, how, 8..10);
            let before = values();
            // Each thread has met the held page.
            until("each writer waits", || {
                counts().waited >= waited + THREADS as u64
            });
            take(tracker, 8..10);
            assert_eq!(peek(tracker, 0..64), [], "nothing is stored while held");
            assert_eq!(values(), before);
            drop(hold);
            until("each writer went on", || {
                values().iter().zip(&before).all(|(now, then)| now != then)
            });
            assert_eq!(peek(tracker, 0..64), [8..10], "what came after is seen");
        }
    });
}

#[test]
fn no_store_lands_while_held_and_all_land_after() {
    let _alone = alone();
    for memory in ALL {
        let mapped = Mapped::new(memory, 64);
        if let Some(tracker) = async_tracker(mapped.span()) {
            let counts = || AsyncTracker::counts(&tracker);
            hold_while_threads_store(&mapped, &tracker, How::Exactly, counts);
            hold_while_threads_store(&mapped, &tracker, How::Hot, counts);
        }
        if let Ok(tracker) = AsyncTracker::without_privilege(mapped.span()) {
            assert!(!tracker.holds_system_calls());
            let counts = || AsyncTracker::counts(&tracker);
            hold_while_threads_store(&mapped, &tracker, How::Hot, counts);
        }
        let tracker = FaultTracker::new(mapped.span()).unwrap();
        let counts = || FaultTracker::counts(&tracker);
        hold_while_threads_store(&mapped, &tracker, How::Exactly, counts);
    }
}

#[test]
fn hot_pages_count_as_written_until_they_are_taken() {
    let _alone = alone();
    for memory in ALL {
        let mapped = Mapped::new(memory, 64);
        let Some(tracker) = async_tracker(mapped.span()) else {
            return;
        };
        if !tracker.holds_system_calls() {
            eprintln!("skipped hot_pages_count_as_written_until_they_are_taken: no privilege");
            return;
        }
        mapped.store(5, 1);
        mapped.store(40, 1);
        let hold = held(&tracker, How::Hot, 4..7);
        assert_eq!(peek(&tracker, 0..64), [4..7, 40..41]);
        assert_eq!(take(&tracker, 0..6), [4..6]);
        assert!(tracker.hold(6..9).is_err(), "held already");
        assert!(tracker.hold_hot(3..5).is_err(), "held already");
        assert!(tracker.hold_hot(10..24).is_err(), "no more than sixteen");
        let exact = held(&tracker, How::Exactly, 10..12);
        assert!(tracker.hold_hot(11..12).is_err(), "held already");
        drop(hold);
        drop(exact);
        assert_eq!(
            peek(&tracker, 0..64),
            [6..7, 40..41],
            "not taken while held"
        );
        mapped.store(4, 2);
        assert_eq!(take(&tracker, 0..64), [4..5, 6..7, 40..41]);
        for page in 4..7 {
            mapped.store(page, 3);
        }
        assert_eq!(take(&tracker, 0..64), [4..7]);
        assert_eq!(mapped.alias().word(5, 0).load(Ordering::Relaxed), 3);
    }
}

/// Mappings that the memory consists of, and others of its files.
fn mappings(mapped: &Mapped) -> usize {
    let files: Vec<FileId> = mapped
        .files
        .iter()
        .map(|file| FileId::of(file).unwrap())
        .collect();
    let place = mapped.span().addresses();
    let mut maps = Maps::of_process(std::process::id()).unwrap();
    let is_ours = |other: &crate::track::maps::Mapped| {
        place.contains(&other.start) || files.contains(&other.file)
    };
    maps.read()
        .unwrap()
        .iter()
        .filter(|other| is_ours(other))
        .count()
}

#[test]
fn system_calls_wait_for_hot_pages_and_mappings_stay_few() {
    let _alone = alone();
    for memory in ALL {
        let mapped = Mapped::new(memory, 64);
        let Some(tracker) = async_tracker(mapped.span()) else {
            return;
        };
        if !tracker.holds_system_calls() {
            eprintln!(
                "skipped system_calls_wait_for_hot_pages_and_mappings_stay_few: no privilege"
            );
            return;
        }
        let before = mappings(&mapped);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (mapped, is_over) = (&mapped, &is_over);
            let _end = AtEnd(|| is_over.store(true, Ordering::Relaxed));
            scope.spawn(move || {
                let zeroes = std::fs::File::open("/dev/zero").unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    let into = mapped.start().wrapping_add(8 * 4096);
                    // SAFETY: within the mapping, which nobody else accesses.
                    let len = unsafe { libc::read(zeroes.as_raw_fd(), into.cast(), 4096) };
                    assert_eq!(len, 4096, "{}", std::io::Error::last_os_error());
                }
            });
            for at in 0..160 {
                let waited = AsyncTracker::counts(&tracker).waited;
                let hold = held(&tracker, How::Hot, 8..9);
                until("the system call waits", || {
                    at % 8 != 0 || AsyncTracker::counts(&tracker).waited > waited
                });
                take(&tracker, 8..9);
                drop(hold);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(
            mappings(&mapped),
            before,
            "what came back is one with its neighbours"
        );
    }
}

#[test]
fn holding_forgets_no_store_and_invents_none() {
    for_each_tracker(&ALL, 64, |mapped, tracker| {
        mapped.store(5, 1);
        let hold = tracker.hold(4..7).unwrap().unwrap();
        assert_eq!(peek(tracker, 0..64), [5..6], "stored before it was held");
        drop(hold);
        assert_eq!(peek(tracker, 0..64), [5..6]);
        let hold = tracker.hold(4..7).unwrap().unwrap();
        assert_eq!(take(tracker, 0..64), [5..6]);
        drop(hold);
        assert_eq!(take(tracker, 0..64), [], "holding alone is no store");
        mapped.store(6, 1);
        mapped.store(5, 2);
        assert_eq!(take(tracker, 0..64), [5..7]);
    });
}

#[test]
fn several_ranges_are_held_at_once() {
    for_each_tracker(&[Memory::Tmpfs], 64, |mapped, tracker| {
        let holds: Vec<_> = (0..16)
            .map(|at| tracker.hold(at * 2..at * 2 + 1).unwrap().unwrap())
            .collect();
        assert!(tracker.hold(0..1).is_err(), "held already");
        assert!(tracker.hold(60..61).is_err(), "no more than sixteen");
        mapped.store(61, 1);
        drop(holds);
        assert!(tracker.hold(60..61).unwrap().is_some());
        (0..32).for_each(|page| mapped.store(page, 1));
        assert_eq!(take(tracker, 0..64), [0..32, 61..62]);
    });
}

#[test]
fn a_system_call_fails_where_it_would_store_into_a_held_page() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 64);
    let Some(tracker) = async_tracker(mapped.span()) else {
        return;
    };
    let zeroes = std::fs::File::open("/dev/zero").unwrap();
    let read_into = |page: u64| {
        // SAFETY: within the mapping, which only atomics of this test access.
        let read = unsafe {
            libc::read(
                zeroes.as_raw_fd(),
                mapped.start().add(page as usize * 4096).cast(),
                100,
            )
        };
        (read < 0).then(|| std::io::Error::last_os_error().raw_os_error().unwrap())
    };
    assert_eq!(read_into(3), None);
    assert_eq!(
        take(&tracker, 0..64),
        [3..4],
        "a system call's store is seen"
    );
    let hold = tracker.hold(3..4).unwrap().unwrap();
    assert_eq!(read_into(3), Some(libc::EFAULT));
    assert_eq!(read_into(4), None);
    drop(hold);
    assert_eq!(read_into(3), None);
    assert_eq!(take(&tracker, 0..64), [3..5]);
    let mut byte = [1];
    (&zeroes).read_exact(&mut byte).unwrap();
    drop(tracker);
    let _fault = FaultTracker::new(mapped.span()).unwrap();
    assert_eq!(read_into(5), Some(libc::EFAULT), "what `fault` cannot cure");
    mapped.store(5, 1);
    assert_eq!(read_into(5), None);
}
