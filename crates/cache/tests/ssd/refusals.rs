//! What a pool on an SSD does not have is refused, in words that say what to do.

use std::ops::ControlFlow;

use forebay::{Medium, Pool, PoolOptions, Redundancy, ScrubOptions};

use crate::rig::*;

fn refused(options: PoolOptions) -> String {
    let error = Pool::create(&options).expect_err("it is no pool on an SSD");
    error.to_string()
}

#[test]
fn what_such_a_pool_lacks_is_said() {
    let Some(place) = Place::find("what_such_a_pool_lacks_is_said") else {
        return;
    };
    let options = || place.options();
    for (options, expected) in [
        (options().member(place.file("other")), "has one member"),
        (options().redundancy(Redundancy::Checksum), "no redundancy"),
        (options().block_bytes(8192), "blocks of 4096 bytes"),
        (options().strict(true), "cannot be strict"),
        (options().lanes(2), "no lanes"),
        (options().member_bytes(1 << 20), "cannot be made"),
        (options().member_bytes(100), "cannot be made"),
    ] {
        let error = refused(options);
        assert!(error.contains(expected), "{error}");
        assert!(!place.path().exists(), "nothing is left behind: {error}");
    }
    let pool = place.create();
    assert!(pool.fail_member(0).is_err());
    assert!(pool.set_witness(None).is_err());
    let error = pool.scrub(&ScrubOptions::default(), &mut |_| ControlFlow::Continue(()));
    assert!(
        error
            .expect_err("no scrub")
            .to_string()
            .contains("forebay check")
    );
    assert!(refused(options()).contains("exists already"));
    assert!(
        refused(options().force(true)).contains("cannot be replaced"),
        "it is in use"
    );
    pool.close().expect("close");
    let error = Pool::grow(&[place.path()], 1 << 30, &mut |_| ControlFlow::Continue(()));
    assert!(
        error
            .expect_err("it does not grow")
            .to_string()
            .contains("larger one")
    );
    Pool::create(&options().force(true)).expect("over the old one");
}

#[test]
fn a_pool_is_no_disk_and_one_in_memory_is_none_of_these() {
    let Some(place) = Place::find("a_pool_is_no_disk") else {
        return;
    };
    place.create().close().expect("close");
    let other = PoolOptions::new(place.file("second"), POOL_BYTES).medium(Medium::Ssd);
    let other = Pool::create(&other).expect("create");
    let error = other.attach(image(&place.path())).expect_err("a pool");
    assert!(
        error.to_string().contains("begins as a Forebay pool"),
        "{error}"
    );
    let error = Pool::open(&[place.path(), place.file("second")]).expect_err("two");
    assert!(error.to_string().contains("one member"), "{error}");
}

#[test]
fn memory_is_no_disk_for_a_pool_that_is_to_survive_a_power_loss() {
    if !std::path::Path::new("/dev/shm").is_dir() {
        eprintln!("skipped memory_is_no_disk: there is no /dev/shm");
        return;
    }
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = directory.path().join("pool");
    let error = refused(PoolOptions::new(&path, POOL_BYTES).medium(Medium::Ssd));
    assert!(error.contains("tmpfs is memory"), "{error}");
    assert!(!path.exists(), "nothing is left behind");
}

#[test]
fn a_damaged_superblock_is_refused() {
    let Some(place) = Place::find("a_damaged_superblock_is_refused") else {
        return;
    };
    place.create().close().expect("close");
    let mut pool = std::fs::read(place.path()).expect("read");
    pool[20] ^= 1;
    std::fs::write(place.path(), pool).expect("write");
    let error = Pool::open(&[place.path()]).expect_err("damaged");
    assert!(
        error.to_string().contains("checksum of its superblock"),
        "{error}"
    );
}
