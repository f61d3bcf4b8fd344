//! What Tinca does while nothing fails, what it costs, and what it does where something fails. Power
//! cuts and the paper's losses are in `crashes`.

mod crashes;

use std::sync::Arc;

use crate::{Engine, EngineStats};
use forebay::{Backing, Error, ErrorKind, MemoryStore, Region};
use forebay_pmem::Counters;
use forebay_pmem::shadow::FenceFailure;

use crate::engines::{EngineName, EngineOptions, create, open};
use crate::testing::{Rig, TestStep, set_broken};

/// A rig with so many slots of 128 bytes and a ring of so many elements.
fn rig(slots: u64, ring_elements: u64, disk_blocks: usize) -> Rig {
    let entries_offset = 384 + (ring_elements * 8).next_multiple_of(64);
    let blocks_offset = (entries_offset + slots * 16).next_multiple_of(128);
    let mut rig = Rig::new(EngineName::Tinca, blocks_offset + slots * 128, disk_blocks);
    rig.options.ring_elements = Some(ring_elements);
    let (_shadow, engine) = rig.create(&rig.disk());
    assert_eq!(engine.stats().slots, slots);
    rig
}

fn printed(mut rig: Rig) -> Rig {
    rig.options.as_printed = true;
    rig
}

fn commit(blocks: &[(u64, u64)]) -> TestStep {
    TestStep::Commit(blocks.to_vec())
}

#[test]
fn random_operations_agree_with_a_plain_model() {
    for (slots, ring, disk_blocks) in [(2, 8, 3), (3, 1, 5), (8, 16, 20), (28, 9, 20), (28, 64, 90)]
    {
        for seed in 0..3 {
            let rig = rig(slots, ring, disk_blocks);
            rig.run_against_model(2000, 16, seed);
            printed(rig).run_against_model(500, 16, seed);
        }
    }
}

#[test]
fn reads_may_leave_the_cache_as_it_is() {
    let mut rig = rig(8, 8, 20);
    rig.options.fill_on_read = false;
    let (_shadow, engine) = rig.run_against_model(1000, 4, 1);
    let before = engine.stats();
    rig.content(&*engine);
    let after = engine.stats();
    assert_eq!(after.memory, before.memory);
    assert_eq!(after.cached_blocks, before.cached_blocks);
    assert!(after.read_misses > before.read_misses);
}

#[test]
fn blocks_beyond_the_disk_are_refused_and_its_last_one_may_be_short() {
    let backing = Backing::memory(1000);
    let options = rig(8, 8, 1).options;
    let engine = create(EngineName::Tinca, Region::shadow(4096), backing, &options).unwrap();
    assert_eq!(engine.size_bytes(), 1024);
    let mut last = vec![1; 128];
    engine.read(7, &mut last).unwrap();
    assert_eq!(last, [0; 128]);
    for (block, len) in [(8, 128), (7, 256), (0, 100), (u64::MAX, 128)] {
        let refused = engine.read(block, &mut vec![0; len]).unwrap_err();
        assert!(
            matches!(refused.kind(), ErrorKind::OutOfRange { .. }),
            "{refused}"
        );
        let mut transaction = engine.begin();
        let refused = transaction.write(block, &vec![0; len]).unwrap_err();
        assert!(
            matches!(refused.kind(), ErrorKind::OutOfRange { .. }),
            "{refused}"
        );
    }
    let too_many = vec![0; 128 * (engine.transaction_blocks_max() + 1)];
    assert!(engine.write(0, &too_many).is_err());
}

/// An engine with blocks of 4096 bytes, and so many slots, over a disk of 64 MiB.
fn full_size(as_printed: bool, slots: u64) -> Box<dyn Engine> {
    let options = EngineOptions {
        ring_elements: Some(64),
        as_printed,
        ..EngineOptions::default()
    };
    // Everything before the slots takes 4096 bytes.
    assert!(384 + 64 * 8 + slots * 16 <= 4096);
    let region = Region::shadow(4096 + slots * 4096);
    let store = Arc::new(MemoryStore::new(64 << 20));
    let engine = create(
        EngineName::Tinca,
        region,
        Backing::from_store(store),
        &options,
    )
    .unwrap();
    assert_eq!(engine.stats().slots, slots);
    engine
}

fn counted(engine: &dyn Engine, action: impl FnOnce()) -> (Counters, EngineStats) {
    let before = engine.stats();
    action();
    let after = engine.stats();
    (after.memory - before.memory, after)
}

