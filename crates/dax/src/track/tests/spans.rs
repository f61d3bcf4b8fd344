//! Which pages a tracker tells of, store by store.

use super::{ALL, Mapped, Memory, alone, async_tracker, for_each_tracker, peek, take};
use crate::options::TrackerKind;
use crate::track::{Children, Coverage, Missed, Tracker, Watch, open, soft_dirty};

#[test]
fn stores_are_told_once_and_then_again() {
    for_each_tracker(&ALL, 64, |mapped, tracker| {
        assert_eq!(peek(tracker, 0..64), []);
        for page in [0, 7, 8, 9, 30, 63] {
            mapped.store(page, 1);
        }
        let all = [0..1, 7..10, 30..31, 63..64];
        assert_eq!(peek(tracker, 0..64), all);
        assert_eq!(peek(tracker, 8..31), [8..10, 30..31]);
        assert_eq!(take(tracker, 9..31), [9..10, 30..31]);
        assert_eq!(take(tracker, 0..64), [0..1, 7..9, 63..64]);
        assert_eq!(take(tracker, 0..64), []);
        mapped.store(30, 2);
        assert_eq!(take(tracker, 0..64), [30..31]);
        assert_eq!(take(tracker, 5..5), []);
    });
}

#[test]
fn ranges_are_added_to_what_is_there() {
    for_each_tracker(&[Memory::Tmpfs], 64, |mapped, tracker| {
        mapped.store(4, 1);
        let mut written = vec![0..4];
        tracker.take_written(4..64, &mut written).unwrap();
        assert_eq!(written, [0..4, 4..5]);
    });
}

#[test]
fn more_ranges_than_one_call_returns() {
    for_each_tracker(&ALL, 4096, |mapped, tracker| {
        (0..4096).step_by(2).for_each(|page| mapped.store(page, 1));
        let expected: Vec<_> = (0..4096).step_by(2).map(|page| page..page + 1).collect();
        assert_eq!(peek(tracker, 0..4096), expected);
        assert_eq!(take(tracker, 0..4096), expected);
        assert_eq!(take(tracker, 0..4096), []);
        (0..4096).for_each(|page| mapped.store(page, 2));
        assert_eq!(take(tracker, 0..4096), [0..4096]);
    });
}

#[test]
fn reading_is_no_store() {
    for_each_tracker(&ALL, 64, |mapped, tracker| {
        let sum: u64 = (0..64)
            .map(|page| {
                mapped
                    .word(page, 5)
                    .load(std::sync::atomic::Ordering::Relaxed)
            })
            .sum();
        assert_eq!(sum, 0);
        assert_eq!(take(tracker, 0..64), []);
    });
}

#[test]
fn a_page_that_left_memory_is_not_forgotten() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::PageCache, 64);
    let Some(tracker) = async_tracker(mapped.span()) else {
        return;
    };
    mapped.store(3, 1);
    take(&tracker, 0..64);
    mapped.store(4, 1);
    // Written back and dropped from the page cache, as far as the kernel likes.
    mapped.files[0].sync_all().unwrap();
    mapped.span().advise(libc::MADV_PAGEOUT).unwrap();
    let written = peek(&tracker, 0..64);
    assert!(written.contains(&(4..5)), "{written:?}");
    mapped.store(3, 2);
    assert!(take(&tracker, 0..64).iter().any(|run| run.contains(&3)));
}

#[test]
fn what_was_unmapped_is_not_tracked_and_says_so() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 64);
    let Some(tracker) = async_tracker(mapped.span()) else {
        return;
    };
    let again = Mapped::new(Memory::Tmpfs, 1);
    let (from, to) = (again.start(), mapped.start());
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: replaces a page of the test's own memory.
    let moved = unsafe { libc::mremap(from.cast(), 4096, 4096, flags, to) };
    assert_eq!(moved.cast::<u8>(), to);
    std::mem::forget(again);
    let coverage = tracker.take_written(0..64, &mut Vec::new()).unwrap();
    assert_eq!(coverage, Coverage::MayHaveMissed(Missed::TrackerFailed));
}

#[test]
fn the_best_tracker_is_chosen_unless_another_is_asked_for() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let has_async = async_tracker(mapped.span()).is_some();
    let best = open(mapped.span(), None).unwrap().kind();
    assert_eq!(best == TrackerKind::AsyncWriteProtect, has_async);
    for kind in [TrackerKind::Fault, TrackerKind::Compare] {
        assert_eq!(open(mapped.span(), Some(kind)).unwrap().kind(), kind);
    }
    let compare = open(mapped.span(), Some(TrackerKind::Compare)).unwrap();
    let coverage = compare.take_written(0..8, &mut Vec::new()).unwrap();
    assert_eq!(coverage, Coverage::MayHaveMissed(Missed::Untracked));
    assert!(compare.hold(0..1).unwrap().is_none());
    let error = open(mapped.span(), Some(TrackerKind::SoftDirty))
        .err()
        .unwrap();
    assert!(error.to_string().contains("cleared for the whole process"));
    assert!(soft_dirty::kernel_has_it().is_some());
    let _ = Watch::new(&[], Children::Denied).unwrap();
}
