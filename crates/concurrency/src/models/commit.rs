//! Transactions of several keys, the clean mark and the checkpoint, beside each other.

use std::sync::atomic::AtomicBool;

use loom::sync::Arc;
use loom::thread;

use crate::lanes::{Lanes, set_thread_hint};
use crate::models::lookup::{Store, entry};
use crate::models::{beside, turn};
use crate::sync::{AtomicU32, AtomicU64, Mutant, Ordering, mutated};

/// Whether some interleaving showed a plain read half a transaction: it is allowed to.
pub(crate) static PLAIN_READ_SAW_HALF: AtomicBool = AtomicBool::new(false);

/// A transaction moves two keys of two stripes to new slots. `read` may see half of it, `read_atomic` never.
pub(crate) fn read_atomic_is_whole() {
    let read = Store::new(15, 2, 4);
    let stripes = [read.bucket(0).stripe, read.bucket(1).stripe];
    assert_ne!(stripes[0], stripes[1]);
    let written = read.clone();
    let writer = move || publish_two(&written, stripes);
    let reader = move || {
        turn(1);
        let first = read.try_read(0);
        turn(2);
        let second = read.try_read(1);
        let (Some((version, Some(first))), Some((_, Some(second)))) = (first, second) else {
            return;
        };
        let half = (first == [8; 2]) != (second == [8; 2]);
        if half {
            PLAIN_READ_SAW_HALF.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        // What `read_atomic` does: all versions still stand after the last block was read.
        let stands =
            read.index.read_valid(stripes[0], version) || mutated(Mutant::AtomicReadNotRechecked);
        assert!(
            !(stands && half),
            "half a transaction: {first:?}, {second:?}"
        );
    };
    beside(reader, writer);
}

fn publish_two(store: &Store, stripes: [u32; 2]) {
    store.fill_slot(2, 8);
    store.fill_slot(3, 8);
    let publish =
        |key: u64| store.entries[key as usize].store(entry(key, key + 2), Ordering::Relaxed);
    if mutated(Mutant::StripesPublishedOneByOne) {
        store.change(stripes[0], || publish(0));
        store.change(stripes[1], || publish(1));
        return;
    }
    for stripe in stripes {
        store.index.lock(stripe);
    }
    for stripe in stripes {
        store.index.begin_change(stripe);
    }
    publish(0);
    publish(1);
    for stripe in stripes {
        store.index.end_change_and_unlock(stripe);
    }
}

const WRITING: u32 = 1;
const REDIRTIED: u32 = 2;

/// A block on its way to the backing.
struct Block {
    store: Arc<Store>,
    state: AtomicU32,
    backing: AtomicU64,
    clean: AtomicU32,
}

impl Block {
    fn write_back(&self) {
        self.store.index.lock(0);
        self.state.store(WRITING, Ordering::Relaxed);
        self.store.index.unlock(0);
        let Some((_, Some(halves))) = self.store.try_read(0) else {
            return;
        };
        assert_eq!(halves[0], halves[1], "a torn block reaches the backing");
        self.backing.store(halves[0], Ordering::Relaxed);
        self.store.index.lock(0);
        if self.state.load(Ordering::Relaxed) & REDIRTIED == 0 || mutated(Mutant::RedirtyIgnored) {
            self.clean.store(1, Ordering::Relaxed);
        }
        self.store.index.unlock(0);
    }

    fn overwrite(&self) {
        turn(1);
        self.store.fill_slot(1, 7);
        turn(2);
        self.store.change(0, || {
            self.store.entries[0].store(entry(0, 1), Ordering::Relaxed);
            self.clean.store(0, Ordering::Relaxed);
            if self.state.load(Ordering::Relaxed) & WRITING != 0 {
                self.state.store(WRITING | REDIRTIED, Ordering::Relaxed);
            }
        });
    }
}

/// A flusher copies, writes and marks clean while a writer changes the block: clean means that the backing has it.
pub(crate) fn clean_mark_sees_writer() {
    let block = Arc::new(Block {
        store: Store::new(1, 1, 2),
        state: AtomicU32::new(0),
        backing: AtomicU64::new(99),
        clean: AtomicU32::new(0),
    });
    let (flushed, written) = (block.clone(), block.clone());
    beside(move || written.overwrite(), move || flushed.write_back());
    if block.clean.load(Ordering::Relaxed) == 1 {
        assert_eq!(
            block.backing.load(Ordering::Relaxed),
            7,
            "clean, and the backing has an older version"
        );
    }
}

/// A checkpoint's S covers only what is published, and what it covers it flushes.
pub(crate) fn checkpoint_waits() {
    // Loom's threads share their host's hint: the same in every run.
    set_thread_hint(0);
    let lanes = Arc::new(Lanes::new(2, 256, 64, 0));
    let published: Arc<Vec<AtomicU32>> = Arc::new((0..3).map(|_| AtomicU32::new(0)).collect());
    let committer = |lanes: &Lanes, published: &[AtomicU32]| {
        let lane = lanes.try_hold(64).expect("a lane is free");
        let sequence = lane.draw();
        published[sequence as usize].store(1, Ordering::Relaxed);
        lane.publish(64);
    };
    let other = {
        let (lanes, published) = (lanes.clone(), published.clone());
        thread::spawn(move || committer(&lanes, &published))
    };
    let third = {
        let (lanes, published) = (lanes.clone(), published.clone());
        thread::spawn(move || committer(&lanes, &published))
    };
    turn(1);
    let positions = lanes.published_positions();
    turn(2);
    let covered = lanes.settle(false, || false).expect("nobody gives up");
    for sequence in 1..=covered {
        assert_eq!(
            published[sequence as usize].load(Ordering::Relaxed),
            1,
            "S covers what is not published"
        );
    }
    assert!(
        positions.iter().sum::<u64>() <= covered * 64,
        "a tail beyond S"
    );
    assert!(
        lanes.published_positions().iter().sum::<u64>() >= covered * 64,
        "S covers a record beyond the ends that the checkpoint reads to"
    );
    lanes.advance_tails(&positions);
    other.join().unwrap();
    third.join().unwrap();
}

/// What the places of a lane of two records hold, and what its holders hand on.
struct Ring {
    /// The sequence of the record at each place.
    places: [AtomicU32; 2],
    /// The S that is durable.
    covered: AtomicU32,
    /// Where the last record went, and 1.
    end: AtomicU32,
}

impl Ring {
    /// Commits a record of half the lane, if there is room.
    fn commit(&self, lanes: &Lanes) {
        let Some(lane) = lanes.try_hold(64) else {
            return;
        };
        let position = lane.position() as u32;
        assert!(
            self.end.swap(position + 1, Ordering::Relaxed) <= position,
            "a position was given away twice"
        );
        let place = &self.places[lane.offset as usize / 64];
        let before = place.swap(lane.draw() as u32, Ordering::Relaxed);
        assert!(
            before <= self.covered.load(Ordering::Relaxed),
            "a record was overwritten that no checkpoint covers"
        );
        lane.publish(64);
    }

    fn checkpoint(&self, lanes: &Lanes) {
        let positions = lanes.published_positions();
        let covered = lanes.settle(false, || false).expect("nobody gives up");
        self.covered.store(covered as u32, Ordering::Relaxed);
        lanes.advance_tails(&positions);
    }
}

/// A lane that goes round: the next holder knows in which lap the last one left it, and overwrites what a checkpoint
/// covers, nothing else.
pub(crate) fn lane_goes_round() {
    set_thread_hint(0);
    let lanes = Arc::new(Lanes::new(1, 128, 64, 0));
    let ring = Arc::new(Ring {
        places: std::array::from_fn(|_| AtomicU32::new(0)),
        covered: AtomicU32::new(0),
        end: AtomicU32::new(0),
    });
    // The lane is full once, so the next record begins a lap.
    ring.commit(&lanes);
    ring.commit(&lanes);
    ring.checkpoint(&lanes);
    let (first, second) = ((lanes.clone(), ring.clone()), (lanes, ring));
    beside(
        move || {
            let (lanes, ring) = first;
            turn(1);
            ring.commit(&lanes);
            ring.checkpoint(&lanes);
        },
        move || {
            let (lanes, ring) = second;
            ring.commit(&lanes);
            turn(2);
            ring.commit(&lanes);
        },
    );
}

/// What a record may claim: the watermark covers only what is published, whichever thread refreshed it.
pub(crate) fn watermark_waits() {
    set_thread_hint(0);
    let lanes = Arc::new(Lanes::new(2, 256, 64, 0));
    let published: Arc<Vec<AtomicU32>> = Arc::new((0..5).map(|_| AtomicU32::new(0)).collect());
    let committer = |lanes: &Lanes, published: &[AtomicU32], rounds: u32| {
        for _ in 0..rounds {
            let lane = lanes.try_hold(64).expect("a lane is free");
            let sequence = lane.draw();
            lanes.refresh_acknowledged(false);
            let watermark = lanes.acknowledged();
            assert!(watermark < sequence, "a watermark over its own record");
            for below in 1..=watermark {
                assert_eq!(
                    published[below as usize].load(Ordering::Relaxed),
                    1,
                    "a watermark over what is not published"
                );
            }
            published[sequence as usize].store(1, Ordering::Relaxed);
            lane.publish(64);
        }
    };
    let (first, second) = (lanes.clone(), lanes);
    let (first_published, second_published) = (published.clone(), published);
    beside(
        move || {
            turn(1);
            committer(&first, &first_published, 2);
        },
        move || {
            turn(2);
            committer(&second, &second_published, 1);
        },
    );
}
