//! A small disk with an ext4 on it in front of a pool, and a journal that is written as a file system does.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use forebay::{Backing, FaultyStore, MemoryStore, PoolOptions, Stats, Volume};

use crate::fixtures::journal_locate::seed_disk;
use crate::rig::{BLOCK, Rig, bytes_of, rig_with};

/// Blocks of the seed disk's journal: its superblock is the first, the last 16 are for fast commits.
pub const JOURNAL: [Range<u64>; 2] = [17..57, 100..1100];
pub const RING_BLOCKS: u64 = 1040 - 1 - 16;
/// The first block of the disk that nothing of the file system is in.
pub const HOME: u64 = 2048;

/// A disk with an ext4 of 1040 journal blocks, in front of it a pool, and what the disk must hold.
pub struct Disk {
    pub rig: Rig,
    pub store: Arc<MemoryStore>,
    pub faults: Arc<FaultyStore>,
    pub volume: Volume,
    pub model: BTreeMap<u64, Vec<u8>>,
}

pub fn seed_image(blocks: u64) -> Vec<u8> {
    let mut image = seed_disk(0);
    image.resize(blocks as usize * BLOCK, 0);
    image
}

impl Disk {
    pub fn new(
        pool_bytes: u64,
        disk_blocks: u64,
        adjust: impl FnOnce(PoolOptions) -> PoolOptions,
    ) -> Disk {
        Disk::of(seed_image(disk_blocks), pool_bytes, adjust)
    }

    pub fn of(
        image: Vec<u8>,
        pool_bytes: u64,
        adjust: impl FnOnce(PoolOptions) -> PoolOptions,
    ) -> Disk {
        let rig = rig_with(pool_bytes, |options| {
            adjust(options.test_pool(true).background(false))
        });
        let store = Arc::new(MemoryStore::from_bytes(image));
        let faults = Arc::new(FaultyStore::new(store.clone()));
        let volume = rig
            .pool
            .attach(Backing::from_store(faults.clone()))
            .unwrap();
        Disk {
            rig,
            store,
            faults,
            volume,
            model: BTreeMap::new(),
        }
    }

    pub fn write(&mut self, block: u64, bytes: Vec<u8>) {
        self.volume.write(block, &bytes).unwrap();
        self.model.insert(block, bytes);
    }

    pub fn stats(&self) -> Stats {
        self.rig.pool.stats()
    }

    /// As the flusher does above its low watermark.
    pub fn write_back_down_to(&self, dirty: u64) {
        while self.stats().dirty_blocks > dirty {
            self.rig.pool.write_back_once().unwrap();
        }
    }

    /// Everything is on the disk as it was written.
    pub fn check_drained(&self) {
        self.volume.flush().unwrap();
        let stats = self.stats();
        assert_eq!((stats.dirty_blocks, stats.journal_deferred_blocks), (0, 0));
        let bytes = self.store.snapshot();
        for (block, expected) in &self.model {
            let at = *block as usize * BLOCK;
            assert!(bytes[at..at + BLOCK] == expected[..], "block {block}");
        }
    }

    pub fn blocks_written(&self) -> u64 {
        self.stats().volumes[0].backing.blocks_written
    }
}

/// A journal as a file system writes it: transaction by transaction, round and round.
pub struct Ring {
    /// Its blocks in the order of the ring.
    pub blocks: Vec<u64>,
    pub next: usize,
    pub sequence: u32,
}

impl Ring {
    pub fn of_seed_disk() -> Ring {
        let blocks = JOURNAL.into_iter().flatten().skip(1);
        Ring {
            blocks: blocks.take(RING_BLOCKS as usize).collect(),
            next: 0,
            sequence: 1,
        }
    }

    pub fn write(&mut self, disk: &mut Disk, bytes: Vec<u8>) {
        let block = self.blocks[self.next % self.blocks.len()];
        self.next += 1;
        disk.write(block, bytes);
    }

    pub fn header(&self, kind: u32) -> Vec<u8> {
        // Mostly zeroes, which a pool stores packed.
        let mut bytes = vec![0; BLOCK];
        for (at, value) in [(0, 0xC03B_3998), (4, kind), (8, self.sequence)] {
            bytes[at..at + 4].copy_from_slice(&u32::to_be_bytes(value));
        }
        bytes
    }

    /// A descriptor, `count` blocks, and the commit block.
    pub fn transaction(&mut self, disk: &mut Disk, count: u64) {
        self.write(disk, self.header(1));
        for number in 0..count {
            self.write(disk, bytes_of(self.next as u64, 100 + number));
        }
        self.write(disk, self.header(2));
        self.sequence += 1;
    }
}
