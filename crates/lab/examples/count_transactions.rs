//! Transactions of one design, to be counted under cachegrind: the difference between two numbers of them is what they take.
//!
//! `valgrind --tool=cachegrind --cache-sim=yes count_transactions txb-object 1000 3 64`: a thousand transactions, each of
//! which stores to all of three objects of 64 bytes, a word of them being the header.

use std::path::Path;

use forebay_lab::txb::{Design, Heap, Media, Object};
use forebay_pmem::{Region, RegionOptions};

const EXTENT_BYTES: u64 = 16 << 20;
const UNIT_BYTES: u64 = 2 << 20;
const WIDTH: usize = 3;
/// Objects that take turns.
const OBJECTS: usize = 64;

fn region(folder: &Path, name: &str, bytes: u64) -> Region {
    let options = RegionOptions::default().huge_pages(false);
    Region::create(&folder.join(name), bytes, &options).expect("/dev/shm has room")
}

fn heap(folder: &Path, design: Design) -> Heap {
    let extents: Vec<Region> = (0..WIDTH)
        .map(|extent| region(folder, &format!("extent{extent}"), EXTENT_BYTES))
        .collect();
    let parity = || region(folder, "parity", EXTENT_BYTES);
    let sums_bytes = Media::sums_bytes(WIDTH as u64 * EXTENT_BYTES);
    let media = match design {
        Design::None | Design::Async => Media::bare(extents, UNIT_BYTES),
        Design::TxbObject => Media::with_object_sums(extents, parity(), UNIT_BYTES),
        Design::TxbPage => {
            let beside = [parity(), region(folder, "sums", sums_bytes)];
            Media::with_page_sums(extents, beside, UNIT_BYTES)
        }
    };
    Heap::create(media).expect("the region is empty")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| -> u64 { arguments[at].parse().expect("a number") };
    let design = Design::ALL
        .into_iter()
        .find(|design| design.as_str() == arguments[1])
        .expect("none, txb-object or txb-page");
    let (transactions, of_each, words) = (number(2), number(3), number(4) / 8 - 1);
    let folder = tempfile::tempdir_in("/dev/shm").expect("/dev/shm is there");
    let mut heap = heap(folder.path(), design);
    let mut objects: Vec<Object> = Vec::new();
    for _ in 0..OBJECTS {
        let made = heap.run(|transaction| transaction.alloc(words));
        objects.push(made.expect("there is room"));
    }
    for round in 0..transactions {
        let done = heap.run(|transaction| {
            for one in 0..of_each {
                let object = objects[(round * of_each + one) as usize % OBJECTS];
                transaction.add(object, 0..words)?;
                for word in 0..words {
                    transaction.set(object, word, round << 8 | word)?;
                }
            }
            Ok(())
        });
        done.expect("the log has room");
    }
}
