//! Room in the backing for what the pool will write there: a full disk, or an end that the file cannot have,
//! is reported to the writer, while it can be.
//!
//! Before bytes are committed to the pool, the backing has room for the blocks that they lie in: it has
//! data there already, or room was reserved (`fallocate`), be it behind the end or in a hole. What it was
//! found to have is remembered; a file without holes is looked at once.
//!
//! A file that grows without a gap gets as much again behind its end as the piece has that grows, so that
//! the backing is asked seldom; a write far from others gets its own blocks only. What is spare goes back
//! when the file is closed, given to others or recovered, and `stat` does not count it. Behind the end is
//! also where programs reserve for themselves: where we find that, all stays.

use std::io;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::ranges::Ranges;
use crate::target::Target;

/// The most that is reserved behind the end.
const SPARE_BYTES_MAX: u64 = 16 << 20;

/// What file systems give at least.
const UNIT_BYTES: u64 = 4096;

/// See the module. Always under the file's lock, and only while no other process changes the file.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Bytes, in whole blocks, that have room.
    known: Ranges,
    /// One of these ranges: most writes lie in the same as the last.
    last: (u64, u64),
    /// The file was looked at from its start on.
    is_looked_at: bool,
    /// Where what was reserved ends.
    reserved_end: u64,
    /// The backing cannot reserve.
    reserves_nothing: bool,
    /// Another process has reserved behind the end, too.
    is_shared: bool,
}

impl Room {
    /// Makes sure that there is room for these bytes.
    ///
    /// # Errors
    /// The backing is full, or its files cannot be so long.
    #[inline]
    pub(super) fn reserve(
        &mut self,
        target: &Target,
        block_bytes: u64,
        offset: u64,
        len_bytes: u64,
    ) -> io::Result<()> {
        let end = offset + len_bytes;
        if self.reserves_nothing || (self.last.0 <= offset && end <= self.last.1) {
            return Ok(());
        }
        self.reserve_blocks(target, block_bytes, (offset, end))
    }

    fn reserve_blocks(
        &mut self,
        target: &Target,
        block_bytes: u64,
        (offset, end): (u64, u64),
    ) -> io::Result<()> {
        if self.known.has_overflowed() {
            self.known = Ranges::default();
        }
        let start = offset - offset % block_bytes;
        let mut at = self.first_unknown(start);
        if at < end {
            let backing_bytes = target.backing_size()?;
            if !self.is_looked_at {
                self.is_looked_at = true;
                self.learn(target, block_bytes, backing_bytes, 0);
                at = self.first_unknown(start);
            }
            if at < end && at < backing_bytes {
                self.learn(target, block_bytes, backing_bytes, at);
                at = self.first_unknown(start);
            }
        }
        if at < end {
            self.allocate(target, block_bytes, (at, end))?;
        }
        self.last = self.known.around(start).unwrap_or_default();
        Ok(())
    }

    /// The first byte from `start` on that is not known to have room.
    fn first_unknown(&self, start: u64) -> u64 {
        self.known.around(start).map_or(start, |(_, end)| end)
    }

    /// Looks how far the backing has data from `start` on.
    fn learn(&mut self, target: &Target, block_bytes: u64, backing_bytes: u64, start: u64) {
        // What cannot be told is reserved for.
        let Ok(hole) = target.first_hole(start) else {
            return;
        };
        // A hole begins in the middle of a block where the file system's are smaller; the end does, too,
        // but its block is there.
        let end = match hole >= backing_bytes {
            true => hole.next_multiple_of(block_bytes),
            false => hole - hole % block_bytes,
        };
        self.known.add(start, end);
    }

