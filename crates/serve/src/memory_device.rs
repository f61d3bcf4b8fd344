//! A disk in ordinary memory: the reference the front ends are tested against.

use parking_lot::RwLock;

use crate::block_device::{BlockDevice, DeviceError};

/// A disk whose content is a `Vec<u8>`. Nothing survives the process.
#[derive(Debug)]
pub struct MemoryDevice {
    content: RwLock<Vec<u8>>,
    size_bytes: u64,
    block_size: u32,
}

impl MemoryDevice {
    /// A disk of `size_bytes` zeroes that works in blocks of `block_size` bytes.
    pub fn new(size_bytes: usize, block_size: u32) -> Self {
        MemoryDevice {
            content: RwLock::new(vec![0; size_bytes]),
            size_bytes: size_bytes as u64,
            block_size,
        }
    }

    fn change(
        &self,
        offset: u64,
        length: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), DeviceError> {
        self.check_range(offset, length)?;
        let mut content = self.content.write();
        change(&mut content[offset as usize..(offset + length) as usize]);
        Ok(())
    }
}

impl BlockDevice for MemoryDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check_range(offset, buffer.len() as u64)?;
        let content = self.content.read();
        buffer.copy_from_slice(&content[offset as usize..][..buffer.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
        self.change(offset, data.len() as u64, |bytes| {
            bytes.copy_from_slice(data)
        })
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.change(offset, length, |bytes| bytes.fill(0))
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.write_zeroes(offset, length)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}
