//! Children of a process that has a region open. A file of its own: a child inherits every region of the process.

#![allow(unsafe_code, reason = "forks, and stores into what is mapped")]

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_dax::{CreateOptions, DaxPool, DaxRegion, ErrorKind, OpenOptions};

const PAGE: u64 = 4096;

fn word(region: &DaxRegion, page: u64) -> &AtomicU64 {
    &region.words()[(page * PAGE) as usize / size_of::<AtomicU64>()]
}

#[test]
fn a_child_that_inherited_the_region_keeps_it_from_being_sealed() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let pool = DaxPool::new(
        &[directory.path().join("a"), directory.path().join("b")],
        [2; 16],
    );
    DaxRegion::create(&pool, "r", &CreateOptions::new(16 * PAGE)).unwrap();
    let region = DaxRegion::open(&pool, "r", &OpenOptions::default()).unwrap();
    // SAFETY: the child calls nothing but pause(2), and never returns.
    let child = unsafe {
        match libc::fork() {
            0 => loop {
                libc::pause();
            },
            child => child,
        }
    };
    assert!(child > 0);
    word(&region, 3).store(5, Ordering::Relaxed);
    let closed = region.close();
    // SAFETY: plain system calls about our own child.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    let error = closed.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Mapped { .. }), "{error}");
    let region = DaxRegion::open(&pool, "r", &OpenOptions::default()).unwrap();
    assert_eq!(word(&region, 3).load(Ordering::Relaxed), 5);
    region.close().unwrap();
}
