//! A pool on two members that hold the same: either is enough, and none that is behind is believed.

use std::sync::{Arc, Mutex};

use forebay::unstable::{MediumArea, medium_areas};
use forebay::{
    Backing, ErrorKind, MemoryStore, Pool, PoolOptions, Redundancy, Region, RuntimeOptions,
};
use forebay_pmem::shadow::{Distribution, Fault, FenceFailure, Shadow, ShadowModel};

use crate::small_mirror::{BLOCK, members_in, options};

const BLOCKS: u64 = 64;

/// A pool in two shadows, with a volume over a store in memory.
struct Mirror {
    members: Vec<Arc<Shadow>>,
    store: Arc<MemoryStore>,
}

fn alone() -> RuntimeOptions {
    options().runtime_options().clone().without_missing(true)
}

fn regions(images: &[&[u8]]) -> Vec<Region> {
    images
        .iter()
        .map(|image| Region::shadow_from(image))
        .collect()
}

impl Mirror {
    fn new(options: &PoolOptions) -> (Mirror, Pool) {
        let shadow = || Arc::new(Shadow::new(16 << 10, ShadowModel::Lines));
        let members = vec![shadow(), shadow()];
        let on = members.iter().cloned().map(Region::on_shadow).collect();
        let pool = Pool::create_on(on, options).expect("create");
        let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
        (Mirror { members, store }, pool)
    }
    fn attach(&self, pool: &Pool) -> forebay::Volume {
        let backing = Backing::from_store(self.store.clone());
        pool.attach(backing).expect("attach")
    }
    /// What a power cut leaves at least of each member.
    fn durable(&self) -> Vec<Vec<u8>> {
        let of = |shadow: &Arc<Shadow>| shadow.crash_state().durable().to_vec();
        self.members.iter().map(of).collect()
    }
    fn check(&self, pool: &Pool, blocks: std::ops::Range<u64>, byte: u8) {
        let volume = self.attach(pool);
        let mut out = [0; BLOCK];
        for block in blocks {
            volume.read(block, &mut out).expect("read");
            assert_eq!(out, [byte; BLOCK], "block {block}");
        }
    }
}

fn put(volume: &forebay::Volume, blocks: std::ops::Range<u64>, byte: u8) {
    for block in blocks {
        volume.write(block, &[byte; BLOCK]).expect("write");
    }
}

#[test]
fn each_member_alone_has_all_that_was_acknowledged() {
    let (mirror, pool) = Mirror::new(&options());
    let volume = mirror.attach(&pool);
    put(&volume, 0..10, 1);
    pool.checkpoint().expect("checkpoint");
    put(&volume, 5..20, 1);
    let durable = mirror.durable();
    for (member, image) in durable.iter().enumerate() {
        let image = || regions(&[image]);
        let refused = Pool::open_on(image(), options().runtime_options().clone());
        let refused = refused.expect_err("the other one is missing");
        assert!(
            matches!(refused.kind(), ErrorKind::Refused { .. }),
            "{refused}"
        );
        let pool = Pool::open_on(image(), alone()).expect("open");
        assert_eq!(members_in(&pool), [member as u32]);
        mirror.check(&pool, 0..20, 1);
    }
    let both = regions(&[&durable[1], &durable[0]]);
    let pool = Pool::open_on(both, options().runtime_options().clone()).expect("open");
    assert_eq!(members_in(&pool), [0, 1]);
    mirror.check(&pool, 0..20, 1);
}

