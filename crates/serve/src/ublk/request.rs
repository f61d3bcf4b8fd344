//! One request of the ublk driver carried out: what the kernel asked, and what it is answered.

use super::parameters::SECTOR_BYTES;
use crate::block_device::{BlockDevice, DeviceError};
use crate::log_rate_limit::LogRateLimit;

/// What the driver can ask for (`UBLK_IO_OP_*`).
pub mod operation {
    /// Fill the buffer.
    pub const READ: u8 = 0;
    /// Store the buffer.
    pub const WRITE: u8 = 1;
    /// Confirm that all of it is durable.
    pub const FLUSH: u8 = 2;
    /// The range is no longer needed.
    pub const DISCARD: u8 = 3;
    /// Make the range read as zeroes.
    pub const WRITE_ZEROES: u8 = 5;
}

/// Zeroes are to be stored rather than the room given back (`UBLK_IO_F_NOUNMAP`).
const NO_UNMAP: u32 = 1 << 15;

/// Zeroes stored at once.
const PIECE_BYTES: u64 = 1 << 20;

/// What the log is told of failed requests, of all devices together.
static LOG_RATE_LIMIT: LogRateLimit = LogRateLimit::new();

/// A request, as the driver describes it (`struct ublksrv_io_desc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoDescriptor {
    /// The operation in the low 8 bits, flags above.
    pub operation_and_flags: u32,
    /// Sectors of 512 bytes that it covers.
    pub sectors: u32,
    /// The first of them.
    pub start_sector: u64,
}

/// Carries out a request on `device`, whose data is at the start of `buffer`: the bytes done, or a
/// negative errno.
///
/// A write that is answered with its length is durable.
pub fn execute(device: &dyn BlockDevice, request: &IoDescriptor, buffer: &mut [u8]) -> i32 {
    let length = u64::from(request.sectors) * SECTOR_BYTES;
    let Some(offset) = request.start_sector.checked_mul(SECTOR_BYTES) else {
        return -libc::EINVAL;
    };
    let operation = (request.operation_and_flags & 0xff) as u8;
    let result = match operation {
        operation::READ | operation::WRITE => {
            let Some(data) = buffer.get_mut(..length as usize) else {
                return -libc::EINVAL;
            };
            match operation {
                operation::READ => device.read_at(offset, data),
                _ => device.write_at(offset, data),
            }
        }
        operation::FLUSH => device.flush(),
        operation::DISCARD => device.discard(offset, length),
        operation::WRITE_ZEROES if request.operation_and_flags & NO_UNMAP != 0 => {
            store_zeroes(device, offset, length)
        }
        operation::WRITE_ZEROES => device.write_zeroes(offset, length),
        _ => return -libc::EOPNOTSUPP,
    };
    match result {
        Ok(()) => i32::try_from(length).unwrap_or(i32::MAX),
        Err(error) => {
            let errno = error.errno();
            if let Some(left_out) = LOG_RATE_LIMIT.next() {
                tracing::warn!(operation, offset, length, %error, left_out, "a ublk request failed");
            }
            -errno
        }
    }
}

fn store_zeroes(device: &dyn BlockDevice, offset: u64, length: u64) -> Result<(), DeviceError> {
    device.check_range(offset, length)?;
    let zeroes = vec![0; length.min(PIECE_BYTES) as usize];
    for at in (0..length).step_by(PIECE_BYTES as usize) {
        let piece = &zeroes[..(length - at).min(PIECE_BYTES) as usize];
        device.write_at(offset + at, piece)?;
    }
    Ok(())
}
