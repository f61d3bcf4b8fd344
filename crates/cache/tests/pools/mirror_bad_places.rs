//! Bad places of members of mirrors of two to eight: which blocks rest on which member alone, and what each of the
//! others knows of it after a crash.

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use forebay::unstable::locate_block;
use forebay::{
    Backing, ErrorKind, MemberState, Pool, Region, RuntimeOptions, ScrubOptions, Volume,
};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

use crate::halves::{BLOCK, BLOCKS, Mirror, noise};

/// The places of a block's two halves: a member and where it begins there.
type Places = [(usize, u64); 2];

fn places_in(volume: &Volume, block: u64) -> Places {
    let found = locate_block(volume, block).expect("cached").bytes;
    [0, 1].map(|half: usize| (found[half].0, found[half].1.start))
}

impl Mirror {
    fn places(&self, block: u64) -> Places {
        places_in(&self.volume, block)
    }
    fn count(&self) -> usize {
        self.members.len()
    }
    /// Has the medium lose what is there.
    fn lose(&self, (member, start): (usize, u64)) {
        self.members[member].lose_page(start);
    }
    fn out(&self) -> Vec<u32> {
        let members = self.pool.members().into_iter();
        let out = members.filter(|member| member.state != MemberState::In);
        out.map(|member| member.number).collect()
    }
    fn retired(&self) -> u64 {
        self.pool.stats().retired_slots
    }
    /// What a power cut leaves at least.
    fn images(&self) -> Vec<Vec<u8>> {
        let states = self.members.iter().map(|member| member.crash_state());
        states.map(|state| state.durable().to_vec()).collect()
    }
    /// Opens copies of all members but `gone`.
    fn open(
        &self,
        images: &[Vec<u8>],
        gone: Option<usize>,
        options: RuntimeOptions,
    ) -> forebay::Result<(Pool, Volume)> {
        let left = (0..images.len()).filter(|member| Some(*member) != gone);
        let on = left.map(|member| Region::shadow_from(&images[member]));
        let pool = Pool::open_on(on.collect(), options)?;
        let volume = pool.attach(Backing::from_store(self.store.clone()))?;
        Ok((pool, volume))
    }
}

fn runtime() -> RuntimeOptions {
    crate::halves::options().runtime_options().clone()
}

fn without_missing() -> RuntimeOptions {
    runtime().without_missing(true)
}

fn reads(volume: &Volume, block: u64, seed: u64) {
    let mut out = vec![0; BLOCK];
    volume.read(block, &mut out).expect("read");
    assert!(out == noise(seed), "block {block}");
}

/// Mirrors in which the block 1 is in one half of its slot, since the page of the other one is lost, and has not left: which
/// half, where it was, and the member that has the block.
fn each_resting(members: Range<usize>, mut check: impl FnMut(Mirror, (usize, u64), usize)) {
    for members in members {
        for half in 0..2 {
            let mirror = Mirror::of(members);
            (0..8).for_each(|block| mirror.put(block, block + 1));
            let places = mirror.places(1);
            mirror.lose(places[half]);
            // A fence meets it.
            let _ = forebay::unstable::load(&mirror.pool, places[half].0, places[half].1);
            mirror.put(0, 1);
            assert_eq!(mirror.out(), [0; 0]);
            assert_eq!(mirror.pool.stats().media_errors, 1);
            check(mirror, places[half], places[half ^ 1].0);
        }
    }
}

#[test]
fn a_block_leaves_its_bad_place_and_then_all_but_any_one_member_have_it() {
    each_resting(2..9, |mirror, bad, _| {
        mirror.pool.checkpoint().expect("checkpoint");
        assert!(!mirror.places(1).contains(&bad));
        assert_eq!(mirror.retired(), 1);
        let blocks: Vec<(u64, Vec<u8>)> = (0..8)
            .map(|block| (block, noise(block.max(1) + u64::from(block > 0))))
            .collect();
        mirror.each_alone_reads(&blocks);
        mirror.scrub_finds(0);
        for block in 0..BLOCKS {
            mirror.put(block, block + 100);
            assert!(!mirror.places(block).contains(&bad));
        }
        assert_eq!(mirror.out(), [0; 0]);
    });
}

#[test]
fn the_member_of_the_other_half_stays_and_any_other_one_may_go() {
    each_resting(3..9, |mirror, (bad, _), other| {
        let error = mirror.pool.fail_member(other as u32).expect_err("refused");
        assert!(
            error.to_string().contains("only copy of 1 blocks"),
            "{error}"
        );
        let third = (0..mirror.count()).find(|member| ![bad, other].contains(member));
        let third = third.expect("three members") as u32;
        mirror.pool.fail_member(third).expect("nothing rests on it");
        assert!(mirror.read(1) == noise(2));
        mirror.pool.checkpoint().expect("checkpoint");
        assert!(mirror.read(1) == noise(2));
        assert_eq!(mirror.out(), [third]);
    });
}

