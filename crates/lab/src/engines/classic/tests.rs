//! Classic against a plain model, through crashes, and its exact counts.

use crate::engines::{EngineName, JournalMode};
use crate::testing::{Rig, TestStep};

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
