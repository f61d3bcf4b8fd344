//! Members of a mirror that go and come while something is under way: what was staged, copied, fenced or noted for
//! one of them counts for no other.
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use forebay::{
    Backing, MemberState, MemoryStore, Pool, PoolOptions, Region, RuntimeOptions, VerifyPolicy,
    Volume,
};
use forebay_pmem::shadow::{Shadow, ShadowEventKind, ShadowModel};

use crate::small_mirror::{self, BLOCK, durable, go_on, shadow_of};

const BLOCKS: u64 = 64;
const MEMBER_BYTES: u64 = 32 << 10;
/// Long enough for another thread to go as far as it can.
const MOMENT: Duration = Duration::from_millis(300);

fn options() -> PoolOptions {
    small_mirror::options().lane_bytes(4096)
}
fn runtime() -> RuntimeOptions {
    options().runtime_options().clone()
}
fn shadow() -> Arc<Shadow> {
    shadow_of(MEMBER_BYTES)
}
fn attach(pool: &Pool, store: &Arc<MemoryStore>) -> Volume {
    pool.attach(Backing::from_store(store.clone()))
        .expect("attach")
}
fn make() -> ([Arc<Shadow>; 2], Arc<MemoryStore>, Pool, Volume) {
    let members = [shadow(), shadow()];
    let regions = members.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::create_on(regions, &options()).expect("create");
    let store = Arc::new(MemoryStore::new(BLOCKS * BLOCK as u64));
    let volume = attach(&pool, &store);
    (members, store, pool, volume)
}

/// Crash between the two fences of call_in; open with both; write; the older member dies.
#[test]
fn a_stale_roster_of_a_member_that_is_in() {
    let (members, store, pool, volume) = make();
    for block in 0..10 {
        volume.write(block, &[1; BLOCK]).unwrap();
    }
    pool.fail_member(1).unwrap();
    let new = shadow();
    let last = Arc::new(Mutex::new(Vec::new()));
    let (seen, old, told) = (last.clone(), members[0].clone(), new.clone());
    new.set_hook(Some(Arc::new(move |event| {
        if event.kind == ShadowEventKind::Fence {
            *seen.lock().unwrap() = vec![durable(&old), durable(&told)];
        }
    })));
    pool.replace_member_on(1, Region::on_shadow(new.clone()), &mut go_on)
        .unwrap();
    new.set_hook(None);
    let images = last.lock().unwrap().clone();
    let shadows: Vec<_> = images
        .iter()
        .map(|i| Arc::new(Shadow::from_image(i, ShadowModel::Lines)))
        .collect();
    let on = shadows.iter().cloned().map(Region::on_shadow).collect();
    let pool = Pool::open_on(on, runtime()).expect("both");
    let volume = attach(&pool, &store);
    volume.write(3, &[9; BLOCK]).unwrap();
    let alone = Region::shadow_from(&durable(&shadows[1]));
    let pool =
        Pool::open_on(vec![alone], runtime().without_missing(true)).expect("the one that is left");
    let volume = attach(&pool, &store);
    let mut out = [0; BLOCK];
    volume.read(3, &mut out).unwrap();
    assert_eq!(out, [9; BLOCK]);
}

/// A member joined in the first lap; a torn record elsewhere; it alone is left.
#[test]
fn a_hole_where_the_member_was_not_there() {
    let (members, store, pool, volume) = make();
    for block in 0..6 {
        let volume = volume.clone();
        std::thread::spawn(move || volume.write(block, &[1; BLOCK]).unwrap())
            .join()
            .unwrap();
    }
    pool.fail_member(1).unwrap();
    let new = shadow();
    pool.replace_member_on(1, Region::on_shadow(new.clone()), &mut go_on)
        .unwrap();
    // Another thread's commit is before its fence when this one's is acknowledged.
    let image = Arc::new(Mutex::new(None));
    let inner = Arc::new(Mutex::new(Some(volume.clone())));
    let (seen, told, todo) = (image.clone(), new.clone(), inner.clone());
    members[0].set_hook(Some(Arc::new(move |event| {
        if event.kind == ShadowEventKind::Fence {
            let Some(volume) = todo.lock().unwrap().take() else {
                return;
            };
            std::thread::spawn(move || volume.write(20, &[7; BLOCK]).unwrap())
                .join()
                .unwrap();
            *seen.lock().unwrap() = Some(durable(&told));
        }
    })));
    std::thread::spawn(move || volume.write(40, &[8; BLOCK]).unwrap())
        .join()
        .unwrap();
    members[0].set_hook(None);
    let image = image.lock().unwrap().take().expect("seen");
    let pool = Pool::open_on(
        vec![Region::shadow_from(&image)],
        runtime().without_missing(true),
    )
    .expect("the one that is left");
    let volume = attach(&pool, &store);
    let mut out = [0; BLOCK];
    volume.read(20, &mut out).unwrap();
    assert_eq!(out, [7; BLOCK]);
}

