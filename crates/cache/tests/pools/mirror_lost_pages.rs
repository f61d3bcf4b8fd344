//! Pages among the slots of a mirror's member that the medium loses, and halves that take no write: the member stays, and
//! its blocks move.

use std::fs::File;
use std::ops::ControlFlow;
use std::sync::Arc;

use forebay::unstable::locate_block;
use forebay::{Backing, ErrorKind, MemberState, MemoryStore, Pool, Region, ScrubOptions, Volume};
use forebay_pmem::PAGE_BYTES;
use forebay_pmem::shadow::{Fault, FenceFailure, Shadow, ShadowModel};

use crate::halves::{BLOCK, BLOCKS, Mirror, noise, packed};

impl Mirror {
    fn lose_page(&self, (member, start): (&Arc<Shadow>, u64)) {
        let page = PAGE_BYTES as u64;
        member.lose_page(start / page * page);
    }
    fn all_in(&self) {
        let members = self.pool.members();
        let states = members.iter().map(|member| member.state);
        assert!(states.into_iter().all(|state| state == MemberState::In));
    }
    /// Slots that are retired, and blocks that were committed anew.
    fn left(&self) -> (u64, u64) {
        let stats = self.pool.stats();
        (stats.retired_slots, stats.totals.moved)
    }
    fn place(&self, block: u64) -> (usize, u64) {
        let (member, bytes) = self.locate(block).bytes[0].clone();
        (member, bytes.start)
    }
}

#[test]
fn a_block_leaves_a_page_that_was_lost_and_no_other_comes_there() {
    for half in 0..2 {
        let mirror = Mirror::new();
        let blocks: Vec<(u64, Vec<u8>)> = (0..4).map(|block| (block, noise(block + 1))).collect();
        (0..4).for_each(|block| mirror.put(block, block + 1));
        let lost = mirror.place(1);
        mirror.lose_page(mirror.half(1, 0, half));
        // A reader meets it, or the fence of a change in place.
        assert!(mirror.read(1) == blocks[1].1);
        let mut change = mirror.volume.begin();
        change.write_at(BLOCK as u64 + 7, &[9; 40]).expect("write");
        change.commit().expect("commit");
        let mut changed = noise(1 + 1);
        changed[7..47].fill(9);
        assert!(mirror.read(1) == changed);
        mirror.pool.checkpoint().expect("checkpoint");
        // A half that is not read first is met by nothing before.
        mirror.put(9, 9);
        mirror.pool.checkpoint().expect("checkpoint");
        mirror.all_in();
        assert_eq!(mirror.left().0, 1);
        assert_eq!(mirror.pool.stats().media_errors, 1);
        assert_ne!(mirror.place(1), lost);
        let mut expected = blocks.clone();
        expected[1].1 = changed;
        mirror.each_alone_reads(&expected);
        mirror.scrub_finds(0);
        for block in 0..BLOCKS {
            mirror.put(block, block + 100);
        }
        assert!((0..BLOCKS).all(|block| mirror.place(block) != lost));
        mirror.all_in();
    }
}

#[test]
fn a_commit_that_meets_a_lost_page_is_acknowledged_and_its_block_moves() {
    for half in 0..2 {
        let mirror = Mirror::new();
        mirror.put(1, 1);
        let place = mirror.place(1);
        let (member, start) = mirror.half(1, 0, half);
        // The block goes and its slot is free.
        mirror.put(1, 2);
        member.lose_page(start);
        let mut met = None;
        for block in 2..60 {
            mirror.put(block, block);
            if mirror.place(block) == place {
                met = Some(block);
                break;
            }
        }
        let met = met.expect("the slot is used again");
        mirror.all_in();
        assert!(mirror.read(met) == noise(met));
        // It is in one half: nothing is changed in place there.
        let mut change = mirror.volume.begin();
        change
            .write_at(met * BLOCK as u64 + 64, &[4; 64])
            .expect("write");
        change.commit().expect("commit");
        assert_ne!(mirror.place(met), place);
        mirror.pool.checkpoint().expect("checkpoint");
        let mut expected = noise(met);
        expected[64..128].fill(4);
        mirror.each_alone_reads(&[(1, noise(2)), (met, expected)]);
        assert_eq!(mirror.pool.stats().retired_slots, 1);
    }
}