/// §4.4: for each block 64 lines of data, its entry, its element and Head, each with a fence; a role
/// switch each; and Tail once.
#[test]
fn a_commit_costs_68_lines_and_5_fences_a_block_and_one_of_each_for_tail() {
    for as_printed in [false, true] {
        let engine = full_size(as_printed, 200);
        for (hits, blocks) in [(0, 1), (1, 1), (1, 2), (2, 32), (32, 32)] {
            let before = engine.stats();
            let (cost, after) = counted(&*engine, || {
                engine.write(0, &vec![7; 4096 * blocks as usize]).unwrap();
            });
            assert_eq!(
                (cost.lines(), cost.fences),
                (68 * blocks + 1, 5 * blocks + 1)
            );
            // Content alone is streamed, and as printed nothing is.
            let content = if as_printed { 0 } else { 64 * blocks };
            assert_eq!(cost.lines_streamed, content);
            assert_eq!(after.write_hits - before.write_hits, hits);
            assert_eq!(after.blocks_committed - before.blocks_committed, blocks);
        }
        assert_eq!(engine.stats().commits, 5);
        assert_eq!(
            (engine.stats().cached_blocks, engine.stats().dirty_blocks),
            (32, 32)
        );
    }
}

#[test]
fn fills_evictions_and_flushes_cost_what_they_say() {
    let engine = full_size(false, 16);
    let read = |block: u64, blocks: usize| engine.read(block, &mut vec![0; 4096 * blocks]).unwrap();
    // Data, then the entry.
    let (cost, stats) = counted(&*engine, || read(0, 10));
    assert_eq!((cost.lines(), cost.fences), (10 * 65, 10 * 2));
    assert_eq!(cost.lines_streamed, 10 * 64);
    assert_eq!(
        (stats.cached_blocks, stats.dirty_blocks, stats.backing.reads),
        (10, 0, 1)
    );
    let (cost, stats) = counted(&*engine, || read(0, 10));
    assert_eq!((cost.lines(), cost.fences, stats.read_hits), (0, 0, 10));
    // The other six slots, and the two oldest ones after their entries were freed: no disk write.
    let (cost, stats) = counted(&*engine, || engine.write(100, &vec![1; 4096 * 8]).unwrap());
    assert_eq!((cost.lines(), cost.fences), (68 * 8 + 1 + 2, 5 * 8 + 1 + 2));
    assert_eq!(cost.lines_streamed, 8 * 64);
    assert_eq!(
        (stats.evictions, stats.backing.writes, stats.dirty_blocks),
        (2, 0, 8)
    );
    // Eight blocks in a row: one write, one sync, and two lines of four entries or three.
    let (cost, stats) = counted(&*engine, || engine.flush().unwrap());
    assert_eq!(
        (
            stats.backing.writes,
            stats.backing.blocks_written,
            stats.backing.syncs
        ),
        (1, 8, 1)
    );
    assert!(cost.lines() <= 3 && cost.fences == 1, "{cost:?}");
    assert_eq!(cost.lines_streamed, 0);
    assert_eq!((stats.dirty_blocks, stats.cached_blocks), (0, 16));
    let (cost, _) = counted(&*engine, || engine.flush().unwrap());
    assert_eq!((cost.lines(), cost.fences), (0, 0));
    // A dirty victim is one write and one sync more; its entry costs what a clean one's does.
    engine.write(200, &[2; 4096]).unwrap();
    for block in 300..315 {
        read(block, 1);
    }
    let before = engine.stats();
    let (cost, stats) = counted(&*engine, || read(400, 1));
    assert_eq!((cost.lines(), cost.fences), (65 + 1, 2 + 1));
    assert_eq!(
        stats.backing.blocks_written - before.backing.blocks_written,
        1
    );
    assert_eq!(stats.backing.syncs - before.backing.syncs, 1);
}

#[test]
fn a_restart_keeps_what_is_cached_and_what_is_clean() {
    let rig = rig(8, 8, 20);
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    let mut truth = rig.first_content();
    for step in [
        commit(&[(1, 1), (2, 2)]),
        TestStep::Flush,
        commit(&[(2, 3)]),
        TestStep::Read(5),
    ] {
        rig.act(&*engine, &step, &mut truth);
    }
    drop(engine);
    let (_shadow, engine) = rig.open(shadow.crash_state().durable(), &disk).unwrap();
    let stats = engine.stats();
    assert_eq!((stats.cached_blocks, stats.dirty_blocks), (3, 1));
    // The header, Head, Tail, and two lines of entries are made durable, once.
    assert_eq!((stats.memory.lines(), stats.memory.fences), (5, 1));
    assert!(rig.content(&*engine) == truth);
    assert_eq!(engine.stats().read_hits, 3);
}

