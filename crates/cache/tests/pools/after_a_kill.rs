//! A process that is killed leaves stores behind that other processes see and no fence has covered.
//! The next process serves them; what it has served, a power cut must not undo.

use std::sync::Arc;

use crate::fixtures::{
    BLOCK, ENTRY_BYTES, MEMBER_BYTES, Plan, Rig, block, get, lenient, open, put, quiet, record_crc,
    tiny,
};
use forebay::{Backing, ErrorKind, MemoryStore, Pool, PoolOptions, Region, Volume};
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

fn pool_of(shadow: &Arc<Shadow>) -> forebay::Result<Pool> {
    Pool::open_on(vec![Region::on_shadow(shadow.clone())], quiet())
}

fn attach(pool: &Pool, store: &Arc<MemoryStore>) -> Volume {
    let backing = Backing::from_store(store.clone());
    pool.attach(backing).expect("attach")
}

/// Two blocks and a delta in one transaction whose fence never happened, by a process that is then
/// killed; all its stores are visible.
fn killed_before_the_fence(
    options: &PoolOptions,
    model: ShadowModel,
) -> (Arc<Shadow>, Arc<MemoryStore>) {
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES as u64, model));
    let store = Arc::new(MemoryStore::new(64 * BLOCK as u64));
    let regions = vec![Region::on_shadow(shadow.clone())];
    let pool = Pool::create_on(regions, options).expect("create");
    let volume = attach(&pool, &store);
    for number in 0..3 {
        put(&volume, number, &block(number, 1));
    }
    shadow.set_fence_failure(FenceFailure::From(0));
    let mut transaction = volume.begin();
    for number in 0..2 {
        let bytes = block(number, 2);
        transaction.write(number, &bytes).expect("write");
    }
    let at = 2 * BLOCK as u64 + 40;
    transaction.write_at(at, b"delta").expect("write");
    transaction.commit().expect_err("it was killed in there");
    shadow.set_fence_failure(FenceFailure::Never);
    (shadow, store)
}

fn contents(volume: &Volume) -> Vec<Vec<u8>> {
    let read = |number| get(volume, number).expect("read");
    (0..3).map(read).collect()
}

#[test]
fn what_was_served_after_a_kill_survives_a_power_cut() {
    let mut rng = fastrand::Rng::with_seed(1);
    for model in [ShadowModel::Lines, ShadowModel::Pages] {
        for strict in [false, true] {
            let options = tiny().strict(strict);
            let (shadow, store) = killed_before_the_fence(&options, model);
            let pool = pool_of(&shadow).expect("open");
            let served = contents(&attach(&pool, &store));
            assert_eq!(served[0] == block(0, 2), !strict, "{model:?}");
            drop(pool);
            for _ in 0..50 {
                let image = shadow.crash_state().sample(&mut rng);
                let pool = open(&[image], quiet()).expect("open");
                let found = contents(&attach(&pool, &store));
                assert!(found == served, "{model:?}, strict {strict}");
            }
        }
    }
}

/// Recovery stops at each of its fences in turn, and the power is cut there: the transaction that it
/// found is whole or absent, never half of it.
#[test]
fn a_power_cut_during_the_recovery_after_a_kill_leaves_all_or_nothing() {
    let mut rng = fastrand::Rng::with_seed(2);
    for model in [ShadowModel::Lines, ShadowModel::Pages] {
        for fences in 0.. {
            let (shadow, store) = killed_before_the_fence(&tiny(), model);
            shadow.set_fence_failure(FenceFailure::From(fences));
            let is_through = pool_of(&shadow).is_ok();
            for _ in 0..200 {
                let image = shadow.crash_state().sample(&mut rng);
                let pool = open(&[image], quiet()).expect("open");
                let found = contents(&attach(&pool, &store));
                let are_new: Vec<bool> = (0..3)
                    .zip(&found)
                    .map(|(number, bytes)| *bytes != block(number, 1))
                    .collect();
                let is_whole = are_new.iter().all(|new| *new == are_new[0]);
                assert!(is_whole, "{model:?}, {fences} fences: {are_new:?}");
            }
            if is_through {
                break;
            }
        }
    }
}

#[test]
fn a_forged_delta_for_a_slot_beyond_the_end_is_damage() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    put(&volume, 1, &block(1, 1));
    rig.pool.checkpoint().expect("checkpoint");
    let mut transaction = volume.begin();
    let at = BLOCK as u64 + 40;
    transaction.write_at(at, b"delta").expect("write");
    transaction.commit().expect("commit");
    let mut image = rig.images().remove(0);
    let plan = Plan::of(&image);
    let salt = plan.salt(&image);
    for (at, bytes) in plan.records(&image, salt) {
        image[at + 44..at + 48].fill(0xFF);
        let crc = record_crc(&image[at..at + bytes], salt);
        image[at + 24..at + 28].copy_from_slice(&crc.to_le_bytes());
    }
    let error = open(&[image], quiet()).expect_err("damaged");
    assert!(matches!(error.kind(), ErrorKind::Damaged { .. }), "{error}");
}

