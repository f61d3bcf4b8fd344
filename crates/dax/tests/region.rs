//! Regions on real files, through the public interface: every operation, and what goes wrong below it.

#![allow(unsafe_code, reason = "a page is mapped once more, and stored to")]

mod common;

use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use common::{PAGE, Place, UNIT, get, put, quiet};
use forebay_dax::{
    CreateOptions, DaxPool, DaxRegion, ErrorKind, RegionState, TrackerKind, list, seal,
};

fn flip(path: &Path, at: u64) {
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
}

#[test]
fn what_was_stored_is_there_after_an_orderly_end_in_every_shape() {
    for (members, width, size) in [
        (1, 1, 5 * PAGE),
        (2, 1, 2 * UNIT),
        (3, 2, 4 * UNIT),
        (4, 3, 3 * UNIT),
    ] {
        for parent in ["/dev/shm", "/tmp"] {
            let place = Place::below(Path::new(parent), members);
            let options = CreateOptions::new(size).width(width);
            let created = DaxRegion::create(&place.pool(), "r", &options).unwrap();
            assert_eq!(created.paths.len(), width as usize + 1);
            for path in &created.paths {
                let mode = path.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600);
                let mode = path
                    .parent()
                    .unwrap()
                    .metadata()
                    .unwrap()
                    .permissions()
                    .mode();
                assert_eq!(mode & 0o777, 0o700);
            }
            let region = place.open().unwrap();
            assert_eq!(region.len(), size);
            assert_eq!(region.as_ptr().addr() % UNIT as usize, 0);
            for page in 0..size / PAGE {
                put(&region, page * PAGE + page % PAGE, &page.to_le_bytes());
            }
            region.sync(0..size).unwrap();
            let verified = region.verify(0..size).unwrap();
            assert_eq!((verified.looked_at, verified.repaired), (size / PAGE, 0));
            put(&region, size - 8, b"unsynced");
            let sealed = region.close().unwrap();
            assert_eq!((sealed.pages, sealed.unverified_pages), (size / PAGE, 0));
            let listed = list(&place.pool()).unwrap();
            assert_eq!(listed.len(), 1);
            assert_eq!(
                (listed[0].state, listed[0].size_bytes),
                (RegionState::Sealed, size)
            );
            assert_eq!(listed[0].faults, [""; 0]);
            let region = place.open().unwrap();
            for page in 0..size / PAGE {
                let found = get(&region, page * PAGE + page % PAGE, 8);
                if page * PAGE + page % PAGE + 8 <= size - 8 {
                    assert_eq!(found, page.to_le_bytes());
                }
            }
            assert_eq!(get(&region, size - 8, 8), b"unsynced");
            let status = region.status();
            assert_eq!(
                (status.unverified_pages, status.state),
                (0, RegionState::Open)
            );
        }
    }
}

#[test]
fn an_end_without_order_keeps_what_was_stored_and_counts_it() {
    let place = Place::new(2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let region = place.open().unwrap();
    put(&region, 0, b"covered");
    region.sync(0..8 * PAGE).unwrap();
    put(&region, 3 * PAGE, b"not covered");
    drop(region);
    assert_eq!(list(&place.pool()).unwrap()[0].state, RegionState::Open);
    let region = place.open().unwrap();
    assert_eq!(get(&region, 0, 7), b"covered");
    assert_eq!(get(&region, 3 * PAGE, 11), b"not covered");
    assert_eq!(region.status().unverified_pages, 1);
    let verified = region.verify(0..8 * PAGE).unwrap();
    assert_eq!((verified.looked_at, verified.repaired), (8, 0));
    region.close().unwrap();
    let sealed = seal(&place.pool(), "r").unwrap();
    assert_eq!((sealed.unverified_pages, sealed.pages), (1, 8));
}

#[test]
fn a_dead_member_is_rebuilt_at_the_caller_s_word() {
    for (width, dead) in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)] {
        let place = Place::new(width as usize + 1);
        let size = u64::from(width) * UNIT;
        let options = CreateOptions::new(size).width(width);
        DaxRegion::create(&place.pool(), "r", &options).unwrap();
        let region = place.open().unwrap();
        for page in 0..size / PAGE {
            put(&region, page * PAGE, &(page * 3 + 1).to_le_bytes());
        }
        region.close().unwrap();
        std::fs::remove_dir_all(place.file(dead, "r").parent().unwrap()).unwrap();
        let error = place.open().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Missing { .. }), "{error}");
        assert!(!list(&place.pool()).unwrap()[0].faults.is_empty());
        let options = quiet().without_missing(true);
        let region = DaxRegion::open(&place.pool(), "r", &options).unwrap();
        for page in 0..size / PAGE {
            assert_eq!(get(&region, page * PAGE, 8), (page * 3 + 1).to_le_bytes());
        }
        let verified = region.verify(0..size).unwrap();
        assert_eq!((verified.looked_at, verified.repaired), (size / PAGE, 0));
        region.close().unwrap();
        place.open().unwrap().close().unwrap();
    }
}

