//! Bad pages: an access raises SIGBUS, which becomes an error of the region.
//!
//! A file cut short under its mapping fails the way a bad page does.

#![allow(
    unsafe_code,
    reason = "a fault outside every region needs a mapping made by hand"
)]

use forebay_pmem::{PmemErrorKind, Region, RegionOptions};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const LEN: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// Set for the child process that is to die.
const VICTIM_VARIABLE: &str = "FOREBAY_TEST_SIGBUS_VICTIM";

fn damaged(directory: &tempfile::TempDir, good: u64) -> Region {
    let path = directory.path().join("region");
    let options = RegionOptions::default().huge_pages(false);
    let region = Region::create(&path, LEN, &options).unwrap();
    region.store(0, &[0xAB; LEN as usize]);
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(good)
        .unwrap();
    region
}

#[test]
fn a_bad_page_is_an_error_and_not_a_dead_process() {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let region = damaged(&directory, 8 * PAGE);
    let healthy_directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let healthy = damaged(&healthy_directory, LEN);
    region.fence().unwrap();
    assert!(!region.has_media_error(0, LEN as usize));

    let mut out = [1; 100];
    region.read(9 * PAGE + 50, &mut out);
    assert_eq!(out, [0; 100], "a bad page reads as zeroes");
    assert_eq!(region.media_errors(), [9 * PAGE]);
    assert!(region.has_media_error(9 * PAGE + 4095, 1));
    assert!(region.has_media_error(8 * PAGE, PAGE as usize + 1));
    assert!(!region.has_media_error(8 * PAGE, PAGE as usize));
    assert!(!region.has_media_error(10 * PAGE, PAGE as usize));

    let error = region.fence().unwrap_err();
    let offset = 9 * PAGE;
    assert_eq!(error.kind(), PmemErrorKind::Media { offset }, "{error}");
    assert_eq!(region.load_u64(0), 0xABAB_ABAB_ABAB_ABAB, "others stay");
    healthy.fence().unwrap();
}

#[test]
fn a_bad_page_under_one_of_two_streams_is_an_error_of_its_region_alone() {
    let directories = [(); 2].map(|()| tempfile::TempDir::new_in("/dev/shm").unwrap());
    let region = damaged(&directories[0], LEN);
    let copy = damaged(&directories[1], 8 * PAGE);
    let block = [0xCD; 2 * PAGE as usize];
    let crc = region.stream_crc32c_pair(2 * PAGE, &copy, 7 * PAGE, &block);
    assert_eq!(crc, forebay_pmem::crc32c(&block));
    copy.stream_pair(12 * PAGE, &region, 0, &block[..64]);
    assert_eq!(copy.media_errors(), [8 * PAGE, 12 * PAGE]);
    copy.fence().unwrap_err();
    region.fence().unwrap();
    assert_eq!(region.crc32c(2 * PAGE, block.len()), crc);
    assert_eq!(
        copy.crc32c(7 * PAGE, PAGE as usize),
        region.crc32c(2 * PAGE, PAGE as usize)
    );
}

#[test]
fn every_kind_of_access_bears_a_bad_page() {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let region = damaged(&directory, PAGE);
    let mut out = [0; 64];
    region.store(PAGE, &[1; 64]);
    region.stream(2 * PAGE, &[1; 64]);
    region.stream_crc32c(3 * PAGE, &[1; 64]);
    region.store_u64(4 * PAGE, 1);
    region.store_u128(5 * PAGE, 1);
    region.load_u64(6 * PAGE);
    region.load_u128(7 * PAGE);
    region.read_crc32c(8 * PAGE, &mut out);
    region.crc32c(9 * PAGE, 64);
    region.flush(10 * PAGE, 64);
    region.prefetch_read(11 * PAGE);
    region.prefetch_write(12 * PAGE);
    // Flushes and prefetches may or may not touch the page; stores and loads do.
    let bad = region.media_errors();
    for page in 1..10 {
        assert!(bad.contains(&(page * PAGE)), "{page}: {bad:?}");
    }
    region.fence().unwrap_err();
}

