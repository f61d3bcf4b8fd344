//! A small journaling file system in DRAM: it turns operations on files into the blocks that ext4
//! with data journaling would give to the cache below it.
//!
//! It keeps every metadata block whole, as the kernel's buffer cache does, and merges changes into
//! a running transaction, which commits on demand or when the next operation might not fit. What
//! reads and writes do to an inode is what they do in ext4: times, size, blocks, extents, checksum.
//! Data is cached in as many pages as the machine has DRAM for; reads of other blocks, and of those
//! that do not wait in the running transaction, go below.
//!
//! Left out: the superblock's free counts (ext4 writes them at unmount), block preallocation,
//! htree indices (a name's directory block follows from its hash), and extended attributes.

mod bitmap;
mod directory;
mod file;
mod inode;
mod layout;
mod nodes;
mod page_cache;
mod running;

use std::collections::BTreeMap;

use forebay_pmem::crc32c;

use crate::action::{Action, BLOCK_BYTES};
use bitmap::Bitmap;
use layout::{Layout, Place};
use nodes::{Directory, File};
pub use nodes::{DirectoryId, FileId};
use page_cache::PageCache;
use running::Running;

/// Fills block `number` of a file with its new bytes.
pub type Fill<'f> = &'f mut dyn FnMut(u64, &mut [u8]);

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileSystemOptions {
    /// Bytes of the disk; a multiple of the block size.
    pub disk_bytes: u64,
    /// Inodes.
    pub inodes: u64,
    /// Blocks of a transaction at most; at least 16.
    pub transaction_blocks_max: u64,
    /// Blocks of data that DRAM holds.
    pub page_cache_blocks: u64,
}

/// The file system.
pub struct FileSystem {
    layout: Layout,
    transaction_blocks_max: u64,
    blocks: Bitmap,
    inodes: Bitmap,
    /// Whole metadata blocks, changes of the running transaction included.
    metadata: BTreeMap<u64, Box<[u8]>>,
    /// The CRC32C of each data block that was written and not freed.
    digests: Vec<Option<u32>>,
    running: Running,
    pages: PageCache,
    files: Vec<Option<File>>,
    directories: Vec<Directory>,
    /// Where the search for free blocks begins.
    rotor: u64,
    clock_ns: u64,
    /// While the disk is being prepared, its bytes; changes go there and into no transaction.
    image: Option<Vec<u8>>,
}

impl FileSystem {
    /// An empty file system that is being prepared: until [`FileSystem::take_image`], changes go to
    /// the image of the disk.
    ///
    /// # Panics
    /// Where the metadata does not fit the disk, or a transaction is too small.
    #[must_use]
    pub fn new(options: &FileSystemOptions) -> FileSystem {
        assert!(
            options.transaction_blocks_max >= 16,
            "a transaction of {} blocks does not hold one operation",
            options.transaction_blocks_max
        );
        let disk_blocks = options.disk_bytes / BLOCK_BYTES as u64;
        let layout = Layout::new(disk_blocks, options.inodes);
        let mut blocks = Bitmap::new(layout.blocks);
        for block in 0..layout.data_at {
            blocks.set(block, true);
        }
        let zeroes = || vec![0; BLOCK_BYTES].into_boxed_slice();
        let mut file_system = FileSystem {
            layout,
            transaction_blocks_max: options.transaction_blocks_max,
            blocks,
            inodes: Bitmap::new(layout.inodes),
            metadata: (0..layout.data_at).map(|block| (block, zeroes())).collect(),
            digests: vec![None; disk_blocks as usize],
            running: Running::default(),
            pages: PageCache::new(options.page_cache_blocks as usize),
            files: (0..layout.inodes).map(|_| None).collect(),
            directories: Vec::new(),
            rotor: layout.data_at,
            // Some time in 2019.
            clock_ns: 1_566_000_000_000_000_000,
            image: Some(vec![0; options.disk_bytes as usize]),
        };
        for block in (0..layout.data_at).step_by(8) {
            let byte = file_system.blocks.byte(block);
            file_system.put(layout.block_bit(block), &[byte]);
        }
        file_system
    }

