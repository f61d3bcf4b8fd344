//! Files: create, write, append, read, delete.

use super::layout::{INODE_BYTES, Place};
use super::nodes::{DirectoryId, Extent, File, FileId};
use super::{FileSystem, Fill, inode};
use crate::action::{Action, BLOCK_BYTES};
use forebay_pmem::crc32c;

/// Blocks that one handle of the journal writes at most; ext4 opens a handle for each run of pages.
const HANDLE_BLOCKS: u64 = 8;
/// Metadata blocks that one operation changes at most: two inodes, an extent leaf, a directory block,
/// two bitmaps, two descriptors.
const HANDLE_METADATA: u64 = 8;
/// Blocks of an extent at most.
const EXTENT_BLOCKS_MAX: u64 = 32_768;
/// Extents that a leaf block holds.
const LEAF_EXTENTS_MAX: usize = 340;

impl FileSystem {
    /// Makes an empty file with a name.
    ///
    /// # Panics
    /// Where there are no inodes left.
    pub fn create(
        &mut self,
        directory: DirectoryId,
        name: u64,
        actions: &mut Vec<Action>,
    ) -> FileId {
        self.make_room(HANDLE_METADATA, actions);
        let inode = self.take_inode();
        let entry = self.link(directory, inode, name);
        let place = self.layout.inode(inode);
        self.put(place, &[0; INODE_BYTES]);
        self.put(place.plus(inode::MODE), &0o100_600_u16.to_le_bytes());
        self.put(place.plus(inode::LINKS), &1_u16.to_le_bytes());
        let header = inode::extent_header(0, inode::EXTENTS_MAX as u16, 0);
        self.put(place.plus(inode::EXTENTS), &header);
        let (seconds, extra) = self.time();
        self.put(place.plus(inode::CREATED), &seconds);
        self.put(place.plus(inode::CREATED + 4), &extra);
        self.note_times(inode, &[inode::ACCESSED, inode::CHANGED, inode::MODIFIED]);
        self.files[inode as usize] = Some(File {
            directory,
            entry,
            extents: Vec::new(),
            blocks: 0,
            version: 0,
            leaf: None,
        });
        FileId(inode)
    }

    /// Blocks of a file.
    #[must_use]
    pub fn file_blocks(&self, file: FileId) -> u64 {
        self.file(file).blocks
    }

    /// Writes `count` blocks from block `first` of the file on, in place where it has them, appended
    /// where it ends.
    ///
    /// # Panics
    /// Where that would leave a hole, or the disk is full.
    pub fn write(
        &mut self,
        file: FileId,
        first: u64,
        count: u64,
        fill: Fill<'_>,
        actions: &mut Vec<Action>,
    ) {
        assert!(first <= self.file(file).blocks, "a file has no holes");
        let mut number = first;
        while number < first + count {
            let end = (first + count).min(number + HANDLE_BLOCKS);
            self.make_room(end - number + HANDLE_METADATA, actions);
            let missing = end.saturating_sub(self.file(file).blocks);
            if missing > 0 {
                self.extend(file, missing);
            }
            for logical in number..end {
                let mut bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
                fill(logical, &mut bytes);
                let block = self.block_of(file, logical);
                self.write_data(block, bytes);
            }
            self.note_write(file);
            number = end;
        }
    }

    /// Appends `count` blocks.
    ///
    /// # Panics
    /// Where the disk is full.
    pub fn append(&mut self, file: FileId, count: u64, fill: Fill<'_>, actions: &mut Vec<Action>) {
        let first = self.file(file).blocks;
        self.write(file, first, count, fill, actions);
    }

    /// Reads `count` blocks from block `first` of the file on, as many as it has, and notes the time
    /// of the access.
    pub fn read(&mut self, file: FileId, first: u64, count: u64, actions: &mut Vec<Action>) {
        self.make_room(HANDLE_METADATA, actions);
        self.read_quietly(file, first, count, actions);
        self.note_times(file.0, &[inode::ACCESSED]);
    }

