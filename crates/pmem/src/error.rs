//! What can go wrong with a region: kind, path and source, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::foreign::Foreign;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PmemErrorKind {
    /// A call to the system failed; the source says how. The text says what was being done.
    Io(&'static str),
    /// The file to create is there already.
    AlreadyExists,
    /// The file system cannot hold a region of `len` bytes.
    NoSpace {
        /// Bytes asked for.
        len: u64,
    },
    /// The file holds fewer bytes than a region needs.
    TooSmall {
        /// Bytes found.
        found: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// Another process has the region open.
    Locked,
    /// The file is of a kind that cannot be mapped this way; the text says why.
    Unsupported(&'static str),
    /// A fence failed earlier: what was stored since the last good one may be lost.
    Poisoned,
    /// The medium failed under an access (SIGBUS).
    Media {
        /// First byte of the bad page.
        offset: u64,
    },
    /// Another user owns the file, may write it, or may have planted it.
    Foreign(Foreign),
    /// The environment names a kernel that does not exist or that the processor lacks; the source
    /// says which ones there are.
    Kernel,
}

/// An error of a region: what, of which file, and the system's own words.
#[derive(Debug)]
pub struct PmemError {
    kind: PmemErrorKind,
    path: PathBuf,
    source: Option<io::Error>,
}

impl PmemError {
    pub(crate) fn new(kind: PmemErrorKind, path: &Path) -> PmemError {
        PmemError {
            kind,
            path: path.to_owned(),
            source: None,
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> PmemError {
        PmemError {
            kind: PmemErrorKind::Io(action),
            path: path.to_owned(),
            source: Some(source),
        }
    }

    pub(crate) fn with_source(kind: PmemErrorKind, path: &Path, source: io::Error) -> PmemError {
        PmemError {
            kind,
            path: path.to_owned(),
            source: Some(source),
        }
    }

    /// What went wrong.
    pub fn kind(&self) -> PmemErrorKind {
        self.kind
    }

    /// The file or device it went wrong with.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for PmemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.kind {
            PmemErrorKind::Io(action) => write!(f, "{path}: cannot {action}")?,
            PmemErrorKind::AlreadyExists => write!(
                f,
                "{path}: a file is there already; open it, remove it or choose another name"
            )?,
            PmemErrorKind::NoSpace { len } => write!(
                f,
                "{path}: no room for {len} bytes; free some space or ask for less"
            )?,
            PmemErrorKind::TooSmall { found, needed } => write!(
                f,
                "{path}: holds {found} bytes where at least {needed} are needed; it is truncated \
                 or not a region"
            )?,
            PmemErrorKind::Locked => write!(
                f,
                "{path}: another process or region has it open; close that one first"
            )?,
            PmemErrorKind::Unsupported(reason) => write!(f, "{path}: {reason}")?,
            PmemErrorKind::Poisoned => write!(
                f,
                "{path}: an earlier fence failed, so later ones are refused; check the disk, then \
                 open again to recover"
            )?,
            PmemErrorKind::Media { offset } => write!(
                f,
                "{path}: the medium failed at byte {offset} (bad page, or the file was cut short); \
                 replace the medium or restore the file's length, then recover"
            )?,
            PmemErrorKind::Foreign(why) => write!(f, "{path}: {why}")?,
            PmemErrorKind::Kernel => write!(f, "{path}: not opened")?,
        }
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for PmemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}