    /// Ends the preparation and gives the bytes of the disk away; from now on changes go into
    /// transactions.
    ///
    /// # Panics
    /// When called twice.
    #[must_use]
    pub fn take_image(&mut self) -> Vec<u8> {
        let mut image = self.image.take().expect("the image is taken once");
        for (&block, bytes) in &self.metadata {
            let start = block as usize * BLOCK_BYTES;
            image[start..start + BLOCK_BYTES].copy_from_slice(bytes);
        }
        image
    }

    /// Bytes of the disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.layout.blocks * BLOCK_BYTES as u64
    }

    /// Free blocks.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.blocks.free()
    }

    /// Blocks that the next commit makes durable.
    #[must_use]
    pub fn running_blocks(&self) -> u64 {
        self.running.blocks()
    }

    /// Lets time pass.
    pub fn advance_clock(&mut self, ns: u64) {
        self.clock_ns += ns;
    }

    /// Commits the running transaction, as fsync and the journal's timer do.
    pub fn commit(&mut self, actions: &mut Vec<Action>) {
        let metadata = &self.metadata;
        self.running.drain(|block| &metadata[&block], actions);
    }

    /// The blocks of which something is known, ascending.
    #[must_use]
    pub fn live_blocks(&self) -> Vec<u64> {
        let is_live = |&block: &u64| {
            self.metadata.contains_key(&block) || self.digests[block as usize].is_some()
        };
        (0..self.layout.blocks).filter(is_live).collect()
    }

    /// Whether these are the bytes of a live block once everything is committed.
    #[must_use]
    pub fn is_right(&self, block: u64, bytes: &[u8]) -> bool {
        match self.metadata.get(&block) {
            Some(known) => **known == *bytes,
            None => self.digests[block as usize] == Some(crc32c(bytes)),
        }
    }

    /// Commits if `blocks` more blocks might not fit into the running transaction.
    fn make_room(&mut self, blocks: u64, actions: &mut Vec<Action>) {
        if self.running.blocks() + blocks > self.transaction_blocks_max {
            self.commit(actions);
        }
    }

    /// Changes metadata; what is there already is no change.
    fn put(&mut self, place: Place, bytes: &[u8]) {
        let range = place.offset..place.offset + bytes.len();
        let block = self
            .metadata
            .get_mut(&place.block)
            .expect("metadata blocks are held");
        if block[range.clone()] == *bytes {
            return;
        }
        block[range.clone()].copy_from_slice(bytes);
        if self.image.is_none() {
            self.running.update(place.block, range);
        }
    }

    /// Gives a data block its new bytes.
    fn write_data(&mut self, block: u64, bytes: Box<[u8]>) {
        self.digests[block as usize] = Some(crc32c(&bytes));
        self.pages.touch(block);
        match &mut self.image {
            Some(image) => {
                let start = block as usize * BLOCK_BYTES;
                image[start..start + BLOCK_BYTES].copy_from_slice(&bytes);
            }
            None => self.running.write(block, bytes),
        }
    }

    /// Takes or frees a block, in its bitmap and its group's descriptor.
    fn set_block(&mut self, block: u64, is_used: bool) {
        self.blocks.set(block, is_used);
        let byte = self.blocks.byte(block);
        self.put(self.layout.block_bit(block), &[byte]);
        let free = (self.blocks.free() as u16).to_le_bytes();
        let descriptor = self.layout.descriptor(block);
        // The group's free blocks; its bitmap's checksum; its own.
        self.put(descriptor.plus(12), &free);
        self.put(descriptor.plus(24), &self.mixed_time(2));
        self.put(descriptor.plus(30), &self.mixed_time(3));
    }

    /// Takes or frees an inode, in its bitmap and the descriptor.
    fn set_inode(&mut self, inode: u64, is_used: bool) {
        self.inodes.set(inode, is_used);
        let byte = self.inodes.byte(inode);
        self.put(self.layout.inode_bit(inode), &[byte]);
        let free = (self.inodes.free() as u16).to_le_bytes();
        let descriptor = self.layout.descriptor(0);
        self.put(descriptor.plus(14), &free);
        self.put(descriptor.plus(26), &self.mixed_time(4));
        self.put(descriptor.plus(30), &self.mixed_time(5));
    }

    /// Two bytes in the place of a checksum: they change whenever time has passed, as a checksum does
    /// when what it covers has changed.
    fn mixed_time(&self, salt: u64) -> [u8; 2] {
        let mixed = (self.clock_ns ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed >> 48) as u16).to_le_bytes()
    }
}

#[cfg(test)]
mod tests;
