//! Classic against a plain model and through crashes.

mod as_printed;
mod counts;
mod journal;
mod kills;

use forebay::{Backing, ErrorKind, Region};
use forebay_pmem::shadow::FenceFailure;

use crate::engines::{EngineName, EngineOptions, JournalMode, create};
use crate::testing::{Rig, TestStep, set_broken};

const BLOCK_BYTES: u64 = 128;

/// A region of so many slots: the header has two blocks, and 8 entries fit a metadata block.
fn region_bytes(slots: u64) -> u64 {
    (2 + slots + slots.div_ceil(8)) * BLOCK_BYTES
}

fn rig(slots: u64, disk_blocks: usize, journal_blocks: u64) -> Rig {
    let mut rig = Rig::new(EngineName::Classic, region_bytes(slots), disk_blocks);
    rig.options.journal_blocks = Some(journal_blocks);
    rig
}

#[test]
fn it_holds_what_a_plain_model_holds() {
    for (seed, slots, disk_blocks, journal_blocks) in [
        (1, 8, 20, 8),
        (2, 28, 20, 24),
        (3, 1, 7, 4),
        (4, 12, 64, 40),
    ] {
        let rig = rig(slots, disk_blocks, journal_blocks);
        let (_, engine) = rig.run_against_model(3000, 6, seed);
        assert_eq!(engine.stats().slots, slots);
        assert!(engine.stats().cached_blocks > 0);
    }
}

#[test]
fn it_holds_what_a_plain_model_holds_in_the_other_modes() {
    for (seed, mode) in [(5, JournalMode::Ordered), (6, JournalMode::None)] {
        let mut rig = rig(10, 20, 12);
        rig.options.journal_mode = mode;
        rig.run_against_model(3000, 6, seed);
        rig.options.fill_on_read = false;
        rig.run_against_model(1000, 6, seed + 10);
    }
}

#[test]
fn every_crash_leaves_transactions_whole() {
    let mut images = 0;
    for (seed, slots, journal_blocks) in [(1, 8, 8), (2, 14, 12), (3, 28, 24), (4, 1, 6)] {
        let rig = rig(slots, 9, journal_blocks);
        let script = rig.random_script(40, 4.min(journal_blocks as usize - 4), seed);
        images += rig.crash_everywhere(&script, 4, seed).unwrap();
    }
    assert!(images > 10_000, "{images}");
}

#[test]
fn every_crash_in_ordered_mode_leaves_single_blocks_whole() {
    for seed in 1..4 {
        let mut rig = rig(10, 5, 8);
        rig.options.journal_mode = JournalMode::Ordered;
        // Metadata only is atomic; of data each block is, but for tears of what is written now.
        let script: Vec<TestStep> = (0..40)
            .map(|step| TestStep::Update(step * seed % 5, step + seed))
            .collect();
        rig.crash_everywhere(&script, 4, seed).unwrap();
    }
}

#[test]
fn garbage_is_refused_or_served() {
    rig(14, 20, 12).open_garbage(300);
    let mut ordered = rig(14, 20, 12);
    ordered.options.journal_mode = JournalMode::Ordered;
    ordered.open_garbage(100);
}

#[test]
fn other_options_are_refused() {
    let rig = rig(14, 20, 12);
    let (shadow, engine) = rig.create(&rig.disk());
    drop(engine);
    let image = shadow.crash_state().durable().to_vec();
    let refused = |change: &dyn Fn(&mut EngineOptions)| {
        let mut other = rig.clone();
        change(&mut other.options);
        other.open(&image, &rig.disk()).err().unwrap().to_string()
    };
    let found = refused(&|options| options.block_bytes = 256);
    assert!(found.contains("128 bytes"), "{found}");
    for change in [
        &(|options: &mut EngineOptions| options.set_blocks = 8) as &dyn Fn(&mut EngineOptions),
        &|options| options.as_printed = true,
        &|options| options.updates_metadata = false,
        &|options| options.journal_blocks = Some(8),
    ] {
        let found = refused(change);
        assert!(found.contains("other options"), "{found}");
    }
}

