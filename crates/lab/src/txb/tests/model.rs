//! Programs do what they are to do, and leave checksums and parity that fit.

use super::world::{INLINE, KEYS, PROGRAMS, Program, Step, heap, reopened};
use crate::txb::{Design, Error, MapKind};

#[test]
fn every_program_keeps_what_it_was_given_under_every_design() {
    for design in [Design::None, Design::TxbObject, Design::TxbPage] {
        for program in PROGRAMS {
            let (disks, mut heap) = heap(design);
            program.create(&mut heap);
            let mut rng = fastrand::Rng::with_seed(1);
            let mut content = vec![None; KEYS as usize];
            for number in 0..600 {
                let step = Step::random(program, &mut rng);
                step.apply(&mut content);
                step.run(program, &mut heap);
                if number % 60 == 0 {
                    assert_eq!(program.content(&heap), content, "{design}, {program:?}");
                    if INLINE.contains(&design) {
                        let found = heap.verify().expect("verified");
                        let put_right =
                            [found.repaired, found.repaired_sums, found.repaired_parity];
                        assert_eq!(
                            (put_right, found.damaged),
                            ([0; 3], Vec::new()),
                            "{program:?}"
                        );
                    }
                }
            }
            drop(heap);
            let (_, heap) = reopened(&disks.settled(), design);
            assert_eq!(program.content(&heap), content, "{design}, {program:?}");
        }
    }
}

#[test]
fn a_transaction_that_fails_changes_nothing() {
    for design in [Design::None, Design::TxbObject, Design::TxbPage] {
        let (_disks, mut heap) = heap(design);
        let program = Program::Map(MapKind::BTree);
        program.create(&mut heap);
        for key in 1..=KEYS {
            program.insert(&mut heap, key, key).expect("inserted");
        }
        let (before, transactions) = (program.content(&heap), heap.transactions());
        let failed = heap.run(|tx| {
            let object = tx.program();
            tx.set(object, 0, 7)?;
            let made = tx.alloc(20)?;
            tx.fill(made, &[9; 20])?;
            tx.free(made)?;
            tx.alloc(1 << 40).map(|_| ())
        });
        assert!(matches!(failed, Err(Error::Full { .. })));
        assert_eq!(program.content(&heap), before, "{design}");
        assert_eq!(heap.transactions(), transactions);
        if design.is_inline() {
            let found = heap.verify().expect("verified");
            assert_eq!((found.repaired, found.repaired_parity), (0, 0));
            assert_eq!(found.damaged, [0; 0]);
        }
        // And the heap goes on.
        program.insert(&mut heap, 1, 2).expect("inserted");
        assert_eq!(program.get(&heap, 1), Some(2));
    }
}

#[test]
fn a_region_or_a_log_that_is_full_is_an_error_that_says_what_to_do() {
    let (_disks, mut heap) = heap(Design::TxbPage);
    let object = heap.run(|tx| tx.alloc(2000)).expect("room");
    // Eight bytes each, in entries of a line.
    let too_much =
        heap.run(|tx| (0..400).try_for_each(|word| tx.add(object, 5 * word..5 * word + 1)));
    let said = too_much.expect_err("a log of 16 KiB").to_string();
    assert!(said.contains("log of 16384 bytes"), "{said}");
    let mut filled = Ok(object);
    while filled.is_ok() {
        filled = heap.run(|tx| tx.alloc(200));
    }
    let said = filled.expect_err("no room").to_string();
    assert!(
        said.contains("no room for an object of 1664 bytes"),
        "{said}"
    );
    let found = heap.verify().expect("verified");
    assert_eq!((found.repaired, found.repaired_parity), (0, 0));
}

#[test]
fn what_is_no_heap_is_refused() {
    let disks = super::world::Disks::blank();
    let refused = crate::txb::Heap::open(disks.media(Design::TxbObject));
    let said = refused.err().expect("no heap").to_string();
    assert!(said.contains("no log is there"), "{said}");
}