    /// The same under `O_NOATIME`, as databases read: the inode stays as it is.
    pub fn read_quietly(
        &mut self,
        file: FileId,
        first: u64,
        count: u64,
        actions: &mut Vec<Action>,
    ) {
        let end = self.file(file).blocks.min(first + count);
        let mut run: Option<(u64, u32)> = None;
        for logical in first..end {
            let block = self.block_of(file, logical);
            // Both are asked: a block that waits is a page in use.
            let is_paged = self.pages.touch(block);
            if is_paged || self.running.has_data(block) {
                continue;
            }
            run = match run {
                Some((start, blocks)) if start + u64::from(blocks) == block => {
                    Some((start, blocks + 1))
                }
                other => {
                    actions.extend(other.map(read_action));
                    Some((block, 1))
                }
            };
        }
        actions.extend(run.map(read_action));
    }

    /// Gives a file's inode all new bytes, whatever they mean: the file is for nothing else after.
    pub fn replace_inode(
        &mut self,
        file: FileId,
        bytes: &[u8; INODE_BYTES],
        actions: &mut Vec<Action>,
    ) {
        self.make_room(HANDLE_METADATA, actions);
        let place = self.layout.inode(file.0);
        self.put(place, bytes);
    }

    /// Removes a file and its name.
    pub fn delete(&mut self, file: FileId, actions: &mut Vec<Action>) {
        self.make_room(HANDLE_METADATA, actions);
        let gone = self.files[file.0 as usize]
            .take()
            .expect("the file is there");
        self.unlink(gone.directory, gone.entry);
        for extent in &gone.extents {
            for block in extent.block..extent.block + extent.len {
                self.running.forget(block);
                self.pages.forget(block);
                self.digests[block as usize] = None;
                self.set_block(block, false);
            }
        }
        if let Some(leaf) = gone.leaf {
            self.running.forget(leaf);
            self.metadata.remove(&leaf);
            self.set_block(leaf, false);
        }
        let place = self.layout.inode(file.0);
        let (seconds, _) = self.time();
        self.put(place.plus(inode::DELETED), &seconds);
        self.put(place.plus(inode::LINKS), &[0; 2]);
        self.put(place.plus(inode::SIZE), &[0; 4]);
        self.put(place.plus(inode::BLOCKS), &[0; 4]);
        let header = inode::extent_header(0, inode::EXTENTS_MAX as u16, 0);
        self.put(place.plus(inode::EXTENTS), &header);
        self.note_times(file.0, &[inode::CHANGED, inode::MODIFIED]);
        self.set_inode(file.0, false);
    }

    fn file(&self, file: FileId) -> &File {
        let found = self.files[file.0 as usize].as_ref();
        found.expect("the file is there")
    }

    fn block_of(&self, file: FileId, logical: u64) -> u64 {
        let extents = &self.file(file).extents;
        let after = extents.partition_point(|extent| extent.logical <= logical);
        let extent = extents[after - 1];
        extent.block + (logical - extent.logical)
    }

    /// Adds blocks at the file's end: after its last one where these are free, or where the last
    /// search ended.
    fn extend(&mut self, file: FileId, mut missing: u64) {
        while missing > 0 {
            let last = self.file(file).extents.last().copied();
            let goal = last.map_or(self.rotor, |last| last.block + last.len);
            let goal = goal.min(self.layout.blocks - 1);
            let (start, len) = self.blocks.run(self.layout.data_at, goal, missing);
            assert!(len > 0, "the modelled disk is full");
            for block in start..start + len {
                self.set_block(block, true);
            }
            self.rotor = start + len;
            let found = self.files[file.0 as usize]
                .as_mut()
                .expect("the file is there");
            add_extent(&mut found.extents, found.blocks, start, len);
            found.blocks += len;
            missing -= len;
        }
        self.put_extents(file);
    }

    /// Writes the extents into the inode, or into a leaf below it.
    fn put_extents(&mut self, file: FileId) {
        let extents = self.file(file).extents.clone();
        assert!(
            extents.len() <= LEAF_EXTENTS_MAX,
            "a file has one leaf of extents"
        );
        let place = self.layout.inode(file.0).plus(inode::EXTENTS);
        let (node, entries_max) = if extents.len() <= inode::EXTENTS_MAX {
            (place, inode::EXTENTS_MAX)
        } else {
            let leaf = self.leaf_of(file);
            self.put(
                place,
                &inode::extent_header(1, inode::EXTENTS_MAX as u16, 1),
            );
            let index = inode::extent(0, 0, leaf);
            self.put(place.plus(inode::EXTENT_BYTES), &index);
            let node = Place {
                block: leaf,
                offset: 0,
            };
            let checksum = [self.mixed_time(8), self.mixed_time(9)].concat();
            self.put(node.plus(BLOCK_BYTES - 4), &checksum);
            (node, LEAF_EXTENTS_MAX)
        };
        let header = inode::extent_header(extents.len() as u16, entries_max as u16, 0);
        self.put(node, &header);
        for (number, extent) in (1..).zip(&extents) {
            let bytes = inode::extent(extent.logical as u32, extent.len as u16, extent.block);
            self.put(node.plus(number * inode::EXTENT_BYTES), &bytes);
        }
    }

