//! What transactions cost, exactly.

use forebay_pmem::Counters;

use super::world::heap;
use crate::txb::{BytesRead, Design, Heap, Map, MapKind, Result, Transaction};

/// What one transaction costs in lines flushed, fences, and bytes read for checksums and parity.
fn cost<T>(
    heap: &mut Heap,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
) -> (u64, u64, BytesRead) {
    let before = (heap.media().counters(), heap.read_for_redundancy());
    heap.run(work).expect("run");
    let counted: Counters = heap.media().counters() - before.0;
    assert_eq!(counted.lines_streamed, 0);
    let read = heap.read_for_redundancy() - before.1;
    (counted.lines_flushed, counted.fences, read)
}

fn read(checksums: u64, parity: u64) -> BytesRead {
    BytesRead { checksums, parity }
}

#[test]
fn a_word_that_changes_costs_three_lines_and_what_the_design_adds() {
    let of = |design| {
        let (_disks, mut heap) = heap(design);
        let object = heap
            .run(|tx| {
                let object = tx.alloc(31)?;
                tx.fill(object, &[1; 31])?;
                Ok(object)
            })
            .expect("made");
        cost(&mut heap, |tx| tx.set(object, 15, 2))
    };
    // An entry of the log, the word, the log's head; the entry, the word, and the head are fenced.
    assert_eq!(of(Design::None), (3, 3, read(0, 0)));
    // The log's two lines are there twice; parity of the word and of the header, which is in another line.
    assert_eq!(of(Design::TxbObject), (3 + 2 + 1 + 2, 3, read(31 * 8, 16)));
    // The log's two; the sum's line and the parity's.
    assert_eq!(of(Design::TxbPage), (3 + 2 + 2, 3, read(4096, 8)));
}

#[test]
fn a_transaction_that_changes_nothing_costs_nothing() {
    for design in [Design::None, Design::TxbObject, Design::TxbPage] {
        let (_disks, mut heap) = heap(design);
        let map = Map::create(&mut heap, MapKind::CTree, 8).expect("a map");
        map.insert(&mut heap, 1, 1).expect("inserted");
        let before = (heap.media().counters(), heap.transactions());
        assert_eq!(map.remove(&mut heap, 2).expect("not there"), None);
        assert_eq!(map.get(&heap, 1), Some(1));
        assert_eq!((heap.media().counters(), heap.transactions()), before);
    }
}

#[test]
fn a_page_is_read_once_however_often_it_changes_and_its_sums_line_is_written_once() {
    let (_disks, mut heap) = heap(Design::TxbPage);
    let made = heap.run(|tx| {
        let object = tx.alloc(1500)?;
        tx.fill(object, &[1; 1500])?;
        Ok(object)
    });
    let object = made.expect("made");
    // Twice in the first page, once each in the two after it: one line has the sums of all three.
    let (lines, fences, bytes) = cost(&mut heap, |tx| {
        [8, 16, 600, 1400]
            .into_iter()
            .try_for_each(|word| tx.set(object, word, 2))
    });
    // Four entries and the head, twice; four lines of data, four of the parity.
    assert_eq!((lines, fences), (2 * 5 + 4 + 1 + 4, 4 + 2));
    assert_eq!(bytes, read(3 * 4096, 4 * 8));
}
