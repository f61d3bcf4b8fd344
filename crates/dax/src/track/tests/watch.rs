//! What trackers are blind to is noticed: forks, other openers, system calls on the files.

use std::fs::{File, FileTimes};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, SystemTime};

use super::{Mapped, Memory, alone, async_tracker, in_child, take};
use crate::track::fault::FaultTracker;
use crate::track::{Children, Coverage, Missed, Tracker, Watch};

const FORKED: Coverage = Coverage::MayHaveMissed(Missed::Forked);
const FOREIGN: Coverage = Coverage::MayHaveMissed(Missed::ForeignOpener);
const MOVED: Coverage = Coverage::MayHaveMissed(Missed::Moved);

fn watched(mapped: &Mapped, children: Children) -> Watch {
    let files: Vec<&File> = mapped.files.iter().collect();
    Watch::new(&files, children).unwrap()
}

/// Opens the file anew, as another program would.
fn opened_again(file: &File) -> File {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(true).open(path).unwrap()
}

fn looked(watch: &Watch) -> Coverage {
    watch.look().unwrap().coverage(false)
}

#[test]
fn a_child_that_stores_unseen_is_a_fork_that_was_seen() {
    let _alone = alone();
    for memory in [Memory::Tmpfs, Memory::PageCache] {
        let mapped = Mapped::new(memory, 8);
        let Some(tracker) = async_tracker(mapped.span()) else {
            return;
        };
        take(&tracker, 0..8);
        let watch = watched(&mapped, Children::Allowed);
        assert_eq!(looked(&watch), Coverage::Complete);
        let status = in_child(|| mapped.store(3, 77));
        assert_eq!(status, 0);
        assert_eq!(
            mapped.word(3, 0).load(std::sync::atomic::Ordering::Relaxed),
            77
        );
        assert_eq!(take(&tracker, 0..8), [], "what the tracker cannot see");
        assert_eq!(looked(&watch), FORKED);
        let again = looked(&watch);
        // On some file systems the child's store moves the time, too.
        assert!(matches!(again, Coverage::Complete | MOVED), "{again:?}");
        assert_eq!(
            looked(&watch),
            Coverage::Complete,
            "no process has it any more"
        );
    }
}

#[test]
fn a_child_that_lives_is_told_of_each_time() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let watch = watched(&mapped, Children::Allowed);
    let (reader, mut writer) = std::io::pipe().unwrap();
    // SAFETY: the child does nothing but read from a pipe and end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut byte = 0_u8;
        // SAFETY: one byte of the stack; then the child ends, without a destructor.
        unsafe {
            libc::close(writer.as_raw_fd());
            libc::read(reader.as_raw_fd(), (&raw mut byte).cast(), 1);
            libc::_exit(0);
        }
    }
    assert!(child > 0);
    for _ in 0..3 {
        assert_eq!(looked(&watch), FORKED);
    }
    writer.write_all(&[1]).unwrap();
    assert_eq!(super::ended(child), 0);
    assert_eq!(
        looked(&watch),
        FORKED,
        "it may have stored since the last look"
    );
    assert_eq!(looked(&watch), Coverage::Complete);
}

#[test]
fn a_grandchild_counts() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let watch = watched(&mapped, Children::Allowed);
    let status = in_child(|| assert_eq!(in_child(|| mapped.store(1, 1)), 0));
    assert_eq!(status, 0);
    assert_eq!(looked(&watch), FORKED);
    assert_eq!(looked(&watch), Coverage::Complete);
}

#[test]
fn children_that_are_denied_the_mapping_cannot_store() {
    let _alone = alone();
    for is_held in [false, true] {
        let mapped = Mapped::new(Memory::Striped, 32);
        mapped.span().deny_to_children().unwrap();
        let tracker = FaultTracker::new(mapped.span()).unwrap();
        let watch = watched(&mapped, Children::Denied);
        let hold = is_held.then(|| tracker.hold(0..32).unwrap().unwrap());
        let status = in_child(|| mapped.store(20, 1));
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV);
        drop(hold);
        assert_eq!(
            mapped
                .word(20, 0)
                .load(std::sync::atomic::Ordering::Relaxed),
            0
        );
        assert_eq!(looked(&watch), Coverage::Complete);
    }
}

