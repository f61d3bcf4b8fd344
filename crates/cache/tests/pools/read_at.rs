//! Reads of bytes at any offset, of a volume and in a transaction, beside an array of bytes.

use std::sync::Arc;

use crate::fixtures::{BLOCK, MEMBER_BYTES, tiny};
use forebay::{Backing, ErrorKind, MemoryStore, Pool, Region, Result, Transaction, Volume};
use forebay_pmem::shadow::{Shadow, ShadowModel};
use proptest::prelude::*;

const BLOCKS: usize = 24;
/// The last block reaches past the end.
const DISK_BYTES: usize = BLOCKS * BLOCK - 50;

fn new_volume() -> (Pool, Volume) {
    let options = tiny().always_compare(true);
    let shadow = Arc::new(Shadow::new(MEMBER_BYTES as u64, ShadowModel::Lines));
    let pool = Pool::create_on(vec![Region::on_shadow(shadow)], &options).expect("create");
    let store = Arc::new(MemoryStore::new(DISK_BYTES as u64));
    let volume = pool.attach(Backing::from_store(store)).expect("attach");
    (pool, volume)
}

/// What a transaction is asked for; all of them lie within the disk.
#[derive(Clone, Debug)]
enum Change {
    Blocks {
        block: usize,
        count: usize,
        fill: u8,
    },
    Bytes {
        at: usize,
        bytes: Vec<u8>,
    },
    Append {
        block: usize,
        at: usize,
        bytes: Vec<u8>,
    },
    Discard {
        block: usize,
        count: usize,
    },
}

/// Few values, so that blocks are equal, alike, or mostly zero.
fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..3u8, 1..max)
}

fn change() -> impl Strategy<Value = Change> {
    let blocks = (0..BLOCKS - 1, 1..5usize, 0..3u8).prop_map(|(block, count, fill)| {
        let count = count.min(BLOCKS - 1 - block);
        Change::Blocks { block, count, fill }
    });
    let some_bytes = (0..DISK_BYTES, bytes(3 * BLOCK)).prop_map(|(at, mut bytes)| {
        bytes.truncate(DISK_BYTES - at);
        Change::Bytes { at, bytes }
    });
    let append = (0..BLOCKS - 1, 0..BLOCK, bytes(BLOCK)).prop_map(|(block, at, mut bytes)| {
        bytes.truncate(BLOCK - at);
        Change::Append { block, at, bytes }
    });
    let discard = (0..BLOCKS - 1, 1..4usize).prop_map(|(block, count)| {
        let count = count.min(BLOCKS - 1 - block);
        Change::Discard { block, count }
    });
    prop_oneof![blocks, some_bytes, append, discard]
}

/// An error where the change is one too many for a transaction of this tiny pool.
fn apply(transaction: &mut Transaction<'_>, model: &mut [u8], change: &Change) -> Result<()> {
    match change {
        Change::Blocks { block, count, fill } => {
            let data = vec![*fill; count * BLOCK];
            transaction.write(*block as u64, &data)?;
            model[block * BLOCK..][..data.len()].copy_from_slice(&data);
        }
        Change::Bytes { at, bytes } => {
            transaction.write_at(*at as u64, bytes)?;
            model[*at..][..bytes.len()].copy_from_slice(bytes);
        }
        Change::Append { block, at, bytes } => {
            transaction.append(*block as u64, *at, bytes)?;
            let of_block = &mut model[block * BLOCK..][..BLOCK];
            of_block[*at..][..bytes.len()].copy_from_slice(bytes);
            of_block[at + bytes.len()..].fill(0);
        }
        Change::Discard { block, count } => {
            let blocks = *block as u64..(block + count) as u64;
            transaction.discard(blocks)?;
            model[block * BLOCK..][..count * BLOCK].fill(0);
        }
    }
    Ok(())
}

/// A range of the disk, often one that ends with it.
fn range() -> impl Strategy<Value = (usize, usize)> {
    (0..=DISK_BYTES, 0..6 * BLOCK).prop_map(|(at, len)| (at, len.min(DISK_BYTES - at)))
}

