//! What the ublk driver asks is done, and answered as it expects.

use std::sync::Arc;

use forebay::{Backing, Pool, PoolOptions, Region};
use forebay_serve::ublk::{IoDescriptor, execute, operation};
use forebay_serve::{BlockDevice, DeviceError, MemoryDevice, VolumeDevice};

const DISK_BYTES: u64 = 1 << 20;
const DISK_SECTORS: u64 = DISK_BYTES / 512;
/// Zeroes are to be stored.
const NO_UNMAP: u32 = 1 << 15;
/// Durable on completion: so is everything here.
const FUA: u32 = 1 << 13;

fn ask(
    device: &dyn BlockDevice,
    operation_and_flags: u32,
    start_sector: u64,
    sectors: u32,
    buffer: &mut [u8],
) -> i32 {
    let request = IoDescriptor {
        operation_and_flags,
        sectors,
        start_sector,
    };
    execute(device, &request, buffer)
}

fn read(device: &dyn BlockDevice, start_sector: u64, sectors: u32) -> Vec<u8> {
    let mut buffer = vec![0xee; sectors as usize * 512 + 1];
    let code = operation::READ.into();
    let done = ask(device, code, start_sector, sectors, &mut buffer);
    assert_eq!(done, sectors as i32 * 512);
    assert_eq!(buffer.pop(), Some(0xee), "written past the request");
    buffer
}

fn a_disk_does_what_it_is_asked(device: &dyn BlockDevice) {
    let write = u32::from(operation::WRITE);
    // Sectors that are not the disk's blocks, and a buffer that is longer than the request.
    for (start, sectors, fill) in [(0, 8, 1_u8), (3, 2, 2), (64, 256, 3)] {
        let mut buffer = vec![fill; 512 << 10];
        let done = ask(device, write | FUA, start, sectors, &mut buffer);
        assert_eq!(done, sectors as i32 * 512);
    }
    assert!(read(device, 0, 3).iter().all(|byte| *byte == 1));
    assert!(read(device, 3, 2).iter().all(|byte| *byte == 2));
    assert!(read(device, 64, 256).iter().all(|byte| *byte == 3));

    let flush = operation::FLUSH.into();
    assert_eq!(ask(device, flush, 0, 0, &mut []), 0);

    // No data comes with these: the driver lends no buffer.
    let zeroes = u32::from(operation::WRITE_ZEROES);
    let discard = operation::DISCARD.into();
    assert_eq!(ask(device, discard, 64, 8, &mut []), 4096);
    assert_eq!(ask(device, zeroes, 75, 9, &mut []), 9 * 512);
    assert_eq!(ask(device, zeroes | NO_UNMAP, 96, 32, &mut []), 16384);
    for (start, sectors) in [(64, 8), (75, 9), (96, 32)] {
        assert!(read(device, start, sectors).iter().all(|byte| *byte == 0));
    }
    for start in [72, 84, 95, 128] {
        assert!(read(device, start, 1).iter().all(|byte| *byte == 3));
    }
}

fn a_disk_refuses_what_it_cannot_do(device: &dyn BlockDevice) {
    let mut buffer = vec![0; 4096];
    let past_the_end = [
        operation::READ,
        operation::WRITE,
        operation::DISCARD,
        operation::WRITE_ZEROES,
    ];
    for code in past_the_end {
        let last = DISK_SECTORS - 4;
        let done = ask(device, code.into(), last, 8, &mut buffer);
        assert_eq!(done, -libc::ENOSPC, "operation {code}");
    }
    let stored = u32::from(operation::WRITE_ZEROES) | NO_UNMAP;
    assert_eq!(ask(device, stored, DISK_SECTORS, 1, &mut []), -libc::ENOSPC);
    let far = operation::READ.into();
    assert_eq!(ask(device, far, u64::MAX, 1, &mut buffer), -libc::EINVAL);
    // WRITE_SAME, the zoned ones, and codes that do not exist yet.
    for code in [4, 10, 11, 12, 13, 14, 15, 18, 255] {
        assert_eq!(ask(device, code, 0, 8, &mut buffer), -libc::EOPNOTSUPP);
    }
    // More than the buffer holds.
    for code in [operation::READ, operation::WRITE] {
        assert_eq!(ask(device, code.into(), 0, 9, &mut buffer), -libc::EINVAL);
    }
}

#[test]
fn a_disk_in_memory_answers() {
    let device = MemoryDevice::new(DISK_BYTES as usize, 4096);
    a_disk_does_what_it_is_asked(&device);
    a_disk_refuses_what_it_cannot_do(&device);
}

#[test]
fn a_volume_answers() {
    let region = Region::shadow(4 << 20);
    let pool = Pool::create_on(vec![region], &PoolOptions::default()).unwrap();
    let volume = pool.attach(Backing::memory(DISK_BYTES)).unwrap();
    let device = VolumeDevice::new(volume);
    a_disk_does_what_it_is_asked(&device);
    a_disk_refuses_what_it_cannot_do(&device);
}

/// Every request fails with this errno.
struct Broken(i32);

impl Broken {
    fn error(&self) -> Result<(), DeviceError> {
        Err(std::io::Error::from_raw_os_error(self.0).into())
    }
}

impl BlockDevice for Broken {
    fn size_bytes(&self) -> u64 {
        DISK_BYTES
    }
    fn block_size(&self) -> u32 {
        4096
    }
    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        self.error()
    }
    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        self.error()
    }
    fn write_zeroes(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        self.error()
    }
    fn discard(&self, _: u64, _: u64) -> Result<(), DeviceError> {
        self.error()
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.error()
    }
}

#[test]
fn the_kernel_hears_why_a_request_failed() {
    for errno in [libc::EIO, libc::ENOSPC, libc::ENODATA] {
        let device: Arc<dyn BlockDevice> = Arc::new(Broken(errno));
        let mut buffer = vec![0; 4096];
        let stored = u32::from(operation::WRITE_ZEROES) | NO_UNMAP;
        for code in [0, 1, 2, 3, 5, stored] {
            assert_eq!(ask(device.as_ref(), code, 0, 8, &mut buffer), -errno);
        }
    }
}
