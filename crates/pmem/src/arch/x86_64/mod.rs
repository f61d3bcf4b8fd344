//! x86-64: flushes, fence, prefetches and 16-byte atomics; the loops are in the modules below.

mod avx2;
mod avx2_crc32;
mod avx2_vpclmul;
mod avx512;
mod fetch;
mod sse;

use super::{Kernel, Kernels};
use crate::polynomial;
use std::arch::asm;
use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which instruction flushes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushKind {
    /// CLWB: writes the line back and may keep it cached.
    Clwb,
    /// CLFLUSHOPT: writes the line back and drops it.
    ClflushOpt,
    /// CLFLUSH: the same, one after the other.
    Clflush,
}

/// The loops of a kernel made for this processor, if it has what they need.
pub(super) fn kernels_of(kernel: Kernel) -> Option<&'static Kernels> {
    let (is_supported, kernels) = match kernel {
        Kernel::Avx512 => (avx512::is_supported(), &avx512::KERNELS),
        Kernel::Avx2Vpclmul => (avx2_vpclmul::is_supported(), &avx2_vpclmul::KERNELS),
        Kernel::Avx2Crc32 => (avx2_crc32::is_supported(), &avx2_crc32::KERNELS),
        Kernel::Sse => (sse::is_supported(), &sse::KERNELS),
        Kernel::Portable => return None,
    };
    is_supported.then_some(kernels)
}

pub(crate) fn detect_flush_kind() -> FlushKind {
    static KIND: OnceLock<FlushKind> = OnceLock::new();
    *KIND.get_or_init(|| match features() & (1 << 24) != 0 {
        true => FlushKind::Clwb,
        false => dropping_kind(),
    })
}

/// Leaf 7, register EBX (Intel SDM, CPUID): the standard library does not name what flushes.
fn features() -> u32 {
    std::arch::x86_64::__cpuid_count(7, 0).ebx
}

/// The instruction that leaves a line in no cache.
fn dropping_kind() -> FlushKind {
    match features() & (1 << 23) != 0 {
        true => FlushKind::ClflushOpt,
        false => FlushKind::Clflush,
    }
}

/// Writes a line back, if it was changed, and drops it from all caches.
///
/// # Safety
/// `line` points into a mapping.
pub(crate) unsafe fn evict_line(line: *const u8) {
    static KIND: OnceLock<FlushKind> = OnceLock::new();
    let kind = *KIND.get_or_init(dropping_kind);
    // SAFETY: the caller's promise; the instruction was detected.
    unsafe { flush_line(kind, line) };
}

/// Later loads of this thread come after its evictions.
pub(crate) fn evictions_done() {
    // SAFETY: a barrier. SFENCE does not order loads.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) };
}

/// # Safety
/// `line` points into a mapping, and the processor has the instruction.
#[inline]
pub(crate) unsafe fn flush_line(kind: FlushKind, line: *const u8) {
    match kind {
        // SAFETY: flushing a line changes no byte.
        FlushKind::Clwb => unsafe {
            asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
        },
        // SAFETY: flushing a line changes no byte.
        FlushKind::ClflushOpt => unsafe {
            asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
        },
        // SAFETY: flushing a line changes no byte.
        FlushKind::Clflush => unsafe {
            asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
        },
    }
}

/// Non-temporal stores of a line's words, from stores just made.
///
/// # Safety
/// `to` is the start of a mapped, writable line.
#[inline]
pub(crate) unsafe fn stream_line(to: *mut u8, line: &[u64; 8]) {
    macro_rules! stream_word {
        ($number:expr) => {
            // SAFETY: inside the line. In assembly, since others may read it meanwhile.
            unsafe {
                asm!("movnti [{} + {}], {}", in(reg) to, const 8 * $number, in(reg) line[$number],
                    options(nostack, preserves_flags));
            }
        };
    }
    stream_word!(0);
    stream_word!(1);
    stream_word!(2);
    stream_word!(3);
    stream_word!(4);
    stream_word!(5);
    stream_word!(6);
    stream_word!(7);
}

/// Orders all flushes and stores of this thread before all that follows.
#[inline]
pub(crate) fn fence() {
    // SAFETY: a barrier. In assembly, so that the compiler moves no access across it either.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}

#[inline]
pub(crate) fn prefetch_read(line: *const u8) {
    // SAFETY: a prefetch faults nowhere.
    unsafe { asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) };
}

