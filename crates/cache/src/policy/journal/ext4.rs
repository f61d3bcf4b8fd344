//! The superblock of ext3 and ext4, little-endian, and where the journal's inode maps it (Linux,
//! `Documentation/filesystems/ext4/`, `super.rst`, `ifork.rst`, `blockmap.rst`).

use super::jbd2;
use super::located::{JOURNAL_BYTES_MAX, Journal, JournalKind, JournalRun, Located, RUNS_MAX};
use super::region::{Region, le16, le32};

const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MAGIC: u16 = 0xEF53;
const COMPAT_HAS_JOURNAL: u32 = 0x4;
const INCOMPAT_JOURNAL_DEV: u32 = 0x8;
const INCOMPAT_64BIT: u32 = 0x80;
const EXTENT_MAGIC: u16 = 0xF30A;
/// Levels of an extent tree below its root; of indirect blocks one less.
const EXTENT_DEPTH_MAX: u16 = 5;
/// An extent that is longer is one that was not written yet, and shorter by this.
const EXTENT_BLOCKS_MAX: u64 = 32768;
/// Bytes of an inode's map of its blocks.
const MAP_BYTES: usize = 60;
/// Where the inode has that map.
const INODE_MAP_AT: usize = 40;

/// What is needed of the superblock.
struct Superblock {
    block_bytes: u64,
    first_data_block: u64,
    inodes_per_group: u32,
    inode_bytes: u64,
    descriptor_bytes: u64,
    journal_inode: u32,
    /// The copy of the journal inode's map, where there is one.
    backup: Option<[u8; MAP_BYTES]>,
    is_journal_device: bool,
}

impl Superblock {
    fn parse(raw: &[u8]) -> Option<Superblock> {
        let block_bits = le32(raw, 24);
        if le16(raw, 56) != MAGIC || block_bits > 6 {
            return None;
        }
        let (compat, incompat) = (le32(raw, 92), le32(raw, 96));
        let is_journal_device = incompat & INCOMPAT_JOURNAL_DEV != 0;
        let journal_inode = le32(raw, 224);
        let has_journal = compat & COMPAT_HAS_JOURNAL != 0 && journal_inode != 0;
        if !has_journal && !is_journal_device {
            return None;
        }
        let mut map = [0; MAP_BYTES];
        map.copy_from_slice(&raw[268..268 + MAP_BYTES]);
        let has_64bit = incompat & INCOMPAT_64BIT != 0;
        Some(Superblock {
            block_bytes: 1024 << block_bits,
            first_data_block: le32(raw, 20).into(),
            inodes_per_group: le32(raw, 40),
            inode_bytes: if le32(raw, 76) == 0 {
                128
            } else {
                le16(raw, 88).into()
            },
            descriptor_bytes: if has_64bit { le16(raw, 254).into() } else { 32 },
            journal_inode,
            backup: (raw[253] <= 1 && map != [0; MAP_BYTES]).then_some(map),
            is_journal_device,
        })
    }
}

/// Adds the journal of a file system in `region`, or the region if it is a journal itself.
pub(super) fn find(region: &Region<'_>, located: &mut Located) {
    located
        .watched_offsets
        .extend(region.on_volume(SUPERBLOCK_AT));
    let raw = region.read(SUPERBLOCK_AT, SUPERBLOCK_BYTES);
    let Some(superblock) = raw.and_then(|raw| Superblock::parse(&raw)) else {
        return;
    };
    let journal = if superblock.is_journal_device {
        journal_device(region, &superblock)
    } else {
        // The copy is in the block at hand; the inode counts where it does not lead to a journal.
        let copied = superblock.backup.as_ref();
        copied
            .and_then(|map| mapped_journal(region, &superblock, map))
            .or_else(|| {
                let map = inode_map(region, &superblock)?;
                mapped_journal(region, &superblock, &map)
            })
    };
    match journal {
        // Such a device has nothing else.
        Some(journal) if superblock.is_journal_device => {
            located.add_within(JOURNAL_BYTES_MAX, journal);
        }
        Some(journal) => located.add(journal, region.volume_bytes()),
        None => located.is_incomplete = true,
    }
}

/// A device that is nothing but a journal: its superblock is in the block after that of ext4, and its
/// blocks are numbered from the beginning of the device.
fn journal_device(region: &Region<'_>, superblock: &Superblock) -> Option<Journal> {
    let block_bytes = superblock.block_bytes;
    let at = (SUPERBLOCK_AT / block_bytes + 1) * block_bytes;
    let raw = region.read(at, jbd2::SUPERBLOCK_BYTES)?;
    let log = jbd2::Superblock::parse(&raw, block_bytes)?;
    let mut runs = Runs::new(region, block_bytes, log.blocks);
    runs.add(0, 0, log.blocks);
    Some(runs.journal(log))
}

fn mapped_journal(
    region: &Region<'_>,
    superblock: &Superblock,
    map: &[u8; MAP_BYTES],
) -> Option<Journal> {
    let block_bytes = superblock.block_bytes;
    // The first block tells how many there are.
    let mut first = Runs::new(region, block_bytes, 1);
    first.walk(map)?;
    let at = first.found.first().filter(|run| run.journal_offset == 0)?;
    let on_region = at.disk_offset - region.on_volume(0)?;
    let raw = region.read(on_region, jbd2::SUPERBLOCK_BYTES)?;
    let log = jbd2::Superblock::parse(&raw, block_bytes)?;
    let mut runs = Runs::new(region, block_bytes, log.blocks);
    runs.walk(map)?;
    Some(runs.journal(log))
}

