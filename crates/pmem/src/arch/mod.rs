//! What depends on the processor: copies that may race, non-temporal stores, CRC-32C, flushes,
//! fences and wide atomics. `choice` says which variant runs.

#![allow(
    unsafe_code,
    reason = "kernels work on raw memory that other threads and the medium may change"
)]

mod choice;
mod kernel;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as native;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("forebay-pmem knows how to flush cache lines on x86-64 and aarch64 only");
#[cfg(target_arch = "x86_64")]
use x86_64 as native;

pub(crate) use native::{
    FlushKind, detect_flush_kind, fence, flush_line, has_wide_atomics, load_u128, prefetch_read,
    prefetch_write, store_u128,
};

#[cfg(target_arch = "x86_64")]
pub(crate) use native::{multiply_by_shift, stream_line};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use {crate::polynomial::multiply_by_shift, portable::stream_line};

pub use choice::KERNEL_VARIABLE;
pub(crate) use choice::kernels;
pub use kernel::{Kernel, KernelError};

/// A copy from the second to the first pointer.
type Copy = unsafe fn(*mut u8, *const u8, usize);

/// The same, and the CRC state (neither inverted before nor after) advanced over the bytes.
type CopyWithCrc = unsafe fn(*mut u8, *const u8, usize, u32) -> u32;

/// The variants of the loops, for one kind of processor.
///
/// # Safety
/// Of every function: the pointers are valid for as many bytes. The region's side (the first
/// pointer of a store, the second of a load) may be written by others meanwhile; the other side
/// may not. Streams want the first pointer and the length in whole lines.
pub(crate) struct Kernels {
    /// Which of the variants it is.
    pub(crate) kernel: Kernel,
    /// Non-temporal stores of whole lines, durable after a fence.
    pub(crate) stream: Copy,
    /// The same, and the CRC.
    pub(crate) stream_with_crc: CopyWithCrc,
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

/// Advances a CRC state over `bytes`.
#[inline]
pub(crate) fn crc_state_of_slice(state: u32, bytes: &[u8]) -> u32 {
    // SAFETY: a slice is valid for its length, and a shared borrow keeps writers off.
    unsafe { (kernels().crc)(bytes.as_ptr(), bytes.len(), state) }
}

#[cfg(test)]
mod tests;