/// A transaction held open while the older member goes.
#[test]
fn staged_then_both_members_are_exchanged() {
    let (_members, _store, pool, volume) = make();
    pool.fail_member(1).unwrap();
    let mut staged = volume.begin();
    for block in 0..5 {
        staged.write(block, &[7; BLOCK]).unwrap();
    }
    pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on)
        .unwrap();
    pool.fail_member(0).unwrap();
    staged.commit().expect("committed");
}

/// Unverified reads while a member is rebuilt.
#[test]
fn unverified_reads_of_clean_blocks_of_a_member_that_went() {
    let (_members, _store, pool, volume) = make();
    for block in 0..16 {
        volume.write(block, &[1; BLOCK]).unwrap();
    }
    while pool.write_back_once().unwrap() > 0 {}
    while pool.reclaim_once(64).unwrap() > 0 {}
    let mut out = [0; BLOCK];
    for block in 0..16 {
        volume.read(block, &mut out).unwrap();
    }
    pool.set_verify(VerifyPolicy::Never);
    pool.fail_member(1).unwrap();
    let mut wrong = 0;
    pool.replace_member_on(1, Region::on_shadow(shadow()), &mut |_| {
        for block in 0..16 {
            let mut out = [0; BLOCK];
            volume.read(block, &mut out).unwrap();
            wrong += usize::from(out != [1; BLOCK]);
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(wrong, 0, "reads of wrong bytes");
}

/// A rebuild whose member was taken out calls in no other one, and another one waits for its end.
#[test]
fn a_rebuild_that_was_overtaken_ends_and_calls_in_no_other_member() {
    let (_members, _store, pool, volume) = make();
    for block in 0..20 {
        volume.write(block, &[1; BLOCK]).unwrap();
    }
    pool.fail_member(1).unwrap();
    let mut second = None;
    let first = pool.replace_member_on(1, Region::on_shadow(shadow()), &mut |_| {
        pool.fail_member(1).unwrap();
        second = Some(pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on));
        ControlFlow::Continue(())
    });
    first.expect_err("its member was taken out");
    let second = second.expect("it was called").expect_err("busy");
    assert!(second.to_string().contains("being rebuilt"), "{second}");
    assert_eq!(pool.members()[1].state, MemberState::Out);
    pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on)
        .expect("rebuilt");
}

/// The same, of a transaction that takes a staged block back.
#[test]
fn staged_then_exchanged_then_edited() {
    let (_members, _store, pool, volume) = make();
    let mut staged = volume.begin();
    for block in 0..8 {
        staged.write(block, &[7; BLOCK]).unwrap();
    }
    pool.fail_member(1).unwrap();
    pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on)
        .unwrap();
    pool.fail_member(0).unwrap();
    pool.replace_member_on(0, Region::on_shadow(shadow()), &mut go_on)
        .unwrap();
    for block in 0..8u64 {
        staged.write_at(block * BLOCK as u64, &[7; 1]).unwrap();
    }
    let committed = staged.commit();
    if committed.is_err() {
        return;
    }
    let mut out = [0; BLOCK];
    let mut wrong = Vec::new();
    for block in 0..8 {
        volume.read(block, &mut out).unwrap();
        if out != [7; BLOCK] {
            wrong.push((block, out[0], out[1]))
        }
    }
    assert_eq!(wrong, [], "acknowledged");
}

/// One half of a staged block goes bad.
#[test]
fn a_staged_block_whose_first_half_goes_bad() {
    let (members, _store, pool, volume) = make();
    let _ = pool;
    let streamed = Arc::new(Mutex::new(Vec::new()));
    let seen = streamed.clone();
    members[0].set_hook(Some(Arc::new(move |event| {
        if event.kind == ShadowEventKind::Stream {
            seen.lock().unwrap().push(event.offset);
        }
    })));
    let mut staged = volume.begin();
    for block in 0..6 {
        staged.write(block, &[0xA7; BLOCK]).unwrap();
    }
    members[0].set_hook(None);
    for at in streamed.lock().unwrap().iter() {
        members[0].store(at + 40, &[1]);
    }
    for block in 0..6u64 {
        staged.write_at(block * BLOCK as u64, &[0xA7; 1]).unwrap();
    }
    let committed = staged.commit();
    if committed.is_err() {
        return;
    }
    let mut out = [0; BLOCK];
    for block in 0..6 {
        volume.read(block, &mut out).unwrap();
        assert_eq!(out, [0xA7; BLOCK], "block {block}");
    }
}

