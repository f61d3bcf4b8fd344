//! The same calls write the same tables and the same file beside the pool as an earlier build, and what
//! that one wrote is still read.
//!
//! An image is a text with the lines of 16 bytes that are not zero. One that is missing is written by
//! `FOREBAY_WRITE_GOLDEN=1`; one that is there is never replaced.

use std::fmt::Write;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use forebay::{Backing, BackingStore, MemoryStore, Pool, Region, Volume};

use crate::cuts::{Cuts, SIDE_BYTES, read_owner, write_owner};
use crate::facts::SyncKind;
use crate::file::BufferedFile;
use crate::metadata::{Durable, FileId, FileIds, LOG, MetadataArea, ROWS, SEGMENTS};
use crate::page_cache::PageCache;
use crate::segments::{Owner, SEGMENT_BLOCKS, SegmentTable, write_owner as write_segment};
use crate::sizes::{Row, RowCut, SizeTable};
use crate::store::VirtualStore;
use crate::testing::{Rig, open_file, quiet, quiet_pool};

const LINE_BYTES: usize = 16;
const OWNER: [u8; 16] = [0x5A; 16];
/// Rows of the table, by their numbers: one in the first block, one in another, one beside the first.
const ROW_NUMBERS: [u32; 3] = [0, 3, 256];
/// Marks of two pages.
const MARKS: [(u32, u64); 2] = [(3, 9), (600, 12)];

/// The lines that are not zero, each with its offset; `start` is the first one's.
fn text_of(start: u64, bytes: &[u8]) -> String {
    let mut text = String::new();
    let offsets = (start..).step_by(LINE_BYTES);
    for (offset, line) in offsets.zip(bytes.chunks(LINE_BYTES)) {
        if line.iter().any(|byte| *byte != 0) {
            let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "{offset:08x} {}", hex.concat()).expect("a string takes all");
        }
    }
    text
}

/// What [`text_of`] was given, from offset 0.
fn bytes_of(text: &str, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    for line in text.lines() {
        let (offset, hex) = line.split_once(' ').expect("an offset and a line");
        let offset = usize::from_str_radix(offset, 16).expect("an offset");
        for (number, byte) in bytes[offset..][..hex.len() / 2].iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * number..2 * number + 2], 16).expect("a byte");
        }
    }
    bytes
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden")).join(name)
}

fn compare(name: &str, text: &str) {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() && !path(name).exists() {
        fs::write(path(name), text).expect("write the image");
    }
    let golden = fs::read_to_string(path(name)).expect("the image");
    let differs = text
        .lines()
        .zip(golden.lines())
        .find(|(line, golden)| line != golden);
    assert_eq!((differs, text.len()), (None, golden.len()), "{name}");
}

fn rows() -> Vec<Row> {
    let row = |number: u64| Row {
        id: FileId(0x0102_0304_0506_0700 + number),
        size_bytes: 1_000_003 * number,
        cut: RowCut {
            size_bytes: 4096 * number,
            epoch: 7 + number,
        },
        earlier_cut: RowCut {
            size_bytes: 100 * number,
            epoch: 3 + number,
        },
        handed_over: PageCache([number as u8; PageCache::BYTES]),
    };
    (1..).map(row).take(ROW_NUMBERS.len()).collect()
}

fn owners() -> Vec<(u32, Owner)> {
    let owner = |number: u64| Owner {
        id: FileId(0x0102_0304_0506_0700 + number),
        part: 2 * number,
    };
    [1, 2, 5000].into_iter().zip((1..).map(owner)).collect()
}

/// A pool in memory over that file beside it, with the volume of a pool of files.
fn pool_over(side: &Backing) -> (Pool, Volume) {
    let pool = Pool::create_on(vec![Region::shadow(4 << 20)], &quiet_pool()).expect("create");
    let name = PathBuf::from("files:/mnt/files");
    let store = VirtualStore::new(name, side.clone(), None, 4096).expect("store");
    let volume = pool.attach(Backing::from_store(Arc::new(store)));
    (pool, volume.expect("attach"))
}