#[test]
fn a_fence_that_fails_ends_the_writes_if_a_block_rests_on_that_member_alone() {
    each_resting(2..5, |mirror, _, other| {
        mirror.members[other].set_fence_failure(FenceFailure::From(0));
        let error = mirror.volume.write(3, &noise(3)).expect_err("no copy");
        assert!(matches!(error.kind(), ErrorKind::Media(_)), "{error}");
        assert!(mirror.pool.stats().poisoned);
        assert_eq!(
            mirror.out(),
            [0; 0],
            "the next opening has what each of them has"
        );
        assert!(mirror.read(1) == noise(2));
        let (_, volume) = mirror
            .open(&mirror.images(), None, runtime())
            .expect("open");
        reads(&volume, 1, 2);
    });
    each_resting(3..5, |mirror, (bad, _), other| {
        let third = (0..mirror.count()).find(|member| ![bad, other].contains(member));
        let third = third.expect("three members");
        mirror.members[third].set_fence_failure(FenceFailure::From(0));
        mirror.put(3, 3);
        assert_eq!(mirror.out(), [third as u32]);
        assert!(mirror.read(1) == noise(2));
    });
}

#[test]
fn each_other_member_knows_the_bad_place_before_anything_is_acknowledged_without_it() {
    each_resting(2..6, |mirror, bad, other| {
        let images = mirror.images();
        for gone in 0..mirror.count() {
            if gone == bad.0 {
                let (pool, volume) = mirror
                    .open(&images, Some(gone), without_missing())
                    .expect("open");
                assert_eq!(pool.stats().retired_slots, 0, "its places are not there");
                reads(&volume, 1, 2);
                continue;
            }
            if gone == other {
                // Three and more open by a majority, but not without the only half of a block.
                let refused = mirror
                    .open(&images, Some(gone), runtime())
                    .expect_err("refused");
                assert!(
                    matches!(refused.kind(), ErrorKind::Refused { .. }),
                    "{refused}"
                );
                if mirror.count() > 2 {
                    assert!(
                        refused.to_string().contains("only copy of some blocks"),
                        "{refused}"
                    );
                }
                let mut images = images.clone();
                images[bad.0][bad.1 as usize..][..BLOCK].fill(0);
                let (_, volume) = mirror
                    .open(&images, Some(gone), without_missing())
                    .expect("open");
                let mut out = vec![0; BLOCK];
                let lost = volume.read(1, &mut out).expect_err("it was given up");
                assert!(matches!(lost.kind(), ErrorKind::Corrupt { .. }), "{lost}");
                continue;
            }
            let (pool, volume) = mirror.open(&images, Some(gone), runtime()).expect("open");
            assert_eq!(pool.stats().retired_slots, 1);
            reads(&volume, 1, 2);
            pool.checkpoint().expect("checkpoint");
            assert!(!places_in(&volume, 1).contains(&bad));
            for block in 0..BLOCKS {
                volume.write(block, &noise(block)).expect("write");
                assert!(!places_in(&volume, block).contains(&bad));
            }
        }
    });
}

#[test]
fn a_pool_opens_without_any_member_once_the_blocks_have_left() {
    each_resting(3..6, |mirror, bad, other| {
        mirror.pool.checkpoint().expect("checkpoint");
        let images = mirror.images();
        for gone in 0..mirror.count() {
            let (pool, volume) = mirror.open(&images, Some(gone), runtime()).expect("open");
            assert_eq!(pool.stats().retired_slots, u64::from(gone != bad.0));
            reads(&volume, 1, 2);
        }
        // So it is after a restart, with a list that is stored anew.
        let (pool, _) = mirror.open(&images, None, runtime()).expect("open");
        pool.checkpoint().expect("checkpoint");
        pool.fail_member(other as u32).expect("nothing rests on it");
    });
}

#[test]
fn a_witness_does_not_vouch_for_a_member_that_lacks_the_only_half_of_a_block() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("witness");
    let mirror = Mirror::new();
    mirror.put(1, 1);
    mirror.pool.set_witness(Some(&path)).expect("a witness");
    let places = mirror.places(1);
    mirror.lose(places[0]);
    let _ = forebay::unstable::load(&mirror.pool, places[0].0, places[0].1);
    mirror.put(0, 0);
    let resting = mirror.images();
    mirror.pool.checkpoint().expect("checkpoint");
    let moved = mirror.images();
    let kept = std::fs::read(&path).expect("the witness");
    drop(mirror.pool.close());
    let open = |images: &[Vec<u8>], gone| {
        std::fs::write(&path, &kept).expect("the witness");
        let left = (0..2).filter(|member| *member != gone);
        let on = left.map(|member| Region::shadow_from(&images[member]));
        Pool::open_on(on.collect(), runtime())
    };
    let refused = open(&resting, places[1].0).expect_err("refused");
    assert!(
        refused.to_string().contains("only copy of some blocks"),
        "{refused}"
    );
    drop(open(&resting, places[0].0).expect("the one that has everything"));
    for gone in 0..2 {
        drop(open(&moved, gone).expect("each has everything"));
    }
}

