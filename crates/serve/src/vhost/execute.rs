//! One request carried out on the disk.
//!
//! What a guest writes is copied once into memory of our own before it is examined: a guest that
//! changes it meanwhile must not make us store what its checksum does not match. Reads go the same
//! way back, so that nothing of the cache ever depends on memory that the guest can change. A write
//! that is answered is durable.

use std::sync::Arc;

use virtio_bindings::bindings::virtio_blk::{
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP,
};

use crate::allocator::{no_memory, zeroed};
use crate::block_device::{Access, BlockDevice, DeviceError};
use crate::log_rate_limit::LogRateLimit;
use crate::vhost::memory::GuestMemory;
use crate::vhost::options::VhostUserOptions;
use crate::vhost::request::{Operation, Request, copy_in, copy_out};
use crate::vhost::serial::{self, SERIAL_BYTES};
use crate::vhost::stats::{Tallies, count};

/// Bytes of a sector, the unit that requests count in whatever the disk's own is.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Longer reads and writes go to a worker, where copying them does not hold up other requests, in
/// bytes.
const INLINE_BYTES_MAX: u64 = 128 << 10;

/// Bytes read at once: few enough that they are still in the processor's cache when they go to the
/// guest.
const READ_PIECE_BYTES: u64 = 512 << 10;

/// Bytes written at once; no pool has longer transactions, so that a write that can be one
/// transaction is one.
const WRITE_PIECE_BYTES: u64 = 4 << 20;

/// Zeroes written at once where a hole is not wanted.
const ZERO_PIECE_BYTES: u64 = 1 << 20;

/// A buffer longer than this is not kept from one request to the next.
const KEPT_BUFFER_BYTES: usize = 128 << 10;

/// What one request may zero.
pub(crate) struct RangeLimits {
    /// Ranges in it.
    pub(crate) ranges: u32,
    /// Sectors in one of them.
    pub(crate) sectors: u32,
}

/// Of a discard: 64 times 2 GiB, of which only the record of what is stored changes.
pub(crate) const DISCARD_LIMITS: RangeLimits = RangeLimits {
    ranges: 64,
    sectors: 1 << 22,
};

/// Of a write-zeroes request: 64 MiB, because they may have to be written, and the answers of the
/// queue wait meanwhile.
pub(crate) const ZERO_LIMITS: RangeLimits = RangeLimits {
    ranges: 1,
    sectors: 1 << 17,
};

/// Bytes of a range in a discard or write-zeroes request: sector, sectors, flags.
const RANGE_BYTES: u64 = 16;

/// The one flag of a range that there is: a hole may be left.
const FLAG_UNMAP: u32 = 1;

/// A request's outcome, as the guest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    IoError,
    Unsupported,
}

impl Status {
    pub(crate) fn code(self) -> u8 {
        let code = match self {
            Status::Ok => VIRTIO_BLK_S_OK,
            Status::IoError => VIRTIO_BLK_S_IOERR,
            Status::Unsupported => VIRTIO_BLK_S_UNSUPP,
        };
        code as u8
    }
}

impl From<DeviceError> for Status {
    fn from(error: DeviceError) -> Status {
        match error.errno() {
            libc::EOPNOTSUPP => Status::Unsupported,
            _ => Status::IoError,
        }
    }
}

impl From<vm_memory::GuestMemoryError> for Status {
    fn from(_: vm_memory::GuestMemoryError) -> Status {
        Status::IoError
    }
}

/// A range of a discard or write-zeroes request.
struct Range {
    offset: u64,
    length: u64,
    flags: u32,
}

/// What requests are carried out on.
pub(crate) struct Executor {
    pub(crate) device: Arc<dyn BlockDevice>,
    pub(crate) read_only: bool,
    pub(crate) serial: [u8; SERIAL_BYTES],
    pub(crate) tallies: Arc<Tallies>,
    /// What the log is told of guests and their machine monitors.
    pub(crate) log_rate_limit: LogRateLimit,
}