#[test]
fn a_member_that_has_the_only_half_of_a_block_is_not_taken_out() {
    for fails in [false, true] {
        let mirror = Mirror::new();
        mirror.put(1, 1);
        let (first, start) = mirror.place(1);
        mirror.members[first].lose_page(start);
        assert!(mirror.read(1) == noise(1));
        mirror.put(2, 2);
        let other = (first ^ 1) as u32;
        if fails {
            mirror.members[first ^ 1].set_fence_failure(FenceFailure::From(0));
            let error = mirror.volume.write(3, &noise(3)).expect_err("no copy");
            assert!(matches!(error.kind(), ErrorKind::Media(_)), "{error}");
            assert!(mirror.pool.stats().poisoned);
            mirror.all_in();
            assert!(mirror.read(1) == noise(1));
            continue;
        }
        let error = mirror.pool.fail_member(other).expect_err("the only half");
        assert!(
            error.to_string().contains("only copy of 1 blocks"),
            "{error}"
        );
        mirror.pool.checkpoint().expect("checkpoint");
        mirror.pool.fail_member(other).expect("nothing rests on it");
        assert!(mirror.read(1) == noise(1));
        mirror.put(3, 3);
    }
}

#[test]
fn a_block_without_a_half_is_an_error_and_nothing_else_is() {
    let mirror = Mirror::new();
    (0..6).for_each(|block| mirror.put(block, block));
    for half in 0..2 {
        mirror.lose_page(mirror.half(1, 0, half));
    }
    let mut out = vec![0; BLOCK];
    let error = mirror.volume.read(1, &mut out).expect_err("lost");
    assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
    for turn in 1..3 {
        for block in [0, 2, 3, 4, 5] {
            assert!(mirror.read(block) == noise(block + 10 * (turn - 1)));
            mirror.put(block, block + 10 * turn);
        }
        mirror.pool.checkpoint().expect("checkpoint");
    }
    mirror.all_in();
    assert!(mirror.volume.read(1, &mut out).is_err());
    mirror.put(1, 7);
    mirror.pool.checkpoint().expect("checkpoint");
    mirror.each_alone_reads(&[(1, noise(7)), (5, noise(25))]);
    assert_eq!(mirror.left(), (1, 0));
}

#[test]
fn shared_packed_partial_and_clean_blocks_move_too() {
    for (slot, half) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mirror = Mirror::new();
        let mut blocks = packed(&mirror).to_vec();
        let mut append = mirror.volume.begin();
        append.append(3, 0, &[7; 100]).expect("append");
        append.commit().expect("commit");
        let mut partial = vec![0; BLOCK];
        partial[..100].fill(7);
        blocks.push((3, partial));
        mirror.put(5, 5);
        mirror.put(6, 5);
        blocks.extend([(5, noise(5)), (6, noise(5))]);
        mirror.lose_page(mirror.half(2, slot, half));
        mirror.lose_page(mirror.half(3, 0, half));
        mirror.lose_page(mirror.half(5, 0, half));
        // Every half is looked at.
        mirror.scrub();
        mirror.pool.checkpoint().expect("checkpoint");
        mirror.all_in();
        mirror.each_alone_reads(&blocks);
        mirror.scrub_finds(0);
        let mut append = mirror.volume.begin();
        append.append(3, 100, &[8; 50]).expect("append");
        append.commit().expect("commit");
        blocks[2].1[100..150].fill(8);
        mirror.each_alone_reads(&blocks);
        assert_eq!(mirror.left().0, 3);
    }
    let mirror = Mirror::new();
    mirror.put(1, 1);
    assert_eq!(mirror.pool.write_back_once().expect("write back"), 1);
    mirror.lose_page(mirror.half(1, 0, 0));
    assert!(mirror.read(1) == noise(1));
    mirror.pool.checkpoint().expect("checkpoint");
    assert!(locate_block(&mirror.volume, 1).is_none());
    assert!(mirror.read(1) == noise(1));
    assert_eq!(mirror.left(), (1, 0));
}

#[test]
fn a_page_with_metadata_takes_its_member_out() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let lanes = mirror.half(1, 0, 0).1 - 4 * PAGE_BYTES as u64;
    mirror.members[1].lose_page(lanes.min(9 * PAGE_BYTES as u64));
    mirror.members[1].lose_page(0);
    mirror.scrub();
    mirror.put(2, 2);
    assert_eq!(mirror.pool.members()[1].state, MemberState::Out);
    assert!(mirror.read(1) == noise(1));
}

