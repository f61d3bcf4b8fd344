//! What holds of every design with the cleaner.

mod copies;
mod failures;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Watermarks;
use crate::Engine;
use crate::engines::EngineName;
use crate::testing::{Rig, TestStep, VolatileDisk, set_broken};
use forebay_volatile::DiskEvent;

const DESIGNS: [EngineName; 4] = [
    EngineName::Classic,
    EngineName::Ubj,
    EngineName::Tinca,
    EngineName::Spindle,
];

/// Write-back as blocks leave, ahead of need, and of everything at once.
const MARKS: [(u32, u32, u32); 3] = [(1000, 1000, 2), (250, 500, 200), (0, 0, 2)];

const DISK_BLOCKS: usize = 40;

fn rig(name: EngineName, marks: (u32, u32, u32)) -> Rig {
    let mut rig = Rig::new(name, 4 << 10, DISK_BLOCKS);
    rig.options.cleaner = Some(Watermarks {
        dirty_low_per_mille: marks.0,
        dirty_high_per_mille: marks.1,
        free_low_per_mille: marks.2,
    });
    rig
}

#[test]
fn random_operations_agree_with_a_model() {
    for name in DESIGNS {
        for marks in MARKS {
            for seed in 0..3 {
                rig(name, marks).run_against_model(800, 4, seed);
            }
            rig(name, marks).run_against_model(400, usize::MAX, 9);
        }
    }
}

#[test]
fn a_crash_keeps_what_was_committed() {
    for name in DESIGNS {
        for (seed, marks) in (0..).zip(MARKS) {
            let rig = rig(name, marks);
            let script = rig.random_script(16, 3, seed);
            let images = rig.crash_everywhere(&script, 2, seed);
            let images = images.unwrap_or_else(|lost| panic!("{name} {marks:?}: {lost}"));
            assert!(images > 50, "{name}: {images}");
        }
    }
}

/// Each thread writes blocks of its own and reads those of all, while the cleaner works beside them.
#[test]
fn threads_read_what_they_wrote() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 300;
    for name in DESIGNS {
        for marks in MARKS {
            let mut rig = rig(name, marks);
            rig.options.background = true;
            let disk = rig.disk();
            let (_shadow, engine) = rig.create(&disk);
            let engine: &dyn Engine = &*engine;
            let rig = &rig;
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    scope.spawn(move || write_and_read(rig, engine, thread, THREADS, ROUNDS));
                }
            });
            engine.flush().expect("flush");
            let on_disk = disk.bytes();
            for (block, bytes) in rig.content(engine).iter().enumerate() {
                let at = block * bytes.len();
                assert!(
                    on_disk[at..at + bytes.len()] == **bytes,
                    "{name}: block {block}"
                );
            }
        }
    }
}

fn write_and_read(rig: &Rig, engine: &dyn Engine, thread: u64, threads: u64, rounds: u64) {
    let mut rng = fastrand::Rng::with_seed(thread);
    let mut newest: Vec<u64> = (0..DISK_BLOCKS as u64).map(|block| 1000 + block).collect();
    let mut out = rig.bytes_of(0);
    for round in 0..rounds {
        let count = rng.u64(1..4);
        let mut transaction = engine.begin();
        for _ in 0..count {
            let block = rng.u64(..DISK_BLOCKS as u64 / threads) * threads + thread;
            let seed = 10_000 + round * 10 + thread;
            transaction
                .write(block, &rig.bytes_of(seed))
                .expect("write");
            newest[block as usize] = seed;
        }
        transaction.commit().expect("commit");
        for _ in 0..4 {
            let block = rng.u64(..DISK_BLOCKS as u64);
            engine.read(block, &mut out).expect("read");
            if block % threads == thread {
                assert!(
                    out == rig.bytes_of(newest[block as usize]),
                    "block {block} is stale"
                );
            }
        }
    }
}

#[test]
fn a_disk_that_fails_is_told_of_and_nothing_is_lost() {
    for name in DESIGNS {
        let rig = rig(name, MARKS[0]);
        let (disk, mut truth) = (rig.disk(), rig.first_content());
        let (_shadow, engine) = rig.create(&disk);
        set_broken(&disk, true);
        let mut refused = 0;
        for block in 0..DISK_BLOCKS as u64 {
            match engine.write(block, &rig.bytes_of(block)) {
                Ok(()) => truth[block as usize] = rig.bytes_of(block),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 0 && engine.flush().is_err(), "{name}");
        set_broken(&disk, false);
        rig.act(
            &*engine,
            &TestStep::Commit(vec![(39, 7), (1, 8)]),
            &mut truth,
        );
        assert!(rig.content(&*engine) == truth, "{name}");
        engine.flush().expect("flush");
        assert_eq!(engine.stats().dirty_blocks, 0, "{name}");
    }
}

/// Has `change` done once, by the thread that is at the disk, at the next such event.
fn at_next(disk: &VolatileDisk, wanted: DiskEvent, change: impl Fn() + Send + Sync + 'static) {
    let is_done = AtomicBool::new(false);
    disk.set_hook(Some(Arc::new(move |event| {
        if event == wanted && !is_done.swap(true, Ordering::Relaxed) {
            change();
        }
    })));
}

#[test]
fn a_block_that_is_written_while_the_disk_reads_it_is_looked_for_again() {
    for name in DESIGNS {
        for has_cleaner in [false, true] {
            let mut rig = rig(name, MARKS[0]);
            rig.options.cleaner = rig.options.cleaner.filter(|_| has_cleaner);
            let disk = rig.disk();
            let engine: Arc<dyn Engine> = rig.create(&disk).1.into();
            let (writer, bytes) = (Arc::clone(&engine), rig.bytes_of(77));
            // It would wait for itself if the mutex were held.
            at_next(&disk, DiskEvent::Read, move || {
                writer.write(3, &bytes).expect("write");
            });
            let mut out = rig.bytes_of(0);
            engine.read(3, &mut out).expect("read");
            disk.set_hook(None);
            assert!(out == rig.bytes_of(77), "{name}");
            engine.read(3, &mut out).expect("read");
            assert!(out == rig.bytes_of(77), "{name}");
        }
    }
}

#[test]
fn a_block_that_is_written_while_it_is_cleaned_stays_dirty() {
    for name in DESIGNS {
        let mut rig = rig(name, (0, 1000, 2));
        // No set lacks room before the flush's own round.
        rig.options.set_blocks = 16;
        let disk = rig.disk();
        let engine: Arc<dyn Engine> = rig.create(&disk).1.into();
        engine.write(3, &rig.bytes_of(7)).expect("write");
        let (writer, bytes) = (Arc::clone(&engine), rig.bytes_of(77));
        at_next(&disk, DiskEvent::Sync, move || {
            writer.write(3, &bytes).expect("write");
        });
        let before = engine.stats();
        assert!(before.dirty_blocks > 0, "{name}");
        engine.flush().expect("flush");
        disk.set_hook(None);
        let mut out = rig.bytes_of(0);
        engine.read(3, &mut out).expect("read");
        assert!(out == rig.bytes_of(77), "{name}");
        assert!(engine.stats().dirty_blocks > 0, "{name}");
        engine.flush().expect("flush");
        assert_eq!(engine.stats().dirty_blocks, 0, "{name}");
        assert!(disk.bytes()[3 * out.len()..][..out.len()] == out, "{name}");
    }
}
