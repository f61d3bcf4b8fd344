//! What the kernel is told about the disk.
//!
//! No volatile cache: every acknowledgement is durable. The kernel then sends no FLUSH and no FUA,
//! and file systems need not wait for any.

use super::REQUEST_BYTES_MAX;
use crate::block_device::BlockDevice;

/// Bytes of the kernel's sectors.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Bytes that one request may discard or zero at most: what it may hold its queue up with.
const ZEROED_BYTES_MAX: u32 = 64 << 20;

/// The driver's limits of a disk, in its own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Size of the disk in sectors of 512 bytes; a rest that fills no sector is out of reach.
    pub disk_sectors: u64,
    /// Base-2 logarithm of the smallest request in bytes.
    pub logical_block_shift: u8,
    /// Base-2 logarithm of the unit that the disk works in, in bytes.
    pub physical_block_shift: u8,
    /// Sectors of the longest read or write.
    pub request_sectors_max: u32,
    /// Bytes that a discard is best aligned to.
    pub discard_granularity_bytes: u32,
    /// Sectors of the longest discard.
    pub discard_sectors_max: u32,
    /// Sectors of the longest zeroing.
    pub zeroing_sectors_max: u32,
}

impl Parameters {
    /// Those of a disk.
    pub fn of(device: &dyn BlockDevice) -> Parameters {
        let block_bytes = device.block_size().max(SECTOR_BYTES as u32);
        Parameters {
            disk_sectors: device.size_bytes() / SECTOR_BYTES,
            logical_block_shift: SECTOR_BYTES.ilog2() as u8,
            physical_block_shift: block_bytes.ilog2() as u8,
            request_sectors_max: REQUEST_BYTES_MAX / SECTOR_BYTES as u32,
            discard_granularity_bytes: block_bytes,
            discard_sectors_max: ZEROED_BYTES_MAX / SECTOR_BYTES as u32,
            zeroing_sectors_max: ZEROED_BYTES_MAX / SECTOR_BYTES as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_device::MemoryDevice;

    #[test]
    fn the_driver_takes_them() {
        for block_bytes in [512, 4096, 65536] {
            let device = MemoryDevice::new((10 << 20) + 700, block_bytes);
            let parameters = Parameters::of(&device);
            assert_eq!(parameters.disk_sectors, (10 << 11) + 1);
            assert_eq!(1 << parameters.physical_block_shift, block_bytes);
            // What ublk_validate_params of the kernel refuses.
            assert!((9..=12).contains(&parameters.logical_block_shift));
            assert!(parameters.logical_block_shift <= parameters.physical_block_shift);
            assert_eq!(parameters.request_sectors_max * 512, REQUEST_BYTES_MAX);
            assert_ne!(parameters.discard_granularity_bytes, 0);
            // A length in bytes is answered as a positive i32.
            assert!(parameters.discard_sectors_max < 1 << 22);
        }
    }
}
