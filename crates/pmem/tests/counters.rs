//! Counts are exact: every line and fence, of any thread.

use forebay_pmem::{Counters, PersistenceDomain, Region, RegionOptions, thread_counters};
use std::sync::Barrier;

const LEN: u64 = 1 << 20;

fn counters(lines_flushed: u64, lines_streamed: u64, fences: u64) -> Counters {
    let mut counters = Counters::default();
    counters.lines_flushed = lines_flushed;
    counters.lines_streamed = lines_streamed;
    counters.fences = fences;
    counters.bytes = 64 * (lines_flushed + lines_streamed);
    counters
}

fn region(domain: PersistenceDomain) -> (tempfile::TempDir, Region) {
    let directory = tempfile::TempDir::new_in("/dev/shm").unwrap();
    let options = RegionOptions::default().domain(domain);
    let region = Region::create(&directory.path().join("region"), LEN, &options).unwrap();
    (directory, region)
}

/// What each call costs, and the calls.
fn work(region: &Region) {
    region.store(60, &[1; 8]);
    region.flush(60, 8); // two lines
    region.flush(64, 64); // one
    region.flush(65, 64); // two
    region.flush(0, 0); // none
    region.stream(128, &[2; 192]); // three
    region.stream_crc32c(4096, &[3; 4096]); // 64
    region.fence().unwrap();
    region.store_u64(8, 1);
    region.store_u128(16, 1);
    region.fence().unwrap();
}

#[test]
fn each_call_counts_its_lines() {
    let (_directory, adr) = region(PersistenceDomain::Adr);
    work(&adr);
    assert_eq!(adr.counters(), counters(5, 67, 2));
    let (_directory, page) = region(PersistenceDomain::Page);
    work(&page);
    assert_eq!(page.counters(), counters(5, 67, 2));
    let (_directory, eadr) = region(PersistenceDomain::Eadr);
    work(&eadr);
    assert_eq!(eadr.counters(), counters(0, 67, 2));
    for shadow in [Region::shadow(LEN), Region::shadow_page(LEN)] {
        work(&shadow);
        assert_eq!(shadow.counters(), counters(5, 67, 2));
    }
}

#[test]
fn a_thread_counts_all_its_regions() {
    let (first, second) = (Region::shadow(LEN), Region::shadow(LEN));
    let before = thread_counters();
    work(&first);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&second)).join().unwrap();
    });
    work(&second);
    assert_eq!(thread_counters() - before, counters(10, 134, 4));
    assert_eq!(second.counters(), counters(10, 134, 4));
}

#[test]
fn more_threads_than_shards_lose_nothing() {
    const THREADS: u64 = 300;
    const ROUNDS: u64 = 50;
    let (_directory, region) = region(PersistenceDomain::Eadr);
    // Twice: the second generation counts with the numbers of the first.
    for generation in 1..=2 {
        let all_alive = Barrier::new(THREADS as usize);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    all_alive.wait();
                    for _ in 0..ROUNDS {
                        region.fence().unwrap();
                        std::thread::yield_now();
                    }
                    all_alive.wait();
                });
            }
        });
        assert_eq!(region.counters().fences, generation * THREADS * ROUNDS);
    }
}
