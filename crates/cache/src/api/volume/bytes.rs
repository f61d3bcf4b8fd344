//! Bytes at any offset, read by way of the blocks that hold them.

use super::MemoryVolume;
use crate::error::Result;

impl MemoryVolume {
    /// Reads bytes from byte `offset` on, each block of them as it was at one moment. A block that is
    /// read in part is read and verified whole.
    ///
    /// # Errors
    /// As [`MemoryVolume::read`]; a range that ends behind the volume's last byte is outside of it.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.check_bytes(offset, out.len())?;
        read_bytes(offset, out, self.block_size(), |block, out| {
            self.read(block, out)
        })
    }
}

/// Reads bytes from byte `offset` on through `read`, which reads whole blocks from a number on: those
/// covered whole straight into `out`, those at the edges through memory of their own.
pub(crate) fn read_bytes(
    offset: u64,
    out: &mut [u8],
    block_bytes: usize,
    read: impl Fn(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let mut edge = Vec::new();
    let (mut at, mut rest) = (offset, out);
    while !rest.is_empty() {
        let block = at / block_bytes as u64;
        let start = (at % block_bytes as u64) as usize;
        let is_whole = start == 0 && rest.len() >= block_bytes;
        let len = match is_whole {
            true => rest.len() / block_bytes * block_bytes,
            false => rest.len().min(block_bytes - start),
        };
        let (bytes, tail) = rest.split_at_mut(len);
        if is_whole {
            read(block, bytes)?;
        } else {
            edge.resize(block_bytes, 0);
            read(block, &mut edge)?;
            bytes.copy_from_slice(&edge[start..start + len]);
        }
        (at, rest) = (at + len as u64, tail);
    }
    Ok(())
}