#[derive(Clone, Debug)]
struct Step {
    changes: Vec<Change>,
    reads: Vec<(usize, usize)>,
    commits: bool,
    writes_back: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let changes = prop::collection::vec(change(), 1..4);
    let reads = prop::collection::vec(range(), 1..6);
    (changes, reads, any::<bool>(), any::<bool>()).prop_map(
        |(changes, reads, commits, writes_back)| Step {
            changes,
            reads,
            commits,
            writes_back,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_read_as_they_were_written(steps in prop::collection::vec(step(), 1..12)) {
        let (pool, volume) = new_volume();
        let mut model = vec![0; DISK_BYTES];
        for Step { changes, reads, commits, writes_back } in &steps {
            let mut after = model.clone();
            let mut transaction = volume.begin();
            let applied = changes.iter().try_for_each(|change| apply(&mut transaction, &mut after, change));
            if let Err(error) = applied {
                prop_assert!(matches!(error.kind(), ErrorKind::TransactionTooLarge { .. }), "{}", error);
                continue;
            }
            for (at, len) in reads {
                let (mut inside, mut outside) = (vec![9; *len], vec![9; *len]);
                transaction.read_at(*at as u64, &mut inside).expect("in the transaction");
                volume.read_at(*at as u64, &mut outside).expect("of the volume");
                prop_assert_eq!(&inside, &after[*at..at + len]);
                prop_assert_eq!(&outside, &model[*at..at + len]);
            }
            if *commits {
                transaction.commit().expect("commit");
                model = after;
            } else {
                transaction.abort();
            }
            if *writes_back {
                volume.flush().expect("flush");
                pool.reclaim_once(4).expect("reclaim");
            }
            for (at, len) in reads {
                let mut out = vec![9; *len];
                volume.read_at(*at as u64, &mut out).expect("read_at");
                prop_assert_eq!(&out, &model[*at..at + len]);
            }
        }
    }
}

#[test]
fn bytes_across_blocks_and_up_to_the_end() {
    let (_pool, volume) = new_volume();
    let data: Vec<u8> = (0..DISK_BYTES).map(|at| (at * 7 / 3) as u8).collect();
    for (number, part) in data.chunks(5 * BLOCK).enumerate() {
        let mut transaction = volume.begin();
        let at = number * 5 * BLOCK;
        transaction.write_at(at as u64, part).expect("write_at");
        transaction.commit().expect("commit");
    }
    let ranges = [
        (0, 1),
        (BLOCK - 1, 2),
        (BLOCK, BLOCK),
        (3 * BLOCK - 5, 2 * BLOCK + 10),
        (DISK_BYTES - 1, 1),
        (DISK_BYTES - BLOCK, BLOCK),
        (0, DISK_BYTES),
    ];
    for (at, len) in ranges {
        let mut out = vec![0; len];
        volume.read_at(at as u64, &mut out).expect("read_at");
        assert_eq!(out, data[at..at + len], "{len} bytes at {at}");
    }
}

#[test]
fn no_bytes_are_read_anywhere_within_the_volume_and_none_behind_it() {
    let (_pool, volume) = new_volume();
    let transaction = volume.begin();
    let end = DISK_BYTES as u64;
    volume.read_at(end, &mut []).expect("nothing at the end");
    transaction.read_at(end, &mut []).expect("nothing there");
    for (at, len) in [(end, 1), (end - 1, 2), (end + 1, 0), (u64::MAX, 1)] {
        let mut out = vec![7; len];
        let of_volume = volume.read_at(at, &mut out).expect_err("outside");
        let inside = transaction.read_at(at, &mut out).expect_err("outside");
        assert!(
            matches!(of_volume.kind(), ErrorKind::OutOfRange { .. }),
            "{of_volume}"
        );
        assert!(
            matches!(inside.kind(), ErrorKind::OutOfRange { .. }),
            "{inside}"
        );
        assert!(out.iter().all(|byte| *byte == 7), "nothing was touched");
    }
}
