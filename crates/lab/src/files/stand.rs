//! The contenders: each contender behind the same three calls.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use forebay::{Pool, PoolOptions};
use forebay_files::{FileBuffer, FileBufferOptions, NvmFile, NvmMode};
use forebay_harness::{TempDir, temporary_folder};
use forebay_pmem::{Counters, Region, RegionOptions};
use serde::{Serialize, Serializer};

use crate::autobahn::{AutoBahn, AutoBahnFile, AutoBahnOptions, RealFolder, WriteMode};

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The paper's design: the engine of this crate.
    AutoBahn,
    /// This project's file buffer.
    Forebay,
    /// The file system with `O_SYNC`, as the paper's "ext4 (w/ fsync)".
    Synced,
    /// The file system's page cache, durable at some time: "ext4 (w/o fsync)".
    Unsynced,
}

impl Contender {
    /// In the order of the page.
    pub const ALL: [Contender; 4] = [
        Contender::AutoBahn,
        Contender::Forebay,
        Contender::Synced,
        Contender::Unsynced,
    ];

    /// Its name in rows and legends.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Contender::AutoBahn => "autobahn",
            Contender::Forebay => "forebay",
            Contender::Synced => "disk, synced",
            Contender::Unsynced => "disk, unsynced",
        }
    }

    /// Whether it has a region whose lines and fences are counted.
    #[must_use]
    pub fn has_region(self) -> bool {
        matches!(self, Contender::AutoBahn | Contender::Forebay)
    }
}

impl Serialize for Contender {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One contender, ready for files.
#[derive(Debug)]
pub(super) struct Stand {
    buffer: Buffer,
    files: std::path::PathBuf,
    /// Where its region is; gone when this is.
    _memory: Option<TempDir>,
}

#[derive(Debug)]
enum Buffer {
    AutoBahn(AutoBahn),
    Forebay(Arc<FileBuffer>),
    None { is_synced: bool },
}

/// A file of a thread.
#[derive(Debug)]
pub(super) enum Target {
    AutoBahn(AutoBahnFile),
    Forebay(NvmFile),
    Plain { file: File, end: u64 },
}

impl Stand {
    /// A fresh region in `memory`, where the contender has one, over the files in `files`.
    pub(super) fn new(
        contender: Contender,
        (memory, files): (&Path, &Path),
        region_bytes: u64,
        options: &AutoBahnOptions,
    ) -> io::Result<Stand> {
        let folder = match contender.has_region() {
            true => Some(temporary_folder(memory).map_err(io::Error::other)?),
            false => None,
        };
        let path = folder.as_ref().map(|folder| folder.path().join("memory"));
        let buffer = match (contender, path) {
            (Contender::AutoBahn, Some(path)) => {
                let region = Region::create(&path, region_bytes, &RegionOptions::default());
                let region = region.map_err(io::Error::other)?;
                let behind = Arc::new(RealFolder::new(files));
                Buffer::AutoBahn(AutoBahn::create(region, behind, options)?)
            }
            (Contender::Forebay, Some(path)) => {
                let pool = Pool::create(&PoolOptions::new(&path, region_bytes));
                pool.and_then(Pool::close).map_err(io::Error::other)?;
                Buffer::Forebay(FileBuffer::open(
                    &FileBufferOptions::new(&path).root(files),
                )?)
            }
            (contender, _) => Buffer::None {
                is_synced: contender == Contender::Synced,
            },
        };
        Ok(Stand {
            buffer,
            files: files.to_owned(),
            _memory: folder,
        })
    }

    /// A file of the folder, made where it is not there.
    pub(super) fn open(&self, name: &str) -> io::Result<Target> {
        let path = self.files.join(name);
        Ok(match &self.buffer {
            Buffer::AutoBahn(buffer) => {
                Target::AutoBahn(buffer.open_file(Path::new(name), WriteMode::Partial)?)
            }
            Buffer::Forebay(buffer) => {
                Target::Forebay(NvmFile::open(buffer, &path, NvmMode::EveryWrite)?)
            }
            Buffer::None { is_synced } => {
                let mut options = OpenOptions::new();
                options
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600);
                if *is_synced {
                    options.custom_flags(rustix::fs::OFlags::SYNC.bits().cast_signed());
                }
                let file = options.open(path)?;
                Target::Plain {
                    end: file.metadata()?.len(),
                    file,
                }
            }
        })
    }

    /// What its region persisted so far.
    pub(super) fn counters(&self) -> Counters {
        match &self.buffer {
            Buffer::AutoBahn(buffer) => buffer.counters(),
            Buffer::Forebay(buffer) => buffer.counters(),
            Buffer::None { .. } => Counters::default(),
        }
    }

    /// Brings everything home; files are closed before.
    pub(super) fn close(self) -> io::Result<()> {
        match self.buffer {
            Buffer::Forebay(buffer) => buffer.close(),
            Buffer::AutoBahn(_) | Buffer::None { .. } => Ok(()),
        }
    }
}

impl Target {
    /// Writes at a place, or at the end; as durable on return as the contender makes it.
    pub(super) fn write(&mut self, place: Option<u64>, data: &[u8]) -> io::Result<()> {
        match (self, place) {
            (Target::AutoBahn(file), None) => file.append(data),
            (Target::AutoBahn(file), Some(place)) => file.write_at(place, data),
            (Target::Forebay(file), None) => file.append(data).map(|_| ()),
            (Target::Forebay(file), Some(place)) => file.write_at(place, data),
            (Target::Plain { file, .. }, Some(place)) => file.write_all_at(data, place),
            (Target::Plain { file, end }, None) => {
                file.write_all_at(data, *end)?;
                *end += data.len() as u64;
                Ok(())
            }
        }
    }

    /// Brings the file home, where closing does that.
    pub(super) fn close(self) -> io::Result<()> {
        match self {
            Target::AutoBahn(file) => file.close(),
            Target::Forebay(_) | Target::Plain { .. } => Ok(()),
        }
    }
}
