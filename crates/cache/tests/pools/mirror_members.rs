//! Mirrors of three members and more: every block on two of them, all but one are enough, and two are never done
//! without.

use std::ops::ControlFlow;
use std::sync::Arc;

use forebay::unstable::locate_block;
use forebay::{Backing, ErrorKind, MemoryStore, Pool, Region, RuntimeOptions, Volume};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

use crate::small_mirror::{BLOCK, MEMBER_BYTES, members_in, options, runtime, shadow, shadow_of};

const BLOCKS: u64 = 64;

/// A pool in shadows, with a volume over a store in memory.
struct Mirror {
    members: Vec<Arc<Shadow>>,
    store: Arc<MemoryStore>,
}

fn without_missing() -> RuntimeOptions {
    runtime().without_missing(true)
}

fn on(shadows: &[Arc<Shadow>]) -> Vec<Region> {
    shadows.iter().cloned().map(Region::on_shadow).collect()
}

fn all_but(members: usize, gone: usize) -> Vec<u32> {
    let left = (0..members as u32).filter(|number| *number != gone as u32);
    left.collect()
}

impl Mirror {
    fn new(members: usize) -> (Mirror, Pool) {
        Mirror::of((0..members).map(|_| shadow()).collect())
    }
    fn of(members: Vec<Arc<Shadow>>) -> (Mirror, Pool) {
        let pool = Pool::create_on(on(&members), &options()).expect("create");
        let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
        (Mirror { members, store }, pool)
    }
    fn attach(&self, pool: &Pool) -> Volume {
        let backing = Backing::from_store(self.store.clone());
        pool.attach(backing).expect("attach")
    }
    /// What a power cut leaves at least of each member.
    fn durable(&self) -> Vec<Vec<u8>> {
        let of = |shadow: &Arc<Shadow>| shadow.crash_state().durable().to_vec();
        self.members.iter().map(of).collect()
    }
    fn check(&self, pool: &Pool, blocks: std::ops::Range<u64>, byte: u8) {
        check_held(&self.attach(pool), blocks, byte);
    }
}

fn check_held(volume: &Volume, blocks: std::ops::Range<u64>, byte: u8) {
    let mut out = [0; BLOCK];
    for block in blocks {
        volume.read(block, &mut out).expect("read");
        assert_eq!(out, [byte; BLOCK], "block {block}");
    }
}

fn put(volume: &Volume, blocks: std::ops::Range<u64>, byte: u8) {
    for block in blocks {
        volume.write(block, &[byte; BLOCK]).expect("write");
    }
}

/// Of these images those that are not `gone`.
fn left(images: &[Vec<u8>], gone: &[usize]) -> Vec<Region> {
    let numbered = images.iter().enumerate();
    let left = numbered.filter(|(number, _)| !gone.contains(number));
    left.map(|(_, image)| Region::shadow_from(image)).collect()
}

fn refusal(opened: forebay::Result<Pool>) -> String {
    let refused = opened.expect_err("it must not open");
    let is_refused = matches!(refused.kind(), ErrorKind::Refused { .. });
    assert!(is_refused, "{refused}");
    refused.to_string()
}

#[test]
fn each_dirty_block_is_on_two_members_and_the_room_is_that_of_half_of_them() {
    let room = |members| {
        let shadows = (0..members).map(|_| shadow_of(1 << 20));
        let (mirror, pool) = Mirror::of(shadows.collect());
        let volume = mirror.attach(&pool);
        put(&volume, 0..20, 1);
        for block in 0..20 {
            let places = locate_block(&volume, block).expect("cached").bytes;
            let [(first, _), (second, _)] = places[..] else {
                panic!("{places:?}");
            };
            assert_eq!((first + 1) % members, second);
            for (member, bytes) in places {
                let image = mirror.members[member].crash_state().durable().to_vec();
                assert_eq!(image[bytes.start as usize..bytes.end as usize], [1; BLOCK]);
            }
        }
        pool.stats().slots as f64
    };
    let of_two = room(2);
    for members in 3..=8 {
        // Less what a larger table takes.
        let share = room(members) / (of_two * members as f64 / 2.0);
        assert!((0.7..=1.0).contains(&share), "{members}: {share}");
    }
}

