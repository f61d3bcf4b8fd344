//! Directories: blocks of names, found by the name's hash.

use super::layout::Place;
use super::nodes::{Directory, DirectoryId};
use super::{FileSystem, inode};
use crate::action::BLOCK_BYTES;

/// Bytes of an entry: inode, lengths, type, and a name of up to 24 bytes.
const ENTRY_BYTES: usize = 32;
/// Entries of a block; the last 12 bytes are the block's checksum.
const ENTRIES: usize = BLOCK_BYTES / ENTRY_BYTES - 1;
/// Where the checksum's four bytes are.
const CHECKSUM_AT: usize = BLOCK_BYTES - 4;

impl FileSystem {
    /// Makes a directory that holds `names` names. Only while the disk is being prepared.
    ///
    /// # Panics
    /// Where there is no room for it, or the preparation is over.
    pub fn create_directory(&mut self, names: usize) -> DirectoryId {
        assert!(self.image.is_some(), "directories are made beforehand");
        // Half full on average, so that no block overflows.
        let len = (names * 2).div_ceil(ENTRIES);
        let blocks: Vec<u64> = (0..len).map(|_| self.take_metadata_block()).collect();
        let inode = self.take_inode();
        let taken = vec![0; len];
        self.directories.push(Directory {
            inode,
            blocks,
            taken,
        });
        DirectoryId(self.directories.len() - 1)
    }

    /// Writes a name for the inode; returns where.
    pub(super) fn link(&mut self, directory: DirectoryId, inode: u64, name: u64) -> Place {
        let found = &mut self.directories[directory.0];
        let len = found.blocks.len();
        let index = (0..len)
            .map(|further| (name as usize + further) % len)
            .find(|&index| (found.taken[index].trailing_ones() as usize) < ENTRIES)
            .expect("a directory is at most half full");
        let entry = found.taken[index].trailing_ones() as usize;
        found.taken[index] |= 1 << entry;
        let place = Place {
            block: found.blocks[index],
            offset: entry * ENTRY_BYTES,
        };
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..4].copy_from_slice(&(inode as u32).to_le_bytes());
        bytes[4..8].copy_from_slice(&[ENTRY_BYTES as u8, 0, 16, 1]);
        bytes[8..24].copy_from_slice(format!("{name:016x}").as_bytes());
        self.put(place, &bytes[..24]);
        self.note_directory(directory, place);
        place
    }

    /// Removes the name at `place`.
    pub(super) fn unlink(&mut self, directory: DirectoryId, place: Place) {
        let found = &mut self.directories[directory.0];
        let index = found
            .blocks
            .iter()
            .position(|&block| block == place.block)
            .expect("an entry lies in its directory");
        found.taken[index] &= !(1 << (place.offset / ENTRY_BYTES));
        self.put(place, &[0; 4]);
        self.note_directory(directory, place);
    }

    /// What every change of a directory changes too: the block's checksum, the directory's times.
    fn note_directory(&mut self, directory: DirectoryId, place: Place) {
        let checksum = Place {
            block: place.block,
            offset: CHECKSUM_AT,
        };
        let mixed = [self.mixed_time(6), self.mixed_time(7)].concat();
        self.put(checksum, &mixed);
        let inode = self.directories[directory.0].inode;
        self.note_times(inode, &[inode::CHANGED, inode::MODIFIED]);
    }
}
