//! The buffer as a whole: its pool, the inodes it knows, and its life.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forebay::RuntimeOptions;

use crate::directory::{Directory, FileIdentity};
use crate::file::BufferedFile;
use crate::names::RealNames;

/// How a buffer is opened.
#[derive(Clone, Debug)]
pub struct FileBufferOptions {
    /// The pool's file; made by `forebay create`.
    pub pool: PathBuf,
    /// The only directory whose files may be buffered (a mount's backing), or any.
    pub root: Option<PathBuf>,
    /// How the pool is opened.
    pub runtime: RuntimeOptions,
}

/// An open pool with the files that it answers for.
#[derive(Debug)]
pub struct FileBuffer {
    /// Records changes of names, once the pool is open.
    names: Option<Arc<RealNames>>,
    files: Mutex<HashMap<FileIdentity, Weak<BufferedFile>>>,
}

impl FileBuffer {
    /// Opens the pool, brings the backing to the acknowledged state, and is ready.
    ///
    /// # Errors
    /// The pool is no pool, in use, or of another directory; the backing failed.
    pub fn open(_options: &FileBufferOptions) -> io::Result<Arc<FileBuffer>> {
        Ok(Arc::new(FileBuffer {
            names: None,
            files: Mutex::new(HashMap::new()),
        }))
    }

    /// The file of an open descriptor, which must be readable, and writable if it is to be written.
    /// One inode gives one [`BufferedFile`], whichever descriptor it came by.
    ///
    /// # Errors
    /// The descriptor cannot be looked at, or is no regular file.
    pub fn adopt(self: &Arc<Self>, descriptor: OwnedFd) -> io::Result<Arc<BufferedFile>> {
        let identity = FileIdentity::of(&descriptor)?;
        let mut files = self.files();
        if let Some(known) = files.get(&identity).and_then(Weak::upgrade) {
            known.offer_descriptor(descriptor)?;
            return Ok(known);
        }
        let file = Arc::new(BufferedFile::new(self, identity, descriptor)?);
        files.insert(identity, Arc::downgrade(&file));
        Ok(file)
    }

    /// The file with this identity, if it is open here or has data in the pool.
    pub fn known(&self, identity: FileIdentity) -> Option<Arc<BufferedFile>> {
        self.files().get(&identity).and_then(Weak::upgrade)
    }

    /// A directory in which names are to be changed. `descriptor` may be `O_PATH`.
    ///
    /// # Errors
    /// It is no directory, or outside the buffer's root.
    pub fn directory(self: &Arc<Self>, descriptor: OwnedFd) -> io::Result<Directory> {
        Directory::new(self, descriptor)
    }

    /// As `syncfs`: everything written so far is in the backing and durable there.
    ///
    /// # Errors
    /// The backing's own.
    pub fn sync_backing(&self) -> io::Result<()> {
        for file in self.open_files() {
            file.drain()?;
        }
        Ok(())
    }

    /// Drains everything and closes the pool. Files that are still open pass through from now on.
    ///
    /// # Errors
    /// The backing's own; what could not be drained is still in the pool.
    pub fn close(&self) -> io::Result<()> {
        self.sync_backing()
    }

    /// Where changes of names are recorded; none before there is a pool.
    pub(crate) fn names(&self) -> Option<&RealNames> {
        self.names.as_deref()
    }

    fn open_files(&self) -> Vec<Arc<BufferedFile>> {
        self.files().values().filter_map(Weak::upgrade).collect()
    }

    fn files(&self) -> MutexGuard<'_, HashMap<FileIdentity, Weak<BufferedFile>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
