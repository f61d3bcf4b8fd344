//! Reads and writes.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use nix::sys::uio::{preadv, pwritev};

use super::exercised::{DIRECT_BYTES, Exercise, FILE_BYTES_MAX, Kind, OPERATION_BYTES_MAX};
use forebay_harness::Result;

impl Exercise {
    /// Where an operation of some length may begin and how long it is, within the largest file.
    pub(super) fn draw_range(&mut self) -> (usize, usize) {
        // Near the end and small as often as anywhere and large.
        let offset = match self.rng.u8(..4) {
            0 => self.contents.len().saturating_sub(self.rng.usize(..5000)),
            1 => self.rng.usize(..FILE_BYTES_MAX),
            _ => self.rng.usize(..=self.contents.len()),
        };
        let offset = offset.min(FILE_BYTES_MAX - 1);
        let most = (FILE_BYTES_MAX - offset).min(OPERATION_BYTES_MAX);
        let len = match self.rng.u8(..3) {
            0 => self.rng.usize(1..=most.min(600)),
            1 => self.rng.usize(1..=most.min(9000)),
            _ => self.rng.usize(1..=most),
        };
        self.detail(&format!(" {offset}+{len}"));
        (offset, len)
    }

    pub(super) fn draw_bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.rng.fill(&mut bytes);
        bytes
    }

    /// What the model becomes by a write.
    pub(super) fn apply(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.contents.len() < end {
            self.contents.resize(end, 0);
        }
        self.contents[offset..end].copy_from_slice(bytes);
    }

    pub(super) fn read_at(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let mut found = vec![0; len];
        let read = self.readable()?.read_at(&mut found, offset as u64)?;
        self.expect_read(offset, &found, read)
    }

    pub(super) fn read_past_end(&mut self) -> Result<bool> {
        let offset = self.contents.len() + self.rng.usize(..10_000);
        let mut found = [1; 100];
        match self.readable()?.read_at(&mut found, offset as u64)? {
            0 => Ok(true),
            read => Err(format!("{read} bytes read at {offset}, past the end").into()),
        }
    }

    pub(super) fn read_from(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let mut found = vec![0; len];
        let mut file = self.readable()?;
        file.seek(SeekFrom::Start(offset as u64))?;
        let read = file.read(&mut found)?;
        let position = file.stream_position()?;
        if position != (offset + read) as u64 {
            return Err(
                format!("the position is {position} after {read} bytes at {offset}").into(),
            );
        }
        self.expect_read(offset, &found, read)
    }

    pub(super) fn read_vectored(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let mut found = vec![0; len];
        let (first, second) = found.split_at_mut(len / 3);
        let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
        let read = preadv(self.readable()?, &mut parts, offset as i64)?;
        self.expect_read(offset, &found, read)
    }

    /// A file gives all it has: only the end makes a read short.
    fn expect_read(&self, offset: usize, found: &[u8], read: usize) -> Result<bool> {
        let there = self.contents.len().saturating_sub(offset).min(found.len());
        if read != there {
            return Err(format!("read {read} bytes at {offset}, {there} are there").into());
        }
        self.expect(offset, &found[..read])?;
        Ok(true)
    }

    pub(super) fn write_at(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let bytes = self.draw_bytes(len);
        let file = self.writable()?;
        file.write_all_at(&bytes, offset as u64)?;
        self.apply(offset, &bytes);
        Ok(true)
    }

    pub(super) fn write_from(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let bytes = self.draw_bytes(len);
        let mut file = self.writable()?;
        file.seek(SeekFrom::Start(offset as u64))?;
        file.write_all(&bytes)?;
        let position = file.stream_position()?;
        self.apply(offset, &bytes);
        match position == (offset + len) as u64 {
            true => Ok(true),
            false => {
                Err(format!("the position is {position} after {len} bytes at {offset}").into())
            }
        }
    }

    pub(super) fn write_vectored(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_range();
        let bytes = self.draw_bytes(len);
        let (first, second) = bytes.split_at(len / 3);
        let parts = [IoSlice::new(first), IoSlice::new(second)];
        let written = pwritev(self.writable()?, &parts, offset as i64)?;
        self.apply(offset, &bytes[..written]);
        match written == len {
            true => Ok(true),
            false => Err(format!("{written} of {len} bytes written").into()),
        }
    }

    pub(super) fn append(&mut self) -> Result<bool> {
        let most = (FILE_BYTES_MAX - self.contents.len()).min(OPERATION_BYTES_MAX);
        if most == 0 {
            return Ok(true);
        }
        let (range, end) = (most.min(3000), self.contents.len());
        let len = match self.rng.bool() {
            true => self.rng.usize(1..=range),
            false => self.rng.usize(1..=most),
        };
        self.detail(&format!(" {len} at {end}"));
        let bytes = self.draw_bytes(len);
        let appending = self.descriptors.iter().find(|one| one.kind.is_append());
        match appending {
            Some(one) => (&one.file).write_all(&bytes)?,
            None => {
                let mut file = self.writable()?;
                let found = file.seek(SeekFrom::End(0))?;
                if found != end as u64 {
                    return Err(format!("lseek says the end is {found}, not {end}").into());
                }
                file.write_all(&bytes)?;
            }
        }
        self.apply(end, &bytes);
        Ok(true)
    }

    fn direct(&self) -> Option<&File> {
        let mut all = self.descriptors.iter();
        all.find(|one| one.kind == Kind::Direct)
            .map(|one| &one.file)
    }

    pub(super) fn read_direct(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_direct();
        let Some(file) = self.direct() else {
            return Ok(true);
        };
        let mut memory = vec![0; len + DIRECT_BYTES];
        let found = aligned(&mut memory, len);
        let read = file.read_at(found, offset as u64)?;
        self.expect_read(offset, found, read)
    }

    pub(super) fn write_direct(&mut self) -> Result<bool> {
        let (offset, len) = self.draw_direct();
        let bytes = self.draw_bytes(len);
        let Some(file) = self.direct() else {
            return Ok(true);
        };
        let mut memory = vec![0; len + DIRECT_BYTES];
        let buffer = aligned(&mut memory, len);
        buffer.copy_from_slice(&bytes);
        file.write_all_at(buffer, offset as u64)?;
        self.apply(offset, &bytes);
        Ok(true)
    }

    fn draw_direct(&mut self) -> (usize, usize) {
        let (offset, len) = self.draw_range();
        let offset = offset / DIRECT_BYTES * DIRECT_BYTES;
        (offset, len.div_ceil(DIRECT_BYTES) * DIRECT_BYTES)
    }
}

/// `len` bytes of the memory that begin where the hardware wants them to.
fn aligned(memory: &mut [u8], len: usize) -> &mut [u8] {
    let skip = memory.as_ptr().align_offset(DIRECT_BYTES);
    &mut memory[skip..skip + len]
}