#[test]
fn a_disk_that_fails_leaves_everything_as_it_was() {
    let rig = rig(4, 8, 20);
    let disk = rig.disk();
    let (_shadow, engine) = rig.create(&disk);
    let mut truth = rig.first_content();
    for block in 0..4 {
        rig.act(&*engine, &commit(&[(block, block)]), &mut truth);
    }
    set_broken(&disk, true);
    let new = rig.bytes_of(99);
    let error = engine.write(9, &new).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Backing { .. }), "{error}");
    assert!(engine.flush().is_err());
    // The block is read although there is no room for it.
    assert!(rig.content(&*engine) == truth);
    assert_eq!(engine.stats().dirty_blocks, 4);
    set_broken(&disk, false);
    rig.act(&*engine, &commit(&[(9, 9), (1, 5)]), &mut truth);
    assert!(rig.content(&*engine) == truth);
    engine.flush().unwrap();
    assert!(disk.bytes() == truth.concat());
}

#[test]
fn after_a_failed_fence_nothing_more_is_committed_and_recovery_decides() {
    for fences in 0..12 {
        let rig = rig(6, 8, 9);
        let disk = rig.disk();
        let (shadow, engine) = rig.create(&disk);
        let mut before = rig.first_content();
        rig.act(&*engine, &commit(&[(1, 1), (2, 2)]), &mut before);
        let mut after = before.clone();
        (after[1], after[3]) = (rig.bytes_of(11), rig.bytes_of(13));
        shadow.set_fence_failure(FenceFailure::After(fences));
        let mut transaction = engine.begin();
        transaction.write(1, &after[1]).unwrap();
        transaction.write(3, &after[3]).unwrap();
        let is_done = transaction.commit().is_ok();
        assert_eq!(is_done, fences >= 11);
        if !is_done {
            assert!(rig.content(&*engine) == before);
            let error = engine.write(4, &after[1]).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Poisoned { .. }),
                "{error}"
            );
        }
        for seed in 0..40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let image = shadow.crash_state().sample(&mut rng);
            let (_shadow, engine) = rig.open(&image, &disk).unwrap();
            let found = rig.content(&*engine);
            assert!(
                found == after || !is_done && found == before,
                "{fences} fences"
            );
        }
    }
}

#[test]
fn an_engine_is_opened_only_with_the_options_it_was_made_with() {
    let rig = rig(8, 8, 20);
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    drop(engine);
    let image = shadow.crash_state().durable().to_vec();
    let try_open = |options: &EngineOptions, image: &[u8]| {
        let backing = Backing::from_store(disk.clone());
        open(
            EngineName::Tinca,
            Region::shadow_from(image),
            backing,
            options,
        )
    };
    let any_ring = EngineOptions {
        ring_elements: None,
        ..rig.options.clone()
    };
    assert!(try_open(&any_ring, &image).is_ok());
    for options in [
        EngineOptions {
            block_bytes: 256,
            ..rig.options.clone()
        },
        EngineOptions {
            ring_elements: Some(9),
            ..rig.options.clone()
        },
        EngineOptions {
            as_printed: true,
            ..rig.options.clone()
        },
    ] {
        let error = try_open(&options, &image).err().expect("other options");
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
    }
    let short = &image[..image.len() - 128];
    let error = try_open(&rig.options, short)
        .err()
        .expect("a region cut short");
    assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
    let too_small = create(
        EngineName::Tinca,
        Region::shadow(512),
        Backing::from_store(disk.clone()),
        &rig.options,
    );
    assert!(matches!(
        too_small.as_ref().map_err(Error::kind),
        Err(ErrorKind::Options(_))
    ));
}

#[test]
fn garbage_is_refused_or_served_without_panic() {
    rig(8, 8, 20).open_garbage(2000);
    printed(rig(8, 8, 20)).open_garbage(1000);
}

#[test]
fn pointers_and_elements_out_of_range_are_refused() {
    let rig = rig(8, 8, 20);
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    drop(engine);
    let image = shadow.crash_state().durable().to_vec();
    let with = |words: &[(usize, u64)]| {
        let mut image = image.clone();
        for &(offset, word) in words {
            image[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
        }
        rig.open(&image, &disk)
    };
    let (head, tail, ring) = (256, 320, 384);
    for (words, said) in [
        (&[(head, 9)][..], "Head"),
        (&[(tail, 1)], "Tail"),
        (&[(head, u64::MAX), (tail, u64::MAX)], "Head"),
        (&[(head, 2), (tail, u64::MAX)], "Head"),
        (&[(head, 1), (ring, 20)], "position 0"),
    ] {
        let error = with(words).err().expect("damaged");
        assert!(error.to_string().contains(said), "{error}");
    }
    // Far from there, and with nothing in the ring, all is well.
    let far = [(head, 1 << 61), (tail, 1 << 61)];
    let (_shadow, engine) = with(&far).unwrap();
    engine.write(0, &rig.bytes_of(1)).unwrap();
}
