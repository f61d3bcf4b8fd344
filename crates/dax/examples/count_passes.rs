//! Stores and passes over a region, to be counted under cachegrind: the difference between two numbers of rounds is what they take.
//!
//! `valgrind --tool=cachegrind --cache-sim=yes count_passes sync 100 4 3`: a hundred rounds, each of which stores to three pages of
//! each of four rows of three, and syncs each row by itself; `pass` syncs all of them at once, `store` only stores.

use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_dax::{CreateOptions, DaxPool, DaxRegion, OpenOptions, TrackerKind};

const WIDTH: u64 = 3;
const PAGE_BYTES: u64 = 4096;
/// Bytes of one extent before the next extent follows.
const UNIT_BYTES: u64 = 2 << 20;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| -> u64 { arguments[at].parse().expect("a number") };
    let (mode, rounds, rows, of_row) = (&arguments[1], number(2), number(3), number(4));
    let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm is there");
    let members: Vec<_> = (0..=WIDTH)
        .map(|member| folder.path().join(format!("member{member}")))
        .collect();
    let pool = DaxPool::new(&members, [7; 16]);
    let options = CreateOptions::new(WIDTH * UNIT_BYTES).width(WIDTH as u32);
    DaxRegion::create(&pool, "counted", &options).expect("a region");
    let options = OpenOptions::default()
        .period(Duration::from_secs(30))
        .tracker(TrackerKind::Fault);
    let region = DaxRegion::open(&pool, "counted", &options).expect("it was made");
    for round in 0..rounds {
        for row in 0..rows {
            for extent in 0..of_row {
                let word = (extent * UNIT_BYTES + row * PAGE_BYTES) / 8;
                region.words()[word as usize].store(round + 1, Ordering::Relaxed);
            }
            if mode == "sync" {
                let first = row * PAGE_BYTES;
                region.sync(first..first + 64).expect("it rests");
            }
        }
        if mode == "pass" {
            region.sync(0..region.len()).expect("it rests");
        }
    }
    eprintln!("{:?}", region.status().counts);
}
