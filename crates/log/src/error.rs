//! What can go wrong: which device, what was found, what to do.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The device did not do what was asked.
    #[error("{}: cannot {action}: {source}", path.display())]
    Device {
        /// The device.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The device cannot hold a pool.
    #[error("{}: {reason}", path.display())]
    Unsuitable {
        /// The device.
        path: PathBuf,
        /// Why, and what would do.
        reason: String,
    },
    /// Another process has the device.
    #[error("{}: another process has it open; close that one first", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// There is no pool on the device.
    #[error("{}: no pool on an SSD is here: {found}; make one, or name the right device", path.display())]
    NoPool {
        /// The device.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// The pool is damaged: what its records say cannot have been written so.
    #[error(
        "{}: the pool is damaged: {found}; nothing was changed: look at the device, or restore the pool from a copy",
        path.display()
    )]
    Damaged {
        /// The device.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// A block is not what was written.
    #[error(
        "{}: block {block} of volume {volume} at page {page} does not match its checksum; look at the device",
        path.display()
    )]
    Corrupt {
        /// The device.
        path: PathBuf,
        /// The volume.
        volume: u32,
        /// The block.
        block: u64,
        /// Where it lies.
        page: u64,
    },
    /// A write failed earlier, so that nothing after it can be promised.
    #[error(
        "{}: the pool refuses writes since one failed ({why}); end the process that has it, look at the device, \
         and open it again",
        path.display()
    )]
    Poisoned {
        /// The device.
        path: PathBuf,
        /// What failed.
        why: String,
    },
    /// No segment is free: the oldest ones have to be reused first.
    #[error(
        "{}: no free segment for a write: the oldest ones wait for their backings; check these, or enlarge the pool",
        path.display()
    )]
    NoRoom {
        /// The device.
        path: PathBuf,
    },
    /// A backing did not do what was asked.
    #[error("the backing of volume {volume}: cannot {action}: {source}; check that disk")]
    Backing {
        /// The volume.
        volume: u32,
        /// What was being done.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The transaction cannot be committed as it is.
    #[error("{0}")]
    Transaction(String),
}

impl LogError {
    /// Of a device at `path` that did not do what was asked.
    pub(crate) fn of_device(
        path: &Path,
        action: &'static str,
    ) -> impl FnOnce(io::Error) -> LogError + use<> {
        let path = path.to_owned();
        move |source| LogError::Device {
            path,
            action,
            source,
        }
    }
}

/// What the log's functions return.
pub type Result<T> = std::result::Result<T, LogError>;
