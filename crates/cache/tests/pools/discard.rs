//! Volumes whose backing is lost are given up, and nothing of them stays, wherever that breaks off; one
//! whose backing was cut short waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fixtures::{BLOCK, MEMBER_BYTES, Rig, block, get, put, quiet, tiny, view};
use forebay::{Backing, Error, ErrorKind, MemoryStore, Pool, Volume};
use forebay_pmem::Region;
use forebay_pmem::shadow::{FenceFailure, Shadow, ShadowModel};

const DIRTY: u64 = 12;

fn on(shadow: &Arc<Shadow>) -> forebay::Result<Pool> {
    Pool::open_on(vec![Region::on_shadow(shadow.clone())], quiet())
}

fn of_image(image: &[u8]) -> Arc<Shadow> {
    Arc::new(Shadow::from_image(image, ShadowModel::Lines))
}

/// What a killed process left of a pool with dirty blocks of an image that keeps a mark.
fn left_with_dirty_blocks(image: &Path) -> Vec<u8> {
    std::fs::write(image, [0; 64 * BLOCK]).expect("image");
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES as u64, ShadowModel::Lines));
    let region = Region::on_shadow(shadow.clone());
    let pool = Pool::create_on(vec![region], &tiny()).expect("create");
    let volume = attach(&pool, image).expect("attach");
    for number in 0..DIRTY {
        put(&volume, number, &block(number, 1));
    }
    drop(volume);
    drop(pool);
    view(&shadow)
}

fn attach(pool: &Pool, image: &Path) -> forebay::Result<Volume> {
    pool.attach(Backing::file(image).expect("the image"))
}

fn image() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    (folder, path)
}

#[test]
fn a_lost_images_dirty_blocks_held_the_pools_room_for_good() {
    let (_folder, image) = image();
    let shadow = of_image(&left_with_dirty_blocks(&image));
    std::fs::remove_file(&image).expect("lost");
    let pool = on(&shadow).expect("open");
    let free = pool.stats().slots;
    assert_eq!(pool.stats().dirty_blocks, DIRTY);
    let lost = pool.discard_volume(pool.volumes().remove(0));
    assert_eq!(lost.expect("given up"), DIRTY);
    assert!(pool.volumes().is_empty());
    assert_eq!(
        (pool.stats().dirty_blocks, pool.stats().cached_blocks),
        (0, 0)
    );
    // All of the room is another's.
    let other = Arc::new(MemoryStore::new(4096 * BLOCK as u64));
    let other = pool.attach(Backing::from_store(other)).expect("attach");
    for number in 0..free / 2 {
        put(&other, number, &block(number, 2));
    }
    drop((other, pool));
    assert_eq!(on(&shadow).expect("open").volumes().len(), 1);
}

#[test]
fn an_image_cut_short_was_no_stale_one() {
    let (_folder, image) = image();
    let shadow = of_image(&left_with_dirty_blocks(&image));
    let file = std::fs::File::options().write(true).open(&image);
    let file = file.expect("image");
    file.set_len(8 * BLOCK as u64).expect("size");
    let pool = on(&shadow).expect("open");
    let refused = attach(&pool, &image).expect_err("cut short");
    assert!(
        matches!(refused.kind(), ErrorKind::Stale { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("restore its size"),
        "{refused}"
    );
    // Its blocks have no place there.
    let insisted = pool.attach_stale(Backing::file(&image).expect("the image"));
    assert!(
        matches!(
            insisted.as_ref().map_err(Error::kind),
            Err(ErrorKind::Stale { .. })
        ),
        "{insisted:?}"
    );
    file.set_len(64 * BLOCK as u64).expect("size");
    let volume = attach(&pool, &image).expect("restored");
    assert!(get(&volume, 11).expect("read") == block(11, 1));
}

#[test]
fn a_volume_in_use_is_detached_and_not_given_up() {
    let rig = Rig::new(&tiny(), 1);
    let volume = rig.attach();
    put(&volume, 1, &block(1, 1));
    let refused = rig.pool.discard_volume(volume.clone());
    assert!(
        matches!(
            refused.as_ref().map_err(Error::kind),
            Err(ErrorKind::Volume(_))
        ),
        "{refused:?}"
    );
    put(&volume, 2, &block(2, 1));
    assert!(get(&volume, 1).expect("read") == block(1, 1));
}

/// Breaks off at each fence; the power goes, or the process alone.
#[test]
fn an_image_that_came_back_to_a_discard_cut_off_lacked_acknowledged_blocks() {
    for is_cut in [false, true] {
        let mut refused = 0;
        for fences in 0.. {
            let (_folder, image) = image();
            let shadow = of_image(&left_with_dirty_blocks(&image));
            let pool = on(&shadow).expect("open");
            shadow.set_fence_failure(FenceFailure::After(fences));
            let discarded = pool.discard_volume(pool.volumes().remove(0));
            drop(pool);
            let left = match is_cut {
                true => shadow.crash_state().durable().to_vec(),
                false => view(&shadow),
            };
            let shadow = of_image(&left);
            let pool = on(&shadow).unwrap_or_else(|error| panic!("fence {fences}: {error}"));
            match attach(&pool, &image) {
                Ok(volume) => {
                    assert!(discarded.is_err(), "fence {fences}");
                    for number in 0..DIRTY {
                        let found = get(&volume, number).expect("read");
                        assert!(found == block(number, 1), "fence {fences}, block {number}");
                    }
                }
                Err(error) if matches!(error.kind(), ErrorKind::Stale { .. }) => refused += 1,
                Err(other) => panic!("fence {fences}: {other}"),
            }
            drop(pool);
            // Done again it comes to its end; after that nothing is left to be given up.
            let pool = on(&shadow).expect("open");
            for volume in pool.volumes() {
                pool.discard_volume(volume).expect("given up");
            }
            assert_eq!(pool.stats().cached_blocks, 0, "fence {fences}");
            drop(pool);
            assert!(on(&shadow).expect("open").volumes().is_empty());
            if discarded.is_ok() {
                break;
            }
        }
        assert!(refused > 2, "{refused}");
    }
}
