//! What a front end needs from a disk: bytes at any offset, durable when acknowledged.
//!
//! Every method may be called from several threads at once. A write, a discard and a zeroing that
//! returned `Ok` survive whatever the pool's medium survives; there is no later "sync" to wait for.

use std::io;
use std::sync::Arc;

/// Why a request to a [`BlockDevice`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The request reaches past the end of the disk.
    #[error(
        "a request for {length} bytes at byte {offset} reaches past the end of the disk ({size_bytes} bytes)"
    )]
    OutOfRange {
        /// First byte asked for.
        offset: u64,
        /// Bytes asked for.
        length: u64,
        /// Size of the disk.
        size_bytes: u64,
    },
    /// The device cannot do this; the caller has another way (writing zeroes, say).
    #[error("the disk does not support {operation}")]
    Unsupported {
        /// What was asked for.
        operation: &'static str,
    },
    /// The pool refused or failed the request.
    #[error(transparent)]
    Pool(#[from] forebay::Error),
    /// Some other I/O failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl DeviceError {
    /// The errno that a kernel asking for this request is to see.
    pub fn errno(&self) -> i32 {
        match self {
            DeviceError::OutOfRange { .. } => libc::ENOSPC,
            DeviceError::Unsupported { .. } => libc::EOPNOTSUPP,
            DeviceError::Pool(_) => libc::EIO,
            DeviceError::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// A disk of a fixed size. Offsets and lengths are bytes, of any alignment.
pub trait BlockDevice: Send + Sync + 'static {
    /// Size of the disk in bytes; constant while it is served.
    fn size_bytes(&self) -> u64;

    /// The size in bytes of the unit the disk works in: requests aligned to it are cheapest.
    fn block_size(&self) -> u32;

    /// Fills `buffer` from byte `offset` on.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError>;

    /// Stores `data` at byte `offset`; durable on return.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError>;

    /// Makes the range read as zeroes; durable on return.
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError>;

    /// Says that nobody needs the range any more. It reads as zeroes afterwards, because the
    /// front ends export a file, whose punched holes read as zeroes.
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError>;

    /// Confirms that what was acknowledged is durable, or says why it no longer can. It has nothing
    /// to write: a front end may answer later flushes itself.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Refuses a range that is not wholly inside the disk.
    fn check_range(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let size_bytes = self.size_bytes();
        match offset.checked_add(length) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => Err(DeviceError::OutOfRange {
                offset,
                length,
                size_bytes,
            }),
        }
    }
}

/// A shared device is the device: the daemon keeps one reference, the front end another.
impl<D: BlockDevice> BlockDevice for Arc<D> {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }
    fn block_size(&self) -> u32 {
        (**self).block_size()
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        (**self).read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        (**self).write_at(offset, data)
    }
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        (**self).write_zeroes(offset, length)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        (**self).discard(offset, length)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        (**self).flush()
    }
}
