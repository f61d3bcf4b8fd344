//! Reads that wait for the backing together: what is answered, what is brought in, and that a write which overtakes one wins.

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay::internals::QueuedReads;
use forebay::{Backing, ErrorKind, Volume};

use crate::rig::{self, BLOCK, Rig, rig_with};

const BLOCKS: u64 = 4096;
const READS_MAX: usize = 32;

type Answer = Box<dyn FnOnce(forebay::Result<&[u8]>) + Send>;
type Answers = Arc<Mutex<Vec<(u64, forebay::Result<Vec<u8>>)>>>;

struct Queued {
    rig: Rig,
    volume: Volume,
    backing: Backing,
    file: tempfile::NamedTempFile,
    reads: QueuedReads<Answer>,
    answers: Answers,
}

/// A pool before a file of telling blocks; none where the build's disk takes no such reads, which is said.
fn queued() -> Option<Queued> {
    let rig = rig_with(16 << 20, |options| {
        options.background(false).sequential_cutoff_bytes(1 << 20)
    });
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for block in 0..BLOCKS {
        let bytes = rig::bytes_of(block, 0);
        let offset = block * BLOCK as u64;
        file.as_file().write_all_at(&bytes, offset).unwrap();
    }
    file.as_file().sync_all().unwrap();
    let backing = Backing::file(file.path()).unwrap();
    let volume = rig.pool.attach(backing.clone()).unwrap();
    let Some(reads) = volume.queued_reads(READS_MAX) else {
        println!("skipped: reads cannot be queued where this was built");
        return None;
    };
    Some(Queued {
        rig,
        volume,
        backing,
        file,
        reads,
        answers: Answers::default(),
    })
}

impl Queued {
    fn begin(&self, block: u64, count: usize) -> bool {
        let answers = Arc::clone(&self.answers);
        let answer = move || -> Answer {
            Box::new(move |read| {
                let read = read.map(<[u8]>::to_vec);
                answers.lock().unwrap().push((block, read));
            })
        };
        let offset = block * BLOCK as u64;
        self.reads.begin(offset, count * BLOCK, answer)
    }

    fn finish(&self) -> Vec<(u64, forebay::Result<Vec<u8>>)> {
        finish(&self.reads, &self.answers)
    }
}

/// Answers all that was begun, and begins nothing more.
fn finish(reads: &QueuedReads<Answer>, answers: &Answers) -> Vec<(u64, forebay::Result<Vec<u8>>)> {
    reads.submit();
    reads.close();
    reads.work(|| {});
    let mut answers = std::mem::take(&mut *answers.lock().unwrap());
    answers.sort_by_key(|(block, _)| *block);
    answers
}

#[test]
fn what_was_begun_is_answered_counted_and_brought_in() {
    let Some(queued) = queued() else { return };
    let asked = queued.backing.counters();
    let fences = queued.rig.pool.counters().fences;
    let blocks: Vec<u64> = (0..16).map(|number| number * 100).collect();
    assert!(blocks.iter().all(|block| queued.begin(*block, 2)));
    let answers = queued.finish();
    assert!(answers.iter().map(|(block, _)| *block).eq(blocks.clone()));
    for (block, bytes) in answers {
        let wanted = [rig::bytes_of(block, 0), rig::bytes_of(block + 1, 0)].concat();
        assert!(bytes.unwrap() == wanted, "block {block}");
    }
    let asked = queued.backing.counters() - asked;
    // One is read again where another's fill has changed its stripe before it was answered.
    assert!((16..=32).contains(&asked.reads), "{asked:?}");
    let totals = queued.rig.pool.stats().totals;
    assert_eq!((totals.read_misses, totals.fills), (32, 32));
    let fences = queued.rig.pool.counters().fences - fences;
    assert!((1..=32).contains(&fences), "{fences}");
    for block in blocks {
        assert!(rig::get(&queued.volume, block) == rig::bytes_of(block, 0));
    }
    assert_eq!(queued.rig.pool.stats().totals.read_hits, 16);
}

#[test]
fn a_read_alone_is_answered_and_brought_in_before_it_returns() {
    let Some(queued) = queued() else { return };
    let answered = Arc::new(AtomicBool::new(false));
    let answer = || -> Answer {
        let answered = Arc::clone(&answered);
        Box::new(move |read| {
            assert!(read.unwrap() == rig::bytes_of(7, 0));
            answered.store(true, Ordering::SeqCst);
        })
    };
    assert!(queued.reads.read(7 * BLOCK as u64, BLOCK, answer));
    assert!(answered.load(Ordering::SeqCst));
    assert!(queued.volume.is_resident(7..8));
    // One that waits already: it waits with that.
    assert!(queued.begin(1000, 1));
    let never = || -> Answer { Box::new(|read| assert!(read.is_ok())) };
    assert!(queued.reads.read(2000 * BLOCK as u64, BLOCK, never));
    assert!(!queued.volume.is_resident(2000..2001));
    assert_eq!(queued.finish().len(), 1);
    assert!(queued.volume.is_resident(2000..2001));
}