#[test]
fn a_member_that_was_away_is_left_out_and_two_histories_are_refused() {
    let (mirror, pool) = Mirror::new(&options());
    let volume = mirror.attach(&pool);
    put(&volume, 0..10, 1);
    let before = mirror.durable();
    pool.fail_member(1).expect("one is left");
    assert_eq!(members_in(&pool), [0]);
    let last = pool.fail_member(0).expect_err("the last one");
    assert!(matches!(last.kind(), ErrorKind::Options(_)), "{last}");
    put(&volume, 0..20, 2);
    let after = mirror.durable();
    let runtime = || options().runtime_options().clone();
    // The other member as it was, and as it is now: out.
    for other in [&before[1], &after[1]] {
        let pool = Pool::open_on(regions(&[other, &after[0]]), runtime()).expect("open");
        assert_eq!(members_in(&pool), [0]);
        mirror.check(&pool, 0..20, 2);
    }
    // Served without each other.
    let other = Arc::new(Shadow::from_image(&before[1], ShadowModel::Lines));
    let pool = Pool::open_on(vec![Region::on_shadow(other.clone())], alone()).expect("open");
    drop(pool);
    let other = other.crash_state().durable().to_vec();
    let refused = Pool::open_on(regions(&[&after[0], &other]), runtime());
    let refused = refused.expect_err("two histories").to_string();
    assert!(refused.contains("each has writes"), "{refused}");
}

/// The medium loses the write of the roster that says that a member is out.
#[test]
fn a_roster_that_the_medium_lost_is_written_again() {
    for gone in 0..2 {
        let (mirror, pool) = Mirror::new(&options());
        let volume = mirror.attach(&pool);
        put(&volume, 0..10, 1);
        let left = &mirror.members[1 - gone];
        let areas = medium_areas(&pool).into_iter();
        for (_, bytes) in areas.filter(|(area, _)| *area == MediumArea::Roster) {
            let (offset, len) = (bytes.start, bytes.end - bytes.start);
            left.inject(Fault::LostWrite { offset, len });
        }
        pool.fail_member(gone as u32).expect("one is left");
        assert_eq!(left.struck(), 1);
        put(&volume, 0..20, 2);
        let durable = mirror.durable();
        let given = regions(&[&durable[0], &durable[1]]);
        let pool = Pool::open_on(given, options().runtime_options().clone()).expect("open");
        assert_eq!(members_in(&pool), [1 - gone as u32]);
        mirror.check(&pool, 0..20, 2);
    }
}

#[test]
fn a_member_whose_fence_fails_is_out_before_the_write_is_acknowledged() {
    for gone in 0..2 {
        let (mirror, pool) = Mirror::new(&options());
        let volume = mirror.attach(&pool);
        put(&volume, 0..10, 1);
        mirror.members[gone].set_fence_failure(FenceFailure::From(0));
        put(&volume, 0..20, 2);
        assert_eq!(members_in(&pool), [1 - gone as u32]);
        mirror.check_held(&volume, 0..20, 2);
        pool.checkpoint().expect("checkpoint");
        put(&volume, 10..30, 2);
        let durable = mirror.durable();
        let given = regions(&[&durable[0], &durable[1]]);
        let pool = Pool::open_on(given, options().runtime_options().clone()).expect("open");
        assert_eq!(members_in(&pool), [1 - gone as u32]);
        mirror.check(&pool, 0..30, 2);
        // The last one fails, too.
        let (mirror, pool) = Mirror::new(&options());
        let volume = mirror.attach(&pool);
        for member in &mirror.members {
            member.set_fence_failure(FenceFailure::From(0));
        }
        let refused = volume.write(0, &[3; BLOCK]).expect_err("none is left");
        assert!(
            !matches!(refused.kind(), ErrorKind::Options(_)),
            "{refused}"
        );
    }
}

impl Mirror {
    /// A pool that is opened on this member alone has these blocks all as they were, or all new.
    fn check_all_or_nothing(&self, image: &[u8], blocks: std::ops::Range<u64>) {
        let pool = Pool::open_on(regions(&[image]), alone()).expect("open");
        let volume = self.attach(&pool);
        let mut out = [0; BLOCK];
        let read = blocks.map(|block| {
            volume.read(block, &mut out).expect("read");
            out[0]
        });
        let read: Vec<u8> = read.collect();
        assert!(read == [1; 6] || read == [2; 6], "{read:?}");
    }
    fn check_held(&self, volume: &forebay::Volume, blocks: std::ops::Range<u64>, byte: u8) {
        let mut out = [0; BLOCK];
        for block in blocks {
            volume.read(block, &mut out).expect("read");
            assert_eq!(out, [byte; BLOCK], "block {block}");
        }
    }
}