/// The file beside a pool once everything was written back.
fn side() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new(SIDE_BYTES));
    let side = Backing::from_store(store.clone());
    write_owner(&side, &OWNER).expect("write");
    let (_pool, volume) = pool_over(&side);
    let ids = FileIds::open(&volume).expect("open");
    for _ in 0..300 {
        ids.draw().expect("draw");
    }
    let (sizes, _) = SizeTable::open(&volume).expect("open");
    let mut transaction = volume.begin();
    for (number, row) in ROW_NUMBERS.into_iter().zip(rows()) {
        sizes
            .write(&mut transaction, number, Some(&row))
            .expect("write");
    }
    for (number, owner) in owners() {
        write_segment(&mut transaction, number, Some(owner)).expect("write");
    }
    transaction.commit().expect("commit");
    let log = MetadataArea::new(&volume, LOG);
    log.write(
        &[(0, b"the first record"), (log.len() - 8, b"the last")],
        Durable::AtOnce,
    )
    .expect("write");
    volume.flush().expect("flush");
    let cuts = Cuts::open(&side).expect("open");
    for (row, epoch) in MARKS {
        cuts.done(row, epoch).expect("done");
    }
    store
}

/// Blocks of the metadata that are in a pool that files were written to: with a cut that is not durable,
/// one that is known to be, an append within a block, and a file of two segments.
fn tables() -> String {
    let rig = Rig::new(4 << 20);
    let buffer = rig.open().expect("open");
    let make = |name: &str| -> Arc<BufferedFile> {
        let file = buffer.adopt(open_file(&rig.path(name))).expect("adopt");
        file.sync(SyncKind::Data).expect("sync");
        file
    };
    let (appended, cut, long, gone) = (make("appended"), make("cut"), make("long"), make("gone"));
    appended.append(b"the beginning", true).expect("append");
    appended.append(b" and the end", true).expect("append");
    cut.write_at(0, &[1; 20_000], true).expect("write");
    cut.truncate(10_000).expect("cut");
    cut.write_at(12_000, b"behind the cut", true)
        .expect("write");
    cut.truncate(11_000).expect("cut");
    let second_segment = SEGMENT_BLOCKS * 4096;
    long.write_at(second_segment + 5, b"in the second", true)
        .expect("write");
    long.write_at(5, b"in the first", true).expect("write");
    gone.append(b"drained", true).expect("append");
    drop((appended, cut, long, gone));
    drop(buffer);
    let pool = Pool::open_on(vec![rig.region()], quiet()).expect("open");
    let volume = pool.volumes().remove(0);
    let block_bytes = volume.block_size() as u64;
    let mut text = String::new();
    let mut add = |range: Range<u64>| {
        let mut block = vec![0; block_bytes as usize];
        for number in range.start / block_bytes..range.end.div_ceil(block_bytes) {
            if volume.is_resident(number..number + 1) {
                volume.read(number, &mut block).expect("read");
                text += &text_of(number * block_bytes, &block);
            }
        }
    };
    [0..ROWS.start, ROWS, SEGMENTS]
        .into_iter()
        .for_each(&mut add);
    text
}

#[test]
fn the_same_tables_are_the_same_bytes_beside_the_pool() {
    let snapshot = side().snapshot();
    assert_eq!(snapshot.len() as u64, SIDE_BYTES);
    compare("side.txt", &text_of(0, &snapshot));
}

#[test]
fn the_same_writes_of_files_make_the_same_tables() {
    compare("tables.txt", &tables());
}

#[test]
fn what_an_earlier_build_left_beside_a_pool_is_read() {
    let golden = fs::read_to_string(path("side.txt")).expect("the image");
    let store = MemoryStore::from_bytes(bytes_of(&golden, SIDE_BYTES));
    assert_eq!(store.size_bytes(), SIDE_BYTES);
    let side = Backing::from_store(Arc::new(store));
    assert_eq!(read_owner(&side).expect("read"), OWNER);
    let cuts = Cuts::open(&side).expect("open");
    for (row, epoch) in MARKS {
        assert!(cuts.is_done(row, epoch) && !cuts.is_done(row, epoch + 1));
    }
    let (_pool, volume) = pool_over(&side);
    let id = FileIds::open(&volume).expect("open").draw().expect("draw");
    assert_eq!(id, FileId(513));
    let (_, mut used) = SizeTable::open(&volume).expect("open");
    used.sort_unstable_by_key(|(number, _)| *number);
    assert!(used.into_iter().eq(ROW_NUMBERS.into_iter().zip(rows())));
    assert_eq!(SegmentTable::open(&volume).expect("open").1, owners());
    let log = MetadataArea::new(&volume, LOG);
    let mut last = [0; 8];
    log.read(log.len() - 8, &mut last).expect("read");
    assert_eq!(&last, b"the last");
}
