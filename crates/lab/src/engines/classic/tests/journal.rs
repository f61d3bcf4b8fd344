//! The journal alone: what a replay does and what it leaves.

use super::super::layout::JOURNAL_MAGIC;
use super::rig;
use crate::engines::JournalMode;
use crate::testing::{Rig, TestStep};

/// What the engine holds after a crash that loses nothing.
fn reopened(rig: &Rig, script: &[TestStep]) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (shadow, engine) = rig.create(&disk);
    for step in script {
        rig.act(&*engine, step, &mut truth);
    }
    drop(engine);
    let image = shadow.crash_state().durable().to_vec();
    let (_shadow, engine) = rig.open(&image, &disk).unwrap();
    (rig.content(&*engine), truth)
}

#[test]
fn a_revoked_block_is_not_replayed() {
    let mut rig = rig(20, 8, 24);
    rig.options.journal_mode = JournalMode::Ordered;
    // Logged, then written past the log, then logged again with another.
    let mut script = vec![
        TestStep::Update(3, 1),
        TestStep::Update(4, 2),
        TestStep::Commit(vec![(3, 3)]),
    ];
    let (found, truth) = reopened(&rig, &script);
    assert!(found == truth);
    script.push(TestStep::Update(3, 4));
    let (found, truth) = reopened(&rig, &script);
    assert!(found == truth);
}

#[test]
fn a_checkpoint_puts_nothing_old_over_what_went_past_the_log() {
    let mut rig = rig(20, 8, 8);
    rig.options.journal_mode = JournalMode::Ordered;
    // The log has 7 blocks: the third transaction makes room, which checkpoints block 3.
    let script = [
        TestStep::Update(3, 1),
        TestStep::Update(4, 2),
        TestStep::Commit(vec![(3, 3)]),
    ];
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (_shadow, engine) = rig.create(&disk);
    for step in &script {
        rig.act(&*engine, step, &mut truth);
    }
    engine.flush().unwrap();
    assert!(rig.content(&*engine) == truth);
}

#[test]
fn a_block_that_looks_like_the_journals_own_is_replayed_as_it_was() {
    let rig = rig(20, 8, 24);
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    // A commit block of the next transaction, as far as it can be known.
    let mut bytes = rig.bytes_of(1);
    bytes[..4].copy_from_slice(&JOURNAL_MAGIC.to_le_bytes());
    bytes[4..8].copy_from_slice(&2u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&2u64.to_le_bytes());
    engine.write(5, &bytes).unwrap();
    let mut out = rig.bytes_of(0);
    engine.read(5, &mut out).unwrap();
    assert!(out == bytes);
    drop(engine);
    let image = shadow.crash_state().durable().to_vec();
    let (_shadow, engine) = rig.open(&image, &disk).unwrap();
    engine.read(5, &mut out).unwrap();
    assert!(out == bytes);
}

#[test]
fn a_new_journal_knows_nothing_of_an_older_one_on_the_same_disk() {
    let rig = rig(20, 8, 24);
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (_shadow, engine) = rig.create(&disk);
    for step in 0..6 {
        rig.act(&*engine, &TestStep::Commit(vec![(step, step)]), &mut truth);
    }
    engine.flush().unwrap();
    drop(engine);
    let (shadow, engine) = rig.create(&disk);
    rig.act(&*engine, &TestStep::Commit(vec![(0, 9)]), &mut truth);
    drop(engine);
    let image = shadow.crash_state().durable().to_vec();
    let (_shadow, engine) = rig.open(&image, &disk).unwrap();
    assert!(rig.content(&*engine) == truth);
}
