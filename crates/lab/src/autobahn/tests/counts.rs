//! What a write costs the region, exactly.

use std::path::Path;

use forebay_pmem::Region;

use super::files::{MemoryFolder, Survivors};
use super::world::bytes_of;
use crate::autobahn::{AutoBahn, AutoBahnFile, AutoBahnOptions, WriteMode};

const BLOCK: u64 = 16 << 10;

fn buffer(options: &AutoBahnOptions) -> (AutoBahn, AutoBahnFile) {
    let full = Survivors::from([("full".into(), (7, bytes_of(1, 4 * BLOCK as usize)))]);
    let folder = MemoryFolder::holding(&full);
    let buffer = AutoBahn::create(Region::shadow(2 << 20), folder, options).expect("created");
    let file = buffer
        .open_file(Path::new("full"), WriteMode::Partial)
        .expect("open");
    (buffer, file)
}

fn quiet() -> AutoBahnOptions {
    AutoBahnOptions {
        background: false,
        ..AutoBahnOptions::default()
    }
}

/// Lines and fences of what is done.
fn cost(buffer: &AutoBahn, act: impl FnOnce()) -> (u64, u64) {
    let before = buffer.counters();
    act();
    let spent = buffer.counters() - before;
    (spent.lines(), spent.fences)
}

#[test]
fn an_append_costs_its_bytes_the_size_and_two_fences() {
    for flush_content in [false, true] {
        let options = AutoBahnOptions {
            flush_content,
            ..quiet()
        };
        let (buffer, mut file) = buffer(&options);
        for (unit, lines) in [(256, 4), (4096, 64)] {
            for number in 0..3 * BLOCK / unit {
                let begins = file.size_bytes().is_multiple_of(BLOCK);
                let data = bytes_of(number, unit as usize);
                let spent = cost(&buffer, || file.append(&data).expect("appended"));
                // The size's line; of a new block its inode's, under the same fence as the bytes.
                assert_eq!(spent, (lines + 1 + u64::from(begins), 2), "{unit} {number}");
            }
        }
    }
}

#[test]
fn an_append_to_a_block_that_was_flushed_says_that_it_is_dirty_again() {
    let (buffer, mut file) = buffer(&quiet());
    file.append(&[1; 256]).expect("appended");
    buffer.run_stages().expect("flushed");
    // Nothing is reclaimed that need not be, but run_stages reclaims all: the tail is read back whole.
    let spent = cost(&buffer, || file.append(&[2; 256]).expect("appended"));
    assert_eq!(
        spent,
        (8 + 1 + 1, 3),
        "the block's bytes so far are durable before its inode"
    );
}

#[test]
fn an_overwrite_costs_the_whole_block_its_inode_and_two_fences() {
    let (buffer, mut file) = buffer(&quiet());
    let mut write = |offset: u64, len: usize| {
        cost(&buffer, || {
            file.write_at(offset, &bytes_of(offset, len))
                .expect("written")
        })
    };
    // §5.2.1: "the data in the old block needs to be copied".
    for (offset, len) in [(0, 256), (256, 256), (BLOCK, 4096), (BLOCK + 4096, 4096)] {
        assert_eq!(write(offset, len), (256 + 1, 2), "{len} bytes at {offset}");
    }
    for _ in 0..2 {
        assert_eq!(
            write(2 * BLOCK, BLOCK as usize),
            (256 + 1, 2),
            "a whole block"
        );
    }
    let spent = write(4 * BLOCK - 100, 200);
    // 256 lines of the block before and 2 bytes' worth of the next one's: its line, its inode, the size.
    assert_eq!(spent, (256 + 1 + 2 + 1 + 1, 4), "over the end of a block");
}

#[test]
fn neighbours_are_flushed_in_one_write_and_one_sync() {
    let (buffer, mut file) = buffer(&quiet());
    for number in 0..8 {
        file.append(&bytes_of(number, BLOCK as usize))
            .expect("appended");
    }
    let before = buffer.counters();
    buffer.run_stages().expect("flushed");
    let spent = buffer.counters() - before;
    // A line for each inode's state: the lines are shared, and flushed for each. A fence for all.
    assert_eq!((spent.lines(), spent.fences), (8, 1));
    let stages = buffer.stages();
    let told = (
        stages.flushed_blocks,
        stages.flush_writes,
        stages.syncs,
        stages.reclaimed_blocks,
    );
    assert_eq!(told, (8, 1, 1, 8));
}

#[test]
fn opening_and_closing_a_file_cost_its_volume() {
    let (buffer, file) = buffer(&quiet());
    let spent = cost(&buffer, || file.close().expect("closed"));
    assert_eq!(spent, (1, 2), "nothing was dirty");
    let mut opened = None;
    let spent = cost(&buffer, || {
        opened = buffer.open_file(Path::new("new"), WriteMode::Partial).ok();
    });
    assert_eq!(spent, (3, 2), "the path, the words, the flags");
    assert_eq!(opened.expect("open").size_bytes(), 0);
}