/// A half is copied to one member and noted for the next one in its place.
#[test]
fn a_note_of_a_copy_counts_for_a_later_member() {
    let (_members, store, pool, volume) = make();
    let pool = Arc::new(pool);
    pool.fail_member(1).unwrap();
    let mut staged = volume.begin();
    for block in 0..5 {
        staged.write(block, &[7; BLOCK]).unwrap();
    }
    let (one, two) = (shadow(), shadow());
    pool.replace_member_on(1, Region::on_shadow(one.clone()), &mut go_on)
        .unwrap();
    let joins = Arc::new(Mutex::new(None));
    let (told, again, next) = (joins.clone(), pool.clone(), two.clone());
    let once = std::sync::atomic::AtomicBool::new(false);
    one.set_hook(Some(Arc::new(move |event| {
        if event.kind != ShadowEventKind::Stream
            || once.swap(true, std::sync::atomic::Ordering::SeqCst)
        {
            return;
        }
        let (pool, next) = (again.clone(), next.clone());
        *told.lock().unwrap() = Some(std::thread::spawn(move || {
            pool.fail_member(1).unwrap();
            pool.replace_member_on(1, Region::on_shadow(next), &mut go_on)
        }));
        while again.members()[1].state != MemberState::Rebuilding {
            std::thread::yield_now();
        }
    })));
    staged.commit().expect("committed");
    one.set_hook(None);
    let joined = joins.lock().unwrap().take().expect("it was copied");
    joined.join().unwrap().expect("rebuilt");
    let alone = vec![Region::shadow_from(&durable(&two))];
    let pool = Pool::open_on(alone, runtime().without_missing(true)).expect("open");
    let volume = attach(&pool, &store);
    let mut out = [0; BLOCK];
    for block in 0..5 {
        volume.read(block, &mut out).expect("read");
        assert_eq!(out, [7; BLOCK], "block {block}");
    }
}

