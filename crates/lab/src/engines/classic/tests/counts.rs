//! Exactly what Classic writes.

use crate::{Engine, EngineStats};
use forebay::{Backing, Region};

use crate::engines::{EngineName, EngineOptions, create};

const BLOCK_BYTES: usize = 4096;
/// Lines of a write through the cache: the block's and its metadata block's.
const WRITE_LINES: u64 = 2 * 64;
const WRITE_FENCES: u64 = 2;

/// An engine of one set, which cleans nothing by itself up to a fifth of its slots.
fn engine(slots: u64, disk_blocks: u64, journal_blocks: u64) -> Box<dyn Engine> {
    with_options(
        slots,
        disk_blocks,
        &EngineOptions {
            journal_blocks: Some(journal_blocks),
            set_blocks: slots as usize,
            ..EngineOptions::default()
        },
    )
}

fn with_options(slots: u64, disk_blocks: u64, options: &EngineOptions) -> Box<dyn Engine> {
    let block_bytes = BLOCK_BYTES as u64;
    let region = Region::shadow((1 + slots + slots.div_ceil(256)) * block_bytes);
    let backing = Backing::memory(disk_blocks * block_bytes);
    let engine = create(EngineName::Classic, region, backing, options).unwrap();
    assert_eq!(engine.stats().slots, slots);
    engine
}

fn commit(engine: &dyn Engine, blocks: std::ops::Range<u64>) {
    let mut transaction = engine.begin();
    for block in blocks {
        transaction
            .write(block, &[block as u8; BLOCK_BYTES])
            .unwrap();
    }
    transaction.commit().unwrap();
}

fn spent(engine: &dyn Engine, act: impl FnOnce()) -> EngineStats {
    let before = engine.stats();
    act();
    let mut spent = engine.stats();
    spent.memory = spent.memory - before.memory;
    spent.backing.blocks_written -= before.backing.blocks_written;
    spent.backing.syncs -= before.backing.syncs;
    spent
}

#[test]
fn a_commit_writes_descriptor_log_and_commit_blocks() {
    for flushes_content in [false, true] {
        let options = EngineOptions {
            journal_blocks: Some(1024),
            set_blocks: 8192,
            flushes_content,
            ..EngineOptions::default()
        };
        count_commits(&*with_options(8192, 4096, &options), flushes_content);
    }
}

/// They cost the same lines whichever way those are sent.
fn count_commits(engine: &dyn Engine, flushes_content: bool) {
    assert_eq!(engine.size_bytes(), 3072 * 4096);
    // 254 tags fit a descriptor.
    for (blocks, written) in [
        (0..1, 3),
        (0..1, 3),
        (1..11, 12),
        (11..265, 256),
        (265..520, 258),
    ] {
        let spent = spent(engine, || commit(engine, blocks.clone()));
        assert_eq!(spent.memory.lines(), written * WRITE_LINES, "{blocks:?}");
        assert_eq!(spent.memory.fences, written * WRITE_FENCES, "{blocks:?}");
        let in_the_other_way = match flushes_content {
            true => spent.memory.lines_streamed,
            false => spent.memory.lines_flushed,
        };
        assert_eq!(in_the_other_way, 0);
        assert_eq!(spent.backing.blocks_written, 0);
    }
    let stats = engine.stats();
    assert_eq!((stats.commits, stats.blocks_committed), (5, 521));
    assert_eq!(stats.write_hits, 1);
}

#[test]
fn without_metadata_a_commit_costs_half() {
    let options = EngineOptions {
        updates_metadata: false,
        ..EngineOptions::default()
    };
    let engine = with_options(2048, 8192, &options);
    let spent = spent(&*engine, || commit(&*engine, 0..10));
    assert_eq!(spent.memory.lines(), 12 * WRITE_LINES / 2);
    assert_eq!(spent.memory.fences, 12);
}

#[test]
fn a_flush_writes_each_block_once_to_its_place() {
    let engine = engine(8192, 4096, 1024);
    commit(&*engine, 0..100);
    commit(&*engine, 50..150);
    let spent = spent(&*engine, || engine.flush().unwrap());
    // 150 blocks and the superblock through the cache; then these and two transactions of 102 blocks
    // in the log to the disk. The entries of 355 slots lie in two metadata blocks.
    let metadata_blocks = 2;
    let cleaned = metadata_blocks * 64;
    assert_eq!(spent.memory.lines(), 151 * WRITE_LINES + cleaned);
    assert_eq!(spent.memory.fences, 151 * WRITE_FENCES + metadata_blocks);
    assert_eq!(spent.backing.blocks_written, 150 + 2 * 102 + 1);
    assert_eq!(spent.backing.syncs, 1);
    assert_eq!(spent.dirty_blocks, 0);
    let again = self::spent(&*engine, || engine.flush().unwrap());
    assert_eq!(again.memory.lines(), 0);
    assert_eq!(again.backing.blocks_written, 0);
}

#[test]
fn a_set_above_its_threshold_is_cleaned() {
    // 16 sets of 512; blocks 0 to 511 share one, and so do the log's first blocks.
    let options = EngineOptions {
        journal_mode: crate::engines::JournalMode::None,
        ..EngineOptions::default()
    };
    let engine = with_options(8192, 4096, &options);
    let threshold = 512 * 20 / 100;
    for block in 0..threshold {
        engine.write(2 * block, &[1; BLOCK_BYTES]).unwrap();
    }
    assert_eq!(engine.stats().dirty_blocks, threshold);
    assert_eq!(engine.stats().backing.blocks_written, 0);
    // One block more: the oldest is cleaned, for a disk block and a metadata block.
    let spent = spent(&*engine, || engine.write(1, &[2; BLOCK_BYTES]).unwrap());
    // Block 1 lies between 0 and 2, and the dirty ones next to the oldest go with it.
    assert_eq!(spent.backing.blocks_written, 3);
    assert_eq!(spent.dirty_blocks, threshold - 2);
    assert_eq!(spent.memory.lines(), WRITE_LINES + 64);
    assert_eq!(spent.memory.fences, WRITE_FENCES + 1);
    assert_eq!(spent.backing.syncs, 1);
}

#[test]
fn a_read_miss_is_brought_in_without_metadata() {
    let engine = engine(2048, 4096, 256);
    let mut out = [0; BLOCK_BYTES];
    let first = spent(&*engine, || engine.read(7, &mut out).unwrap());
    assert_eq!((first.memory.lines(), first.memory.fences), (64, 1));
    assert_eq!((first.read_misses, first.read_hits), (1, 0));
    let again = spent(&*engine, || engine.read(7, &mut out).unwrap());
    assert_eq!((again.memory.lines(), again.memory.fences), (0, 0));
    assert_eq!((again.read_misses, again.read_hits), (1, 1));
    assert_eq!(again.cached_blocks, 1);
}