    fn leaf_of(&mut self, file: FileId) -> u64 {
        if let Some(leaf) = self.file(file).leaf {
            return leaf;
        }
        let leaf = self.take_metadata_block();
        let found = self.files[file.0 as usize]
            .as_mut()
            .expect("the file is there");
        found.leaf = Some(leaf);
        leaf
    }

    /// What every write of a file changes in its inode.
    fn note_write(&mut self, file: FileId) {
        let found = self.files[file.0 as usize]
            .as_mut()
            .expect("the file is there");
        found.version += 1;
        let (blocks, version) = (
            found.blocks + u64::from(found.leaf.is_some()),
            found.version,
        );
        let size = (found.blocks * BLOCK_BYTES as u64) as u32;
        let sectors = (blocks * BLOCK_BYTES as u64 / 512) as u32;
        let place = self.layout.inode(file.0);
        self.put(place.plus(inode::SIZE), &size.to_le_bytes());
        self.put(place.plus(inode::BLOCKS), &sectors.to_le_bytes());
        self.put(place.plus(inode::VERSION), &version.to_le_bytes());
        self.note_times(file.0, &[inode::CHANGED, inode::MODIFIED]);
    }

    /// Sets these times of an inode to now, and its checksum to what follows.
    pub(super) fn note_times(&mut self, inode: u64, fields: &[usize]) {
        let place = self.layout.inode(inode);
        let (seconds, extra) = self.time();
        for &field in fields {
            let extra_at = match field {
                inode::ACCESSED => inode::ACCESSED_EXTRA,
                inode::CHANGED => inode::CHANGED_EXTRA,
                _ => inode::MODIFIED_EXTRA,
            };
            self.put(place.plus(field), &seconds);
            self.put(place.plus(extra_at), &extra);
        }
        let block = &self.metadata[&place.block];
        let checksum = crc32c(&block[place.offset..place.offset + inode::CHECKSUM_LOW]);
        let checksum = (checksum ^ u32::from_le_bytes(extra)).to_le_bytes();
        self.put(place.plus(inode::CHECKSUM_LOW), &checksum[..2]);
        self.put(place.plus(inode::CHECKSUM_HIGH), &checksum[2..]);
    }

    /// Seconds, and nanoseconds as ext4 packs them.
    fn time(&self) -> ([u8; 4], [u8; 4]) {
        let seconds = (self.clock_ns / 1_000_000_000) as u32;
        let extra = (self.clock_ns % 1_000_000_000) as u32;
        (seconds.to_le_bytes(), (extra << 2).to_le_bytes())
    }

    pub(super) fn take_inode(&mut self) -> u64 {
        let inode = self.inodes.first_free(0).expect("there are inodes left");
        self.set_inode(inode, true);
        inode
    }

    /// A zeroed block for directories or extents.
    pub(super) fn take_metadata_block(&mut self) -> u64 {
        let (block, len) = self.blocks.run(self.layout.data_at, self.rotor, 1);
        assert!(len == 1, "the modelled disk is full");
        self.set_block(block, true);
        self.metadata.insert(block, vec![0; BLOCK_BYTES].into());
        if self.image.is_none() {
            self.running.update(block, 0..BLOCK_BYTES);
        }
        block
    }
}

fn read_action((block, blocks): (u64, u32)) -> Action {
    Action::Read { block, blocks }
}

/// Adds blocks to the last extent where they follow it, or new extents.
fn add_extent(extents: &mut Vec<Extent>, mut logical: u64, mut block: u64, mut len: u64) {
    if let Some(last) = extents.last_mut()
        && last.block + last.len == block
    {
        let more = len.min(EXTENT_BLOCKS_MAX - last.len);
        last.len += more;
        (logical, block, len) = (logical + more, block + more, len - more);
    }
    while len > 0 {
        let part = len.min(EXTENT_BLOCKS_MAX);
        extents.push(Extent {
            logical,
            block,
            len: part,
        });
        (logical, block, len) = (logical + part, block + part, len - part);
    }
}