#[test]
fn pages_that_nothing_gives_are_named_and_zero_only_at_the_caller_s_word() {
    let place = Place::new(2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let region = place.open().unwrap();
    put(&region, 0, &[1; PAGE as usize]);
    put(&region, 5 * PAGE, &[2; PAGE as usize]);
    region.sync(0..8 * PAGE).unwrap();
    drop(region);
    // The extent is gone, and the copy has a flip.
    std::fs::remove_file(place.file(0, "r")).unwrap();
    flip(&place.file(1, "r.parity"), 5 * PAGE + 17);
    let lost = quiet().without_missing(true);
    for _ in 0..2 {
        let error = DaxRegion::open(&place.pool(), "r", &lost).unwrap_err();
        match error.kind() {
            ErrorKind::Lost { pages, offsets, .. } => {
                assert_eq!((*pages, &offsets[..]), (1, &[5 * PAGE][..]));
            }
            _ => panic!("{error}"),
        }
    }
    let region = DaxRegion::open(&place.pool(), "r", &lost.accept_loss(true)).unwrap();
    assert_eq!(get(&region, 0, 4096), [1; 4096]);
    assert_eq!(get(&region, 5 * PAGE, 4096), [0; 4096]);
    assert_eq!(region.status().lost_pages, 1);
    region.close().unwrap();
    assert_eq!(place.open().unwrap().status().lost_pages, 1);
}

#[test]
fn flips_are_found_and_put_right_in_pages_parity_and_sums() {
    let place = Place::new(3);
    let size = 2 * UNIT;
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(size).width(2)).unwrap();
    let region = place.open().unwrap();
    for page in 0..size / PAGE {
        put(&region, page * PAGE, &(page + 1).to_le_bytes());
    }
    region.close().unwrap();
    let region = place.open().unwrap();
    region.sync(0..size).unwrap();
    drop(region);
    seal(&place.pool(), "r").unwrap();
    let region = place.open().unwrap();
    region.sync(0..size).unwrap();
    flip(&place.file(2, "r.parity.sums"), 2 * PAGE + 8);
    flip(&place.file(0, "r.sums"), 2 * PAGE + 16 * 8);
    flip(&place.file(2, "r.parity"), 9 * PAGE);
    let verified = region.verify(0..size).unwrap();
    assert_eq!(verified.damaged, [0; 0]);
    assert_eq!(verified.repaired, 3);
    let verified = region.verify(0..size).unwrap();
    assert_eq!((verified.repaired, verified.looked_at), (0, size / PAGE));
}

