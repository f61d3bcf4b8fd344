//! What Flashcache's entry of two words loses, and the entry of one word does not.

use std::sync::{Arc, Mutex};

use forebay_pmem::shadow::{CrashState, ShadowEvent, ShadowEventKind};

use super::super::layout::ENTRY_BYTES;
use super::rig;
use crate::engines::JournalMode;
use crate::testing::Rig;

/// One slot and no journal: block 0 is written, and then block 1, which takes the slot.
fn two_blocks(as_printed: bool) -> Rig {
    let mut rig = rig(1, 2, 0);
    rig.options.journal_mode = JournalMode::None;
    rig.options.as_printed = as_printed;
    rig
}

/// What a crash could leave before the fence that makes block 1's entry durable, and the disk then:
/// it has block 0.
fn before_the_entry_is_durable(rig: &Rig) -> (CrashState, Vec<u8>) {
    let disk = rig.disk();
    let (shadow, engine) = rig.create(&disk);
    engine.write(0, &rig.bytes_of(1)).unwrap();
    let states = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let (shadow, states) = (Arc::downgrade(&shadow), states.clone());
        move |event: ShadowEvent| {
            if event.kind == ShadowEventKind::Fence {
                let shadow = shadow.upgrade().unwrap();
                states.lock().unwrap().push(shadow.crash_state());
            }
        }
    };
    shadow.set_hook(Some(Arc::new(hook)));
    engine.write(1, &rig.bytes_of(2)).unwrap();
    shadow.set_hook(None);
    // The fences: of block 0's entry, clean; of block 1's content; of block 1's entry.
    let mut states = states.lock().unwrap();
    assert_eq!(states.len(), 3);
    (states.remove(2), disk.bytes())
}

#[test]
fn a_state_without_its_number_is_another_blocks_content() {
    let rig = two_blocks(true);
    let (state, disk) = before_the_entry_is_durable(&rig);
    // The metadata block follows the header; of the entry only the second word, the state, is there.
    let state_word = 256 + ENTRY_BYTES / 2;
    let mut torn = state.durable().to_vec();
    assert_eq!(torn[state_word], 1, "the slot is clean on the media");
    torn[state_word] = 3;
    let mut is_legal = false;
    assert!(state.all_images(1 << 20, |image| is_legal |= image == torn));
    assert!(is_legal, "a power cut may leave this image");
    let disk = crate::testing::disk_holding(&disk);
    let (_shadow, engine) = rig.open(&torn, &disk).unwrap();
    let found = rig.content(&*engine);
    assert!(found[0] == rig.bytes_of(2), "block 0 has block 1's content");
}

#[test]
fn an_entry_of_one_word_is_there_or_not() {
    let rig = two_blocks(false);
    let (state, disk) = before_the_entry_is_durable(&rig);
    let mut seen = [false; 2];
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..2000 {
        let disk = crate::testing::disk_holding(&disk);
        let (_shadow, engine) = rig.open(&state.sample(&mut rng), &disk).unwrap();
        let found = rig.content(&*engine);
        assert!(found[0] == rig.bytes_of(1));
        let is_there = found[1] == rig.bytes_of(2);
        assert!(is_there || found[1] == rig.first_content()[1]);
        seen[usize::from(is_there)] = true;
    }
    assert_eq!(seen, [true, true]);
}

#[test]
fn the_journal_above_does_not_mend_it() {
    let mut rig = rig(8, 9, 8);
    rig.options.as_printed = true;
    let lost = (1..20).any(|seed| {
        let script = rig.random_script(40, 4, seed);
        rig.crash_everywhere(&script, 4, seed).is_err()
    });
    assert!(lost);
}
