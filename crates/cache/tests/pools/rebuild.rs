//! A member of a mirror that comes back: rebuilt while the pool is used, and believed only when it has everything.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay::{
    Backing, ErrorKind, MemberState, MemoryStore, Pool, RebuildOptions, RebuildProgress, Region,
    Volume,
};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

use crate::small_mirror::{BLOCK, MEMBER_BYTES, durable, go_on, options, runtime, shadow};

const BLOCKS: u64 = 64;

fn state_of(pool: &Pool, number: u32) -> MemberState {
    pool.members()[number as usize].state
}

/// A mirror with a volume.
struct Mirror {
    members: [Arc<Shadow>; 2],
    store: Arc<MemoryStore>,
    pool: Pool,
    volume: Volume,
}

impl Mirror {
    fn new() -> Mirror {
        let members = [shadow(), shadow()];
        let regions = members.iter().cloned().map(Region::on_shadow).collect();
        let pool = Pool::create_on(regions, &options()).expect("create");
        let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
        let volume = attach(&pool, &store);
        Mirror {
            members,
            store,
            pool,
            volume,
        }
    }
    fn put(&self, blocks: std::ops::Range<u64>, byte: u8) {
        for block in blocks {
            self.volume.write(block, &[byte; BLOCK]).expect("write");
        }
    }
    fn replace(&mut self, number: u32) {
        let blank = shadow();
        self.members[number as usize] = blank.clone();
        self.pool
            .replace_member_on(number, Region::on_shadow(blank), &mut go_on)
            .expect("rebuilt");
        assert_eq!(state_of(&self.pool, number), MemberState::In);
    }
    /// What the member alone says after a power cut.
    fn check_alone(&self, member: usize, blocks: std::ops::Range<u64>, byte: u8) {
        let region = Region::shadow_from(&durable(&self.members[member]));
        let alone = runtime().without_missing(true);
        let pool = Pool::open_on(vec![region], alone).expect("open");
        check(&pool, &self.store, blocks, byte);
    }
}

fn change(volume: &Volume, at: u64, bytes: &[u8]) {
    let mut transaction = volume.begin();
    transaction.write_at(at, bytes).expect("staged");
    transaction.commit().expect("a change in place");
}

fn attach(pool: &Pool, store: &Arc<MemoryStore>) -> Volume {
    pool.attach(Backing::from_store(store.clone()))
        .expect("attach")
}

fn check(pool: &Pool, store: &Arc<MemoryStore>, blocks: std::ops::Range<u64>, byte: u8) {
    let volume = attach(pool, store);
    let mut out = [0; BLOCK];
    for block in blocks {
        volume.read(block, &mut out).expect("read");
        assert_eq!(out, [byte; BLOCK], "block {block}");
    }
}

#[test]
fn either_place_is_rebuilt_and_alone_has_everything() {
    for gone in 0..2 {
        let mut mirror = Mirror::new();
        mirror.put(0..10, 1);
        mirror.pool.checkpoint().expect("checkpoint");
        mirror.pool.fail_member(gone).expect("one is left");
        mirror.put(5..20, 1);
        change(&mirror.volume, 3 * BLOCK as u64 + 7, &[1; 5]);
        mirror.replace(gone);
        mirror.put(18..24, 1);
        for member in 0..2 {
            mirror.check_alone(member, 0..24, 1);
        }
        // And the other way round, with the member that joined as the one that is left.
        mirror
            .pool
            .fail_member(1 - gone)
            .expect("the new one is left");
        mirror.put(10..30, 2);
        mirror.replace(1 - gone);
        for member in 0..2 {
            mirror.check_alone(member, 10..30, 2);
            mirror.check_alone(member, 0..10, 1);
        }
    }
}

#[test]
fn clean_blocks_of_a_member_that_went_are_where_they_are_looked_for_or_gone() {
    let mut mirror = Mirror::new();
    mirror.put(0..20, 1);
    while mirror.pool.write_back_once().expect("write back") > 0 {}
    mirror.pool.checkpoint().expect("checkpoint");
    mirror.pool.fail_member(0).expect("one is left");
    let mut out = [0; BLOCK];
    for block in 0..30 {
        mirror.volume.read(block, &mut out).expect("read");
    }
    mirror.replace(0);
    mirror.put(20..22, 1);
    let images = [durable(&mirror.members[0]), durable(&mirror.members[1])];
    let both = images.iter().map(|image| Region::shadow_from(image));
    let pool = Pool::open_on(both.collect(), runtime()).expect("open");
    let (_, bad) = pool.check(|_, _| {});
    assert_eq!(bad, [], "no block is looked for where it is not");
    check(&pool, &mirror.store, 0..22, 1);
}