#[test]
fn an_acknowledged_page_fails_no_fence_and_is_still_told_of() {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let region = damaged(&directory, 8 * PAGE);
    region.store(10 * PAGE, &[1; 64]);
    region.fence().unwrap_err();
    assert_eq!(region.unacknowledged_media_errors().unwrap(), [10 * PAGE]);
    region.fence_beside_media_errors(&[10 * PAGE]).unwrap();
    region.fence_beside_media_errors(&[9 * PAGE]).unwrap_err();
    region.fence().unwrap_err();
    region.acknowledge_media_errors(&[10 * PAGE]);
    region.fence().unwrap();
    region.store(10 * PAGE, &[2; 64]);
    region.fence().unwrap();
    assert!(region.has_media_error(10 * PAGE, 64));
    assert!(region.media_failure().is_some());
    region.load_u64(9 * PAGE);
    let error = region.fence().unwrap_err();
    let offset = 9 * PAGE;
    assert_eq!(error.kind(), PmemErrorKind::Media { offset }, "{error}");
    region.acknowledge_media_errors(&[9 * PAGE]);
    region.fence().unwrap();
    assert_eq!(region.media_errors(), [9 * PAGE, 10 * PAGE]);
    region.poison();
    for failed in [region.fence(), region.fence_beside_media_errors(&[])] {
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), PmemErrorKind::Poisoned, "{error}");
    }
}

#[test]
fn pages_without_names_cannot_be_acknowledged() {
    const PAGES: u64 = 100;
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let path = directory.path().join("region");
    let region = Region::create(&path, PAGES * PAGE, &RegionOptions::default()).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(PAGE).unwrap();
    for page in 1..PAGES {
        region.load_u64(page * PAGE);
        let known = region.media_errors();
        region.acknowledge_media_errors(&known);
        assert_eq!(region.fence().is_ok(), page <= 64, "{page} pages");
    }
    assert_eq!(region.unacknowledged_media_errors(), None);
}

#[test]
fn threads_may_meet_the_same_bad_page() {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let region = damaged(&directory, PAGE);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for page in 1..LEN / PAGE {
                    region.load_u64(page * PAGE);
                }
            });
        }
    });
    assert_eq!(region.media_errors().len() as u64, LEN / PAGE - 1);
}

#[test]
fn more_bad_pages_than_can_be_named_make_everything_suspect() {
    const PAGES: u64 = 100;
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let path = directory.path().join("region");
    let region = Region::create(&path, PAGES * PAGE, &RegionOptions::default()).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(PAGE).unwrap();
    for page in 1..PAGES {
        region.load_u64(page * PAGE);
    }
    assert_eq!(region.media_errors().len(), 64);
    assert!(region.has_media_error(0, 1));
}

#[test]
fn a_fault_outside_every_region_still_kills() {
    if std::env::var_os(VICTIM_VARIABLE).is_some() {
        fault_outside_every_region();
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_fault_outside_every_region_still_kills"])
        .env(VICTIM_VARIABLE, "1")
        .output()
        .unwrap()
        .status;
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}

fn fault_outside_every_region() {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let _region = damaged(&directory, LEN);
    let empty = tempfile::tempfile_in("/dev/shm").unwrap();
    drop(directory);
    // SAFETY: the mapping is never touched as Rust memory but by this one volatile load, which
    // is meant to end the process.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            PAGE as usize,
            libc::PROT_READ,
            libc::MAP_SHARED,
            empty.as_raw_fd(),
            0,
        );
        assert_ne!(start, libc::MAP_FAILED);
        start.cast::<u8>().read_volatile();
    }
}

#[test]
fn a_page_that_is_made_to_fail_is_met_as_a_bad_one_and_its_bytes_are_gone() {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let path = directory.path().join("region");
    let region = Region::create(&path, LEN, &RegionOptions::default()).unwrap();
    region.store(0, &[0xAB; LEN as usize]);
    region.fail_page(3 * PAGE + 77).unwrap();
    region.fence().unwrap();
    assert_eq!(region.load_u64(2 * PAGE), 0xABAB_ABAB_ABAB_ABAB);
    region.store(3 * PAGE, &[1; 64]);
    assert_eq!(region.media_errors(), [3 * PAGE]);
    region.fence().unwrap_err();
    drop(region);
    // A child that another test is about to start has the lock until it is another program.
    let region = loop {
        match Region::open(&path, &RegionOptions::default()) {
            Err(error) if matches!(error.kind(), PmemErrorKind::Locked) => {
                std::thread::yield_now();
            }
            opened => break opened.unwrap(),
        }
    };
    let mut page = [1; PAGE as usize];
    region.read(3 * PAGE, &mut page);
    assert_eq!(page, [0; PAGE as usize]);
    assert_eq!(region.load_u64(4 * PAGE), 0xABAB_ABAB_ABAB_ABAB);
    region.fence().unwrap();
    Region::shadow(LEN).fail_page(0).unwrap_err();
}