#[test]
fn all_members_but_one_have_all_that_was_acknowledged_and_open_without_a_word() {
    for members in [3, 4, 8] {
        let (mirror, pool) = Mirror::new(members);
        let volume = mirror.attach(&pool);
        put(&volume, 0..10, 1);
        pool.checkpoint().expect("checkpoint");
        put(&volume, 5..20, 1);
        let durable = mirror.durable();
        for gone in 0..members {
            let pool = Pool::open_on(left(&durable, &[gone]), runtime()).expect("a majority");
            assert_eq!(members_in(&pool), all_but(members, gone));
            mirror.check(&pool, 0..20, 1);
        }
        let mut backwards = left(&durable, &[]);
        backwards.reverse();
        let pool = Pool::open_on(backwards, runtime()).expect("open");
        assert_eq!(members_in(&pool).len(), members);
        mirror.check(&pool, 0..20, 1);
    }
}

#[test]
fn a_pool_that_lost_two_members_is_refused_whatever_the_caller_says() {
    for members in [3, 4] {
        let (mirror, pool) = Mirror::new(members);
        put(&mirror.attach(&pool), 0..20, 1);
        let durable = mirror.durable();
        for one in 0..members {
            for another in 0..one {
                for options in [runtime(), without_missing()] {
                    let opened = Pool::open_on(left(&durable, &[one, another]), options);
                    let refused = refusal(opened);
                    assert!(
                        refused.contains(&format!("members {another} and {one}")),
                        "{refused}"
                    );
                }
            }
        }
        // One is out, and another one is gone.
        pool.fail_member(1).expect("the others are left");
        let durable = mirror.durable();
        for gone in [0, 2] {
            for options in [runtime(), without_missing()] {
                refusal(Pool::open_on(left(&durable, &[gone]), options));
            }
        }
        let pool = Pool::open_on(left(&durable, &[1]), runtime()).expect("it is out");
        mirror.check(&pool, 0..20, 1);
    }
}

/// A roster that takes a member out is on all others before anything is acknowledged: whichever of them a power cut
/// takes, the rest does not go on with the one that lacks it.
#[test]
fn no_majority_goes_on_with_a_member_that_was_taken_out() {
    for gone in 0..3 {
        let (mirror, pool) = Mirror::new(3);
        let volume = mirror.attach(&pool);
        put(&volume, 0..20, 1);
        let before = mirror.durable();
        mirror.members[gone].set_fence_failure(FenceFailure::From(0));
        put(&volume, 0..20, 2);
        assert_eq!(members_in(&pool), all_but(3, gone));
        let mut after = mirror.durable();
        after[gone].clone_from(&before[gone]);
        for another in (0..3).filter(|another| *another != gone) {
            for options in [runtime(), without_missing()] {
                let opened = Pool::open_on(left(&after, &[another]), options);
                refusal(opened);
            }
        }
        let pool = Pool::open_on(left(&after, &[]), runtime()).expect("open");
        assert_eq!(members_in(&pool), all_but(3, gone));
        mirror.check(&pool, 0..20, 2);
    }
}

#[test]
fn a_second_member_is_never_taken_out() {
    let (mirror, pool) = Mirror::new(3);
    let volume = mirror.attach(&pool);
    put(&volume, 0..10, 1);
    pool.fail_member(2).expect("two are left");
    put(&volume, 0..20, 2);
    let refused = pool.fail_member(0).expect_err("blocks are on it alone");
    assert!(matches!(refused.kind(), ErrorKind::Options(_)), "{refused}");
    pool.fail_member(2).expect("it is out already");
    put(&volume, 0..20, 3);
    mirror.members[1].set_fence_failure(FenceFailure::From(0));
    let refused = volume.write(0, &[4; BLOCK]).expect_err("no one is left");
    assert!(
        !matches!(refused.kind(), ErrorKind::Options(_)),
        "{refused}"
    );
    check_held(&volume, 1..20, 3);
    let pool = Pool::open_on(left(&mirror.durable(), &[2]), runtime()).expect("both have it");
    mirror.check(&pool, 1..20, 3);
}

/// Of an idle pool one member has died, and another one is named by mistake: that one stays, and the pool goes on.
#[test]
fn a_member_named_by_mistake_stays_where_another_one_is_dead() {
    for members in [2, 3] {
        let (mirror, pool) = Mirror::new(members);
        let volume = mirror.attach(&pool);
        put(&volume, 0..10, 1);
        mirror.members[0].set_fence_failure(FenceFailure::From(0));
        let refused = pool.fail_member(1).expect_err("the other one is dead");
        assert!(matches!(refused.kind(), ErrorKind::Options(_)), "{refused}");
        assert_eq!(members_in(&pool), all_but(members, 0));
        put(&volume, 0..20, 2);
        check_held(&volume, 0..20, 2);
    }
}

