//! Reads, writes, seeks and syncs of a covered descriptor, whether it is buffered or plain.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use forebay_files::{BufferedFile, SyncKind};
use rustix::io::{IoSlice, IoSliceMut, ReadWriteFlags};

use crate::open_file::{Life, OpenFile, sync_backing};

/// The most bytes that one call moves, as in the kernel.
const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;

/// Flags of `pwritev2` that a buffered file honours; the last is a hint.
const FLAGS_HONOURED: i32 = libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND | libc::RWF_HIPRI;

/// One call on an open file.
pub struct Call<'a> {
    pub file: &'a OpenFile,
    pub life: &'a Life,
    pub fd: BorrowedFd<'a>,
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

/// An offset that the program gave, as bytes from the start.
pub fn offset_of(offset: i64) -> io::Result<u64> {
    u64::try_from(offset).map_err(|_| invalid())
}

impl Call<'_> {
    /// `read`.
    pub fn read(&self, out: &mut [u8]) -> io::Result<usize> {
        self.file.require_readable()?;
        let Some(buffered) = self.life.buffered() else {
            return Ok(rustix::io::read(self.fd, out)?);
        };
        let mut position = self.file.lock_position();
        let out = clipped(out);
        let done = buffered.read_at(*position, out)?;
        *position += done as u64;
        Ok(done)
    }

    /// `pread`.
    pub fn read_at(&self, out: &mut [u8], offset: i64) -> io::Result<usize> {
        self.file.require_readable()?;
        let offset = offset_of(offset)?;
        match self.life.buffered() {
            Some(buffered) => buffered.read_at(offset, clipped(out)),
            None => Ok(rustix::io::pread(self.fd, out, offset)?),
        }
    }

    /// `write`.
    pub fn write(&self, data: &[u8]) -> io::Result<usize> {
        self.file.require_writable()?;
        let sync = self.file.sync_of_writes();
        let Some(buffered) = self.life.buffered() else {
            return Ok(rustix::io::write(self.fd, data)?);
        };
        let data = &data[..data.len().min(TRANSFER_BYTES_MAX)];
        let mut position = self.file.lock_position();
        *position = match self.file.has(libc::O_APPEND) {
            true => self.append_buffered(buffered, data, sync)?,
            false => self.write_buffered(buffered, *position, data, sync)?,
        };
        Ok(data.len())
    }

    /// `pwrite`; on Linux it appends where `O_APPEND` is set.
    pub fn write_at(&self, data: &[u8], offset: i64) -> io::Result<usize> {
        self.file.require_writable()?;
        let offset = offset_of(offset)?;
        let sync = self.file.sync_of_writes();
        let Some(buffered) = self.life.buffered() else {
            return Ok(rustix::io::pwrite(self.fd, data, offset)?);
        };
        let data = &data[..data.len().min(TRANSFER_BYTES_MAX)];
        match self.file.has(libc::O_APPEND) {
            true => self.append_buffered(buffered, data, sync)?,
            false => self.write_buffered(buffered, offset, data, sync)?,
        };
        Ok(data.len())
    }

    /// `readv`, `preadv` and `preadv2`; the offset is none for the file's position.
    pub fn read_vector(
        &self,
        parts: &mut [IoSliceMut<'_>],
        offset: Option<i64>,
        flags: i32,
    ) -> io::Result<usize> {
        self.file.require_readable()?;
        if self.life.buffered().is_none() {
            return match offset {
                Some(offset) => Ok(rustix::io::preadv2(
                    self.fd,
                    parts,
                    offset_of(offset)?,
                    read_write_flags(flags),
                )?),
                None if flags == 0 => Ok(rustix::io::readv(self.fd, parts)?),
                // The system call's own way to say "at the position".
                None => Ok(rustix::io::preadv2(
                    self.fd,
                    parts,
                    u64::MAX,
                    read_write_flags(flags),
                )?),
            };
        }
        let mut done = 0;
        let mut position = offset.is_none().then(|| self.file.lock_position());
        let start = match (&position, offset) {
            (Some(position), _) => **position,
            (None, offset) => offset_of(offset.unwrap_or(-1))?,
        };
        for part in parts {
            let got = self
                .life
                .buffered()
                .map_or(Ok(0), |file| file.read_at(start + done as u64, part))?;
            done += got;
            if got < part.len() {
                break;
            }
        }
        if let Some(position) = &mut position {
            **position = start + done as u64;
        }
        Ok(done)
    }

    /// `writev`, `pwritev` and `pwritev2`: one write, all or nothing like any other.
    pub fn write_vector(
        &self,
        parts: &[IoSlice<'_>],
        offset: Option<i64>,
        flags: i32,
    ) -> io::Result<usize> {
        let buffered = match self.life.buffered() {
            Some(buffered) if flags & !FLAGS_HONOURED == 0 => buffered,
            _ => return self.write_vector_plain(parts, offset, flags),
        };
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let done = match offset {
            _ if flags & libc::RWF_APPEND != 0 => {
                self.append_vector(buffered, &whole, offset.is_none())?
            }
            Some(offset) => self.write_at(&whole, offset)?,
            None => self.write(&whole)?,
        };
        if flags & libc::RWF_SYNC == libc::RWF_SYNC {
            self.sync(SyncKind::All)?;
        } else if flags & libc::RWF_DSYNC != 0 {
            self.sync(SyncKind::Data)?;
        }
        Ok(done)
    }

    /// `RWF_APPEND`: at the end, where the position then is if it counts.
    fn append_vector(
        &self,
        buffered: &BufferedFile,
        data: &[u8],
        moves_position: bool,
    ) -> io::Result<usize> {
        self.file.require_writable()?;
        let data = &data[..data.len().min(TRANSFER_BYTES_MAX)];
        let mut position = self.file.lock_position();
        let end = self.append_buffered(buffered, data, self.file.sync_of_writes())?;
        if moves_position {
            *position = end;
        }
        Ok(data.len())
    }

    fn write_vector_plain(
        &self,
        parts: &[IoSlice<'_>],
        offset: Option<i64>,
        flags: i32,
    ) -> io::Result<usize> {
        self.file.require_writable()?;
        if self.life.is_buffered {
            // Flags that we cannot honour, as a file system that does not know them says it.
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let done = match offset {
            Some(offset) => {
                rustix::io::pwritev2(self.fd, parts, offset_of(offset)?, read_write_flags(flags))?
            }
            None if flags == 0 => rustix::io::writev(self.fd, parts)?,
            None => rustix::io::pwritev2(self.fd, parts, u64::MAX, read_write_flags(flags))?,
        };
        Ok(done)
    }

    /// `lseek`.
    pub fn seek(&self, offset: i64, whence: i32) -> io::Result<u64> {
        let Some(buffered) = self.life.buffered() else {
            return seek_plain(self.fd, offset, whence);
        };
        let mut position = self.file.lock_position();
        let base = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => *position,
            libc::SEEK_END => buffered.size_bytes()?,
            libc::SEEK_DATA | libc::SEEK_HOLE => {
                let start =
                    u64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::ENXIO))?;
                *position = buffered.seek(start, whence == libc::SEEK_DATA)?;
                return Ok(*position);
            }
            _ => return Err(invalid()),
        };
        let wanted = i64::try_from(base)
            .ok()
            .and_then(|base| base.checked_add(offset));
        *position =
            offset_of(wanted.ok_or_else(|| io::Error::from_raw_os_error(libc::EOVERFLOW))?)?;
        Ok(*position)
    }

    /// `fsync` and `fdatasync`.
    pub fn sync(&self, kind: SyncKind) -> io::Result<()> {
        let Some(buffered) = self.life.buffered() else {
            return sync_backing(self.fd, kind);
        };
        self.life.holds_data.store(true, Ordering::Relaxed);
        buffered.sync(kind)
    }

    /// Both return the position after what was written.
    fn append_buffered(
        &self,
        buffered: &BufferedFile,
        data: &[u8],
        sync: Option<SyncKind>,
    ) -> io::Result<u64> {
        self.note_durable(sync);
        Ok(buffered.append(data, sync.is_some())? + data.len() as u64)
    }

    fn write_buffered(
        &self,
        buffered: &BufferedFile,
        offset: u64,
        data: &[u8],
        sync: Option<SyncKind>,
    ) -> io::Result<u64> {
        let end = offset
            .checked_add(data.len() as u64)
            .filter(|end| i64::try_from(*end).is_ok());
        let end = end.ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
        self.note_durable(sync);
        buffered.write_at(offset, data, sync.is_some())?;
        Ok(end)
    }

    fn note_durable(&self, sync: Option<SyncKind>) {
        if sync.is_some() {
            self.life.holds_data.store(true, Ordering::Relaxed);
        }
    }
}

fn clipped(out: &mut [u8]) -> &mut [u8] {
    let len = out.len().min(TRANSFER_BYTES_MAX);
    &mut out[..len]
}

fn read_write_flags(flags: i32) -> ReadWriteFlags {
    ReadWriteFlags::from_bits_retain(flags as u32)
}

fn seek_plain(fd: BorrowedFd<'_>, offset: i64, whence: i32) -> io::Result<u64> {
    use rustix::fs::SeekFrom;
    let to = match whence {
        libc::SEEK_SET => SeekFrom::Start(offset_of(offset)?),
        libc::SEEK_CUR => SeekFrom::Current(offset),
        libc::SEEK_END => SeekFrom::End(offset),
        libc::SEEK_DATA => SeekFrom::Data(offset as u64),
        libc::SEEK_HOLE => SeekFrom::Hole(offset as u64),
        _ => return Err(invalid()),
    };
    Ok(rustix::fs::seek(fd, to)?)
}
