//! The handler of SIGSEGV: faults that are not its own, errno, and what is left of it at the end.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::{Mapped, Memory, alone, take};
use crate::track::fault::FaultTracker;
use crate::track::{Coverage, Missed, Tracker};

static OTHER_PAGE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static OTHERS_FAULTS: AtomicUsize = AtomicUsize::new(0);

/// The program's own handler: makes its page writable, and counts.
extern "C" fn on_sigsegv(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    OTHERS_FAULTS.fetch_add(1, Ordering::Relaxed);
    let page = OTHER_PAGE.load(Ordering::Relaxed);
    // SAFETY: the kernel's information; the page is the test's.
    unsafe {
        assert_eq!((*info).si_addr().cast::<u8>(), page);
        *libc::__errno_location() = libc::E2BIG;
        libc::mprotect(page.cast(), 4096, libc::PROT_READ | libc::PROT_WRITE);
    }
}

fn current() -> libc::sigaction {
    // SAFETY: an all-zero sigaction is valid, and the pointer is to a local.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut action);
        action
    }
}

fn install(handler: usize, flags: i32) -> libc::sigaction {
    let before = current();
    // SAFETY: an all-zero sigaction is valid, and the pointer is to a local.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler;
        action.sa_flags = flags;
        libc::sigaction(libc::SIGSEGV, &action, null_mut());
    }
    before
}

fn put_back(action: &libc::sigaction) {
    // SAFETY: it was the process's action.
    unsafe { libc::sigaction(libc::SIGSEGV, action, null_mut()) };
}

#[test]
fn faults_of_others_go_to_their_handler_which_is_put_back_at_the_end() {
    let _alone = alone();
    let ours = on_sigsegv as *const () as usize;
    let before = install(ours, libc::SA_SIGINFO);
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let second = Mapped::new(Memory::Tmpfs, 8);
    let other = Mapped::new(Memory::Tmpfs, 1);
    let tracker = FaultTracker::new(mapped.span()).unwrap();
    let tracker_of_second = FaultTracker::new(second.span()).unwrap();
    assert_ne!(current().sa_sigaction, ours);

    OTHER_PAGE.store(other.start(), Ordering::Relaxed);
    // SAFETY: the test's own page.
    unsafe { libc::mprotect(other.start().cast(), 4096, libc::PROT_READ) };
    other.store(0, 1);
    assert_eq!(OTHERS_FAULTS.load(Ordering::Relaxed), 1);
    mapped.store(3, 1);
    second.store(4, 1);
    assert_eq!(take(&tracker, 0..8), [3..4]);
    assert_eq!(take(&tracker_of_second, 0..8), [4..5]);
    assert_eq!(OTHERS_FAULTS.load(Ordering::Relaxed), 1);

    drop(tracker);
    mapped.store(5, 1);
    second.store(5, 1);
    assert_eq!(take(&tracker_of_second, 0..8), [5..6]);
    drop(tracker_of_second);
    assert_eq!(current().sa_sigaction, ours);
    second.store(6, 1);
    put_back(&before);
}

#[test]
fn a_store_leaves_errno_alone() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let tracker = FaultTracker::new(mapped.span()).unwrap();
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = libc::ENOTTY };
    mapped.store(2, 1);
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, libc::ENOTTY);
    assert_eq!(take(&tracker, 0..8), [2..3]);
}

#[test]
fn a_handler_that_came_later_is_said_and_holds_nothing() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let tracker = FaultTracker::new(mapped.span()).unwrap();
    let ours = install(on_sigsegv as *const () as usize, libc::SA_SIGINFO);
    let coverage = tracker.take_written(0..8, &mut Vec::new()).unwrap();
    assert_eq!(coverage, Coverage::MayHaveMissed(Missed::TrackerFailed));
    assert!(tracker.hold(0..1).unwrap().is_none());
    put_back(&ours);
    assert!(tracker.hold(0..1).unwrap().is_some());
    drop(tracker);
}

#[test]
fn without_a_mapping_for_a_page_all_pages_count_as_written() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 200);
    let tracker = FaultTracker::new(mapped.span()).unwrap();
    tracker.region().splits_left.store(2, Ordering::Relaxed);
    mapped.store(3, 1);
    mapped.store(7, 1);
    assert_eq!(take(&tracker, 5..200), [7..8]);
    mapped.store(9, 1);
    mapped.store(150, 1);
    assert_eq!(tracker.counts().opened, 1);
    assert_eq!(take(&tracker, 0..200), [0..200]);
    tracker.region().splits_left.store(9, Ordering::Relaxed);
    mapped.store(9, 2);
    assert_eq!(take(&tracker, 0..200), [9..10]);
}

#[test]
fn a_stray_access_still_ends_the_process() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let tracker = FaultTracker::new(mapped.span()).unwrap();
    let status = super::in_child(|| {
        // SAFETY: it is not: the child is to end by it.
        unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
    });
    assert!(libc::WIFSIGNALED(status), "{status}");
    assert_eq!(libc::WTERMSIG(status), libc::SIGSEGV);
    drop(tracker);
}
