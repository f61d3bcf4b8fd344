//! That it is the rings by which requests come, how many system calls that takes, and how it ends.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_mount::{MountOptions, RingCounts};
use rustix::mount::{UnmountFlags, unmount};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::fixture::Mounted;
use crate::held::held;
use crate::offer::with_the_offer;

fn counts(place: &Mounted) -> RingCounts {
    place.mount().ring_counts().expect("it has rings")
}

#[test]
fn a_synced_write_is_two_requests_and_two_system_calls() {
    let Some(place) = Mounted::new("a_synced_write_is_two_requests") else {
        return;
    };
    // Not opened for writing alone, whose writes bypass the kernel's pages.
    let path = place.path("file");
    let file = File::options()
        .create_new(true)
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_data().unwrap();
    let before = counts(&place);
    const WRITES: u64 = 1000;
    for number in 0..WRITES {
        file.write_all_at(&[number as u8; 4096], 0).unwrap();
        file.sync_data().unwrap();
    }
    let after = counts(&place);
    let requests = after.requests - before.requests;
    let calls = after.calls - before.calls;
    println!("{WRITES} synced writes: {requests} requests, {calls} system calls");
    assert!(
        (2 * WRITES..2 * WRITES + 20).contains(&requests),
        "{requests}"
    );
    // Each thread may be in one that has not returned; a signal may cost one more.
    let spare = 2 * after.threads as u64;
    assert!(calls <= requests + spare, "{calls} for {requests}");
}

#[test]
fn requests_that_wait_hold_up_no_other_of_their_queue() {
    let Some(place) = Mounted::new("requests_that_wait_hold_up_no_other") else {
        return;
    };
    let counts = counts(&place);
    assert!(counts.queues >= 1 && counts.threads >= 4 * counts.queues);
    // Half of a queue's threads at least, by requests of one core.
    let names: Vec<String> = (0..2).map(|number| format!("held-{number}")).collect();
    let held: Vec<File> = names.iter().map(|name| held(&place.data(name))).collect();
    let stay = || {
        let mut first = CpuSet::new();
        first.set(0);
        // Elsewhere they come by whatever core there is.
        let _ = sched_setaffinity(None, &first);
    };
    let opened = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for name in &names {
            let (path, opened) = (place.path(name), &opened);
            scope.spawn(move || {
                stay();
                let file = File::options().read(true).write(true).open(path).unwrap();
                opened.fetch_add(1, Ordering::SeqCst);
                drop(file);
            });
        }
        stay();
        let mut file = File::create(place.path("other")).unwrap();
        for _ in 0..200 {
            file.write_all(b"served").unwrap();
            file.sync_all().unwrap();
            fs::metadata(place.path("nothing")).unwrap_err();
        }
        assert_eq!(opened.load(Ordering::SeqCst), 0, "they still wait");
        drop(held);
    });
    assert_eq!(opened.load(Ordering::SeqCst), names.len());
}

#[test]
fn many_writers_at_once_get_what_they_wrote() {
    let Some(place) = Mounted::new("many_writers_at_once") else {
        return;
    };
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for writer in 0..8u8 {
            let (barrier, path) = (&barrier, place.path(&format!("file-{writer}")));
            scope.spawn(move || {
                let mut file = File::create(&path).unwrap();
                barrier.wait();
                for _ in 0..200 {
                    file.write_all(&[writer; 1000]).unwrap();
                    file.sync_all().unwrap();
                }
                assert_eq!(fs::read(&path).unwrap(), vec![writer; 200_000]);
            });
        }
    });
}

#[test]
fn a_mount_that_is_cut_off_under_its_users_answers_them_and_keeps_what_was_synced() {
    let Some(mut place) = Mounted::new("a_mount_that_is_cut_off") else {
        return;
    };
    let path = place.path("file");
    File::create(&path).unwrap();
    let user = |path: PathBuf| {
        let mut file = File::options().append(true).open(&path).unwrap();
        let mut synced = 0;
        while file.write_all(b"line\n").and(file.sync_data()).is_ok() {
            synced += 1;
        }
        synced
    };
    let users: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || user(path))
        })
        .collect();
    while counts(&place).requests < 1000 {
        std::thread::yield_now();
    }
    // Requests under way get errors.
    unmount(place.path(""), UnmountFlags::FORCE | UnmountFlags::DETACH).unwrap();
    let synced: usize = users.into_iter().map(|user| user.join().unwrap()).sum();
    place.join();
    assert!(place.has_ended());
    let kept = fs::read_to_string(place.data("file")).unwrap();
    assert!(kept.lines().all(|line| line == "line"));
    assert!(kept.lines().count() >= synced, "{synced} were synced");
}

#[test]
fn a_kernel_that_does_not_offer_it_is_named() {
    let Some(mut place) = Mounted::new("a_kernel_that_does_not_offer_it") else {
        return;
    };
    place.end();
    let refused = loop {
        let mount = || place.mount_now(&MountOptions::default());
        let refused = with_the_offer(false, mount).unwrap_err();
        // A program that another test starts has the pool's lock for a moment.
        if !refused.to_string().contains("another process") {
            break refused;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    for part in ["enable_uring", "--transport dev-fuse"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
}