#[test]
fn a_member_that_is_being_rebuilt_counts_for_nothing() {
    let mirror = Mirror::new();
    mirror.put(0..20, 1);
    mirror.pool.fail_member(1).expect("one is left");
    let blank = shadow();
    let mut images = Vec::new();
    let ended = mirror
        .pool
        .replace_member_on(1, Region::on_shadow(blank.clone()), &mut |_| {
            assert_eq!(state_of(&mirror.pool, 1), MemberState::Rebuilding);
            mirror.put(0..20, 2);
            images.push([durable(&mirror.members[0]), durable(&blank)]);
            ControlFlow::Break(())
        });
    let ended = ended.expect_err("it was ended");
    assert!(matches!(ended.kind(), ErrorKind::Options(_)), "{ended}");
    assert_eq!(state_of(&mirror.pool, 1), MemberState::Out);
    mirror.put(0..20, 3);
    let after = [durable(&mirror.members[0]), durable(&blank)];
    for (images, byte) in images.iter().zip(2..).chain([(&after, 3)]) {
        let region = |member: usize| Region::shadow_from(&images[member]);
        let refused = Pool::open_on(vec![region(1)], runtime().without_missing(true));
        assert!(refused.is_err(), "it has not everything");
        for given in [vec![region(0), region(1)], vec![region(0)]] {
            let pool = Pool::open_on(given, runtime()).expect("open");
            assert_eq!(state_of(&pool, 1), MemberState::Out);
            check(&pool, &mirror.store, 0..20, byte);
        }
    }
}

/// A crash anywhere in the joining of a member: with it or without it, the pool opens as it was.
#[test]
fn a_crash_in_the_making_of_a_member_costs_nothing() {
    let mirror = Mirror::new();
    mirror.put(0..20, 1);
    let before = durable(&mirror.members[1]);
    mirror.pool.fail_member(1).expect("one is left");
    for fence in 0..6 {
        // The file of the member that was there, which ends with this fence.
        let old = Arc::new(Shadow::from_image(&before, ShadowModel::Lines));
        old.set_fence_failure(FenceFailure::From(fence));
        let _ = mirror
            .pool
            .replace_member_on(1, Region::on_shadow(old.clone()), &mut go_on);
        let images = [durable(&mirror.members[0]), durable(&old)];
        for all in [true, false] {
            let given = images.iter().take(if all { 2 } else { 1 });
            let regions = given.map(|image| Region::shadow_from(image)).collect();
            let pool = Pool::open_on(regions, runtime()).expect("open");
            assert_eq!(state_of(&pool, 1), MemberState::Out, "fence {fence}");
            check(&pool, &mirror.store, 0..20, 1);
        }
    }
}

#[test]
fn a_new_member_that_fails_is_out_and_one_that_is_in_is_not_replaced() {
    let mirror = Mirror::new();
    mirror.put(0..20, 1);
    let in_use = mirror
        .pool
        .replace_member_on(1, Region::shadow(MEMBER_BYTES), &mut go_on)
        .expect_err("it is in");
    assert!(in_use.to_string().contains("in use"), "{in_use}");
    mirror.pool.fail_member(1).expect("one is left");
    let small = mirror
        .pool
        .replace_member_on(1, Region::shadow(MEMBER_BYTES / 2), &mut go_on)
        .expect_err("too small");
    assert!(matches!(small.kind(), ErrorKind::Refused { .. }), "{small}");
    // From the first fence on, or later.
    for fence in 0..12 {
        let failing = shadow();
        failing.set_fence_failure(FenceFailure::From(fence));
        let _ = mirror
            .pool
            .replace_member_on(1, Region::on_shadow(failing), &mut go_on);
        mirror.put(0..20, fence as u8);
        assert_eq!(state_of(&mirror.pool, 1), MemberState::Out, "fence {fence}");
        mirror.check_alone(0, 0..20, fence as u8);
    }
}

#[test]
fn blocks_that_were_staged_before_a_member_joined_are_on_it_too() {
    let mut mirror = Mirror::new();
    mirror.put(0..4, 1);
    mirror.pool.fail_member(1).expect("one is left");
    let volume = mirror.volume.clone();
    let mut staged = volume.begin();
    for block in 0..5 {
        staged.write(block, &[7; BLOCK]).expect("staged");
    }
    mirror.replace(1);
    staged.commit().expect("committed");
    for member in 0..2 {
        mirror.check_alone(member, 0..5, 7);
    }
}

#[test]
fn writers_go_on_while_a_member_is_rebuilt_again_and_again() {
    let mut mirror = Mirror::new();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2u64)
        .map(|writer| {
            let (volume, stop) = (mirror.volume.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut byte = 0;
                while !stop.load(Ordering::Relaxed) {
                    byte = byte % 200 + 1;
                    for block in (writer..20).step_by(2) {
                        volume.write(block, &[byte; BLOCK]).expect("write");
                        let at = block * BLOCK as u64;
                        change(&volume, at, &[byte; 9]);
                    }
                }
                byte
            })
        })
        .collect();
    for turn in 0..14 {
        mirror.pool.fail_member(turn % 2).expect("one is left");
        mirror.replace(turn % 2);
    }
    stop.store(true, Ordering::Relaxed);
    let bytes: Vec<u8> = writers
        .into_iter()
        .map(|writer| writer.join().unwrap())
        .collect();
    for (writer, byte) in bytes.iter().enumerate() {
        for block in (writer as u64..20).step_by(2) {
            for member in 0..2 {
                mirror.check_alone(member, block..block + 1, *byte);
            }
        }
    }
}