impl Executor {
    /// Carries requests for `device` out, which is offered with `options`.
    pub(crate) fn new(device: Arc<dyn BlockDevice>, options: &VhostUserOptions) -> Executor {
        Executor {
            device,
            read_only: options.read_only,
            serial: serial::of(&options.serial),
            tallies: Arc::new(Tallies::default()),
            log_rate_limit: LogRateLimit::default(),
        }
    }

    /// Whether it moves so few bytes that only a wait for the backing can take long.
    pub(crate) fn is_short(&self, request: &Request) -> bool {
        match request.operation {
            // It waits for the pool's device alone.
            Operation::Flush => true,
            Operation::Read | Operation::Write => request.data_bytes <= INLINE_BYTES_MAX,
            _ => false,
        }
    }

    /// Whether the request takes so little time that its queue may wait for it.
    pub(crate) fn is_quick(&self, request: &Request) -> bool {
        let access = match request.operation {
            Operation::Read => Access::Read,
            Operation::Write => Access::Write,
            Operation::Discard | Operation::WriteZeroes => return false,
            // It waits for the device then: another front end may have written what is not durable.
            Operation::Flush => return !self.device.has_volatile_cache(),
            Operation::GetSerial | Operation::Unknown => return true,
        };
        self.is_short(request)
            && match request.sector.checked_mul(SECTOR_BYTES) {
                Some(offset) => self.device.is_quick(access, offset, request.data_bytes),
                // It is refused.
                None => true,
            }
    }

    /// Carries a request out, all but telling the guest. `buffer` is kept for the next one.
    pub(crate) fn execute(
        &self,
        request: &Request,
        memory: &GuestMemory,
        buffer: &mut Vec<u8>,
    ) -> Status {
        let result = match request.operation {
            Operation::Read => self.read(request, memory, buffer),
            Operation::Write => self.write(request, memory, buffer),
            Operation::Flush => self.flush(),
            Operation::Discard | Operation::WriteZeroes => self.zero(request, memory),
            Operation::GetSerial => self.tell_serial(request, memory),
            Operation::Unknown => {
                count(&self.tallies.others, 1);
                Err(Status::Unsupported)
            }
        };
        if buffer.capacity() > KEPT_BUFFER_BYTES {
            *buffer = Vec::new();
        }
        match result {
            Ok(()) => Status::Ok,
            Err(status) => {
                count(&self.tallies.errors, 1);
                status
            }
        }
    }