#[test]
fn a_flip_in_a_line_is_put_right_and_in_both_lines_too() {
    let place = Place::new(2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let region = place.open().unwrap();
    put(&region, PAGE, b"here");
    region.close().unwrap();
    for slots in [[0, 0], [1, 1], [0, 1]] {
        for (member, name) in [(0, "r.sums"), (1, "r.parity.sums")] {
            flip(&place.file(member, name), slots[0] * PAGE + 50);
            flip(&place.file(member, name), slots[1] * PAGE + 51);
            let region = place.open().unwrap();
            assert_eq!(get(&region, PAGE, 4), b"here");
            // Without a line nothing tells whether the extent beside it is an old one.
            let unverified = if slots[0] != slots[1] && member == 0 {
                8
            } else {
                0
            };
            assert_eq!(region.status().unverified_pages, unverified);
            let verified = region.verify(0..8 * PAGE).unwrap();
            assert_eq!(verified.unverified_pages(), unverified);
            assert_eq!(region.accept(0..8 * PAGE).unwrap(), unverified);
            assert_eq!(region.close().unwrap().unverified_pages, 0);
        }
    }
}

#[test]
fn one_process_has_a_region_at_a_time_and_names_reach_nowhere_else() {
    let place = Place::new(2);
    let pool = place.pool();
    let options = CreateOptions::new(8 * PAGE);
    DaxRegion::create(&pool, "r", &options).unwrap();
    let again = DaxRegion::create(&pool, "r", &options).unwrap_err();
    assert!(
        again.to_string().contains("a file is there already"),
        "{again}"
    );
    let region = place.open().unwrap();
    let second = place.open().unwrap_err();
    assert!(matches!(second.kind(), ErrorKind::InUse { .. }), "{second}");
    assert_eq!(list(&pool).unwrap()[0].state, RegionState::Open);
    drop(region);
    let missing = DaxRegion::open(&pool, "s", &quiet()).unwrap_err();
    assert!(matches!(missing.kind(), ErrorKind::NotFound { .. }));
    let foreign = DaxPool::new(&place.members, [8; 16]);
    let foreign = DaxRegion::open(&foreign, "r", &quiet()).unwrap_err();
    assert!(
        matches!(foreign.kind(), ErrorKind::Refused { .. }),
        "{foreign}"
    );
    DaxRegion::create(&pool, "../r", &options).unwrap_err();
    DaxRegion::open(&pool, "r.parity", &quiet()).unwrap_err();
    let region = place.open().unwrap();
    for range in [0..9 * PAGE, 8 * PAGE..9 * PAGE] {
        region.sync(range.clone()).unwrap_err();
        region.verify(range).unwrap_err();
    }
    region.sync(5..5).unwrap();
    let compare = quiet().tracker(TrackerKind::Compare);
    drop(region);
    let region = DaxRegion::open(&pool, "r", &compare).unwrap();
    assert_eq!(region.status().tracker, TrackerKind::Compare);
}

#[test]
fn two_histories_are_refused_together_and_each_opens_alone() {
    let place = Place::new(2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let away = place.directory.path().join("away");
    let (first, second) = (place.file(0, ""), place.file(1, ""));
    let lost = quiet().without_missing(true);
    std::fs::rename(&first, &away).unwrap();
    let region = DaxRegion::open(&place.pool(), "r", &lost).unwrap();
    put(&region, 0, b"one");
    region.close().unwrap();
    std::fs::remove_dir_all(&first).unwrap();
    std::fs::rename(&second, place.directory.path().join("kept")).unwrap();
    std::fs::rename(&away, &first).unwrap();
    let region = DaxRegion::open(&place.pool(), "r", &lost).unwrap();
    put(&region, 0, b"two");
    region.close().unwrap();
    std::fs::remove_dir_all(&second).unwrap();
    std::fs::rename(place.directory.path().join("kept"), &second).unwrap();
    let error = place.open().unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::TwoHistories { .. }),
        "{error}"
    );
}

