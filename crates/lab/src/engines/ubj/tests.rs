//! Counts of the protocol's steps, and what survives.

use super::layout::Layout;
use super::*;
use crate::testing::{Rig, TestStep, set_broken};

fn tiny(slots: u64) -> Rig {
    let metadata_bytes = (320 + slots * 16).next_multiple_of(128);
    Rig::new(EngineName::Ubj, metadata_bytes + slots * 128, 20)
}

/// Lines, fences, disk blocks written and syncs of what `work` does.
fn counted(engine: &dyn Engine, work: impl FnOnce()) -> (u64, u64, u64, u64) {
    let before = engine.stats();
    work();
    let after = engine.stats();
    (
        after.memory.lines() - before.memory.lines(),
        after.memory.fences - before.memory.fences,
        (after.backing.bytes_written - before.backing.bytes_written) / engine.block_bytes() as u64,
        after.backing.syncs - before.backing.syncs,
    )
}

fn seeds(blocks: std::ops::Range<u64>, seed: u64) -> TestStep {
    TestStep::Commit(blocks.map(|block| (block, seed + block)).collect())
}

#[test]
fn random_operations_agree_with_a_model() {
    for seed in 0..6 {
        tiny(8).run_against_model(1500, 2, seed);
        tiny(24).run_against_model(1500, 6, seed);
        let mut in_pages = Rig::new(EngineName::Ubj, 200 << 10, 80);
        in_pages.options.block_bytes = 4096;
        in_pages.run_against_model(300, 10, seed);
        let mut without_fill = tiny(12);
        without_fill.options.fill_on_read = false;
        without_fill.run_against_model(500, 3, seed);
    }
}

#[test]
fn a_commit_flushes_its_blocks_its_entries_and_the_record_with_two_fences() {
    let mut rig = Rig::new(EngineName::Ubj, 1 << 20, 400);
    rig.options.block_bytes = 4096;
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (_shadow, engine) = rig.create(&disk);
    let engine = &*engine;
    let mut act = |step: TestStep| counted(engine, || rig.act(engine, &step, &mut truth));
    // A block's 64 lines, the line of its entry, the record's.
    assert_eq!(act(seeds(0..1, 0)), (66, 2, 0, 0), "a miss");
    // Entries 1 to 8 lie on three lines.
    assert_eq!(
        act(seeds(1..9, 0)),
        (8 * 64 + 3 + 1, 2, 0, 0),
        "eight misses"
    );
    assert_eq!(
        act(seeds(0..1, 50)),
        (66, 2, 0, 0),
        "a frozen block is written elsewhere, once"
    );
    assert_eq!(
        act(TestStep::Update(3, 5)),
        (66, 2, 0, 0),
        "and so are a few bytes of one, over a copy"
    );
    assert_eq!(engine.stats().write_hits, 2);
    assert_eq!(
        (engine.stats().cached_blocks, engine.stats().dirty_blocks),
        (9, 9)
    );
    // Of 11 buffers two are out of date. Their entries, 0 and 3, lie on one line, the others on
    // three.
    assert_eq!(act(TestStep::Flush), (1 + 3, 2, 9, 1));
    assert_eq!(
        (engine.stats().cached_blocks, engine.stats().dirty_blocks),
        (9, 0)
    );
    assert_eq!(act(TestStep::Flush), (0, 0, 0, 0), "nothing is dirty");
    assert_eq!(
        act(seeds(0..1, 60)),
        (66, 2, 0, 0),
        "a clean block is overwritten in place"
    );
    assert_eq!(engine.stats().write_hits, 3);
    assert_eq!(act(TestStep::Read(0)), (0, 0, 0, 0), "a hit");
    assert_eq!(act(TestStep::Read(100)), (64, 0, 0, 0), "a miss that fills");
}