#[inline]
pub(crate) fn prefetch_write(line: *const u8) {
    // SAFETY: a prefetch faults nowhere; where the processor lacks it, it is a no-op.
    unsafe { asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly)) };
}

/// Whether aligned 16-byte vector loads and stores are atomic: Intel and AMD promise it for
/// processors with AVX (Intel SDM volume 3A, section 9.1.1).
pub(crate) fn has_wide_atomics() -> bool {
    is_x86_feature_detected!("avx")
}

/// Two 8-byte loads where wide ones are not atomic: the locked instruction writes, which a
/// read-only mapping does not bear.
///
/// # Safety
/// `from` is 16-byte aligned and mapped; `is_wide` is [`has_wide_atomics`].
#[inline]
pub(crate) unsafe fn load_u128(is_wide: bool, from: *const u8) -> u128 {
    if is_wide {
        let value: __m128i;
        // SAFETY: reads 16 mapped and aligned bytes; AVX is there, the caller checked.
        unsafe {
            asm!("vmovdqa {}, [{}]", lateout(xmm_reg) value, in(reg) from,
                options(nostack, preserves_flags, readonly));
            return std::mem::transmute::<__m128i, u128>(value);
        }
    }
    // SAFETY: two mapped and aligned words, read atomically.
    unsafe {
        let words = from.cast_mut().cast::<u64>();
        let low = AtomicU64::from_ptr(words).load(Ordering::Acquire);
        let high = AtomicU64::from_ptr(words.add(1)).load(Ordering::Acquire);
        u128::from(high) << 64 | u128::from(low)
    }
}

/// # Safety
/// `to` is 16-byte aligned, mapped and writable; `is_wide` is [`has_wide_atomics`].
#[inline]
pub(crate) unsafe fn store_u128(is_wide: bool, to: *mut u8, value: u128) {
    if is_wide {
        // SAFETY: writes 16 mapped and aligned bytes; AVX is there, the caller checked. Stores
        // are not reordered with older accesses on this processor: it is a release.
        unsafe {
            let value = std::mem::transmute::<u128, __m128i>(value);
            asm!("vmovdqa [{}], {}", in(reg) to, in(xmm_reg) value,
                options(nostack, preserves_flags));
        }
    } else if is_x86_feature_detected!("cmpxchg16b") {
        // SAFETY: 16 mapped and aligned bytes; the instruction is there.
        unsafe { exchange_u128(to.cast(), value) };
    } else {
        // SAFETY: two mapped and aligned words, written atomically. The first 64-bit processors
        // have nothing wider.
        unsafe {
            let words = to.cast::<u64>();
            AtomicU64::from_ptr(words).store(value as u64, Ordering::Release);
            AtomicU64::from_ptr(words.add(1)).store((value >> 64) as u64, Ordering::Release);
        }
    }
}

/// The intrinsic is not used: where it is not inlined it calls a library that is not linked.
///
/// # Safety
/// CMPXCHG16B is there; `to` is 16-byte aligned, mapped and writable.
unsafe fn exchange_u128(to: *mut u128, value: u128) {
    // SAFETY: instruction and bytes are there by this function's contract. RBX, which the compiler keeps
    // for itself, gets its value back.
    unsafe {
        asm!(
            "xchg rsi, rbx",
            "2:",
            "lock cmpxchg16b [rdi]",
            "jne 2b",
            "mov rbx, rsi",
            inout("rsi") value as u64 => _,
            in("rdi") to,
            in("rcx") (value >> 64) as u64,
            inout("rax") 0u64 => _,
            inout("rdx") 0u64 => _,
            options(nostack),
        );
    }
}

/// a · b · x^33 modulo the CRC polynomial.
#[inline]
pub(crate) fn multiply_by_shift(a: u32, b: u32) -> u32 {
    if sse::is_supported() {
        // SAFETY: the instructions are there.
        unsafe { multiply_carry_less(a, b) }
    } else {
        polynomial::multiply_by_shift(a, b)
    }
}

/// The carry-less product of two reflected numbers is x · a · b in 64 reflected bits; the CRC
/// instruction reduces it and multiplies by x^32.
#[target_feature(enable = "pclmulqdq,sse4.2")]
fn multiply_carry_less(a: u32, b: u32) -> u32 {
    let a = _mm_cvtsi64_si128(i64::from(a));
    let b = _mm_cvtsi64_si128(i64::from(b));
    let product = _mm_cvtsi128_si64(_mm_clmulepi64_si128(a, b, 0x00));
    _mm_crc32_u64(0, product as u64) as u32
}
