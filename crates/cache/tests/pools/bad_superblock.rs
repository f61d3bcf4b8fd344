//! A member that does not start as one any more.

use std::sync::Arc;

use forebay::{Backing, ErrorKind, Pool, Redundancy, Region};
use forebay_pmem::shadow::{Shadow, ShadowModel};

use crate::halves::{BLOCK, Mirror, noise, options};

const SUPERBLOCK_BYTES: usize = 256;

/// What a power cut leaves of a mirror with some blocks.
fn images(mirror: &Mirror) -> Vec<Vec<u8>> {
    (0..6).for_each(|block| mirror.put(block, block));
    let image = |member: &Arc<Shadow>| member.crash_state().durable().to_vec();
    mirror.members.iter().map(image).collect()
}

/// Whether a superblock on the medium matches its check.
fn is_right(shadow: &Arc<Shadow>) -> bool {
    let state = shadow.crash_state();
    let superblock = &state.durable()[..SUPERBLOCK_BYTES];
    superblock[252..] == forebay_pmem::crc32c(&superblock[..252]).to_le_bytes()
}

fn shadows(images: &[Vec<u8>]) -> Vec<Arc<Shadow>> {
    let shadow = |image: &Vec<u8>| Arc::new(Shadow::from_image(image, ShadowModel::Lines));
    images.iter().map(shadow).collect()
}

fn open(shadows: &[Arc<Shadow>], without_missing: bool) -> forebay::Result<Pool> {
    let on = shadows.iter().cloned().map(Region::on_shadow);
    let runtime = options().runtime_options().clone();
    Pool::open_on(on.collect(), runtime.without_missing(without_missing))
}

fn reads(mirror: &Mirror, pool: &Pool) {
    let backing = Backing::from_store(mirror.store.clone());
    let volume = pool.attach(backing).expect("attach");
    let mut out = vec![0; BLOCK];
    for block in 0..6 {
        volume.read(block, &mut out).expect("read");
        assert!(out == noise(block), "block {block}");
    }
}

#[test]
fn a_flipped_bit_anywhere_in_a_superblock_is_put_right() {
    let mirror = Mirror::new();
    let images = images(&mirror);
    for member in 0..2 {
        for byte in (member..SUPERBLOCK_BYTES).step_by(3) {
            let mut images = images.clone();
            images[member][byte] ^= 1 << (byte % 8);
            let shadows = shadows(&images);
            drop(open(&shadows, false).unwrap_or_else(|error| panic!("byte {byte}: {error}")));
            assert!(shadows.iter().all(is_right), "byte {byte}");
            if byte % 16 == 0 {
                reads(&mirror, &open(&shadows, false).expect("open"));
            }
        }
    }
}

#[test]
fn what_is_no_superblock_at_all_is_refused_and_left_out_on_the_operators_word() {
    let mirror = Mirror::new();
    let images = images(&mirror);
    for member in 0..2 {
        for fill in [0xff, 0x5a] {
            let mut images = images.clone();
            images[member][..SUPERBLOCK_BYTES].fill(fill);
            let error = open(&shadows(&images), false).expect_err("refused");
            let ErrorKind::Refused { found, todo, .. } = error.kind() else {
                panic!("{error}");
            };
            assert!(found.contains("reads right"), "{found}");
            assert!(todo.contains("--without-missing"), "{todo}");
            reads(&mirror, &open(&shadows(&images), true).expect("open"));
        }
        // The same of a page that the medium does not give any more.
        let shadows = shadows(&images);
        shadows[member].lose_page(0);
        let error = open(&shadows, false).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::Media(_)), "{error}");
        shadows.iter().for_each(|shadow| shadow.end_threads());
        reads(&mirror, &open(&shadows, true).expect("open"));
    }
}

/// A member of another pool is refused, not taken for a damaged one of this.
#[test]
fn another_pools_member_is_not_left_out() {
    let (one, other) = (Mirror::new(), Mirror::new());
    let (images, others) = (images(&one), images(&other));
    let shadows = shadows(&[images[0].clone(), others[1].clone()]);
    let error = open(&shadows, true).expect_err("refused");
    assert!(error.to_string().contains("another pool"), "{error}");
}

/// A superblock that matches its own check is as it was written. A newer release may have begun to change the pool.
#[test]
fn another_releases_superblock_stays_as_it_is() {
    let mirror = Mirror::new();
    let images = images(&mirror);
    // The version, and a flag that nothing here knows.
    for (member, (at, bit)) in [(0, (8, 1)), (1, (8, 2)), (1, (23, 6))] {
        let mut images = images.clone();
        let superblock = &mut images[member][..SUPERBLOCK_BYTES];
        superblock[at] ^= 1 << bit;
        let crc = forebay_pmem::crc32c(&superblock[..252]).to_le_bytes();
        superblock[252..].copy_from_slice(&crc);
        let shadows = shadows(&images);
        open(&shadows, false).expect_err("refused");
        reads(&mirror, &open(&shadows, true).expect("open"));
        let state = shadows[member].crash_state();
        assert!(state.durable() == images[member], "it is not changed");
    }
}

/// The other one was taken out, so that what is readable is not enough, whatever the operator believes.
#[test]
fn the_only_member_with_everything_is_not_left_out() {
    for left in 0..2 {
        let mirror = Mirror::new();
        images(&mirror);
        mirror.pool.fail_member(1 - left).expect("one is left");
        let mut images = images(&mirror);
        images[left as usize][..SUPERBLOCK_BYTES].fill(0x5a);
        for without_missing in [false, true] {
            let error = open(&shadows(&images), without_missing).expect_err("refused");
            let ErrorKind::Refused { found, todo, .. } = error.kind() else {
                panic!("{error}");
            };
            assert!(found.contains("was served without"), "{found}");
            assert!(!todo.contains("--without-missing"), "{todo}");
        }
    }
}

/// A pool without copies has nothing but the superblock's own check, and neither has one member of a mirror alone.
#[test]
fn a_flipped_bit_in_the_only_superblock_is_put_right() {
    for (redundancy, members) in [
        (Redundancy::None, 1),
        (Redundancy::None, 2),
        (Redundancy::Checksum, 1),
        (Redundancy::Mirror, 2),
    ] {
        let mirror = Mirror::with(&options().redundancy(redundancy), members);
        let images = images(&mirror);
        for byte in (0..SUPERBLOCK_BYTES).step_by(5) {
            let mut images = images.clone();
            // Of two members both: neither helps the other.
            images
                .iter_mut()
                .for_each(|image| image[byte] ^= 1 << (byte % 8));
            let shadows = shadows(&images);
            drop(open(&shadows, false).unwrap_or_else(|error| panic!("byte {byte}: {error}")));
            for shadow in &shadows {
                assert!(is_right(shadow), "{redundancy:?}, byte {byte}");
            }
            if byte % 16 == 0 {
                reads(&mirror, &open(&shadows, false).expect("open"));
            }
        }
    }
}

/// Two flipped bits are not guessed at, and what begins like a superblock is no pool.
#[test]
fn what_is_further_from_a_superblock_is_refused_as_it_is() {
    let mirror = Mirror::with(&options().redundancy(Redundancy::None), 1);
    let image = images(&mirror).remove(0);
    for bytes in [[0, 40], [40, 90], [100, 255]] {
        let mut image = image.clone();
        bytes.iter().for_each(|byte| image[*byte] ^= 1);
        let shadows = shadows(&[image.clone()]);
        let error = open(&shadows, false).expect_err("refused");
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
        assert!(shadows[0].crash_state().durable() == image);
    }
}