#[test]
fn members_that_went_on_without_each_other_are_refused_together() {
    let (mirror, pool) = Mirror::new(3);
    let volume = mirror.attach(&pool);
    put(&volume, 0..10, 1);
    let before = mirror.durable();
    let served = |gone: usize| {
        let shadows: Vec<_> = before
            .iter()
            .map(|image| Arc::new(Shadow::from_image(image, ShadowModel::Lines)))
            .collect();
        let mut there = on(&shadows);
        there.remove(gone);
        drop(Pool::open_on(there, runtime()).expect("a majority"));
        shadows
            .iter()
            .map(|shadow| shadow.crash_state().durable().to_vec())
            .collect::<Vec<_>>()
    };
    let (without_2, without_0) = (served(2), served(0));
    let both = [&without_2[0], &without_0[1], &without_0[2]].map(Vec::clone);
    let refused = refusal(Pool::open_on(left(&both, &[]), runtime()));
    assert!(refused.contains("each has writes"), "{refused}");
    let pool = Pool::open_on(left(&both, &[0]), runtime()).expect("one of them");
    mirror.check(&pool, 0..10, 1);
}

/// Of three copies of a member an old one is left out; of more than one that is old nothing is made.
#[test]
fn an_old_copy_of_a_member_is_left_out_and_of_two_the_pool_is_refused() {
    let (mirror, pool) = Mirror::new(3);
    let volume = mirror.attach(&pool);
    put(&volume, 0..10, 1);
    let before = mirror.durable();
    drop((volume, pool));
    let pool = Pool::open_on(on(&mirror.members), runtime()).expect("open");
    put(&mirror.attach(&pool), 0..20, 2);
    for old in 0..3 {
        let mut images = mirror.durable();
        images[old].clone_from(&before[old]);
        let pool = Pool::open_on(left(&images, &[]), runtime()).expect("open");
        assert_eq!(members_in(&pool), all_but(3, old));
        mirror.check(&pool, 0..20, 2);
        let another = (old + 1) % 3;
        images[another].clone_from(&before[another]);
        refusal(Pool::open_on(left(&images, &[]), runtime()));
        refusal(Pool::open_on(left(&images, &[another]), runtime()));
    }
}

/// What a member that died had alone with another is on that one; a member that is rebuilt has everything that it is to
/// have, and then any other may die.
#[test]
fn a_member_is_rebuilt_and_then_another_may_die() {
    for members in [3, 4] {
        let (mut mirror, pool) = Mirror::new(members);
        let volume = mirror.attach(&pool);
        put(&volume, 0..12, 1);
        pool.checkpoint().expect("checkpoint");
        put(&volume, 4..16, 1);
        for gone in 0..members {
            pool.fail_member(gone as u32).expect("the others are in");
            put(&volume, 10..20, 1);
            let mut change = volume.begin();
            change.write_at(11 * BLOCK as u64, &[1; 9]).expect("write");
            change.commit().expect("a change in place");
            let blank = shadow();
            mirror.members[gone] = blank.clone();
            let region = Region::on_shadow(blank);
            let watcher = &mut |_| ControlFlow::Continue(());
            pool.replace_member_on(gone as u32, region, watcher)
                .expect("rebuilt");
            assert_eq!(members_in(&pool).len(), members);
            let durable = mirror.durable();
            for another in 0..members {
                let pool = Pool::open_on(left(&durable, &[another]), runtime()).expect("open");
                mirror.check(&pool, 0..20, 1);
            }
        }
        put(&volume, 0..20, 1);
    }
}

#[test]
fn a_scrub_puts_right_what_one_member_of_three_has_wrong() {
    for wrong in 0..3 {
        let (mirror, pool) = Mirror::new(3);
        let volume = mirror.attach(&pool);
        put(&volume, 0..20, 1);
        pool.checkpoint().expect("checkpoint");
        let mut blocks = 0;
        let member = &mirror.members[wrong];
        for block in 0..20 {
            let places = locate_block(&volume, block).expect("cached").bytes;
            for (_, bytes) in places.iter().filter(|(member, _)| *member == wrong) {
                let fault = forebay_pmem::shadow::Fault::BitFlip {
                    offset: bytes.start + block,
                    bit: 1,
                };
                member.inject(fault);
                blocks += 1;
            }
        }
        let mut lines = 0;
        for (_, bytes) in forebay::unstable::medium_areas(&pool)
            .iter()
            .filter(|(area, _)| *area == forebay::unstable::MediumArea::Table)
        {
            let image = member.crash_state().durable().to_vec();
            for line in (bytes.start..bytes.end).step_by(64) {
                let line_bytes = &image[line as usize..line as usize + 64];
                if line_bytes.iter().any(|byte| *byte != 0) {
                    member.inject(forebay_pmem::shadow::Fault::BitFlip {
                        offset: line + 9,
                        bit: 4,
                    });
                    lines += 1;
                }
            }
        }
        assert!(blocks > 8 && lines > 3);
        let options = forebay::ScrubOptions::default();
        let mut go_on = |_| ControlFlow::Continue(());
        let report = pool.scrub(&options, &mut go_on).expect("scrub");
        let wanted = blocks + lines;
        assert_eq!(
            (report.found, report.repaired),
            (wanted, wanted),
            "{report:?}"
        );
        let report = pool.scrub(&options, &mut go_on).expect("scrub");
        assert_eq!(report.found, 0, "{report:?}");
        let durable = mirror.durable();
        for gone in 0..3 {
            let pool = Pool::open_on(left(&durable, &[gone]), runtime()).expect("open");
            mirror.check(&pool, 0..20, 1);
        }
    }
}