#[test]
fn a_member_that_is_rebuilt_knows_the_others_bad_places() {
    for members in 2..5 {
        let mirror = Mirror::of(members);
        mirror.put(1, 1);
        let bad = mirror.places(1)[0];
        mirror.lose(bad);
        let _ = forebay::unstable::load(&mirror.pool, bad.0, bad.1);
        mirror.put(0, 0);
        mirror.pool.checkpoint().expect("checkpoint");
        let new = (bad.0 + 1) % members;
        mirror
            .pool
            .fail_member(new as u32)
            .expect("nothing rests on it");
        let blank = Arc::new(Shadow::new(2 << 20, ShadowModel::Lines));
        let watcher = &mut |_| ControlFlow::Continue(());
        let region = Region::on_shadow(blank.clone());
        let rebuilt = mirror.pool.replace_member_on(new as u32, region, watcher);
        rebuilt.expect("rebuilt");
        let mut images = mirror.images();
        images[new] = blank.crash_state().durable().to_vec();
        for gone in (0..members).filter(|gone| ![bad.0, new].contains(gone)) {
            let (pool, volume) = mirror.open(&images, Some(gone), runtime()).expect("open");
            assert_eq!(pool.stats().retired_slots, 1);
            reads(&volume, 1, 1);
        }
        let (pool, volume) = mirror.open(&images, None, runtime()).expect("open");
        assert_eq!(pool.stats().retired_slots, 1);
        reads(&volume, 1, 1);
        let report = pool.scrub(&ScrubOptions::default(), &mut |_| ControlFlow::Continue(()));
        assert_eq!(report.expect("scrub").found, 0);
        // Its own list tells that, without those of the others.
        let others = images.iter_mut().enumerate();
        for (_, image) in others.filter(|(member, _)| *member != new) {
            for unit in [5, 6] {
                image[unit * 4096 + 256..(unit + 1) * 4096].fill(0);
            }
        }
        let (pool, _) = mirror.open(&images, None, runtime()).expect("open");
        assert_eq!(pool.stats().retired_slots, 1);
    }
}

#[test]
fn two_members_may_have_bad_places_of_slots_that_they_do_not_share() {
    let mirror = Mirror::of(4);
    (0..40).for_each(|block| mirror.put(block, block));
    let on = |member| (0..40).find(|block| mirror.places(*block)[0].0 == member);
    let (one, two) = (on(0).expect("a block"), on(2).expect("a block"));
    // Both are met by one fence.
    for block in [one, two] {
        let (member, start) = mirror.places(block)[0];
        mirror.lose((member, start));
        let _ = forebay::unstable::load(&mirror.pool, member, start);
    }
    mirror.put(50, 50);
    assert_eq!(mirror.out(), [0; 0]);
    assert!(mirror.read(one) == noise(one) && mirror.read(two) == noise(two));
    for other in [1, 3] {
        mirror.pool.fail_member(other).expect_err("the only half");
    }
    mirror.pool.checkpoint().expect("checkpoint");
    assert_eq!(mirror.retired(), 2);
    mirror.each_alone_reads(&[(one, noise(one)), (two, noise(two)), (50, noise(50))]);
}

#[test]
fn a_page_that_is_lost_while_a_member_is_out_ends_the_writes() {
    let mirror = Mirror::of(3);
    (0..8).for_each(|block| mirror.put(block, block));
    let places = mirror.places(1);
    let third = (0..3).find(|member| places.iter().all(|(on, _)| on != member));
    mirror
        .pool
        .fail_member(third.expect("three") as u32)
        .expect("out");
    mirror.lose(places[0]);
    assert!(mirror.read(1) == noise(1), "from the other half");
    mirror
        .volume
        .write(2, &noise(2))
        .expect_err("one lacks already");
    assert!(mirror.pool.stats().poisoned);
    assert!(mirror.read(1) == noise(1));
}

#[test]
fn a_member_with_a_bad_place_where_its_pool_grows_metadata_is_taken_out() {
    let mirror = Mirror::of(3);
    mirror.put(1, 1);
    // The first slot's, which a longer table takes.
    let first = (0..BLOCKS).find(|block| {
        mirror.put(*block, *block);
        mirror.places(*block)[0].0 == 1
    });
    let bad = mirror.places(first.expect("a block"))[0];
    mirror.lose(bad);
    let _ = forebay::unstable::load(&mirror.pool, bad.0, bad.1);
    mirror.put(0, 7);
    mirror.pool.checkpoint().expect("checkpoint");
    let larger = mirror.images().into_iter().map(|mut image| {
        image.resize(64 << 20, 0);
        Region::shadow_from(&image)
    });
    let mut backing = |_: &Path| Ok(Backing::from_store(mirror.store.clone()));
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let pool = Pool::grow_on(larger.collect(), 64 << 20, &mut backing, go_on, runtime());
    let pool = pool.expect("grow");
    let volume = pool
        .attach(Backing::from_store(mirror.store.clone()))
        .expect("attach");
    reads(&volume, 0, 7);
    volume.write(1, &noise(9)).expect("write");
    let states = pool.members().into_iter().map(|member| member.state);
    let out = states.map(|state| state == MemberState::Out);
    assert_eq!(out.collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(pool.stats().retired_slots, 0);
}
