//! What depends on the processor: copies that may race, non-temporal stores, CRC-32C, flushes,
//! fences and wide atomics. `choice` says which variant runs.

#![allow(
    unsafe_code,
    reason = "kernels work on raw memory that other threads and the medium may change"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::LINE_BYTES;

mod choice;
mod kernel;
mod kernels;
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
    FlushKind, detect_flush_kind, evict_line, evictions_done, fence, flush_line, has_wide_atomics,
    load_u128, prefetch_read, prefetch_write, store_u128,
};

#[cfg(target_arch = "x86_64")]
pub(crate) use native::{multiply_by_shift, stream_line};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use {crate::polynomial::multiply_by_shift, portable::stream_line};

pub use choice::KERNEL_VARIABLE;
pub(crate) use choice::kernels;
pub use kernel::{Kernel, KernelError};
pub(crate) use kernels::Kernels;

/// Asks the CPU to bring the line of an ordinary variable near, to be written.
#[inline]
pub fn prefetch<T>(place: &T) {
    prefetch_write(std::ptr::from_ref(place).cast());
}

/// Advances a CRC state over `bytes`.
#[inline]
pub(crate) fn crc_state_of_slice(state: u32, bytes: &[u8]) -> u32 {
    // SAFETY: a slice is valid for its length, and a shared borrow keeps writers off.
    unsafe { (kernels().crc)(bytes.as_ptr(), bytes.len(), state) }
}

/// Streams lines that the caller has in words.
///
/// # Safety
/// `to` is the start of as many mapped, writable lines.
#[inline(never)]
pub(crate) unsafe fn stream_lines(to: *mut u8, lines: &[[u64; 8]]) {
    for (number, line) in lines.iter().enumerate() {
        // SAFETY: one of the caller's lines.
        unsafe { stream_line(to.add(number * LINE_BYTES), line) };
    }
}

/// Streams a line that carries its own check; see `Region::stream_checked_line`.
///
/// # Safety
/// `to` is the start of a mapped, writable line.
#[inline(never)]
pub(crate) unsafe fn stream_checked_line(to: *mut u8, line: &mut [u64; 8], at: usize, crc: u32) {
    line[at] |= u64::from(!(kernels().crc_of_line)(line, !crc));
    // SAFETY: the caller's line.
    unsafe { stream_line(to, line) };
}

/// Whether a line of a region has the check that it carries; see `Line::is_checked`.
#[inline(never)]
pub(crate) fn is_checked_line(line: &[AtomicU64; 8], at: usize, crc: u32) -> bool {
    let mut words = line
        .each_ref()
        .map(|word| u64::from_le(word.load(Ordering::Acquire)));
    let found = words[at] as u32;
    words[at] ^= u64::from(found);
    !(kernels().crc_of_line)(&words, !crc) == found
}

#[cfg(test)]
mod tests;
