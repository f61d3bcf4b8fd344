//! Bytes that turn over are found when they are compared, and are what they were afterwards.

use forebay_pmem::shadow::WORD_BYTES;

use super::world::{Disks, INLINE, Image, KEYS, Program, UNIT, WIDTH, heap, reopened};
use crate::txb::{Design, Heap, MapKind};

const PROGRAM: Program = Program::Map(MapKind::RbTree);
/// Which file is which.
const PARITY: usize = WIDTH;
const SUMS: usize = WIDTH + 1;

fn filled(design: Design) -> Image {
    let (disks, mut heap) = heap(design);
    PROGRAM.create(&mut heap);
    for key in 1..=KEYS {
        PROGRAM.insert(&mut heap, key, key * 3).expect("inserted");
    }
    disks.settled()
}

/// Opens an image in which a byte turned over; what a comparison finds.
fn verified(image: &Image, design: Design) -> (crate::txb::Verified, Disks, Heap) {
    let (disks, mut heap) = reopened(image, design);
    let found = heap.verify().expect("verified");
    (found, disks, heap)
}

fn differing(left: &Image, right: &Image) -> Vec<(usize, usize)> {
    let files = left.iter().zip(right).enumerate();
    files
        .flat_map(|(file, (left, right))| {
            let words = left.chunks(WORD_BYTES).zip(right.chunks(WORD_BYTES));
            let differ = words.enumerate().filter(|(_, (left, right))| left != right);
            differ
                .map(move |(word, _)| (file, word))
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_byte_of_an_object_that_turns_over_is_found_and_repaired_from_the_row() {
    for design in INLINE {
        let image = filled(design);
        let mut repaired = 0;
        // The first extent has the log and then the units of others; objects are in the second row of units.
        for extent in 0..WIDTH {
            for at in (UNIT as usize..2 * UNIT as usize).step_by(61) {
                let mut harmed = image.clone();
                harmed[extent][at] ^= 1 << (at % 8);
                let (found, disks, heap) = verified(&harmed, design);
                assert_eq!(found.damaged, [0; 0], "{design}, {extent}, {at}");
                assert_eq!(
                    PROGRAM.content(&heap),
                    expected(),
                    "{design}, {extent}, {at}"
                );
                repaired += found.repaired;
                let left = differing(&image, &disks.settled());
                // Free memory has no checksum with objects: its parity is made to fit what is there.
                if design == Design::TxbPage || found.repaired == 1 {
                    assert_eq!(left, [], "{design}, {extent}, {at}");
                } else {
                    let place = at / WORD_BYTES;
                    assert_eq!(left, [(extent, place), (PARITY, place)]);
                }
            }
        }
        let pages_harmed = WIDTH as u64 * UNIT.div_ceil(61);
        match design {
            Design::TxbPage => assert_eq!(repaired, pages_harmed),
            // What objects have of the three units: all of the first, a little of the second.
            _ => assert!(repaired > 50 && repaired < pages_harmed, "{repaired}"),
        }
    }
}

fn expected() -> Vec<Option<u64>> {
    (1..=KEYS).map(|key| Some(key * 3)).collect()
}

#[test]
fn parity_and_checksums_that_turn_over_are_made_anew() {
    for design in INLINE {
        let image = filled(design);
        let mut harmed = image.clone();
        harmed[PARITY][UNIT as usize + 777] ^= 4;
        let (found, disks, _) = verified(&harmed, design);
        assert_eq!((found.repaired, found.repaired_parity), (0, 1));
        assert_eq!(differing(&image, &disks.settled()), []);
    }
    let image = filled(Design::TxbPage);
    let mut harmed = image.clone();
    let first_page = WIDTH * UNIT as usize / 4096;
    harmed[SUMS][8 * first_page] ^= 4;
    let (found, disks, _) = verified(&harmed, Design::TxbPage);
    assert_eq!((found.repaired, found.repaired_sums), (0, 1));
    assert_eq!(differing(&image, &disks.settled()), []);
}

#[test]
fn two_that_turn_over_in_one_row_are_named_and_nothing_is_made_up() {
    for design in INLINE {
        let mut harmed = filled(design);
        // In the first objects, and in the same words of the parity.
        for file in [0, PARITY] {
            harmed[file][UNIT as usize + 128] ^= 4;
        }
        let (found, disks, _) = verified(&harmed, design);
        assert_eq!(found.repaired, 0);
        assert_eq!(found.damaged, [WIDTH as u64 * UNIT], "{design}");
        assert_eq!(differing(&harmed, &disks.settled()), []);
    }
}

#[test]
fn a_large_object_is_covered_by_the_difference_and_repaired() {
    let (disks, mut heap) = heap(Design::TxbObject);
    let object = heap
        .run(|tx| {
            let object = tx.alloc(1200)?;
            tx.fill(object, &[5; 1200])?;
            Ok(object)
        })
        .expect("made");
    let before = heap.read_for_redundancy();
    heap.run(|tx| {
        tx.add(object, 100..104)?;
        tx.set(object, 101, 6)?;
        tx.set(object, 1199, 7)
    })
    .expect("changed");
    // The five words that the transaction added, and none of the other 1,195; parity of those two that differ.
    let read = heap.read_for_redundancy() - before;
    assert_eq!((read.checksums, read.parity), (40, 24));
    drop(heap);
    let image = disks.settled();
    let mut harmed = image.clone();
    let at = (object.to_word() - WIDTH as u64 * UNIT + UNIT) as usize + 8 * 600;
    harmed[0][at] ^= 1;
    let (found, disks, _) = verified(&harmed, Design::TxbObject);
    assert_eq!((found.repaired, found.damaged), (1, Vec::new()));
    assert_eq!(differing(&image, &disks.settled()), []);
}

#[test]
fn an_entry_of_the_log_that_is_damaged_is_taken_from_its_copy() {
    for design in INLINE {
        for file in [0, PARITY] {
            let (disks, mut heap) = heap(design);
            PROGRAM.create(&mut heap);
            PROGRAM.insert(&mut heap, 1, 1).expect("inserted");
            let killed = heap.run(|tx| {
                tx.set(tx.program(), 0, 7)?;
                Ok(disks.everything())
            });
            let mut harmed = killed.expect("an image of the middle of it");
            // What the first entry keeps.
            harmed[file][64 + 32] ^= 1;
            let (_, heap) = reopened(&harmed, design);
            assert_eq!(PROGRAM.get(&heap, 1), Some(1), "{design}, {file}");
        }
    }
}
