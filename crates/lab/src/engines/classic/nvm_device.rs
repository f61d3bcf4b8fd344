//! The lowest layer: persistent memory as a block device.
//!
//! A write stores a whole block, flushes each of its lines or streams them, and fences (Tinca §5.1): it is durable
//! when it returns. A block that is written in place may tear at 8 bytes in a power cut, as on any
//! block device that promises no more.

use std::sync::Arc;

use forebay::{Region, Result};

use crate::shared::{ContentBy, check_alive, fence};

pub(super) struct NvmDevice {
    region: Arc<Region>,
    block_bytes: usize,
    content: ContentBy,
}

impl NvmDevice {
    pub(super) fn new(region: Region, block_bytes: usize, content: ContentBy) -> NvmDevice {
        NvmDevice {
            region: Arc::new(region),
            block_bytes,
            content,
        }
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Writes the block at a byte offset; durable on return. After a failed fence it is unknown what
    /// is durable, the entry of a slot that counts as free among it, and nothing is written any more.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() == self.block_bytes, "a block device's write");
        check_alive(&self.region)?;
        self.content.write(&self.region, offset, bytes);
        // The block is durable before its writer writes another one or answers.
        fence(&self.region)
    }

    /// Reads the block at a byte offset; false where the medium is known to have lost some of it.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        assert!(out.len() == self.block_bytes, "a block device's read");
        self.region.read(offset, out);
        !self.region.has_media_error(offset, out.len())
    }

    /// Sends bytes that an earlier incarnation may have left in the processor's caches to the
    /// medium.
    pub(super) fn flush(&self, offset: u64, len: u64) {
        self.region.flush(offset, len as usize);
    }

    /// Waits for what was flushed.
    pub(super) fn fence(&self) -> Result<()> {
        fence(&self.region)
    }
}