#[test]
fn what_cannot_wait_is_left_to_the_caller() {
    let Some(queued) = queued() else { return };
    rig::put(&queued.volume, 9, 1);
    assert!(!queued.begin(9, 1), "it is cached");
    assert!(!queued.begin(8, 4), "one of it is cached");
    assert!(!queued.begin(BLOCKS, 1), "past the end");
    assert!(!queued.begin(BLOCKS - 1, 2), "past the end in part");
    assert!(!queued.begin(u64::MAX / BLOCK as u64, 1));
    assert!(!queued.begin(100, 0) && !queued.begin(100, 5), "too long");
    let never = || -> Answer { unreachable!() };
    assert!(!queued.reads.begin(100 * BLOCK as u64 + 512, 512, never));
    assert!(queued.begin(200, 1));
    assert!(!queued.begin(201, 1), "it goes on with a run");
    for number in 1..READS_MAX as u64 {
        assert!(queued.begin(200 + 100 * number, 1));
    }
    assert!(!queued.begin(5, 1), "no more wait at a time");
    assert_eq!(queued.finish().len(), READS_MAX);
    let memory = rig::rig(16 << 20, false);
    let volume = memory.pool.attach(Backing::memory(1 << 20)).unwrap();
    assert!(volume.queued_reads::<Answer>(READS_MAX).is_none());
}

#[test]
fn a_write_that_overtakes_a_read_is_what_is_read_and_what_stays() {
    for is_asked_before in [true, false] {
        for is_evicted in [true, false] {
            let Some(queued) = queued() else { return };
            assert!(queued.begin(5, 1) && queued.begin(500, 2));
            if is_asked_before {
                queued.reads.submit();
                // Whatever the disk does meanwhile: no result depends on it.
                std::thread::sleep(Duration::from_millis(20));
            }
            for block in [5, 501] {
                rig::put(&queued.volume, block, 1);
            }
            if is_evicted {
                queued.volume.flush().unwrap();
                while queued.rig.pool.reclaim_once(64).unwrap() > 0 {}
                assert!(!queued.volume.is_resident(5..6));
            }
            let answers = queued.finish();
            let second = [rig::bytes_of(500, 0), rig::bytes_of(501, 1)].concat();
            for ((_, read), wanted) in answers.into_iter().zip([rig::bytes_of(5, 1), second]) {
                assert!(read.unwrap() == wanted);
            }
            for (block, version) in [(5, 1), (500, 0), (501, 1)] {
                assert!(rig::get(&queued.volume, block) == rig::bytes_of(block, version));
            }
        }
    }
}

#[test]
fn what_the_backing_gives_after_the_pool_is_closed_or_the_disk_detached_is_refused() {
    for is_closed in [true, false] {
        let Some(queued) = queued() else { return };
        assert!(queued.begin(5, 1));
        let Queued {
            rig,
            volume,
            reads,
            answers,
            ..
        } = queued;
        match is_closed {
            true => rig.pool.close().unwrap(),
            false => rig.pool.detach(volume).unwrap(),
        }
        let (_, read) = finish(&reads, &answers).remove(0);
        let error = read.unwrap_err();
        let is_refused = match is_closed {
            true => matches!(error.kind(), ErrorKind::Closed { .. }),
            false => matches!(error.kind(), ErrorKind::Volume(_)),
        };
        assert!(is_refused, "{error}");
    }
}

#[test]
fn a_file_that_was_cut_short_is_named() {
    let Some(queued) = queued() else { return };
    assert!(queued.begin(BLOCKS - 1, 1));
    let file = queued.file.as_file();
    file.set_len(BLOCK as u64 * (BLOCKS - 1)).unwrap();
    let (_, read) = queued.finish().remove(0);
    let said = read.unwrap_err().to_string();
    let path = queued.file.path().display().to_string();
    assert!(said.contains(&path), "{said}");
}

/// Reads begin while blocks are written, written back and evicted: each finds what was acknowledged before it began, or newer.
#[test]
fn reads_among_writes_and_evictions_find_nothing_older_than_what_was_acknowledged() {
    const WRITTEN: u64 = 48;
    let Some(queued) = queued() else { return };
    let written: Vec<AtomicU64> = (0..WRITTEN).map(|_| AtomicU64::new(0)).collect();
    let written = Arc::new(written);
    let is_over = AtomicBool::new(false);
    let place = |number: u64| number * 61;
    let read_some = |seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..4000 {
            let number = random.u64(..WRITTEN);
            let (written, begun) = (Arc::clone(&written), place(number));
            let oldest = written[number as usize].load(Ordering::SeqCst);
            let answer = move || -> Answer {
                Box::new(move |read| {
                    let bytes = read.unwrap();
                    let newest = written[number as usize].load(Ordering::SeqCst) + 1;
                    let is_right = |version| bytes == rig::bytes_of(begun, version);
                    assert!((oldest..=newest).any(is_right), "block {begun}");
                })
            };
            let offset = begun * BLOCK as u64;
            queued.reads.read(offset, BLOCK, answer);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| queued.reads.work(|| {}));
        scope.spawn(|| {
            let mut random = fastrand::Rng::with_seed(7);
            while !is_over.load(Ordering::SeqCst) {
                let number = random.u64(..WRITTEN);
                let version = written[number as usize].load(Ordering::SeqCst) + 1;
                rig::put(&queued.volume, place(number), version);
                written[number as usize].store(version, Ordering::SeqCst);
                if random.u8(..8) == 0 {
                    queued.volume.flush().unwrap();
                }
                queued.rig.pool.reclaim_once(16).unwrap();
            }
        });
        let readers = [1, 2].map(|seed| scope.spawn(move || read_some(seed)));
        for reader in readers {
            reader.join().unwrap();
        }
        is_over.store(true, Ordering::SeqCst);
        queued.reads.close();
    });
    for number in 0..WRITTEN {
        let version = written[number as usize].load(Ordering::SeqCst);
        let found = rig::get(&queued.volume, place(number));
        assert!(found == rig::bytes_of(place(number), version));
    }
    assert!(queued.rig.pool.stats().totals.fills > 0);
}
