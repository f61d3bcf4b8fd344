//! The journal alone: what a replay does and what it leaves.

use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::ShadowEvent;

use super::super::layout::JOURNAL_MAGIC;
use super::rig;
use crate::engines::JournalMode;
use crate::testing::{Rig, TestStep, disk_holding};

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
fn a_block_that_looks_like_a_commit_block_is_none() {
    // The log has 31 blocks. A transaction of 10 takes 13: a descriptor, 6 log blocks, another
    // descriptor, 4 log blocks and the commit block. The third one's second descriptor goes where the
    // first one has the log block of block 1.
    let rig = rig(40, 10, 32);
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    let commit = |seed: u64, second: &[u8]| {
        let mut transaction = engine.begin();
        for block in 0..10 {
            transaction.write(block, &rig.bytes_of(seed)).unwrap();
        }
        transaction.write(1, second).unwrap();
        transaction.commit().unwrap();
    };
    // The commit block of the third transaction.
    let mut forged = rig.bytes_of(1);
    forged[..4].copy_from_slice(&JOURNAL_MAGIC.to_le_bytes());
    forged[4..8].copy_from_slice(&2u32.to_le_bytes());
    forged[8..16].copy_from_slice(&3u64.to_le_bytes());
    commit(1, &forged);
    commit(2, &forged);
    let before = rig.content(&*engine);
    assert!(before[1] == forged);
    let image = shadow.crash_state().durable().to_vec();
    let (_other, reopened) = rig.open(&image, &disk_holding(&disk.bytes())).unwrap();
    assert!(
        rig.content(&*reopened) == before,
        "it is replayed as it was"
    );
    let crashes = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let (shadow, crashes, disk) = (Arc::downgrade(&shadow), crashes.clone(), disk.clone());
        move |_: ShadowEvent| {
            let image = shadow.upgrade().unwrap().crash_state().durable().to_vec();
            crashes.lock().unwrap().push((image, disk.bytes()));
        }
    };
    shadow.set_hook(Some(Arc::new(hook)));
    commit(3, &rig.bytes_of(3));
    shadow.set_hook(None);
    let after = rig.content(&*engine);
    for (image, disk) in crashes.lock().unwrap().drain(..) {
        let (_shadow, engine) = rig.open(&image, &disk_holding(&disk)).unwrap();
        let found = rig.content(&*engine);
        assert!(found == before || found == after, "whole or not at all");
    }
}

#[test]
fn a_new_journal_knows_nothing_of_an_older_one_on_the_same_disk() {
    let rig = rig(20, 8, 24);
    let (disk, mut truth) = (rig.disk(), rig.first_content());
    let (_shadow, engine) = rig.create(&disk);
    for step in 0..6 {
        rig.act(
            &*engine,
            &TestStep::Commit(vec![(step % 2, step)]),
            &mut truth,
        );
    }
    engine.flush().unwrap();
    drop(engine);
    let (shadow, engine) = rig.create(&disk);
    // The older journal's second transaction would come next, and its last has block 1.
    rig.act(&*engine, &TestStep::Commit(vec![(1, 9)]), &mut truth);
    drop(engine);
    let image = shadow.crash_state().durable().to_vec();
    let (_shadow, engine) = rig.open(&image, &disk).unwrap();
    assert!(rig.content(&*engine) == truth);
}

#[test]
fn a_forged_journal_is_refused_or_replayed() {
    // One slot: nearly all of the journal is on the disk.
    let rig = rig(1, 8, 24);
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    for step in 0..20 {
        engine.write(step % 8, &rig.bytes_of(step)).unwrap();
    }
    drop(engine);
    let (image, journal) = (shadow.crash_state().durable().to_vec(), 8 * 128);
    let mut refused = 0;
    for seed in 0..1000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut content = disk.bytes();
        for _ in 0..rng.usize(1..4) {
            // A word of a header, or of the first tags.
            let word = journal + rng.usize(..24) * 128 + rng.usize(..8) * 8;
            let value = [rng.u64(..), rng.u64(..40), u64::MAX][rng.usize(..3)];
            content[word..word + 8].copy_from_slice(&value.to_le_bytes());
        }
        match rig.open(&image, &disk_holding(&content)) {
            Ok((_shadow, engine)) => {
                engine.write(7, &rig.bytes_of(1)).unwrap();
                engine.flush().unwrap();
                let found = rig.content(&*engine);
                assert!(found[7] == rig.bytes_of(1));
            }
            Err(_) => refused += 1,
        }
    }
    assert!((10..990).contains(&refused), "{refused}");
}
