//! Halves of a mirror that are not right: what is read, and what is repaired.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use forebay::ErrorKind;
use forebay_pmem::Pause;
use forebay_pmem::shadow::{Fault, ShadowEventKind};

use crate::halves::{BLOCK, Mirror, noise, packed};

#[test]
fn a_read_repairs_the_half_that_is_read_first() {
    for at in [0, 77, BLOCK as u64 - 1] {
        let mirror = Mirror::new();
        let blocks: Vec<(u64, Vec<u8>)> = (0..4).map(|block| (block, noise(block + 1))).collect();
        for block in 0..4 {
            mirror.put(block, block + 1);
            mirror.flip(mirror.half(block, 0, 0), at);
        }
        for (block, bytes) in &blocks {
            assert!(mirror.read(*block) == *bytes, "block {block}");
        }
        assert_eq!(mirror.counts(), (4, 0, 0));
        mirror.each_alone_reads(&blocks);
        mirror.scrub_finds(0);
    }
}

#[test]
fn a_scrub_repairs_either_half() {
    let mirror = Mirror::new();
    let blocks: Vec<(u64, Vec<u8>)> = (0..8).map(|block| (block, noise(block + 1))).collect();
    for block in 0..8 {
        mirror.put(block, block + 1);
        mirror.flip(mirror.half(block, 0, block as usize % 2), 5 * block);
    }
    mirror.scrub_finds(8);
    mirror.each_alone_reads(&blocks);
    assert_eq!(mirror.counts(), (8, 0, 0));
}

#[test]
fn a_lost_write_is_found_once_caches_have_forgotten_it() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let (member, offset) = mirror.half(1, 0, 0);
    // In place: the slot stays.
    for at in [0, 640] {
        let (offset, len) = (offset + at, 64);
        member.inject(Fault::LostWrite { offset, len });
        let mut change = mirror.volume.begin();
        change.write_at(BLOCK as u64 + at, &[9; 40]).expect("write");
        change.commit().expect("commit");
    }
    mirror.pool.checkpoint().expect("checkpoint");
    assert_eq!(member.struck(), 2);
    mirror.scrub_finds(1);
    let mut expected = noise(1);
    expected[..40].fill(9);
    expected[640..680].fill(9);
    assert!(mirror.read(1) == expected);
    mirror.each_alone_reads(&[(1, expected)]);
}

#[test]
fn a_partial_block_is_repaired_with_its_length() {
    let trailer = BLOCK as u64 - 8;
    for half in 0..2 {
        for at in [0, 99, trailer, trailer + 5] {
            let mirror = Mirror::new();
            let mut append = mirror.volume.begin();
            append.append(3, 0, &[7; 100]).expect("append");
            append.commit().expect("commit");
            mirror.flip(mirror.half(3, 0, half), at);
            let mut expected = vec![0; BLOCK];
            expected[..100].fill(7);
            assert!(mirror.read(3) == expected);
            match half {
                0 => assert_eq!(mirror.counts(), (1, 0, 0)),
                _ => mirror.scrub_finds(1),
            }
            mirror.each_alone_reads(&[(3, expected.clone())]);
            let mut append = mirror.volume.begin();
            append.append(3, 100, &[8; 50]).expect("append");
            append.commit().expect("commit");
            expected[100..150].fill(8);
            assert!(mirror.read(3) == expected);
            mirror.each_alone_reads(&[(3, expected)]);
            mirror.scrub_finds(0);
        }
    }
}

#[test]
fn both_slots_of_a_packed_block_are_repaired() {
    for half in 0..2 {
        // Of its own slot the header, and the piece behind it; of the base a piece that it rests on.
        for (slot, at) in [(0, 9), (0, 70), (1, 0), (1, 4000)] {
            let mirror = Mirror::new();
            let blocks = packed(&mirror);
            mirror.flip(mirror.half(2, slot, half), at);
            assert!(mirror.read(2) == blocks[1].1);
            match half {
                0 => assert_eq!(mirror.counts(), (1, 0, 0)),
                _ => mirror.scrub_finds(1),
            }
            mirror.each_alone_reads(&blocks);
            mirror.scrub_finds(0);
        }
    }
}

/// The base's half that is right for the packed block is wrong elsewhere, and the other way round.
#[test]
fn of_a_base_nothing_is_copied_that_the_packed_block_does_not_vouch_for() {
    for half in 0..2 {
        let mirror = Mirror::new();
        let blocks = packed(&mirror);
        // Another block that rests on the same: the base itself is gone.
        mirror.put(1, 5);
        mirror.flip(mirror.half(2, 1, half), 640);
        mirror.flip(mirror.half(2, 1, half ^ 1), 0);
        assert!(mirror.read(2) == blocks[1].1);
        mirror.scrub();
        mirror.each_alone_reads(&[(1, noise(5)), (2, blocks[1].1.clone())]);
    }
    for half in 0..2 {
        let mirror = Mirror::new();
        let blocks = packed(&mirror);
        mirror.flip(mirror.half(2, 1, half), 640);
        assert!(mirror.read(2) == blocks[1].1);
        // The plain block is right in the other half alone; recovery of the packed one leaves that alone.
        let images = mirror.members.iter().map(|member| member.crash_state());
        let images: Vec<Vec<u8>> = images.map(|state| state.durable().to_vec()).collect();
        mirror.images_read(&[&images[0], &images[1]], &blocks);
    }
}