/// What one member alone has is decided in a recovery; if that is interrupted and the member dies, the other one has all
/// of it or nothing.
#[test]
fn a_record_that_one_member_alone_has_is_on_both_before_anything_rests_on_it() {
    let (mirror, pool) = Mirror::new(&options());
    let volume = mirror.attach(&pool);
    put(&volume, 0..30, 1);
    pool.checkpoint().expect("checkpoint");
    let before = mirror.durable();
    let mut both = volume.begin();
    // Their entries lie in different lines.
    for block in 0..6 {
        both.write(block, &[2; BLOCK]).expect("write");
    }
    both.commit().expect("commit");
    let after = mirror.durable();
    for alone in [0, 1] {
        let mut images = before.clone();
        images[alone].clone_from(&after[alone]);
        let shadow = |image: &Vec<u8>| Arc::new(Shadow::from_image(image, ShadowModel::Lines));
        let shadows: Vec<_> = images.iter().map(shadow).collect();
        let left = shadows[1 - alone].clone();
        let found = Arc::new(Mutex::new(Vec::new()));
        let (seen, told) = (found.clone(), left.clone());
        left.set_hook(Some(Arc::new(move |_| {
            seen.lock().expect("no panic").push(told.crash_state());
        })));
        let on = shadows.iter().cloned().map(Region::on_shadow).collect();
        drop(Pool::open_on(on, options().runtime_options().clone()).expect("open"));
        left.set_hook(None);
        let mut random = fastrand::Rng::with_seed(alone as u64);
        let mut image = Vec::new();
        for state in found.lock().expect("no panic").iter() {
            for distribution in Distribution::ALL {
                state.sample_from(distribution, &mut random, &mut image);
                mirror.check_all_or_nothing(&image, 0..6);
            }
        }
    }
}

/// A fill has no record; a crash as its line of the table is sent may leave one half of the entry on one member and the
/// other half on the other.
#[test]
fn a_fill_that_is_torn_on_both_members_is_none() {
    let (mirror, pool) = Mirror::new(&options());
    let volume = mirror.attach(&pool);
    put(&volume, 0..1, 1);
    pool.checkpoint().expect("checkpoint");
    let before = mirror.durable();
    mirror.check_held(&volume, 5..6, 0);
    pool.checkpoint().expect("checkpoint");
    let after = mirror.durable();
    let changed =
        |member: usize, at: usize| before[member][at..at + 8] != after[member][at..at + 8];
    let halves_of = |line: usize| (line..line + 64).step_by(8);
    let is_of_an_entry = |line: &usize| {
        let halves: Vec<usize> = halves_of(*line).filter(|at| changed(0, *at)).collect();
        matches!(halves[..], [one, other] if other == one + 8 && changed(1, one) && changed(1, other))
    };
    let lines = (0..before[0].len()).step_by(64);
    let line = lines.filter(is_of_an_entry).collect::<Vec<usize>>();
    let [line] = line[..] else {
        panic!("one entry was filled: {line:?}");
    };
    let entry = halves_of(line)
        .find(|at| changed(0, *at))
        .expect("it changed");
    for first in 0..2 {
        for is_flipped in [false, true] {
            let mut images = before.clone();
            for (member, at) in [(first, entry), (1 - first, entry + 8)] {
                images[member][at..at + 8].copy_from_slice(&after[member][at..at + 8]);
            }
            if is_flipped {
                // All of it is there, but for a bit.
                let at = entry..entry + 16;
                images[1 - first][at.clone()].copy_from_slice(&after[1 - first][at]);
                images[1 - first][entry + 9] ^= 1;
            }
            let both = regions(&[&images[0], &images[1]]);
            let pool = Pool::open_on(both, options().runtime_options().clone()).expect("open");
            let volume = mirror.attach(&pool);
            mirror.check_held(&volume, 0..1, 1);
            mirror.check_held(&volume, 5..6, 0);
        }
    }
}