#[test]
fn a_mirror_of_three_grows() {
    let (mirror, pool) = Mirror::new(3);
    put(&mirror.attach(&pool), 0..20, 1);
    let slots = pool.stats().slots;
    let images = mirror.durable();
    drop(pool);
    let larger: Vec<_> = images
        .iter()
        .map(|image| {
            let mut image = image.clone();
            image.resize(2 * MEMBER_BYTES as usize, 0);
            Arc::new(Shadow::from_image(&image, ShadowModel::Lines))
        })
        .collect();
    let mut backing = |_: &std::path::Path| Ok(Backing::from_store(mirror.store.clone()));
    let pool = Pool::grow_on(
        on(&larger),
        2 * MEMBER_BYTES,
        &mut backing,
        &mut |_| ControlFlow::Continue(()),
        runtime(),
    );
    let pool = pool.expect("grow");
    assert!(pool.stats().slots > slots * 3 / 2);
    let volume = mirror.attach(&pool);
    check_held(&volume, 0..20, 1);
    put(&volume, 0..40, 2);
    for gone in 0..3 {
        let images: Vec<_> = larger
            .iter()
            .map(|shadow| shadow.crash_state().durable().to_vec())
            .collect();
        let pool = Pool::open_on(left(&images, &[gone]), runtime()).expect("open");
        mirror.check(&pool, 0..40, 2);
    }
}

/// Where a member has the two lines of its roster.
fn roster_line(which: usize) -> std::ops::Range<usize> {
    let start = (5 + which) * 256;
    start..start + 256
}

/// A member that lost a bit of its newest roster still knows which one is out: it does not go on with that one, and leave out
/// the one that has the rest.
#[test]
fn a_flipped_bit_in_a_roster_brought_a_member_back_that_was_taken_out() {
    let (mirror, pool) = Mirror::new(3);
    let volume = mirror.attach(&pool);
    put(&volume, 0..20, 1);
    let before = mirror.durable();
    pool.fail_member(2).expect("the others are left");
    put(&volume, 0..20, 2);
    let mut after = mirror.durable();
    after[2].clone_from(&before[2]);
    for bit in 0..8 * 256 {
        let mut images = after.clone();
        // Of epoch 2.
        images[0][roster_line(0).start + bit / 8] ^= 1 << (bit % 8);
        refusal(Pool::open_on(left(&images, &[1]), runtime()));
    }
    let whole = after[0][roster_line(0)].to_vec();
    after[0][roster_line(0).start + 40] ^= 1;
    let flipped = Arc::new(Shadow::from_image(&after[0], ShadowModel::Lines));
    let given = [&after[1], &after[2]].map(|image| Region::shadow_from(image));
    let all = std::iter::once(Region::on_shadow(flipped.clone())).chain(given);
    let pool = Pool::open_on(all.collect(), runtime()).expect("open");
    assert_eq!(flipped.crash_state().durable()[roster_line(0)], whole);
    assert_eq!(members_in(&pool), [0, 1]);
    mirror.check(&pool, 0..20, 2);
}

/// One that lost its rosters does not know of any that came after those of the others, and is no part of a majority.
#[test]
fn a_member_without_a_roster_counted_for_a_majority() {
    let (mirror, pool) = Mirror::new(3);
    let volume = mirror.attach(&pool);
    put(&volume, 0..20, 1);
    let before = mirror.durable();
    pool.fail_member(2).expect("the others are left");
    put(&volume, 0..20, 2);
    let mut images = mirror.durable();
    images[2].clone_from(&before[2]);
    for which in 0..2 {
        images[0][roster_line(which)].fill(0);
    }
    let refused = refusal(Pool::open_on(left(&images, &[1]), runtime()));
    assert!(refused.contains("was not given"), "{refused}");
    let pool = Pool::open_on(left(&images, &[]), runtime()).expect("open");
    assert_eq!(members_in(&pool), [0, 1]);
    mirror.check(&pool, 0..20, 2);
}