#[test]
fn two_wrong_halves_are_an_error_until_the_block_is_written_anew_and_a_clean_block_is_fetched() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    mirror.put(2, 2);
    assert_eq!(mirror.pool.write_back_once().expect("write back"), 2);
    mirror.put(1, 3);
    for block in [1, 2] {
        for half in 0..2 {
            mirror.flip(mirror.half(block, 0, half), 100 + half as u64);
        }
    }
    let report = mirror.scrub();
    let counts = (report.found, report.repaired, report.lost, report.dropped);
    assert_eq!(counts, (2, 0, 1, 1), "{report:?}");
    assert_eq!(mirror.read(2), noise(2));
    let mut out = vec![0; BLOCK];
    let error = mirror.volume.read(1, &mut out).expect_err("lost");
    assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
    assert!(mirror.pool.write_back_once().is_err());
    assert_eq!(mirror.counts(), (0, 0, 3));
    mirror.put(1, 4);
    assert_eq!(mirror.read(1), noise(4));
    mirror.scrub_finds(0);
}

#[test]
fn a_misread_that_is_over_is_no_repair() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    mirror.put(2, 2);
    let (member, offset) = mirror.half(1, 0, 0);
    let (_, source) = mirror.half(2, 0, 0);
    let len = BLOCK as u64;
    let is_once = true;
    member.inject(Fault::MisdirectedRead {
        offset,
        len,
        source,
        is_once,
    });
    assert!(mirror.read(1) == noise(1));
    assert_eq!(mirror.counts(), (0, 1, 0));
    mirror.scrub_finds(0);
}

#[test]
fn write_back_and_changes_in_place_repair_what_they_meet() {
    let mirror = Mirror::new();
    for block in 0..2 {
        mirror.put(block, block);
        mirror.flip(mirror.half(block, 0, 0), 1000);
    }
    let mut change = mirror.volume.begin();
    change.write_at(1002, &[1; 8]).expect("write");
    change.commit().expect("commit");
    let mut expected = noise(0);
    expected[1002..1010].fill(1);
    // The bad byte is not among those that were replaced.
    assert!(mirror.read(0) == expected);
    assert_eq!(mirror.counts().0, 1);
    assert_eq!(mirror.pool.write_back_once().expect("write back"), 2);
    assert_eq!(mirror.counts(), (2, 0, 0));
    let behind = mirror.store.snapshot();
    assert!(behind[..BLOCK] == expected && behind[BLOCK..2 * BLOCK] == noise(1));
    // One that is among them.
    mirror.put(5, 5);
    mirror.flip(mirror.half(5, 0, 0), 1000);
    let mut change = mirror.volume.begin();
    change
        .write_at(5 * BLOCK as u64 + 998, &[1; 8])
        .expect("write");
    change.commit().expect("commit");
    mirror.flip(mirror.half(5, 0, 0), 1200);
    mirror.pool.checkpoint().expect("checkpoint");
    assert_eq!(mirror.counts(), (3, 0, 0));
    let mut changed = noise(5);
    changed[998..1006].fill(1);
    mirror.each_alone_reads(&[(0, expected), (5, changed)]);
}

/// Between the look that finds a half wrong and its repair the block is written anew, and another takes its slot: whose
/// first half is there, and whose second half is still what the repair would have been made from.
#[test]
fn nothing_is_repaired_in_a_slot_that_another_block_has_by_now() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let slot = mirror.locate(1).bytes;
    mirror.flip(mirror.half(1, 0, 0), 50);
    let (second, offset) = mirror.half(1, 0, 1);
    let (is_paused, paused) = channel();
    let (go_on, may_go_on) = channel::<()>();
    let (is_done, done) = channel();
    let volume = mirror.volume.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            forebay_pmem::set_yield_hook(Some(Box::new(move |pause| {
                if pause == Pause::Recheck {
                    // Fails the second time, when there is nothing to wait for.
                    let _ = is_paused.send(());
                    let _ = may_go_on.recv();
                }
            })));
            let mut out = vec![0; BLOCK];
            volume.read(1, &mut out).expect("read");
            assert!(out == noise(1));
            forebay_pmem::set_yield_hook(None);
            is_done.send(()).expect("it is waited for");
        });
        paused.recv().expect("a half is wrong");
        mirror.put(1, 2);
        let meanwhile = Mutex::new(Some((go_on, done)));
        second.set_hook(Some(Arc::new(move |event| {
            let is_met = event.kind == ShadowEventKind::Stream && event.offset == offset;
            let meanwhile = meanwhile.lock().expect("no panic").take_if(|_| is_met);
            if let Some((go_on, done)) = meanwhile {
                drop(go_on);
                done.recv().expect("it ends");
            }
        })));
        mirror.put(9, 9);
        second.set_hook(None);
    });
    assert_eq!(mirror.locate(9).bytes, slot);
    assert_eq!(mirror.counts(), (0, 0, 0));
    mirror.each_alone_reads(&[(1, noise(2)), (9, noise(9))]);
    mirror.scrub_finds(0);
}
