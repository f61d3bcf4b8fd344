//! What a front end needs from a disk: bytes at any offset, durable when acknowledged.
//!
//! Every method may be called from several threads at once. A write, a discard and a zeroing that
//! returned `Ok` survive whatever the pool's medium survives; there is no later "sync" to wait for, but for writes that a front end
//! asks to be unsynced.

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
            DeviceError::Pool(error) => match error.kind() {
                // A backing says that it is full, which a virtual machine's host may wait for rather than fail
                // the guest. One that fails or hangs is not.
                forebay::ErrorKind::NoSpace { .. } => libc::ENOSPC,
                _ => libc::EIO,
            },
            DeviceError::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// What a request does to its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// What is known of a range without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtentState {
    /// It may hold anything.
    Data,
    /// It reads as zeroes, though room may be allocated for it.
    Zero,
    /// It reads as zeroes and nothing is allocated for it.
    Hole,
}

/// A range of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes, at least 1.
    pub length: u64,
    /// What is known of them.
    pub state: ExtentState,
}

/// Adds `length` bytes of `state` to a list of consecutive extents, as part of the last one if that
/// has the same state; false where that would be one more than `extents_max`.
pub(crate) fn push_extent(
    extents: &mut Vec<Extent>,
    length: u64,
    state: ExtentState,
    extents_max: usize,
) -> bool {
    if let Some(last) = extents.last_mut()
        && last.state == state
    {
        last.length += length;
        return true;
    }
    let has_room = extents.len() < extents_max;
    if has_room {
        extents.push(Extent { length, state });
    }
    has_room
}

/// What becomes of a queued read: its bytes, or why there are none.
pub type Answer = Box<dyn FnOnce(Result<&[u8], DeviceError>) + Send>;

/// Reads of a disk that wait for a slow device together, with no thread each. Threads begin and submit; one thread works, until
/// it is closed.
pub trait QueuedReads: Send + Sync {
    /// Begins a read if it is one that would wait and can wait here, and says so; `answer` is called only then. If not, it is to be
    /// read by [`BlockDevice::read_at`].
    fn begin(&self, offset: u64, length: usize, answer: &mut dyn FnMut() -> Answer) -> bool;

    /// The same, and submits it, or has this thread wait for the device where no other read does.
    fn read(&self, offset: u64, length: usize, answer: &mut dyn FnMut() -> Answer) -> bool;

    /// Hands all that was begun to the device. What it does not take is read by this thread; whether there was such an answer.
    fn submit(&self) -> bool;

    /// Calls the answers as the device gives them, and `after_batch` behind those that came together, also from threads of its own.
    /// Returns once this is closed and all that was begun is answered.
    fn work(&self, after_batch: &(dyn Fn() + Sync));

    /// Nothing is begun any more.
    fn close(&self);
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

    /// Whether [`BlockDevice::write_unsynced_at`] leaves something for a flush to do, as a disk with a volatile write cache does. A
    /// front end may then use it for clients that flush, and passes each of their flushes on.
    fn has_volatile_cache(&self) -> bool {
        false
    }

    /// As [`BlockDevice::write_at`]; durable when a flush that begins later has returned. A kill of this process does not take it: a
    /// client that comes back need not write it again.
    fn write_unsynced_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.write_at(offset, data)
    }

    /// Makes the range read as zeroes; durable on return.
    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError>;

    /// Says that the range is no longer needed. It reads as zeroes afterwards: clients that
    /// punch holes rely on it.
    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError>;

    /// What was acknowledged is durable on return, or this says why it no longer can be. Without a volatile cache there is nothing to
    /// do: a front end may answer later flushes itself.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Whether a request would be served from memory at once, neither waiting for a slow device nor
    /// for room. Only a hint, for callers that must not block: the answer may change right after.
    fn is_quick(&self, _access: Access, _offset: u64, _length: u64) -> bool {
        true
    }

    /// Reads that wait without a thread each, where the disk has such; so many at a time.
    fn queued_reads(&self, _reads_max: usize) -> Option<Arc<dyn QueuedReads>> {
        None
    }

    /// What is known of a range without reading it: at most `extents_max` (at least 1) consecutive
    /// extents from `offset` on, which cover all of the range or, where they would be more, the
    /// start of it. What may not read as zeroes is never said to be zero.
    fn extents(
        &self,
        offset: u64,
        length: u64,
        _extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        self.check_range(offset, length)?;
        let state = ExtentState::Data;
        Ok(vec![Extent { length, state }])
    }

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
impl<D: BlockDevice + ?Sized> BlockDevice for Arc<D> {
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
    fn has_volatile_cache(&self) -> bool {
        (**self).has_volatile_cache()
    }
    fn write_unsynced_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        (**self).write_unsynced_at(offset, data)
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
    fn is_quick(&self, access: Access, offset: u64, length: u64) -> bool {
        (**self).is_quick(access, offset, length)
    }
    fn queued_reads(&self, reads_max: usize) -> Option<Arc<dyn QueuedReads>> {
        (**self).queued_reads(reads_max)
    }
    fn extents(
        &self,
        offset: u64,
        length: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        (**self).extents(offset, length, extents_max)
    }
}