#[test]
fn a_half_that_takes_no_second_write_is_left() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let place = mirror.place(1);
    let (member, start) = mirror.half(1, 0, 1);
    mirror.flip((member, start), 8);
    for _ in 0..2 {
        member.inject(Fault::LostWrite {
            offset: start,
            len: 64,
        });
    }
    let report = mirror.scrub();
    let counts = (report.found, report.repaired, report.moved, report.lost);
    assert_eq!(counts, (1, 0, 1, 0), "{report:?}");
    assert_eq!(mirror.left(), (1, 1));
    assert_ne!(mirror.place(1), place);
    mirror.each_alone_reads(&[(1, noise(1))]);
    mirror.scrub_finds(0);
    mirror.all_in();
}

#[test]
fn a_member_with_too_many_bad_places_is_taken_out() {
    let mirror = Mirror::new();
    let slots = mirror.pool.stats().slots;
    (0..BLOCKS).for_each(|block| mirror.put(block, block));
    for block in 0..slots / 8 + 1 {
        mirror.all_in();
        let mut halves = mirror.locate(block).bytes.into_iter();
        let (_, bytes) = halves.find(|(member, _)| *member == 1).expect("a half");
        mirror.members[1].lose_page(bytes.start);
        mirror.scrub();
    }
    mirror.put(0, 0);
    assert_eq!(mirror.pool.members()[1].state, MemberState::Out);
    let blocks: Vec<(u64, Vec<u8>)> = (0..BLOCKS).map(|block| (block, noise(block))).collect();
    for (block, bytes) in &blocks {
        assert!(mirror.read(*block) == *bytes);
    }
}

#[test]
fn a_pool_that_finds_lost_pages_when_it_is_opened_serves_both_members() {
    let mirror = Mirror::new();
    let blocks: Vec<(u64, Vec<u8>)> = (0..8).map(|block| (block, noise(block + 1))).collect();
    (0..8).for_each(|block| mirror.put(block, block + 1));
    let lost = [0, 1].map(|half: usize| mirror.locate(7).bytes[half].clone());
    let images = images(&mirror.members);
    for (member, bytes) in lost {
        let members: Vec<Arc<Shadow>> = images
            .iter()
            .map(|image| Arc::new(Shadow::from_image(image, ShadowModel::Lines)))
            .collect();
        members[member].lose_page(bytes.start);
        let on = members.iter().cloned().map(Region::on_shadow).collect();
        let runtime = crate::halves::options().runtime_options().clone();
        let pool = forebay::Pool::open_on(on, runtime).expect("open");
        let backing = forebay::Backing::from_store(mirror.store.clone());
        let volume = pool.attach(backing).expect("attach");
        let mut out = vec![0; BLOCK];
        for (block, bytes) in &blocks {
            volume.read(*block, &mut out).expect("read");
            assert!(out == *bytes, "block {block}");
        }
        volume.write(3, &noise(4)).expect("write");
        pool.checkpoint().expect("checkpoint");
        let states = pool.members().into_iter().map(|member| member.state);
        assert!(states.into_iter().all(|state| state == MemberState::In));
    }
}

/// Pools and volumes over what power cuts leave of the members.
fn opened(mirror: &Mirror, images: &[Vec<u8>]) -> (Vec<Arc<Shadow>>, Pool, Volume) {
    let shadow = |image: &Vec<u8>| Arc::new(Shadow::from_image(image, ShadowModel::Lines));
    let members: Vec<Arc<Shadow>> = images.iter().map(shadow).collect();
    let on = members.iter().cloned().map(Region::on_shadow).collect();
    let runtime = crate::halves::options().runtime_options().clone();
    let pool = Pool::open_on(on, runtime.without_missing(true)).expect("open");
    let backing = Backing::from_store(mirror.store.clone());
    let volume = pool.attach(backing).expect("attach");
    (members, pool, volume)
}

fn place_in(volume: &Volume, block: u64) -> (usize, u64) {
    let (member, bytes) = locate_block(volume, block).expect("cached").bytes[0].clone();
    (member, bytes.start)
}

