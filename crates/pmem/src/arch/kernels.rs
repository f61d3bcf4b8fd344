//! What a variant of the loops consists of.

use super::kernel::Kernel;

/// A copy from the second to the first pointer.
type Copy = unsafe fn(*mut u8, *const u8, usize);

/// The same, and the CRC state (neither inverted before nor after) advanced over the bytes.
type CopyWithCrc = unsafe fn(*mut u8, *const u8, usize, u32) -> u32;

/// A copy from the third to the first two pointers, line by line: what one stream waits for, the other uses.
type PairCopy = unsafe fn(*mut u8, *mut u8, *const u8, usize);

/// The same, and the CRC state advanced over the bytes, once.
type PairCopyWithCrc = unsafe fn(*mut u8, *mut u8, *const u8, usize, u32) -> u32;

/// The XOR of the sources, which are of as many bytes each, to the pointer.
type Xor = unsafe fn(*mut u8, &[&[u8]], usize);

/// The variants of the loops, for one kind of processor.
///
/// # Safety
/// Of every function: the pointers are valid for as many bytes. The region's side (the first
/// pointer of a store, the second of a load) may be written by others meanwhile; the other side
/// may not. Streams want the region's pointers and the length in whole lines.
pub(crate) struct Kernels {
    /// Which of the variants it is.
    pub(crate) kernel: Kernel,
    /// Non-temporal stores of whole lines, durable after a fence.
    pub(crate) stream: Copy,
    /// The same, and the CRC.
    pub(crate) stream_with_crc: CopyWithCrc,
    /// Streams to two places.
    pub(crate) stream_pair: PairCopy,
    /// The same, and the CRC.
    pub(crate) stream_pair_with_crc: PairCopyWithCrc,
    /// Streams the XOR of several sources, which is nowhere but in registers before.
    pub(crate) stream_xor: Xor,
    /// Cached stores in ascending order.
    pub(crate) store: Copy,
    /// Loads from the region.
    pub(crate) read: Copy,
    /// The same, and the CRC.
    pub(crate) read_with_crc: CopyWithCrc,
    /// The CRC of bytes of the region.
    pub(crate) crc: unsafe fn(*const u8, usize, u32) -> u32,
    /// The CRC state advanced over a line that stands in words, each looked at on its own: loads
    /// wider than the stores that made the line would wait until those have left the processor.
    pub(crate) crc_of_line: fn(&[u64; 8], u32) -> u32,
}