#[test]
fn a_seal_whose_evidence_differs_is_no_authority() {
    let place = Place::new(2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let region = place.open().unwrap();
    put(&region, 0, b"sealed");
    region.close().unwrap();
    // A program writes to the sealed extent, with nobody there to see it.
    let file = std::fs::File::options()
        .write(true)
        .open(place.file(0, "r"))
        .unwrap();
    file.write_all_at(b"written", 4 * PAGE).unwrap();
    drop(file);
    let region = place.open().unwrap();
    assert_eq!(get(&region, 0, 6), b"sealed");
    assert_eq!(get(&region, 4 * PAGE, 7), b"written");
    assert_eq!(region.status().unverified_pages, 1);
    assert_eq!(region.verify(0..8 * PAGE).unwrap().looked_at, 8);
}

#[test]
fn what_another_opener_stores_is_no_damage() {
    let place = Place::new(2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let open = || {
        std::fs::File::options()
            .write(true)
            .open(place.file(0, "r"))
            .unwrap()
    };
    for is_there_before in [true, false] {
        let mut file = is_there_before.then(open);
        let region = place.open().unwrap();
        region.sync(0..8 * PAGE).unwrap();
        let file = file.take().unwrap_or_else(open);
        let bytes = if is_there_before {
            b"before"
        } else {
            b"later."
        };
        file.write_all_at(bytes, 4 * PAGE).unwrap();
        let verified = region.verify(0..8 * PAGE).unwrap();
        assert_eq!((verified.repaired, verified.damaged.len()), (0, 0));
        assert_eq!(verified.skipped_as_written, 1);
        region.sync(0..8 * PAGE).unwrap();
        assert_eq!(get(&region, 4 * PAGE, 6), bytes);
        drop(file);
        region.sync(0..8 * PAGE).unwrap();
        assert_eq!(region.verify(0..8 * PAGE).unwrap().looked_at, 8);
        region.close().unwrap();
    }
}

#[test]
fn what_a_program_flushes_and_fences_is_counted_and_covered_by_the_next_pass() {
    for width in [1, 2] {
        let place = Place::new(3);
        let options = CreateOptions::new(4 * UNIT).width(width);
        DaxRegion::create(&place.pool(), "r", &options).unwrap();
        let region = place.open().unwrap();
        let before = region.counters();
        // The last line of one extent's unit, and the first two of the next one's.
        put(&region, UNIT - 8, &[7; 80]);
        region.flush(UNIT - 8..UNIT + 72);
        region.fence().unwrap();
        let counted = region.counters() - before;
        assert_eq!((counted.lines_flushed, counted.fences), (3, 1));
        region.sync(0..4 * UNIT).unwrap();
        assert_eq!(region.status().counts.covered_pages, 2);
        assert_eq!(region.close().unwrap().written_pages, 0);
        assert_eq!(get(&place.open().unwrap(), UNIT - 8, 80), [7; 80]);
    }
}

/// The parity of a sealed region comes back as it was two seals ago; later the extent dies.
#[test]
fn an_old_parity_is_made_anew_though_the_seal_holds() {
    let place = Place::below(Path::new("/tmp"), 2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let old = place.directory.path().join("old");
    for byte in [1, 2] {
        let region = place.open().unwrap();
        put(&region, 3 * PAGE, &[byte; PAGE as usize]);
        region.close().unwrap();
        if byte == 1 {
            std::fs::create_dir(&old).unwrap();
            for name in ["r.parity", "r.parity.sums"] {
                std::fs::copy(place.file(1, name), old.join(name)).unwrap();
            }
        }
    }
    std::fs::remove_dir_all(place.file(1, "")).unwrap();
    std::fs::rename(&old, place.file(1, "")).unwrap();
    drop(place.open().unwrap());
    std::fs::remove_dir_all(place.file(0, "")).unwrap();
    let options = quiet().without_missing(true);
    let region = DaxRegion::open(&place.pool(), "r", &options).unwrap();
    assert_eq!(get(&region, 3 * PAGE, 4096), [2; 4096]);
}

/// A mapping of a page that no tracker knows of: what is stored through it is as if the medium had changed.
fn store_below(region: &DaxRegion, at: u64, byte: u8) {
    let page = at / PAGE * PAGE;
    // SAFETY: with an old length of none a second mapping of the same page is made (mremap(2)), and unmapped again.
    unsafe {
        let from = region.as_ptr().add(page as usize).cast();
        let below = libc::mremap(from, 0, PAGE as usize, libc::MREMAP_MAYMOVE);
        assert_ne!(below, libc::MAP_FAILED);
        below
            .cast::<u8>()
            .add((at - page) as usize)
            .write_volatile(byte);
        libc::munmap(below, PAGE as usize);
    }
}

/// Nobody has stored since the seal, and the file system would tell: what differs is damage, also before the first pass.
#[test]
fn what_turned_over_under_a_seal_is_found_and_put_right() {
    let place = Place::below(Path::new("/tmp"), 2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
    let region = place.open().unwrap();
    put(&region, 3 * PAGE, &[1; PAGE as usize]);
    region.close().unwrap();
    for syncs_first in [false, true] {
        let region = place.open().unwrap();
        if region.status().tracker == TrackerKind::Compare {
            return;
        }
        store_below(&region, 3 * PAGE + 9, 2);
        put(&region, 5 * PAGE, b"a store");
        if syncs_first {
            region.sync(0..8 * PAGE).unwrap();
        }
        let verified = region.verify(0..8 * PAGE).unwrap();
        assert_eq!(verified.repaired, 1, "{verified:?}");
        assert_eq!(get(&region, 3 * PAGE, 4096), [1; 4096]);
        region.close().unwrap();
    }
}

/// Another program opens an extent, stores and closes it, while the region is being closed: after the last look of its
/// tracker, before its leases. It has the parity's lock meanwhile, if it gets it then; else it stores after the seal.
#[test]
fn what_another_opener_stores_while_the_region_is_closed_is_no_damage() {
    for _ in 0..8 {
        let place = Place::new(2);
        DaxRegion::create(&place.pool(), "r", &CreateOptions::new(8 * PAGE)).unwrap();
        let region = place.open().unwrap();
        put(&region, 3 * PAGE, b"before");
        region.sync(0..8 * PAGE).unwrap();
        let open = |path| std::fs::File::options().write(true).open(path).unwrap();
        let parity = open(place.file(1, "r.parity"));
        let extent = place.file(0, "r");
        let other = std::thread::spawn(move || {
            parity.lock().unwrap();
            let file = open(extent);
            file.write_all_at(b"stored", 3 * PAGE).unwrap();
            drop(file);
        });
        region.close().unwrap();
        other.join().unwrap();
        let region = place.open().unwrap();
        assert_eq!(get(&region, 3 * PAGE, 6), b"stored");
        region.close().unwrap();
    }
}

#[test]
fn files_that_were_cut_short_are_refused_by_name_and_made_anew_once_they_are_away() {
    for (file, left) in [
        ("r", UNIT / 2),
        ("r", PAGE),
        ("r", 0),
        ("r.sums", 2 * PAGE),
        ("r.sums", PAGE),
        ("r.sums", 1),
    ] {
        let place = Place::new(2);
        DaxRegion::create(&place.pool(), "r", &CreateOptions::new(UNIT)).unwrap();
        let region = place.open().unwrap();
        put(&region, UNIT - 8, b"the end.");
        region.close().unwrap();
        let cut = place.file(0, file);
        let opened = std::fs::File::options().write(true).open(&cut).unwrap();
        opened.set_len(left).unwrap();
        assert_eq!(list(&place.pool()).unwrap()[0].name, "r");
        let error = place.open().unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Refused { path, .. } if *path == cut),
            "{file} of {left}: {error}"
        );
        assert!(error.to_string().contains("cut short"), "{error}");
        std::fs::rename(&cut, cut.with_extension("away")).unwrap();
        let region = DaxRegion::open(&place.pool(), "r", &quiet().without_missing(true)).unwrap();
        assert_eq!(get(&region, UNIT - 8, 8), b"the end.", "{file} of {left}");
        region.close().unwrap();
    }
}

#[test]
fn a_file_that_is_cut_short_under_an_open_region_ends_in_an_error() {
    for file in ["member0.dax/r", "member1.dax/r.parity"] {
        let place = Place::new(2);
        DaxRegion::create(&place.pool(), "r", &CreateOptions::new(UNIT)).unwrap();
        let region = place.open().unwrap();
        let cut = place.directory.path().join(file);
        let opened = std::fs::File::options().write(true).open(&cut).unwrap();
        opened.set_len(UNIT / 2).unwrap();
        let error = region.close().unwrap_err();
        assert!(error.to_string().contains("cut short"), "{file}: {error}");
    }
}

#[test]
fn members_that_were_moved_are_listed_where_they_are() {
    let mut place = Place::new(2);
    DaxRegion::create(&place.pool(), "r", &CreateOptions::new(UNIT)).unwrap();
    let moved = place.directory.path().join("moved");
    std::fs::create_dir(&moved).unwrap();
    for (number, member) in place.members.iter_mut().enumerate() {
        let directory = format!("member{number}.dax");
        let from = place.directory.path().join(&directory);
        std::fs::rename(from, moved.join(&directory)).unwrap();
        *member = moved.join(format!("member{number}"));
    }
    let listed = &list(&place.pool()).unwrap()[0];
    assert!(listed.faults.is_empty(), "{listed:?}");
    assert_eq!(listed.paths[0], moved.join("member0.dax/r"));
}