fn images(members: &[Arc<Shadow>]) -> Vec<Vec<u8>> {
    let states = members.iter().map(|member| member.crash_state());
    states.map(|state| state.durable().to_vec()).collect()
}

#[test]
fn a_place_that_was_bad_is_not_used_after_a_restart_either() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let lost = mirror.place(1);
    mirror.lose_page(mirror.half(1, 0, 1));
    mirror.scrub();
    assert_eq!(mirror.left(), (1, 1));
    let both = images(&mirror.members);
    for kept in [&both[..], &both[..1], &both[1..]] {
        let (_, pool, volume) = opened(&mirror, kept);
        let is_of_other = kept.len() == 1 && kept[0] == both[lost.0];
        assert_eq!(pool.stats().retired_slots, u64::from(!is_of_other));
        for block in 0..BLOCKS {
            volume.write(block, &noise(block)).expect("write");
            assert!(is_of_other || place_in(&volume, block) != lost);
        }
        pool.checkpoint().expect("checkpoint");
        // What the list says is on both from now on.
        let report = pool.scrub(&ScrubOptions::default(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(report.expect("scrub").found, 0);
    }
}

#[test]
fn a_crash_before_a_block_has_left_leaves_it_in_the_half_that_is_good() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let bad = mirror.place(1);
    mirror.members[bad.0].lose_page(bad.1);
    assert!(mirror.read(1) == noise(1));
    let crashed = images(&mirror.members);
    let other = bad.0 as u32 ^ 1;
    let (_, pool, volume) = opened(&mirror, &crashed);
    assert_eq!(place_in(&volume, 1), bad);
    let refused = pool.fail_member(other);
    assert!(refused.is_err(), "nothing rests on a place that was bad");
    pool.checkpoint().expect("checkpoint");
    assert_ne!(place_in(&volume, 1), bad);
    pool.fail_member(other).expect("two copies by now");
    let mut out = vec![0; BLOCK];
    volume.read(1, &mut out).expect("read");
    assert!(out == noise(1));
}

#[test]
fn a_new_member_has_no_bad_places() {
    let mirror = Mirror::new();
    mirror.put(1, 1);
    let (first, start) = mirror.place(1);
    mirror.members[first].lose_page(start);
    mirror.scrub();
    mirror
        .pool
        .fail_member(first as u32)
        .expect("the other one has all");
    let blank = Arc::new(Shadow::new(2 << 20, ShadowModel::Lines));
    let region = Region::on_shadow(blank.clone());
    let watcher = &mut |_| ControlFlow::Continue(());
    mirror
        .pool
        .replace_member_on(first as u32, region, watcher)
        .expect("rebuilt");
    let mut members = mirror.members.clone();
    members[first] = blank;
    let (_, pool, volume) = opened(&mirror, &images(&members));
    assert_eq!(pool.stats().retired_slots, 0);
    let mut out = vec![0; BLOCK];
    volume.read(1, &mut out).expect("read");
    assert!(out == noise(1));
}

/// A file that is cut short under its mapping fails the way a bad page does, signal and all.
#[test]
fn a_real_signal_costs_no_member_either() {
    let directory = tempfile::TempDir::new_in("/dev/shm").expect("a directory");
    let paths = ["a", "b"].map(|name| directory.path().join(name));
    let options = crate::halves::options()
        .members(&paths)
        .member_bytes(2 << 20);
    let pool = Pool::create(&options).expect("create");
    let store = Arc::new(MemoryStore::new(4 << 20));
    let volume = pool.attach(Backing::from_store(store)).expect("attach");
    let file = File::options()
        .write(true)
        .open(&paths[1])
        .expect("a member");
    // Of the last two pages one has a slot's half: rows come in twos.
    file.set_len((2 << 20) - 2 * PAGE_BYTES as u64)
        .expect("cut short");
    let mut written = 0;
    while pool.stats().media_errors == 0 {
        volume.write(written, &noise(written)).expect("write");
        written += 1;
    }
    for again in 0..8 {
        volume.write(again, &noise(again)).expect("write");
    }
    pool.checkpoint().expect("checkpoint");
    let stats = pool.stats();
    assert_eq!((stats.retired_slots, stats.members_out), (1, 0));
    let mut out = vec![0; BLOCK];
    for block in 0..written {
        volume.read(block, &mut out).expect("read");
        assert!(out == noise(block), "block {block}");
    }
}