    /// The first byte of a read or write, if all of it is whole sectors of the disk.
    fn offset_of(&self, request: &Request) -> Result<u64, Status> {
        if !request.data_bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(Status::IoError);
        }
        self.byte_range(request.sector, request.data_bytes)
    }

    fn byte_range(&self, sector: u64, length: u64) -> Result<u64, Status> {
        let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Status::IoError)?;
        self.device.check_range(offset, length)?;
        Ok(offset)
    }

    fn refuse_if_read_only(&self) -> Result<(), Status> {
        match self.read_only {
            true => Err(Status::IoError),
            false => Ok(()),
        }
    }

    fn read(
        &self,
        request: &Request,
        memory: &GuestMemory,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Status> {
        count(&self.tallies.reads, 1);
        let offset = self.offset_of(request)?;
        let mut done = 0;
        while done < request.data_bytes {
            let piece = (request.data_bytes - done).min(READ_PIECE_BYTES) as usize;
            let bytes = at_least(buffer, piece)?;
            self.device.read_at(offset + done, bytes)?;
            copy_out(&request.data, memory, done, bytes)?;
            done += piece as u64;
        }
        count(&self.tallies.read_bytes, request.data_bytes);
        Ok(())
    }

    fn write(
        &self,
        request: &Request,
        memory: &GuestMemory,
        buffer: &mut Vec<u8>,
    ) -> Result<(), Status> {
        count(&self.tallies.writes, 1);
        self.refuse_if_read_only()?;
        let offset = self.offset_of(request)?;
        let mut done = 0;
        while done < request.data_bytes {
            let piece = (request.data_bytes - done).min(WRITE_PIECE_BYTES) as usize;
            let bytes = at_least(buffer, piece)?;
            copy_in(&request.data, memory, done, bytes)?;
            self.device.write_at(offset + done, bytes)?;
            done += piece as u64;
        }
        count(&self.tallies.written_bytes, request.data_bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), Status> {
        count(&self.tallies.flushes, 1);
        Ok(self.device.flush()?)
    }

    /// A discard or write-zeroes request: all of its ranges are validated before the first is
    /// zeroed.
    fn zero(&self, request: &Request, memory: &GuestMemory) -> Result<(), Status> {
        count(&self.tallies.zeroings, 1);
        self.refuse_if_read_only()?;
        let is_discard = request.operation == Operation::Discard;
        let ranges = self.ranges_of(request, memory)?;
        let allowed = if is_discard { 0 } else { FLAG_UNMAP };
        if ranges.iter().any(|range| range.flags & !allowed != 0) {
            return Err(Status::Unsupported);
        }
        for range in ranges {
            match (is_discard, range.flags & FLAG_UNMAP != 0) {
                (true, _) => self.device.discard(range.offset, range.length)?,
                (false, true) => self.device.write_zeroes(range.offset, range.length)?,
                (false, false) => self.write_real_zeroes(&range)?,
            }
        }
        Ok(())
    }

    fn ranges_of(&self, request: &Request, memory: &GuestMemory) -> Result<Vec<Range>, Status> {
        let ranges = request.data_bytes / RANGE_BYTES;
        let is_whole = request.data_bytes.is_multiple_of(RANGE_BYTES);
        let limits = match request.operation {
            Operation::Discard => DISCARD_LIMITS,
            _ => ZERO_LIMITS,
        };
        if !is_whole || ranges == 0 || ranges > limits.ranges.into() {
            return Err(Status::IoError);
        }
        let mut bytes = zeroes(request.data_bytes as usize)?;
        copy_in(&request.data, memory, 0, &mut bytes)?;
        let (parts, _) = bytes.as_chunks::<{ RANGE_BYTES as usize }>();
        let range_of = |part| self.range_of(part, limits.sectors);
        parts.iter().map(range_of).collect()
    }

    fn range_of(
        &self,
        bytes: &[u8; RANGE_BYTES as usize],
        sectors_max: u32,
    ) -> Result<Range, Status> {
        let number = u128::from_le_bytes(*bytes);
        let sectors = (number >> 64) as u32;
        if sectors > sectors_max {
            return Err(Status::IoError);
        }
        let length = u64::from(sectors) * SECTOR_BYTES;
        Ok(Range {
            offset: self.byte_range(number as u64, length)?,
            length,
            flags: (number >> 96) as u32,
        })
    }

    fn write_real_zeroes(&self, range: &Range) -> Result<(), Status> {
        let zeroes = zeroes(ZERO_PIECE_BYTES.min(range.length) as usize)?;
        let end = range.offset + range.length;
        let mut at = range.offset;
        while at < end {
            // Cut at multiples of the piece, so that no block is touched twice.
            let piece_end = end.min((at / ZERO_PIECE_BYTES + 1) * ZERO_PIECE_BYTES);
            let piece = &zeroes[..(piece_end - at) as usize];
            self.device.write_at(at, piece)?;
            at = piece_end;
        }
        Ok(())
    }

    fn tell_serial(&self, request: &Request, memory: &GuestMemory) -> Result<(), Status> {
        count(&self.tallies.others, 1);
        let bytes = self.serial.len().min(request.data_bytes as usize);
        Ok(copy_out(&request.data, memory, 0, &self.serial[..bytes])?)
    }
}

/// The first `count` bytes of the buffer, which grows where it is shorter.
fn at_least(buffer: &mut Vec<u8>, count: usize) -> Result<&mut [u8], Status> {
    if buffer.len() < count {
        // What it had need not be there at the same time.
        *buffer = Vec::new();
        *buffer = zeroes(count)?;
    }
    Ok(&mut buffer[..count])
}

fn zeroes(count: usize) -> Result<Vec<u8>, Status> {
    zeroed(count).ok_or_else(|| DeviceError::from(no_memory(count)).into())
}