/// The map in the journal's inode, which is in the first group where `mke2fs` put it.
fn inode_map(region: &Region<'_>, superblock: &Superblock) -> Option<[u8; MAP_BYTES]> {
    let Superblock {
        block_bytes,
        inode_bytes,
        descriptor_bytes,
        ..
    } = *superblock;
    let number = superblock.journal_inode.checked_sub(1)?;
    if number >= superblock.inodes_per_group || inode_bytes < 128 || descriptor_bytes < 32 {
        return None;
    }
    let descriptors_at = (superblock.first_data_block + 1) * block_bytes;
    let descriptor = region.read(descriptors_at, descriptor_bytes.min(64) as usize)?;
    let high = match descriptor.get(40..44) {
        Some(high) => u64::from(le32(high, 0)) << 32,
        None => 0,
    };
    let table = high | u64::from(le32(&descriptor, 8));
    let at = table
        .checked_mul(block_bytes)?
        .checked_add(u64::from(number) * inode_bytes)?;
    let inode = region.read(at, 128)?;
    inode[INODE_MAP_AT..INODE_MAP_AT + MAP_BYTES]
        .try_into()
        .ok()
}

/// The runs of a journal as they come up.
struct Runs<'a> {
    region: &'a Region<'a>,
    block_bytes: u64,
    /// Blocks of the journal.
    blocks: u64,
    found: Vec<JournalRun>,
}

impl<'a> Runs<'a> {
    fn new(region: &'a Region<'a>, block_bytes: u64, blocks: u64) -> Runs<'a> {
        Runs {
            region,
            block_bytes,
            blocks,
            found: Vec::new(),
        }
    }

    /// Adds `count` blocks from `block` on that are the journal's from `at` on; what is outside the
    /// region or beyond the journal's end is left out.
    fn add(&mut self, at: u64, block: u64, count: u64) -> Option<()> {
        let count = count.min(self.blocks.saturating_sub(at));
        let offset = block.checked_mul(self.block_bytes)?;
        let left = self.region.size_bytes().checked_sub(offset)?;
        let run = JournalRun {
            journal_offset: at * self.block_bytes,
            disk_offset: self.region.on_volume(offset)?,
            bytes: (count * self.block_bytes).min(left),
        };
        if let Some(last) = self.found.last_mut()
            && last.journal_offset + last.bytes == run.journal_offset
            && last.disk_offset + last.bytes == run.disk_offset
        {
            last.bytes += run.bytes;
        } else if run.bytes > 0 && self.found.len() < RUNS_MAX {
            self.found.push(run);
        }
        Some(())
    }

    /// Adds what the map of an inode says.
    fn walk(&mut self, map: &[u8; MAP_BYTES]) -> Option<()> {
        if le16(map, 0) == EXTENT_MAGIC {
            return self.walk_extents(map, EXTENT_DEPTH_MAX);
        }
        let mut at = 0;
        for number in 0..12 {
            self.add_indirect(le32(map, 4 * number), 0, &mut at)?;
        }
        for level in 1..=3 {
            self.add_indirect(le32(map, 4 * (11 + level)), level, &mut at)?;
        }
        Some(())
    }

    /// A node of an extent tree; its depth says how many levels are below it, and falls with each.
    fn walk_extents(&mut self, node: &[u8], depth_max: u16) -> Option<()> {
        let (entries, depth) = (le16(node, 2), le16(node, 6));
        if le16(node, 0) != EXTENT_MAGIC || depth > depth_max {
            return None;
        }
        for entry in node[12..].chunks_exact(12).take(entries.into()) {
            let first = u64::from(le32(entry, 0));
            if first >= self.blocks || self.found.len() >= RUNS_MAX {
                break;
            }
            if depth == 0 {
                let count = match u64::from(le16(entry, 4)) {
                    count @ 0..=EXTENT_BLOCKS_MAX => count,
                    unwritten => unwritten - EXTENT_BLOCKS_MAX,
                };
                let block = u64::from(le16(entry, 6)) << 32 | u64::from(le32(entry, 8));
                self.add(first, block, count)?;
            } else {
                let block = u64::from(le16(entry, 8)) << 32 | u64::from(le32(entry, 4));
                let child = self.read_block(block)?;
                self.walk_extents(&child, depth - 1)?;
            }
        }
        Some(())
    }

    /// A block, or with `level` above 0 a block of numbers of such one level lower. A 0 is a hole.
    fn add_indirect(&mut self, number: u32, level: usize, at: &mut u64) -> Option<()> {
        let per_block = self.block_bytes / 4;
        if *at >= self.blocks {
            return Some(());
        }
        if number == 0 {
            *at += per_block.pow(level as u32);
            return Some(());
        }
        if level == 0 {
            self.add(*at, number.into(), 1)?;
            *at += 1;
            return Some(());
        }
        let numbers = self.read_block(number.into())?;
        for number in numbers.chunks_exact(4) {
            self.add_indirect(le32(number, 0), level - 1, at)?;
        }
        Some(())
    }

    fn read_block(&self, block: u64) -> Option<Vec<u8>> {
        let offset = block.checked_mul(self.block_bytes)?;
        self.region.read(offset, self.block_bytes as usize)
    }

    fn journal(self, log: jbd2::Superblock) -> Journal {
        Journal {
            kind: JournalKind::Jbd2,
            runs: self.found,
            ring: log.first * log.block_bytes..log.end * log.block_bytes,
            live_from: log.start.map(|start| start * log.block_bytes),
        }
    }
}