    fn allocate(
        &mut self,
        target: &Target,
        block_bytes: u64,
        (start, end): (u64, u64),
    ) -> io::Result<()> {
        let run = start
            .checked_sub(1)
            .and_then(|last| self.known.around(last));
        let grown_bytes = run.map_or(0, |(first, _)| start - first);
        let spare = match end > target.size_bytes() && !self.is_shared {
            true => grown_bytes.min(SPARE_BYTES_MAX),
            false => 0,
        };
        let whole = end.next_multiple_of(block_bytes);
        let before = match spare {
            0 => 0,
            _ => target.backing_room()?,
        };
        // A file's greatest length need not be whole blocks.
        for wanted in [whole.saturating_add(spare), whole, end] {
            let mode = FallocateFlags::KEEP_SIZE;
            match target.allocate(mode, start, wanted - start) {
                Ok(()) => {
                    if wanted > whole {
                        let gained = target.backing_room()?.saturating_sub(before);
                        self.is_shared = gained + block_bytes < wanted - start;
                    }
                    self.known.add(start, wanted);
                    self.reserved_end = self.reserved_end.max(wanted);
                    return Ok(());
                }
                Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) if wanted > end => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    return Err(error.into());
                }
                Err(_) => {
                    self.reserves_nothing = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The file was cut: what lay behind its end has no room any more.
    pub(super) fn cut(&mut self, size_bytes: u64) {
        self.known.cut(size_bytes);
        self.last = (0, 0);
        self.reserved_end = self.reserved_end.min(size_bytes);
    }

    /// Others may have given room back.
    pub(super) fn forget(&mut self) {
        *self = Room {
            reserves_nothing: self.reserves_nothing,
            is_shared: self.is_shared,
            ..Room::default()
        };
    }

    /// A caller has reserved behind the end, and keeps that.
    pub(super) fn share(&mut self) {
        self.is_shared = true;
    }

    /// Whether the backing cannot reserve any.
    pub(super) fn is_impossible(&self) -> bool {
        self.reserves_nothing
    }

    /// What was reserved behind a file of this size, and can go.
    pub(super) fn spare_bytes(&self, size_bytes: u64) -> u64 {
        match self.is_shared {
            true => 0,
            false => {
                let end = size_bytes.next_multiple_of(UNIT_BYTES);
                self.reserved_end.saturating_sub(end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::Path;

    use super::*;
    use crate::testing::SmallDisk;

    const BLOCK: u64 = 4096;

    fn target(path: &Path) -> Target {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        Target::new(options.open(path).expect("open").into()).expect("a file")
    }

    #[test]
    fn what_has_data_is_looked_at_once_and_holes_are_reserved() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let file = File::create(&path).expect("create");
        file.set_len(64 * BLOCK).expect("length");
        file.write_all_at(&[1; 10 * BLOCK as usize], 0)
            .expect("data");
        file.write_all_at(&[1; BLOCK as usize], 20 * BLOCK)
            .expect("data");
        let (target, mut room) = (target(&path), Room::default());
        let blocks = || file.metadata().expect("it is there").blocks() * 512 / BLOCK;
        let before = blocks();
        let mut reserve = |offset, len| room.reserve(&target, BLOCK, offset, len).expect("room");
        reserve(5, 9 * BLOCK);
        reserve(20 * BLOCK + 7, 9);
        assert_eq!(blocks(), before, "there is data");
        reserve(12 * BLOCK - 1, 2);
        assert_eq!(blocks(), before + 2);
        reserve(9 * BLOCK, 12 * BLOCK);
        assert_eq!(blocks(), before + 10);
        assert_eq!(target.backing_size().expect("size"), 64 * BLOCK);
        assert_eq!(room.spare_bytes(64 * BLOCK), 0);
        let mut reserve = |offset, len| room.reserve(&target, BLOCK, offset, len).expect("room");
        reserve(62 * BLOCK, 2 * BLOCK);
        reserve(64 * BLOCK, 1);
        assert_eq!(room.spare_bytes(64 * BLOCK + 1), 2 * BLOCK);
        room.cut(30 * BLOCK);
        assert_eq!(room.spare_bytes(30 * BLOCK), 0);
    }

    #[test]
    fn a_full_disk_is_told_to_who_writes_into_a_hole_and_data_has_its_room() {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(disk) = SmallDisk::new(folder.path()) else {
            println!("skipped: nothing can be mounted here");
            return;
        };
        let path = disk.path().join("sparse");
        let sparse = File::create(&path).expect("create");
        sparse.set_len(1 << 30).expect("length");
        sparse.write_all_at(&[1; 8192], 1 << 20).expect("data");
        let other = File::create(disk.path().join("other")).expect("create");
        let piece = [2; 4096];
        let is_room = |at: &u64| other.write_all_at(&piece, at * BLOCK).is_ok();
        let taken = (0..).take_while(is_room).count() as u64;
        let (target, mut room) = (target(&path), Room::default());
        let mut reserve = |offset, len| room.reserve(&target, BLOCK, offset, len);
        reserve(1 << 20, 8192).expect("there is data");
        let refused = reserve((1 << 20) + 8191, 2).expect_err("a hole behind it");
        assert_eq!(refused.raw_os_error(), Some(libc::ENOSPC));
        reserve(0, 1).expect_err("a hole before it");
        other.set_len((taken - 1) * BLOCK).expect("a block is free");
        reserve(0, 1).expect("room");
        reserve(100, 3900).expect("the same block");
        reserve(BLOCK, 1).expect_err("there was one");
    }
}