#[test]
fn a_child_forked_while_pages_are_held_does_not_wait_for_ever() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let tracker = FaultTracker::new(mapped.span()).unwrap();
    let watch = watched(&mapped, Children::Allowed);
    let hold = tracker.hold(2..5).unwrap().unwrap();
    assert_eq!(in_child(|| mapped.store(3, 5)), 0);
    drop(hold);
    assert_eq!(looked(&watch), FORKED);
}

#[test]
fn another_opener_is_told_of_until_it_has_gone() {
    let _alone = alone();
    for memory in [Memory::Tmpfs, Memory::PageCache, Memory::Striped] {
        let mapped = Mapped::new(memory, 16);
        let watch = watched(&mapped, Children::Denied);
        assert_eq!(looked(&watch), Coverage::Complete);
        let duplicate = mapped.files[0].try_clone().unwrap();
        drop(duplicate);
        assert_eq!(
            looked(&watch),
            Coverage::Complete,
            "a duplicate is no opening"
        );
        let foreign = opened_again(mapped.files.last().unwrap());
        for _ in 0..3 {
            assert_eq!(looked(&watch), FOREIGN);
        }
        // It keeps a mapping, and no descriptor.
        let theirs = Mapped::of(vec![foreign.try_clone().unwrap()], 8);
        drop(foreign);
        let mut theirs = theirs;
        theirs.files.clear();
        assert_eq!(looked(&watch), FOREIGN);
        assert_eq!(looked(&watch), FOREIGN);
        theirs.store(1, 1);
        drop(theirs);
        assert_eq!(
            looked(&watch),
            FOREIGN,
            "it may have stored since the last look"
        );
        let again = looked(&watch);
        assert!(matches!(again, Coverage::Complete | MOVED), "{again:?}");
        assert_eq!(looked(&watch), Coverage::Complete);
        drop(opened_again(&mapped.files[0]));
        assert_eq!(looked(&watch), FOREIGN, "however short it was");
        assert_eq!(looked(&watch), Coverage::Complete);
    }
}

#[test]
fn an_opener_that_meets_the_lease_ends_nobody() {
    let _alone = alone();
    let mapped = Mapped::new(Memory::Tmpfs, 8);
    let watch = watched(&mapped, Children::Denied);
    std::thread::scope(|scope| {
        let opener = scope.spawn(|| {
            for _ in 0..2000 {
                drop(opened_again(&mapped.files[0]));
            }
        });
        while !opener.is_finished() {
            let _ = looked(&watch);
        }
    });
    let _ = looked(&watch);
    assert_eq!(looked(&watch), Coverage::Complete);
}

#[test]
fn system_calls_on_the_file_are_told_of_even_where_pages_were_found() {
    let _alone = alone();
    for memory in [Memory::Tmpfs, Memory::PageCache] {
        let mapped = Mapped::new(memory, 8);
        let watch = watched(&mapped, Children::Denied);
        mapped.files[0].write_all_at(b"store", 4096).unwrap();
        assert_eq!(watch.look().unwrap().coverage(true), MOVED);
        assert_eq!(looked(&watch), Coverage::Complete);
        mapped.files[0].set_len(16 * 4096).unwrap();
        assert_eq!(watch.look().unwrap().coverage(true), MOVED);
        let later = SystemTime::now() + Duration::from_secs(100);
        let times = FileTimes::new().set_accessed(later).set_modified(later);
        mapped.files[0].set_times(times).unwrap();
        let look = watch.look().unwrap();
        assert_eq!(
            look.coverage(true),
            Coverage::Complete,
            "a found page explains it"
        );
        assert_eq!(look.coverage(false), MOVED);
    }
}
