//! Page-aligned memory, which is what `O_DIRECT` asks of its callers.

use std::ops::{Deref, DerefMut};

/// Alignment of memory, offset and length that every direct transfer has. Devices and file systems
/// ask for 512 to 4096 bytes; the largest serves them all, and blocks are multiples of it anyway.
pub const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// Zeroed bytes whose first one lies at a multiple of [`DIRECT_ALIGNMENT_BYTES`].
pub struct AlignedBuffer {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// A zeroed buffer of `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        // A little more than is needed: the vector is never resized, so its address stays.
        Self::over(vec![0; len + DIRECT_ALIGNMENT_BYTES - 1], len)
    }

    /// The same; none where the system has no memory for it.
    #[must_use]
    pub fn try_new(len: usize) -> Option<Self> {
        let mut storage = Vec::new();
        let bytes = len + DIRECT_ALIGNMENT_BYTES - 1;
        storage.try_reserve_exact(bytes).ok()?;
        storage.resize(bytes, 0);
        Some(Self::over(storage, len))
    }

    fn over(storage: Vec<u8>, len: usize) -> Self {
        let start = storage.as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES);
        assert!(
            start < DIRECT_ALIGNMENT_BYTES,
            "byte pointers can always be aligned"
        );
        Self {
            storage,
            start,
            len,
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}

/// Whether a transfer of `bytes` at `offset` may go by `O_DIRECT` as it stands.
pub(super) fn is_direct_aligned(offset: u64, bytes: &[u8]) -> bool {
    is_range_aligned(offset, bytes.len())
        && bytes.as_ptr().addr().is_multiple_of(DIRECT_ALIGNMENT_BYTES)
}

/// Whether offset and length alone suit `O_DIRECT`.
pub(super) fn is_range_aligned(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(DIRECT_ALIGNMENT_BYTES as u64)
        && len.is_multiple_of(DIRECT_ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_any_length_start_on_a_page() {
        for len in [0, 1, 511, 4096, 4097, 1 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            assert_eq!(buffer.len(), len);
            assert!(
                buffer
                    .as_ptr()
                    .addr()
                    .is_multiple_of(DIRECT_ALIGNMENT_BYTES)
            );
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|&byte| byte == 7));
        }
    }
}