#[test]
fn what_cannot_be_is_an_error_in_words() {
    let refused = |slots: u64, disk_blocks: usize, change: &dyn Fn(&mut EngineOptions)| {
        let mut rig = rig(slots, disk_blocks, 0);
        let disk = rig.disk();
        rig.options.journal_blocks = None;
        change(&mut rig.options);
        let region = Region::shadow(rig.region_bytes);
        let backing = Backing::from_store(disk);
        create(rig.name, region, backing, &rig.options).err()
    };
    assert!(refused(0, 20, &|_| {}).is_some(), "no slots");
    assert!(refused(4, 4, &|_| {}).is_some(), "no room for data");
    assert!(refused(4, 5, &|_| {}).is_none(), "one block for data");
    assert!(refused(4, 20, &|options| options.set_blocks = 3).is_some());
    assert!(refused(4, 20, &|options| options.block_bytes = 96).is_some());
    assert!(refused(4, 20, &|options| options.journal_blocks = Some(3)).is_some());
    assert!(refused(4, 20, &|options| options.journal_blocks = Some(0)).is_some());
}

#[test]
fn a_backing_that_fails_loses_nothing() {
    let rig = rig(6, 20, 10);
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (shadow, engine) = rig.create(&disk);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut failures = 0;
    for step in 0..2000 {
        if step % 40 == 0 {
            set_broken(&disk, rng.bool());
        }
        let mut changed = truth.clone();
        let mut transaction = engine.begin();
        for _ in 0..rng.usize(1..4) {
            let (block, seed) = (rng.u64(..20), rng.u64(..));
            changed[block as usize] = rig.bytes_of(seed);
            transaction.write(block, &changed[block as usize]).unwrap();
        }
        match transaction.commit() {
            Ok(()) => truth = changed,
            Err(error) if matches!(error.kind(), ErrorKind::Backing { .. }) => failures += 1,
            Err(error) => panic!("{error}"),
        }
        assert!(rig.content(&*engine) == truth, "after step {step}");
        if rng.u8(..10) == 0 {
            failures += usize::from(engine.flush().is_err());
        }
    }
    assert!((100..1900).contains(&failures), "{failures}");
    let image = shadow.crash_state().durable().to_vec();
    set_broken(&disk, false);
    let (_shadow, engine) = rig.open(&image, &disk).unwrap();
    assert!(rig.content(&*engine) == truth);
}

#[test]
fn threads_take_turns() {
    let rig = rig(14, 16, 12);
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (_shadow, engine) = rig.create(&disk);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (engine, rig) = (&engine, &rig);
            scope.spawn(move || {
                let mut out = rig.bytes_of(0);
                for step in 0..200 {
                    let block = thread * 4 + step % 4;
                    let bytes = rig.bytes_of(thread << 32 | step);
                    engine.write(block, &bytes).unwrap();
                    engine.read(block, &mut out).unwrap();
                    assert!(out == bytes);
                }
            });
        }
    });
    for block in 0..16 {
        truth[block as usize] = rig.bytes_of((block / 4) << 32 | (196 + block % 4));
    }
    assert!(rig.content(&*engine) == truth);
}

#[test]
fn after_a_failed_fence_nothing_is_written_and_recovery_decides() {
    for fences in 0..40 {
        let rig = rig(10, 9, 8);
        let disk = rig.disk();
        let (shadow, engine) = rig.create(&disk);
        let mut truth = rig.first_content();
        let write = |number: u64, seed: u64| engine.write(number, &rig.bytes_of(seed));
        for number in 0..6 {
            write(number, number).unwrap();
            truth[number as usize] = rig.bytes_of(number);
        }
        shadow.set_fence_failure(FenceFailure::After(fences));
        let failed = (0..).find(|number| write(number % 6, 100 + number).is_err());
        let failed = failed.expect("a fence fails sooner or later");
        for number in 0..failed {
            truth[number as usize % 6] = rig.bytes_of(100 + number);
        }
        let spent = engine.stats().memory;
        assert!(rig.content(&*engine) == truth);
        for number in 0..9 {
            let error = write(number, 200).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Poisoned { .. }),
                "{error}"
            );
        }
        assert!(engine.flush().is_err());
        assert_eq!(engine.stats().memory, spent);
        let mut after = truth.clone();
        after[failed as usize % 6] = rig.bytes_of(100 + failed);
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let image = shadow.crash_state().sample(&mut rng);
            let (_shadow, engine) = rig.open(&image, &disk).unwrap();
            let found = rig.content(&*engine);
            assert!(found == truth || found == after, "after {fences} fences");
        }
    }
}