#[test]
fn whole_transactions_make_room_oldest_first() {
    // Eight buffers, whose entries take two lines.
    let rig = tiny(8);
    assert_eq!(Layout::plan(rig.region_bytes, 128).unwrap().slots, 8);
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (_shadow, engine) = rig.create(&disk);
    let engine = &*engine;
    let mut act = |step: TestStep| counted(engine, || rig.act(engine, &step, &mut truth));
    for first in [0, 2, 4] {
        act(seeds(first..first + 2, 0));
    }
    act(TestStep::Commit(vec![(0, 100)]));
    act(TestStep::Commit(vec![(6, 101)]));
    assert_eq!(engine.stats().dirty_blocks, 7);
    // The first transaction goes: block 1 is written, block 0's first version is out of date and
    // its buffer is enough. The commit is 2 + 1 + 1 lines, the checkpoint another.
    assert_eq!(act(TestStep::Commit(vec![(7, 102)])), (5, 3, 1, 1));
    assert_eq!(
        (engine.stats().cached_blocks, engine.stats().dirty_blocks),
        (8, 7)
    );
    assert_eq!(engine.stats().evictions, 0);
    // Block 1 is clean and the oldest.
    assert_eq!(act(TestStep::Commit(vec![(8, 103)])), (4, 2, 0, 0));
    assert_eq!(engine.stats().evictions, 1);
    // Blocks 2 and 3 are written together, then one of them is evicted.
    assert_eq!(act(TestStep::Commit(vec![(9, 104)])), (5, 3, 2, 1));
    assert_eq!(
        (engine.stats().cached_blocks, engine.stats().dirty_blocks),
        (8, 7)
    );
    let backing = engine.stats().backing;
    assert_eq!(
        (backing.writes, backing.syncs),
        (2, 2),
        "neighbours are one run"
    );
}

#[test]
fn a_crash_keeps_what_was_committed() {
    let mut images = 0;
    for seed in 0..12 {
        let rig = tiny(8 + seed % 3 * 4);
        let script = rig.random_script(25, 2 + seed as usize % 3 / 2, seed);
        images += rig.crash_everywhere(&script, 3, seed).expect("no loss");
    }
    assert!(images > 5000, "{images}");
}

#[test]
fn a_power_cut_after_a_kill_takes_nothing_back() {
    let rig = tiny(8);
    let script = [
        seeds(0..2, 0),
        seeds(2..4, 0),
        seeds(0..2, 50),
        TestStep::Read(9),
    ];
    let next = [
        seeds(4..6, 60),
        TestStep::Read(8),
        seeds(0..2, 70),
        seeds(6..8, 80),
    ];
    let mut images = 0;
    for killed in [seeds(4..6, 9), seeds(1..3, 9), TestStep::Flush] {
        let found = rig.crash_after_kills(&script, &killed, &next, 4);
        images += found.expect("nothing is lost");
    }
    assert!(images > 5000, "{images}");
}

#[test]
fn a_backing_that_fails_leaves_everything_as_it_was() {
    let rig = tiny(8);
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (_shadow, engine) = rig.create(&disk);
    for first in [0, 2, 4, 6] {
        rig.act(&*engine, &seeds(first..first + 2, 0), &mut truth);
    }
    set_broken(&disk, true);
    let refused = engine
        .write(9, &rig.bytes_of(1))
        .expect_err("no room can be made");
    assert!(
        matches!(refused.kind(), ErrorKind::Backing { .. }),
        "{refused}"
    );
    assert!(engine.flush().is_err());
    assert_eq!(engine.stats().dirty_blocks, 8);
    assert!(rig.content(&*engine) == truth, "reads do without a fill");
    set_broken(&disk, false);
    rig.act(&*engine, &TestStep::Commit(vec![(9, 1)]), &mut truth);
    assert!(rig.content(&*engine) == truth);
}

#[test]
fn garbage_is_refused_or_served_without_a_panic() {
    tiny(12).open_garbage(1500);
}

#[test]
fn contradicting_options_and_requests_outside_are_refused() {
    let rig = tiny(8);
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    let bytes = rig.bytes_of(1);
    assert!(engine.write(20, &bytes).is_err());
    assert!(engine.write(0, &bytes[1..]).is_err());
    assert!(engine.read(19, &mut [0; 256]).is_err());
    assert!(engine.read(0, &mut [0; 100]).is_err());
    let mut other = rig.clone();
    other.options.block_bytes = 256;
    let refused = other.open(shadow.crash_state().durable(), &disk);
    let refused = refused.err().expect("refused").to_string();
    assert!(
        refused.contains("128") && refused.contains("256"),
        "{refused}"
    );
    for block_bytes in [64, 100, 1 << 17] {
        assert!(Layout::plan(1 << 20, block_bytes).is_err());
    }
    assert!(Layout::plan(500, 128).is_err());
}
