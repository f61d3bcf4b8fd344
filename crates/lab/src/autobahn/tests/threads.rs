//! Threads with a file each, over stages with threads of their own, in less room than they write.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_pmem::{Region, RegionOptions};

use super::world::bytes_of;
use crate::autobahn::queue::Queue;
use crate::autobahn::{AutoBahn, AutoBahnOptions, RealFolder, WriteMode};

#[test]
fn every_element_is_taken_once_and_in_the_order_of_its_producer() {
    let queue = Queue::new(8);
    const EACH: u32 = 20_000;
    let taken = std::thread::scope(|threads| {
        let queue = &queue;
        for producer in 0..2 {
            threads.spawn(move || (0..EACH).for_each(|at| queue.enqueue(at * 2 + producer)));
        }
        let take = || -> Vec<u32> { (0..EACH).map(|_| queue.dequeue_own()).collect() };
        let consumers = [threads.spawn(take), threads.spawn(take)];
        consumers.map(|consumer| consumer.join().expect("taken"))
    });
    for one in &taken {
        for producer in 0..2 {
            let own: Vec<u32> = one
                .iter()
                .copied()
                .filter(|at| at % 2 == producer)
                .collect();
            assert!(own.is_sorted(), "a consumer sees a producer's in order");
        }
    }
    let mut all = taken.concat();
    all.sort_unstable();
    assert_eq!(all, (0..2 * EACH).collect::<Vec<u32>>());
    assert_eq!(queue.len(), 0);
}

/// One thread's file: appends, overwrites and reads, against plain memory.
fn work(buffer: &AutoBahn, name: &str, seed: u64) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut file = buffer
        .open_file(name.as_ref(), WriteMode::Partial)
        .expect("open");
    let mut truth = Vec::new();
    for _ in 0..1500 {
        let at = match rng.u8(..4) {
            0 => rng.usize(..=truth.len()),
            _ => truth.len(),
        };
        let data = bytes_of(rng.u64(..), rng.usize(1..900));
        file.write_at(at as u64, &data).expect("written");
        truth.resize(truth.len().max(at + data.len()), 0);
        truth[at..at + data.len()].copy_from_slice(&data);
        let from = rng.usize(..truth.len());
        let mut out = vec![0; rng.usize(1..2000)];
        let len = file.read_at(from as u64, &mut out).expect("read");
        assert!(out[..len] == truth[from..from + len], "{name}, from {from}");
    }
    // Half of them are left open, as by a kill.
    if seed.is_multiple_of(2) {
        file.close().expect("closed");
    }
    truth
}

#[test]
fn threads_write_more_than_there_is_room_for_and_nothing_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = AutoBahnOptions {
        block_bytes: 1024,
        volumes: 8,
        ..AutoBahnOptions::default()
    };
    let path = folder.path().join("memory");
    let files = Arc::new(RealFolder::new(folder.path()));
    let region = Region::create(&path, 128 << 10, &RegionOptions::default()).expect("a region");
    let buffer = AutoBahn::create(region, files.clone(), &options).expect("created");
    assert_eq!(buffer.blocks(), 116);
    let names: Vec<String> = (0..4).map(|number| format!("file-{number}")).collect();
    let truths: Vec<Vec<u8>> = std::thread::scope(|threads| {
        let buffer = &buffer;
        let work = (0..)
            .zip(&names)
            .map(|(seed, name)| threads.spawn(move || work(buffer, name, seed)));
        let work: Vec<_> = work.collect();
        work.into_iter()
            .map(|thread| thread.join().expect("worked"))
            .collect()
    });
    let stages = buffer.stages();
    assert!(stages.reclaimed_blocks > 500, "{stages:?}");
    drop(buffer);
    let region = Region::open(&path, &RegionOptions::default()).expect("there");
    let buffer = AutoBahn::open(region, files, &options).expect("recovered");
    assert_eq!(buffer.recovered().files, 2);
    for (name, truth) in names.iter().zip(&truths) {
        let path: PathBuf = folder.path().join(name);
        assert!(std::fs::read(path).expect("there") == *truth, "{name}");
    }
}