/// Another thread's checkpoint takes what the rebuild's would have sent, and its own fence with it.
#[test]
fn copies_are_fenced_before_the_member_is_called_in() {
    let (members, store, pool, volume) = make();
    for block in 0..20 {
        volume.write(block, &[1; BLOCK]).unwrap();
    }
    pool.fail_member(1).unwrap();
    let new = shadow();
    let images = Arc::new(Mutex::new(Vec::new()));
    let (seen, old, told) = (images.clone(), members[0].clone(), new.clone());
    let rebuilder = forebay_pmem::shadow::thread_id();
    new.set_hook(Some(Arc::new(move |event| {
        if event.kind == ShadowEventKind::Fence && event.thread == rebuilder {
            *seen.lock().unwrap() = vec![durable(&old), durable(&told)];
        }
    })));
    let in_fence = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let pool_ref = &pool;
    std::thread::scope(|scope| {
        let mut calls = 0;
        pool_ref
            .replace_member_on(1, Region::on_shadow(new.clone()), &mut |_| {
                calls += 1;
                if calls == 2 {
                    let flag = in_fence.clone();
                    let once = std::sync::atomic::AtomicBool::new(false);
                    members[0].set_hook(Some(Arc::new(move |event| {
                        if event.kind == ShadowEventKind::Fence
                            && event.thread != rebuilder
                            && !once.swap(true, std::sync::atomic::Ordering::SeqCst)
                        {
                            flag.store(true, std::sync::atomic::Ordering::SeqCst);
                            std::thread::sleep(std::time::Duration::from_millis(400));
                        }
                    })));
                    let volume = volume.clone();
                    scope.spawn(move || volume.write(40, &[4; BLOCK]).unwrap());
                    while !in_fence.load(std::sync::atomic::Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                    scope.spawn(move || pool_ref.checkpoint().unwrap());
                    std::thread::sleep(std::time::Duration::from_millis(150));
                }
                ControlFlow::Continue(())
            })
            .unwrap();
    });
    members[0].set_hook(None);
    new.set_hook(None);
    let images = images.lock().unwrap().clone();
    let both = images
        .iter()
        .map(|image| Region::shadow_from(image))
        .collect();
    let pool = Pool::open_on(both, runtime()).expect("open");
    if pool.members()[1].state != MemberState::In {
        return;
    }
    pool.fail_member(0).unwrap();
    // Where the dead one was is not looked at.
    let volume = attach(&pool, &store);
    let mut out = [0; BLOCK];
    for block in 0..20 {
        volume.read(block, &mut out).expect("read");
        assert_eq!(out, [1; BLOCK], "block {block}");
    }
}

/// A commit is before its fence, with its block where the member is not that joins meanwhile.
#[test]
fn what_is_committed_while_a_member_joins_is_copied_to_it() {
    let (members, store, pool, volume) = make();
    pool.fail_member(1).unwrap();
    let new = shadow();
    let rebuilder = forebay_pmem::shadow::thread_id();
    let (is_at_fence, at_fence) = mpsc::channel();
    let (has_passed, passed) = mpsc::channel();
    let passed = Mutex::new(passed);
    members[0].set_hook(Some(Arc::new(move |event| {
        if event.kind == ShadowEventKind::Fence && event.thread != rebuilder {
            is_at_fence.send(()).unwrap();
            // The rebuild waits for this commit; without that it would be through here.
            let _ = passed.lock().unwrap().recv_timeout(MOMENT);
        }
    })));
    std::thread::scope(|scope| {
        scope.spawn(|| volume.write(40, &[4; BLOCK]).unwrap());
        at_fence.recv().unwrap();
        let mut calls = 0;
        let mut watcher = |_| {
            calls += 1;
            // The second time, all that was there has been copied.
            if calls == 2 {
                let _ = has_passed.send(());
            }
            ControlFlow::Continue(())
        };
        pool.replace_member_on(1, Region::on_shadow(new.clone()), &mut watcher)
            .unwrap();
    });
    members[0].set_hook(None);
    let alone = Region::shadow_from(&durable(&new));
    let pool =
        Pool::open_on(vec![alone], runtime().without_missing(true)).expect("the one that is left");
    let volume = attach(&pool, &store);
    let mut out = [0; BLOCK];
    volume.read(40, &mut out).expect("it has the block");
    assert_eq!(out, [4; BLOCK]);
}

/// A fence of a member that is long gone fails at last.
#[test]
fn a_late_failure_of_an_old_member_leaves_the_new_one_in() {
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    let (members, _store, pool, volume) = make();
    let (inside, release) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (told, wait) = (inside.clone(), release.clone());
    let mine = forebay_pmem::shadow::thread_id();
    members[1].set_hook(Some(Arc::new(move |event| {
        if event.kind == ShadowEventKind::Fence && event.thread != mine {
            told.store(true, SeqCst);
            while !wait.load(SeqCst) {
                std::thread::yield_now();
            }
        }
    })));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut out = [0; BLOCK];
            volume.read(50, &mut out).unwrap();
        });
        while !inside.load(SeqCst) {
            std::thread::yield_now();
        }
        members[1].set_fence_failure(forebay_pmem::shadow::FenceFailure::From(0));
        pool.fail_member(1).unwrap();
        pool.replace_member_on(1, Region::on_shadow(shadow()), &mut go_on)
            .unwrap();
        release.store(true, SeqCst);
        reader.join().unwrap();
    });
    assert_eq!(pool.members()[1].state, MemberState::In);
}

/// Each was served without the other, and both have a new mate.
#[test]
fn two_histories_are_seen_after_a_rebuild() {
    let (members, store, pool, volume) = make();
    volume.write(0, &[1; BLOCK]).unwrap();
    drop((volume, pool));
    let images = [durable(&members[0]), durable(&members[1])];
    let mut ends = Vec::new();
    for (member, byte) in [(0, 2u8), (1, 3)] {
        let own = Arc::new(Shadow::from_image(&images[member], ShadowModel::Lines));
        let pool = Pool::open_on(
            vec![Region::on_shadow(own.clone())],
            runtime().without_missing(true),
        )
        .unwrap();
        let volume = attach(&pool, &store);
        volume.write(0, &[byte; BLOCK]).unwrap();
        let other = 1 - member as u32;
        if member == 0 {
            // Ended early: the roster keeps the name of the new one.
            pool.replace_member_on(other, Region::on_shadow(shadow()), &mut |_| {
                ControlFlow::Break(())
            })
            .unwrap_err();
            pool.replace_member_on(other, Region::on_shadow(shadow()), &mut go_on)
                .unwrap();
        } else {
            pool.replace_member_on(other, Region::on_shadow(shadow()), &mut go_on)
                .unwrap();
        }
        ends.push(durable(&own));
    }
    let both = || {
        ends.iter()
            .map(|image| Region::shadow_from(image))
            .collect()
    };
    Pool::open_on(both(), runtime()).expect_err("two histories");
    let second = Pool::open_on(both(), runtime().without_missing(true));
    assert!(second.is_err(), "two histories");
}