/// The last record of a lane is tested by its blocks: one half of each is enough.
#[test]
fn a_flipped_bit_in_either_half_costs_nothing() {
    for member in 0..2 {
        let (mirror, pool) = Mirror::new(&options());
        let volume = mirror.attach(&pool);
        put(&volume, 3..5, 7);
        let mut durable = mirror.durable();
        // Every block of this member has a flipped bit.
        for at in (0..durable[member].len() - BLOCK).rev() {
            if durable[member][at..at + BLOCK] == [7; BLOCK] {
                durable[member][at + 5] ^= 1;
            }
        }
        let both = regions(&[&durable[0], &durable[1]]);
        let pool = Pool::open_on(both, options().runtime_options().clone()).expect("open");
        mirror.check(&pool, 3..5, 7);
    }
}

/// Whatever a power cut leaves on each of them.
#[test]
fn a_power_cut_and_a_dead_member_lose_nothing() {
    let mut random = 1u64;
    let mut draw = |below: u64| {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (random >> 33) % below
    };
    for _ in 0..60 {
        let (mirror, pool) = Mirror::new(&options());
        let volume = mirror.attach(&pool);
        let mut held = [0u8; BLOCKS as usize];
        for byte in 1..80u8 {
            let block = draw(24);
            match draw(8) {
                0 => pool.checkpoint().expect("checkpoint"),
                1 => assert!(pool.write_back_once().is_ok()),
                2 => assert!(pool.reclaim_once(3).is_ok()),
                3 => volume.read(block + 24, &mut [0; BLOCK]).expect("read"),
                _ => {
                    put(&volume, block..block + 1, byte);
                    held[block as usize] = byte;
                }
            }
        }
        let durable = mirror.durable();
        let both: Vec<&[u8]> = durable.iter().map(Vec::as_slice).collect();
        for given in [&both[..], &both[..1], &both[1..]] {
            let pool = Pool::open_on(regions(given), alone()).expect("open");
            let volume = mirror.attach(&pool);
            let mut out = [0; BLOCK];
            for (block, byte) in (0..).zip(held) {
                volume.read(block, &mut out).expect("read");
                assert_eq!(out, [byte; BLOCK], "block {block}");
            }
        }
    }
}

/// What a change in place is computed from comes from the half that is right.
#[test]
fn a_change_in_place_builds_on_the_half_that_is_right() {
    for member in 0..2 {
        let (mirror, pool) = Mirror::new(&options());
        let volume = mirror.attach(&pool);
        put(&volume, 0..4, 7);
        let durable = mirror.durable();
        let blocks = durable[member].chunks_exact(BLOCK).zip(0u64..);
        for (_, number) in blocks.filter(|(block, _)| *block == [7; BLOCK]) {
            mirror.members[member].store(number * BLOCK as u64 + 5, &[6]);
        }
        for block in 0..4 {
            let mut change = volume.begin();
            change
                .write_at(block * BLOCK as u64 + 4, &[9; 4])
                .expect("write");
            change.commit().expect("commit");
            let mut out = [0; BLOCK];
            volume.read(block, &mut out).expect("read");
            let mut expected = [7; BLOCK];
            expected[4..8].fill(9);
            assert_eq!(out, expected, "block {block}");
        }
    }
}

#[test]
fn a_mirror_on_plain_files_opens_with_either_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let members = ["a", "b"].map(|name| folder.path().join(name));
    let options = PoolOptions::default()
        .members(&members)
        .member_bytes(8 << 20)
        .background(false)
        .accept_stale(true)
        .redundancy(Redundancy::Mirror);
    let store = Arc::new(MemoryStore::new(64 * 4096));
    let backing = || Backing::from_store(store.clone());
    let pool = Pool::create(&options).expect("create");
    let volume = pool.attach(backing()).expect("attach");
    for block in 0..30 {
        volume.write(block, &[5; 4096]).expect("write");
    }
    // As a killed process would leave it.
    drop((volume, pool));
    for member in &members {
        let runtime = options.runtime_options().clone().without_missing(true);
        let pool = Pool::open_with(&[member], runtime).expect("open");
        let volume = pool.attach(backing()).expect("attach");
        let mut out = vec![0; 4096];
        for block in 0..30 {
            volume.read(block, &mut out).expect("read");
            assert_eq!(out, [5; 4096], "block {block}");
        }
    }
}