/// What a crash leaves of the making of a member's file is taken again; a file of anything else is not.
#[test]
fn a_file_that_a_crash_left_half_made_is_made_again_without_force() {
    let folder = tempfile::tempdir().expect("folder");
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    let pool = Pool::create(&options().members(&paths).member_bytes(1 << 20)).expect("create");
    let member = std::fs::read(&paths[1]).expect("read");
    let zeroes = vec![0; member.len()];
    let with = |image: &[u8], at: usize, bytes: &[u8]| {
        let mut image = image.to_vec();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        image
    };
    let cases = [
        ("the member", member.clone(), true),
        ("nothing yet", zeroes.clone(), true),
        ("all but the magic bytes", with(&member, 0, &[0; 8]), true),
        ("half a superblock", with(&member, 0, &[0; 80]), false),
        ("another file", with(&zeroes, 0, b"text"), false),
        ("a file system", with(&zeroes, 5000, &[1]), false),
        ("a shorter one", zeroes[4096..].to_vec(), false),
    ];
    for (what, image, is_taken) in cases {
        pool.fail_member(1).expect("one is left");
        std::fs::remove_file(&paths[1]).expect("remove");
        std::fs::write(&paths[1], &image).expect("write");
        let replaced = pool.replace_member(1, &paths[1], &RebuildOptions::default(), &mut go_on);
        assert_eq!(replaced.is_ok(), is_taken, "{what}: {replaced:?}");
        if !is_taken {
            let found = std::fs::read(&paths[1]).expect("read");
            assert!(found == image, "{what} was changed");
            let force = RebuildOptions::default().force(true);
            pool.replace_member(1, &paths[1], &force, &mut go_on)
                .expect(what);
        }
        assert_eq!(state_of(&pool, 1), MemberState::In, "{what}");
    }
}

#[test]
fn a_rebuild_keeps_its_rate_and_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().expect("folder");
    let paths = ["one", "two"].map(|name| folder.path().join(name));
    let pool = Pool::create(&options().members(&paths).member_bytes(1 << 20)).expect("create");
    let volume = pool.attach(Backing::memory(BLOCKS * BLOCK as u64));
    let volume = volume.expect("attach");
    for block in 0..BLOCKS {
        volume.write(block, &[7; BLOCK]).expect("write");
    }
    pool.fail_member(1).expect("one is left");
    let (mut last_bytes, mut rests) = (0, 0);
    let mut end = |progress: RebuildProgress| {
        let done_bytes = progress.done_bytes;
        rests += u32::from(done_bytes > 0 && done_bytes == last_bytes);
        last_bytes = done_bytes;
        match rests {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    // It would take hours.
    let slow = RebuildOptions::default().rate_bytes_s(Some(1));
    pool.replace_member(1, &paths[1], &slow, &mut end)
        .expect_err("ended");
    assert_eq!(rests, 3);
    assert_eq!(state_of(&pool, 1), MemberState::Out);
    let fast = RebuildOptions::default().rate_bytes_s(Some(1 << 40));
    pool.replace_member(1, &paths[1], &fast, &mut go_on)
        .expect("rebuilt");
    assert_eq!(state_of(&pool, 1), MemberState::In);
}

/// The log of the new member begins in the midst of a lap. That is no hole, though another record was never fenced.
#[test]
fn a_member_that_was_rebuilt_is_enough_with_the_next_record() {
    let mut mirror = Mirror::new();
    forebay::unstable::set_thread_hint(0);
    mirror.put(0..4, 1);
    forebay::unstable::set_thread_hint(1);
    mirror.put(4..8, 1);
    mirror.pool.fail_member(1).expect("one is left");
    mirror.replace(1);
    let before = durable(&mirror.members[1]);
    mirror.put(9..10, 1);
    let with_one = durable(&mirror.members[1]);
    forebay::unstable::set_thread_hint(0);
    mirror.put(8..9, 1);
    let mut image = durable(&mirror.members[1]);
    let areas = forebay::unstable::medium_areas(&mirror.pool);
    let (_, lanes) = areas
        .into_iter()
        .find(|(area, _)| *area == forebay::unstable::MediumArea::Lanes)
        .expect("a log");
    for at in lanes.start as usize..lanes.end as usize {
        if before[at] != with_one[at] {
            image[at] = before[at];
        }
    }
    let region = Region::shadow_from(&image);
    let pool = Pool::open_on(vec![region], runtime().without_missing(true)).expect("open");
    check(&pool, &mirror.store, 0..9, 1);
}