/// A process is killed after it stored the line of a volume and before the line was durable. The next
/// one finds the volume, with the size that the line says, and writes to its last block.
fn killed_at_a_volume_line(model: ShadowModel, is_attached_before: bool) {
    let mut rng = fastrand::Rng::with_seed(3);
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES as u64, model));
    let blocks = if is_attached_before { 8 } else { 16 };
    let store = Arc::new(MemoryStore::new(blocks * BLOCK as u64));
    let pool = Pool::create_on(vec![Region::on_shadow(shadow.clone())], &tiny()).expect("create");
    let volume = is_attached_before.then(|| attach(&pool, &store));
    store.resize(16 * BLOCK as u64);
    shadow.set_fence_failure(FenceFailure::From(0));
    match &volume {
        Some(volume) => drop(pool.grow_volume(volume).expect_err("killed")),
        None => drop(pool.attach(Backing::from_store(store.clone()))),
    }
    drop((volume, pool));
    shadow.set_fence_failure(FenceFailure::Never);
    shadow.end_threads();
    let pool = pool_of(&shadow).expect("open");
    let volume = attach(&pool, &store);
    assert_eq!(volume.blocks(), 16);
    put(&volume, 15, &block(15, 1));
    for _ in 0..50 {
        let image = shadow.crash_state().sample(&mut rng);
        let pool = open(&[image], quiet()).expect("open after the cut");
        let found = get(&attach(&pool, &store), 15).expect("read");
        assert!(found == block(15, 1), "{model:?}");
    }
}

#[test]
fn a_volume_that_a_killed_process_had_attached_was_gone_after_a_power_cut() {
    killed_at_a_volume_line(ShadowModel::Lines, false);
    killed_at_a_volume_line(ShadowModel::Pages, false);
}

#[test]
fn a_volume_that_a_killed_process_had_grown_was_short_again_after_a_power_cut() {
    killed_at_a_volume_line(ShadowModel::Lines, true);
    killed_at_a_volume_line(ShadowModel::Pages, true);
}

/// A pool whose table has damage: a flipped bit, or an entry that claims another one's slot.
fn damaged(store: &Arc<MemoryStore>, has_flipped_bit: bool) -> Vec<u8> {
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES as u64, ShadowModel::Lines));
    let regions = vec![Region::on_shadow(shadow.clone())];
    let pool = Pool::create_on(regions, &tiny()).expect("create");
    let volume = attach(&pool, store);
    for number in 0..3 {
        put(&volume, number, &block(number, 1));
    }
    pool.checkpoint().expect("checkpoint");
    drop((volume, pool));
    let mut image = shadow.crash_state().durable().to_vec();
    let used = Plan::of(&image).used_entries(&image);
    let (first, last) = (used[0], used[2]);
    match has_flipped_bit {
        true => image[last + 2] ^= 1,
        false => image.copy_within(first + ENTRY_BYTES / 2..first + ENTRY_BYTES, last + 8),
    }
    image
}

/// Loss is accepted; recovery stops at each of its fences in turn, the next process recovers again and
/// serves, and the power is cut.
#[test]
fn damage_that_was_accepted_and_cleared_came_back_after_a_kill_and_a_power_cut() {
    let mut rng = fastrand::Rng::with_seed(4);
    for (model, has_flipped_bit) in [
        (ShadowModel::Lines, true),
        (ShadowModel::Lines, false),
        (ShadowModel::Pages, true),
        (ShadowModel::Pages, false),
    ] {
        let store = Arc::new(MemoryStore::new(64 * BLOCK as u64));
        let image = damaged(&store, has_flipped_bit);
        for kills in 0.. {
            let shadow = Arc::new(Shadow::from_image(&image, model));
            let lenient_pool = || {
                let region = Region::on_shadow(shadow.clone());
                Pool::open_on(vec![region], lenient())
            };
            // The first process is killed at a fence, the second one at a later one.
            let mut are_through = true;
            for fences in [kills % 8, kills / 8] {
                shadow.set_fence_failure(FenceFailure::From(fences));
                are_through &= lenient_pool().is_ok();
                shadow.set_fence_failure(FenceFailure::Never);
                shadow.end_threads();
            }
            let pool = lenient_pool().expect("open");
            let served = contents(&attach(&pool, &store));
            drop(pool);
            for _ in 0..20 {
                let image = shadow.crash_state().sample(&mut rng);
                let pool = open(&[image], quiet());
                let pool = pool.unwrap_or_else(|error| panic!("{model:?}, {kills}: {error}"));
                let found = contents(&attach(&pool, &store));
                assert!(found == served, "{model:?}, {kills}");
            }
            if are_through {
                break;
            }
        }
    }
}
