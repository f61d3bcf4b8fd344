//! What a long stream of reads costs those that are read again and again: hits, counted exactly.

use std::sync::Arc;

use forebay::{Backing, MemoryStore};

use crate::rig::{BLOCK, rig_with};

/// Blocks of the skewed load, more than twice as many as the pool has slots.
const KEYS: u64 = 10_000;
const READS: u64 = 60_000;
/// One in so many of its reads is not counted: the pool fills.
const WARM_UP: u64 = 4;
/// After so many reads comes one request of the stream.
const READS_BETWEEN: u64 = 8;
const REQUEST_BLOCKS: u64 = 32;
const STREAM_BLOCKS: u64 = READS / READS_BETWEEN * REQUEST_BLOCKS;

/// Ranks drawn with a probability of 1 ÷ rank, from a seed.
struct Zipf {
    cumulative: Vec<f64>,
    random: fastrand::Rng,
}

impl Zipf {
    fn new() -> Zipf {
        let mut sum = 0.0;
        let add = |rank| {
            sum += 1.0 / rank as f64;
            sum
        };
        Zipf {
            cumulative: (1..=KEYS).map(add).collect(),
            random: fastrand::Rng::with_seed(61),
        }
    }

    fn draw(&mut self) -> u64 {
        let point = self.random.f64() * self.cumulative[KEYS as usize - 1];
        let rank = self.cumulative.partition_point(|&sum| sum <= point) as u64;
        // Hot blocks do not lie beside each other.
        rank.min(KEYS - 1) * 7919 % KEYS
    }
}

/// Hits of the skewed load.
fn hits(with_stream: bool, cutoff_bytes: u64) -> u64 {
    let rig = rig_with(16 << 20, |options| {
        options
            .background(false)
            .sequential_cutoff_bytes(cutoff_bytes)
    });
    let store = MemoryStore::new((KEYS + STREAM_BLOCKS) * BLOCK as u64);
    let volume = rig
        .pool
        .attach(Backing::from_store(Arc::new(store)))
        .unwrap();
    let (mut zipf, mut hits, mut stream) = (Zipf::new(), 0, KEYS);
    let mut long = vec![0; REQUEST_BLOCKS as usize * BLOCK];
    let make_room = || {
        let stats = rig.pool.stats();
        if stats.slots - stats.cached_blocks < 256 {
            rig.pool.reclaim_once(128).unwrap();
        }
    };
    for number in 0..READS {
        let block = zipf.draw();
        let is_hit = volume.is_resident(block..block + 1);
        hits += u64::from(is_hit && number >= READS / WARM_UP);
        volume.read(block, &mut long[..BLOCK]).unwrap();
        if number % READS_BETWEEN == 0 {
            if with_stream {
                volume.read(stream, &mut long).unwrap();
                stream += REQUEST_BLOCKS;
            }
            make_room();
        }
    }
    hits
}

#[test]
fn beside_a_stream_past_the_cutoff_a_skewed_load_hits_as_often_as_alone() {
    let counted = READS - READS / WARM_UP;
    let alone = hits(false, 0);
    let [open, cut_off] = [0, 1 << 20].map(|cutoff| hits(true, cutoff));
    println!(
        "{counted} reads: {alone} hits alone, {open} beside a stream, {cut_off} beside one past the cutoff"
    );
    assert!(alone < counted * 19 / 20, "the pool is to be too small");
    // One in a thousand: what of the stream came in before the cutoff pushed other blocks out.
    assert!(cut_off * 1000 >= alone * 999, "{cut_off} of {alone}");
    assert!(open < cut_off, "else no cutoff is needed");
}
