//! Files in memory: what was not synced may be lost by a power cut, sector by sector.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::autobahn::{Folder, StoredFile};

/// What survives for itself.
const SECTOR_BYTES: usize = 64;

#[derive(Clone, Debug, Default)]
struct Bytes {
    current: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct MemoryFile {
    number: u64,
    bytes: Mutex<Bytes>,
    is_broken: Arc<AtomicBool>,
}

/// Files by their paths.
#[derive(Debug, Default)]
pub(super) struct MemoryFolder {
    files: Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>,
    is_broken: Arc<AtomicBool>,
}

/// What a power cut left of all files.
pub(super) type Survivors = BTreeMap<PathBuf, (u64, Vec<u8>)>;

impl MemoryFolder {
    pub(super) fn holding(files: &Survivors) -> Arc<MemoryFolder> {
        let folder = MemoryFolder::default();
        for (path, (number, bytes)) in files {
            folder.add(path, *number, bytes);
        }
        Arc::new(folder)
    }

    fn add(&self, path: &Path, number: u64, bytes: &[u8]) -> Arc<MemoryFile> {
        let file = Arc::new(MemoryFile {
            number,
            bytes: Mutex::new(Bytes {
                current: bytes.to_vec(),
                durable: bytes.to_vec(),
            }),
            is_broken: self.is_broken.clone(),
        });
        let mut files = self.files.lock().expect("no panic");
        files.insert(path.to_owned(), file.clone());
        file
    }

    /// What is there for sure.
    pub(super) fn durable(&self) -> Survivors {
        self.map(|bytes| bytes.durable.clone())
    }

    /// What a power cut might leave.
    pub(super) fn sample(&self, rng: &mut fastrand::Rng) -> Survivors {
        self.map(|bytes| {
            let lengths = [bytes.durable.len(), bytes.current.len()];
            let mut left = bytes.durable.clone();
            left.resize(lengths[rng.usize(..2)], 0);
            let current = bytes.current.chunks(SECTOR_BYTES);
            for (sector, new) in left.chunks_mut(SECTOR_BYTES).zip(current) {
                if rng.bool() {
                    let len = sector.len().min(new.len());
                    sector[..len].copy_from_slice(&new[..len]);
                }
            }
            left
        })
    }

    fn map(&self, mut of: impl FnMut(&Bytes) -> Vec<u8>) -> Survivors {
        let files = self.files.lock().expect("no panic");
        let bytes = files.iter().map(|(path, file)| {
            let bytes = of(&file.bytes.lock().expect("no panic"));
            (path.clone(), (file.number, bytes))
        });
        bytes.collect()
    }

    pub(super) fn rename(&self, from: &str, to: &str) {
        let mut files = self.files.lock().expect("no panic");
        let file = files.remove(Path::new(from)).expect("it is there");
        files.insert(to.into(), file);
    }

    /// All writes and syncs fail from now on, or none.
    pub(super) fn set_broken(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::Relaxed);
    }
}

impl Folder for MemoryFolder {
    fn open(&self, path: &Path, may_create: bool) -> io::Result<Arc<dyn StoredFile>> {
        let found = self.files.lock().expect("no panic").get(path).cloned();
        match found {
            Some(file) => Ok(file),
            None if may_create => {
                let number = 1000 + self.files.lock().expect("no panic").len() as u64;
                Ok(self.add(path, number, &[]))
            }
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }
}

impl MemoryFile {
    fn check(&self) -> io::Result<()> {
        match self.is_broken.load(Ordering::Relaxed) {
            true => Err(io::Error::other("the disk is broken")),
            false => Ok(()),
        }
    }
}

impl StoredFile for MemoryFile {
    fn number(&self) -> io::Result<u64> {
        Ok(self.number)
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().expect("no panic").current.len() as u64)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock().expect("no panic");
        let rest = bytes.current.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        let mut bytes = self.bytes.lock().expect("no panic");
        let end = offset as usize + data.len();
        if bytes.current.len() < end {
            bytes.current.resize(end, 0);
        }
        bytes.current[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check()?;
        let mut bytes = self.bytes.lock().expect("no panic");
        bytes.durable = bytes.current.clone();
        Ok(())
    }
}
