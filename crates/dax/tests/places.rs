//! Files of regions that lie elsewhere than they did, that are made anew, or are not as long as they were.

mod common;

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::{PAGE, Place, UNIT, UUID, get, put, quiet};
use forebay_dax::{CreateOptions, DaxPool, DaxRegion, ErrorKind, seal};

/// Two members have changed places, and the extent of one is gone, its sidecar is not: what replaces it lies beside that
/// sidecar, and over nobody's extent.
#[test]
fn an_extent_is_made_anew_beside_its_sidecar_wherever_that_lies_now() {
    let place = Place::new(3);
    let size = 2 * UNIT;
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(size).width(2)).unwrap();
    let region = place.open().unwrap();
    for page in 0..size / PAGE {
        put(&region, page * PAGE, &(page * 3 + 1).to_le_bytes());
    }
    region.close().unwrap();
    let aside = place.directory.path().join("aside");
    let (first, second) = (place.file(0, ""), place.file(1, ""));
    std::fs::rename(&first, &aside).unwrap();
    std::fs::rename(&second, &first).unwrap();
    std::fs::rename(&aside, &second).unwrap();
    std::fs::remove_file(place.file(1, "r")).unwrap();
    let options = quiet().without_missing(true);
    let region = DaxRegion::open(&place.pool(), "r", &options).unwrap();
    region.close().unwrap();
    let region = place.open().unwrap();
    for page in 0..size / PAGE {
        assert_eq!(get(&region, page * PAGE, 8), (page * 3 + 1).to_le_bytes());
    }
    // What was made lies beside the sidecar, and the other extent where it was.
    assert!(place.file(1, "r").exists());
}

/// The pool was moved, and another member took the place of a dead one.
#[test]
fn a_pool_that_was_moved_is_rebuilt_onto_another_member() {
    for dead in 0..3 {
        let place = Place::new(3);
        let size = 2 * UNIT;
        DaxRegion::create(&place.pool(), "r", &CreateOptions::new(size).width(2)).unwrap();
        let region = place.open().unwrap();
        for page in 0..size / PAGE {
            put(&region, page * PAGE, &(page * 3 + 1).to_le_bytes());
        }
        region.close().unwrap();
        let moved: Vec<PathBuf> = (0..3)
            .map(|number| place.directory.path().join(format!("moved{number}")))
            .collect();
        for member in (0..3).filter(|&member| member != dead) {
            let to = place.directory.path().join(format!("moved{member}.dax"));
            std::fs::rename(place.file(member, ""), to).unwrap();
        }
        let pool = DaxPool::new(&moved, UUID);
        let options = quiet().without_missing(true);
        let region = DaxRegion::open(&pool, "r", &options).unwrap();
        for page in 0..size / PAGE {
            assert_eq!(get(&region, page * PAGE, 8), (page * 3 + 1).to_le_bytes());
        }
        region.close().unwrap();
        DaxRegion::open(&pool, "r", &quiet())
            .unwrap()
            .close()
            .unwrap();
    }
}

/// The opening that makes the parity anew beside another member is killed before its mark is on what it made.
#[test]
fn a_rebuild_onto_another_member_that_was_cut_short_is_done_again() {
    for is_installed in [false, true] {
        let place = Place::new(3);
        let pool = DaxPool::new(&place.members[..2], UUID);
        DaxRegion::create(&pool, "r", &CreateOptions::new(8 * PAGE)).unwrap();
        let region = DaxRegion::open(&pool, "r", &quiet()).unwrap();
        put(&region, 3 * PAGE, b"here");
        region.close().unwrap();
        std::fs::remove_dir_all(place.file(1, "")).unwrap();
        let pool = DaxPool::new(&[place.members[0].clone(), place.members[2].clone()], UUID);
        let options = quiet().without_missing(true);
        drop(DaxRegion::open(&pool, "r", &options).unwrap());
        // What the killed one left: the line of its beginning on the sidecar that counts, none on the new one.
        forget_newest_line(&place.file(0, "r.sums"));
        forget_newest_line(&place.file(2, "r.parity.sums"));
        forget_newest_line(&place.file(2, "r.parity.sums"));
        if !is_installed {
            let parity = place.file(2, "r.parity");
            std::fs::rename(&parity, place.file(2, "r.parity.new")).unwrap();
        }
        let region = DaxRegion::open(&pool, "r", &options).unwrap();
        assert_eq!(get(&region, 3 * PAGE, 4), b"here");
        region.close().unwrap();
        DaxRegion::open(&pool, "r", &quiet())
            .unwrap()
            .close()
            .unwrap();
    }
}

/// Takes the line of the highest generation away.
fn forget_newest_line(sidecar: &Path) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(sidecar)
        .unwrap();
    let generation = |slot: u64| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, slot * PAGE + 48).unwrap();
        u64::from_le_bytes(word)
    };
    let newest = u64::from(generation(1) > generation(0));
    file.write_all_at(&[0; PAGE as usize], newest * PAGE)
        .unwrap();
}

/// A line has no room for the paths.
#[test]
fn a_pool_that_was_moved_where_paths_are_too_long_is_refused_and_opens_elsewhere() {
    let place = Place::new(1);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let directory = place.directory.path();
    let deep = directory.join("a".repeat(250)).join("b".repeat(200));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::rename(place.file(0, ""), deep.join("m.dax")).unwrap();
    let pool = DaxPool::new(&[deep.join("m")], UUID);
    for _ in 0..2 {
        let error = DaxRegion::open(&pool, "r", &quiet()).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid { .. }), "{error}");
        seal(&pool, "r").unwrap_err();
    }
    std::fs::rename(deep.join("m.dax"), place.file(0, "")).unwrap();
    place.open().unwrap().close().unwrap();
}

/// A copy of a file that broke off, or that something was added to.
#[test]
fn a_file_of_another_length_is_refused_and_left_out_at_the_caller_s_word() {
    for (member, name) in [
        (0, "r"),
        (1, "r.parity"),
        (0, "r.sums"),
        (1, "r.parity.sums"),
    ] {
        for len in [4096, 12 * PAGE] {
            let place = Place::new(2);
            DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
            let region = place.open().unwrap();
            put(&region, 3 * PAGE, b"here");
            region.close().unwrap();
            let path = place.file(member, name);
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_len(len).unwrap();
            drop(file);
            let error = place.open().unwrap_err();
            assert!(
                error.to_string().contains(&path.display().to_string()),
                "{error}"
            );
            seal(&place.pool(), "r").unwrap_err();
            std::fs::remove_file(&path).unwrap();
            let options = quiet().without_missing(true);
            let region = DaxRegion::open(&place.pool(), "r", &options).unwrap();
            assert_eq!(get(&region, 3 * PAGE, 4), b"here");
        }
    }
}
