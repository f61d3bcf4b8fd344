//! Syncs, sizes and holes.

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, PosixFadviseAdvice, copy_file_range, fallocate, posix_fadvise};
use nix::unistd::{Whence, lseek};

use super::exercised::{DIRECT_BYTES, Exercise, FILE_BYTES_MAX};
use forebay_harness::Result;

impl Exercise {
    pub(super) fn sync_all(&mut self) -> Result<bool> {
        self.readable()?.sync_all()?;
        Ok(true)
    }

    pub(super) fn sync_data(&mut self) -> Result<bool> {
        self.readable()?.sync_data()?;
        Ok(true)
    }

    fn draw_size(&mut self) -> usize {
        let size = match self.rng.u8(..3) {
            0 => self.rng.usize(..=FILE_BYTES_MAX),
            1 => self.contents.len().saturating_sub(self.rng.usize(..9000)),
            _ => (self.contents.len() + self.rng.usize(..9000)).min(FILE_BYTES_MAX),
        };
        self.detail(&format!(" {} to {size}", self.contents.len()));
        size
    }

    pub(super) fn truncate(&mut self) -> Result<bool> {
        let size = self.draw_size();
        self.changing()?.set_len(size as u64)?;
        self.contents.resize(size, 0);
        Ok(true)
    }

    pub(super) fn truncate_path(&mut self) -> Result<bool> {
        let size = self.draw_size();
        nix::unistd::truncate(self.open_path(), size as i64)?;
        self.contents.resize(size, 0);
        Ok(true)
    }

    /// `fallocate`; false where the file system has no such mode.
    fn allocate_as(&mut self, mode: FallocateFlags, offset: usize, len: usize) -> Result<bool> {
        match fallocate(self.changing()?, mode, offset as i64, len as i64) {
            Ok(()) => Ok(true),
            Err(Errno::EOPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn allocate(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let is_known = self.allocate_as(FallocateFlags::empty(), offset, len)?;
        if is_known && self.contents.len() < offset + len {
            self.contents.resize(offset + len, 0);
        }
        Ok(is_known)
    }

    pub(super) fn allocate_beyond(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        self.allocate_as(FallocateFlags::FALLOC_FL_KEEP_SIZE, offset, len)
    }

    pub(super) fn punch_hole(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let is_known = self.allocate_as(mode, offset, len)?;
        if is_known {
            self.clear(offset, len);
        }
        Ok(is_known)
    }

    pub(super) fn zero_range(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let keeps_size = self.rng.bool();
        let mut mode = FallocateFlags::FALLOC_FL_ZERO_RANGE;
        mode.set(FallocateFlags::FALLOC_FL_KEEP_SIZE, keeps_size);
        let is_known = self.allocate_as(mode, offset, len)?;
        if is_known {
            self.clear(offset, len);
            if !keeps_size && self.contents.len() < offset + len {
                self.contents.resize(offset + len, 0);
            }
        }
        Ok(is_known)
    }

    fn clear(&mut self, offset: usize, len: usize) {
        let size = self.contents.len();
        self.contents[offset.min(size)..(offset + len).min(size)].fill(0);
    }

    pub(super) fn collapse_range(&mut self) -> Result<bool> {
        let blocks = self.contents.len() / DIRECT_BYTES;
        if blocks < 2 {
            return Ok(true);
        }
        let first = self.rng.usize(..blocks - 1);
        let count = self.rng.usize(1..blocks - first);
        let (offset, len) = (first * DIRECT_BYTES, count * DIRECT_BYTES);
        self.detail(&format!(" {offset}+{len}"));
        let mode = FallocateFlags::FALLOC_FL_COLLAPSE_RANGE;
        let is_known = self.allocate_as(mode, offset, len)?;
        if is_known {
            self.contents.drain(offset..offset + len);
        }
        Ok(is_known)
    }

    pub(super) fn insert_range(&mut self) -> Result<bool> {
        let blocks = self.contents.len() / DIRECT_BYTES;
        let free = (FILE_BYTES_MAX - self.contents.len()) / DIRECT_BYTES;
        if blocks < 2 || free == 0 {
            return Ok(true);
        }
        let offset = self.rng.usize(..blocks) * DIRECT_BYTES;
        let len = self.rng.usize(1..=free.min(8)) * DIRECT_BYTES;
        self.detail(&format!(" {offset}+{len}"));
        let mode = FallocateFlags::FALLOC_FL_INSERT_RANGE;
        let is_known = self.allocate_as(mode, offset, len)?;
        if is_known {
            let zeroes = std::iter::repeat_n(0, len);
            self.contents.splice(offset..offset, zeroes);
        }
        Ok(is_known)
    }

    /// Within the file; the ranges must not overlap.
    pub(super) fn copy_range(&mut self) -> Result<bool> {
        let (from, len) = self.draw_range();
        let to = self.rng.usize(..FILE_BYTES_MAX);
        let there = self.contents.len().saturating_sub(from);
        let len = len
            .min(there)
            .min(FILE_BYTES_MAX - to)
            .min(from.abs_diff(to));
        let (mut at, mut left) = ((from as i64, to as i64), len);
        self.detail(&format!(" {len} to {to}"));
        while left > 0 {
            let file = self.writable()?;
            let copied = copy_file_range(file, Some(&mut at.0), file, Some(&mut at.1), left)?;
            if copied == 0 {
                return Err(format!("nothing copied, {left} bytes left").into());
            }
            left -= copied;
        }
        if len > 0 {
            let bytes = self.contents[from..from + len].to_vec();
            self.apply(to, &bytes);
        }
        Ok(true)
    }

    /// Holes are zeroes; what is not zero is data.
    pub(super) fn seek_holes(&mut self) -> Result<bool> {
        let end = self.contents.len();
        let file = self.readable()?;
        let mut holes = Vec::new();
        let mut at = 0;
        while at < end {
            let data = match lseek(file, at as i64, Whence::SeekData) {
                Ok(data) => data as usize,
                Err(Errno::ENXIO) => end,
                Err(error) => return Err(error.into()),
            };
            holes.push(at..data);
            if data >= end {
                break;
            }
            at = lseek(file, data as i64, Whence::SeekHole)? as usize;
            if at <= data || at > end {
                return Err(format!("data at {data} ends at {at}, the file at {end}").into());
            }
        }
        for hole in holes {
            let written = hole.clone().find(|at| self.contents[*at] != 0);
            if let Some(at) = written {
                let (from, to) = (hole.start, hole.end);
                return Err(format!("byte {at} is data, but {from} to {to} is a hole").into());
            }
        }
        Ok(true)
    }

    pub(super) fn forget_pages(&mut self) -> Result<bool> {
        let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        posix_fadvise(self.readable()?, 0, 0, advice)?;
        Ok(true)
    }
}
