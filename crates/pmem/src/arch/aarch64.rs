//! 64-bit Arm: flushes to the point of persistence where the processor has it.

use std::arch::asm;

use super::{Kernel, Kernels};

/// Which instruction flushes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushKind {
    /// DC CVAP: clean to the point of persistence.
    Cvap,
    /// DC CVAC: clean to the point of coherency.
    Cvac,
}

/// No loops are made for this processor.
pub(super) fn kernels_of(_: Kernel) -> Option<&'static Kernels> {
    None
}

pub(crate) fn detect_flush_kind() -> FlushKind {
    if std::arch::is_aarch64_feature_detected!("dpb") {
        FlushKind::Cvap
    } else {
        FlushKind::Cvac
    }
}

/// # Safety
/// `line` points into a mapping, and the processor has the instruction.
#[inline]
pub(crate) unsafe fn flush_line(kind: FlushKind, line: *const u8) {
    match kind {
        // SAFETY: cleaning a line changes no byte. DC CVAP is written as the system instruction
        // it is, since assemblers want a newer architecture named for its alias.
        FlushKind::Cvap => unsafe {
            asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags));
        },
        // SAFETY: cleaning a line changes no byte.
        FlushKind::Cvac => unsafe {
            asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags));
        },
    }
}

/// Writes a line back, if it was changed, and drops it from all caches.
///
/// # Safety
/// `line` points into a mapping.
pub(crate) unsafe fn evict_line(line: *const u8) {
    // SAFETY: cleaning and dropping a line changes no byte.
    unsafe { asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags)) };
}

/// Later loads of this thread come after its evictions.
pub(crate) fn evictions_done() {
    fence();
}

/// Orders all flushes and stores of this thread before all that follows.
#[inline]
pub(crate) fn fence() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

#[inline]
pub(crate) fn prefetch_read(line: *const u8) {
    // SAFETY: a prefetch faults nowhere.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags)) };
}

#[inline]
pub(crate) fn prefetch_write(line: *const u8) {
    // SAFETY: a prefetch faults nowhere.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags)) };
}

/// Whether 16-byte loads are atomic: LSE2 makes pairs so.
pub(crate) fn has_wide_atomics() -> bool {
    std::arch::is_aarch64_feature_detected!("lse2")
}

/// # Safety
/// `from` is 16-byte aligned and mapped.
#[inline]
pub(crate) unsafe fn load_u128(_is_wide: bool, from: *const u8) -> u128 {
    let (low, high): (u64, u64);
    // SAFETY: reads 16 mapped bytes; the barrier makes it an acquire.
    unsafe {
        asm!("ldp {}, {}, [{}]", "dmb ishld", out(reg) low, out(reg) high, in(reg) from,
            options(nostack, preserves_flags, readonly));
    }
    u128::from(high) << 64 | u128::from(low)
}

/// # Safety
/// `to` is 16-byte aligned, mapped and writable.
#[inline]
pub(crate) unsafe fn store_u128(_is_wide: bool, to: *mut u8, value: u128) {
    let (low, high) = (value as u64, (value >> 64) as u64);
    // SAFETY: writes 16 mapped bytes; the barrier makes it a release.
    unsafe {
        asm!("dmb ish", "stp {}, {}, [{}]", in(reg) low, in(reg) high, in(reg) to,
            options(nostack, preserves_flags));
    }
}
