//! Files for programs that know of the buffer: opened for memory speed, in the spirit of `O_NVM`.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use crate::buffer::FileBuffer;
use crate::facts::SyncKind;
use crate::file::BufferedFile;

/// What a write of an [`NvmFile`] promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NvmMode {
    /// `O_NVM`: every write is durable when it returns, all or nothing up to the transaction limit.
    EveryWrite,
    /// `O_NVMPARTIAL`: writes are durable when a sync returns; the pool takes what is synced, the rest
    /// goes by the page cache.
    Synced,
}

/// An open file with a position of its own.
#[derive(Debug)]
pub struct NvmFile {
    file: Arc<BufferedFile>,
    mode: NvmMode,
    position: u64,
}

impl NvmFile {
    /// Opens a file for reading and writing; makes it, durably, if it is not there.
    ///
    /// # Errors
    /// `openat`'s; `EINVAL` for a path that ends in no name; the pool's.
    pub fn open(buffer: &Arc<FileBuffer>, path: &Path, mode: NvmMode) -> io::Result<NvmFile> {
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let name = path.file_name().ok_or_else(invalid)?;
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().as_bytes().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let permissions = Mode::from_raw_mode(0o666);
        let opened = buffer.directory(folder)?.open(name, flags, permissions)?;
        Ok(NvmFile {
            file: buffer.adopt(opened.descriptor)?,
            mode,
            position: 0,
        })
    }

    /// The file, for reads and writes at any place.
    pub fn file(&self) -> &Arc<BufferedFile> {
        &self.file
    }

    /// Writes at the end of the file and returns the offset it went to.
    ///
    /// # Errors
    /// As [`BufferedFile::append`].
    pub fn append(&self, data: &[u8]) -> io::Result<u64> {
        self.file.append(data, self.is_durable())
    }

    /// Writes at byte `offset`, wherever the position is.
    ///
    /// # Errors
    /// As [`BufferedFile::write_at`].
    pub fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, data, self.is_durable())
    }

    fn is_durable(&self) -> bool {
        self.mode == NvmMode::EveryWrite
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// As [`BufferedFile::sync`].
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync(SyncKind::Data)
    }
}

impl Read for NvmFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let done = self.file.read_at(self.position, out)?;
        self.position += done as u64;
        Ok(done)
    }
}

impl Write for NvmFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.write_at(self.position, data)?;
        self.position += data.len() as u64;
        Ok(data.len())
    }

    /// Nothing is held back here; durability is [`NvmFile::sync`]'s.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for NvmFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, offset) = match to {
            SeekFrom::Start(offset) => {
                self.position = offset;
                return Ok(offset);
            }
            SeekFrom::Current(offset) => (self.position, offset),
            SeekFrom::End(offset) => (self.file.size_bytes()?, offset),
        };
        let wanted = base.checked_add_signed(offset);
        self.position = wanted.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use forebay::{Pool, PoolOptions};

    use super::*;
    use crate::FileBufferOptions;

    fn open_buffer(pool: &Path) -> Arc<FileBuffer> {
        FileBuffer::open(&FileBufferOptions::new(pool)).unwrap()
    }

    #[test]
    fn every_write_outlives_a_buffer_that_is_not_closed() {
        let folder = tempfile::tempdir().unwrap();
        let (pool, path) = (folder.path().join("pool"), folder.path().join("file"));
        Pool::create(&PoolOptions::new(&pool, 32 << 20))
            .unwrap()
            .close()
            .unwrap();
        let buffer = open_buffer(&pool);
        let mut file = NvmFile::open(&buffer, &path, NvmMode::EveryWrite).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(file.append(b"appended").unwrap(), 10);
        file.seek(SeekFrom::Start(2)).unwrap();
        file.write_all(b"XX").unwrap();
        file.seek(SeekFrom::Current(-3)).unwrap();
        let mut bytes = [0; 4];
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"1XX4");
        // As a killed process: nothing is drained.
        drop(file);
        drop(buffer);
        let buffer = open_buffer(&pool);
        assert_eq!(std::fs::read(&path).unwrap(), b"01XX456789appended");
        buffer.close().unwrap();
    }
}
