//! Loops for processors with PCLMULQDQ and SSE4.2: four 128-bit registers a line. Folding is
//! explained in the AVX-512 module.

use super::super::{Kernel, Kernels};
use super::fetch::{DROPPED, PAIRED, STORED, STREAMED, TAKEN, apart};
use crate::polynomial::power_of_x;
use std::arch::asm;
use std::arch::x86_64::*;

const LINE: usize = 64;

pub(super) static KERNELS: Kernels = Kernels {
    kernel: Kernel::Sse,
    stream: |to, from, len| {
        // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
        unsafe { pass::<STREAMED, false>(to, from, len, 0, 0) };
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_with_crc: |to, from, len, state| unsafe {
        pass::<STREAMED, true>(to, from, len, state, 0)
    },
    stream_pair: |to, twin, from, len| {
        // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
        unsafe { pass::<PAIRED, false>(to, from, len, 0, apart(to, twin)) };
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_pair_with_crc: |to, twin, from, len, state| unsafe {
        pass::<PAIRED, true>(to, from, len, state, apart(to, twin))
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_xor: |to, sources, len| unsafe { stream_xor(to, sources, len) },
    store: |to, from, len| {
        // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
        unsafe { pass::<STORED, false>(to, from, len, 0, 0) };
    },
    read: |to, from, len| {
        // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
        unsafe { pass::<STORED, false>(to, from, len, 0, 0) };
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    read_with_crc: |to, from, len, state| unsafe { pass::<STORED, true>(to, from, len, state, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    crc: |from, len, state| unsafe {
        pass::<DROPPED, true>(std::ptr::null_mut(), from, len, state, 0)
    },
    // SAFETY: takes a reference, so any line will do; offered only where supported.
    crc_of_line: |line, state| unsafe { crc_of_line(line, state) },
};

/// Advances the CRC over a line, a word a step.
#[inline]
#[target_feature(enable = "sse4.2")]
pub(super) fn crc_of_line(line: &[u64; 8], state: u32) -> u32 {
    let fold = |state, word: &u64| _mm_crc32_u64(state, word.to_le());
    line.iter().fold(u64::from(state), fold) as u32
}

pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.2")
}

macro_rules! load {
    ($from:expr, $lane:expr) => {{
        let value: __m128i;
        asm!("movdqu {}, [{} + {}]", lateout(xmm_reg) value, in(reg) $from, const $lane * 16,
            options(nostack, preserves_flags, readonly));
        value
    }};
}

macro_rules! put {
    ($sink:expr, $to:expr, $lane:expr, $value:expr) => {
        if $sink == STORED {
            asm!("movdqu [{} + {}], {}", in(reg) $to, const $lane * 16, in(xmm_reg) $value,
                options(nostack, preserves_flags));
        } else if $sink == STREAMED || $sink == PAIRED {
            asm!("movntdq [{} + {}], {}", in(reg) $to, const $lane * 16, in(xmm_reg) $value,
                options(nostack, preserves_flags));
        }
    };
}

/// Loads `len` bytes in ascending order, puts them where the sink says, and advances the CRC.
///
/// # Safety
/// As of the loops of `Kernels`; what is paired goes to `apart` bytes behind `to` as well.
#[target_feature(enable = "pclmulqdq,sse4.2")]
unsafe fn pass<const SINK: u8, const CRC: bool>(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    mut state: u32,
    apart: usize,
) -> u32 {
    if len >= LINE {
        let constants = fold_by::<LINE>();
        // Before the first line there is nothing to move forward but the state.
        let mut sums = [_mm_setzero_si128(); 4];
        let mut start = _mm_cvtsi32_si128(state as i32);
        while len >= LINE {
            // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
            let lanes = unsafe {
                [
                    load!(from, 0),
                    load!(from, 1),
                    load!(from, 2),
                    load!(from, 3),
                ]
            };
            // SAFETY: a line at least is left, for which the contract of `Kernels` makes `to` valid.
            unsafe {
                put!(SINK, to, 0, lanes[0]);
                put!(SINK, to, 1, lanes[1]);
                put!(SINK, to, 2, lanes[2]);
                put!(SINK, to, 3, lanes[3]);
                if SINK == PAIRED {
                    let twin = to.wrapping_add(apart);
                    put!(STREAMED, twin, 0, lanes[0]);
                    put!(STREAMED, twin, 1, lanes[1]);
                    put!(STREAMED, twin, 2, lanes[2]);
                    put!(STREAMED, twin, 3, lanes[3]);
                }
            }
            if CRC {
                for (sum, lane) in sums.iter_mut().zip(lanes) {
                    *sum = fold(*sum, constants, lane);
                }
                sums[0] = _mm_xor_si128(sums[0], start);
                start = _mm_setzero_si128();
            }
            // SAFETY: `len` is a line at least, so this is at most one past the end.
            (to, from, len) = unsafe { advance(to, from, len, LINE) };
        }
        if CRC {
            let mut sum = fold(sums[0], fold_by::<48>(), sums[3]);
            sum = fold(sums[1], fold_by::<32>(), sum);
            state = reduce(fold(sums[2], fold_by::<16>(), sum));
        }
    }
    // SAFETY: what is left of the same ranges.
    unsafe { pass_tail::<SINK, CRC>(to, from, len, state) }
}

/// Streams the XOR of sources of `len` bytes each, in whole lines.
///
/// # Safety
/// As of the loops of `Kernels`.
#[target_feature(enable = "sse4.2")]
unsafe fn stream_xor(to: *mut u8, sources: &[&[u8]], len: usize) {
    for at in (0..len).step_by(LINE) {
        let mut sums = [_mm_setzero_si128(); 4];
        for source in sources {
            let from = source.as_ptr().wrapping_add(at);
            // SAFETY: a line of the `len` bytes that the contract of `Kernels` makes valid.
            let lanes = unsafe {
                [
                    load!(from, 0),
                    load!(from, 1),
                    load!(from, 2),
                    load!(from, 3),
                ]
            };
            for (sum, lane) in sums.iter_mut().zip(lanes) {
                *sum = _mm_xor_si128(*sum, lane);
            }
        }
        let to = to.wrapping_add(at);
        // SAFETY: the same line of the target.
        unsafe {
            put!(STREAMED, to, 0, sums[0]);
            put!(STREAMED, to, 1, sums[1]);
            put!(STREAMED, to, 2, sums[2]);
            put!(STREAMED, to, 3, sums[3]);
        }
    }
}

/// The same for fewer bytes than a line, in ever smaller words.
///
/// # Safety
/// As of the loops of `Kernels`.
#[inline]
#[target_feature(enable = "sse4.2")]
pub(super) unsafe fn pass_tail<const SINK: u8, const CRC: bool>(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    mut state: u32,
) -> u32 {
    // Streams are whole lines.
    debug_assert!((SINK != STREAMED && SINK != PAIRED) || len == 0);
    macro_rules! word {
        ($type:ty, $load:literal, $store:literal, $class:ident, $crc:expr) => {{
            let value: $type;
            asm!($load, lateout($class) value, in(reg) from,
                options(nostack, preserves_flags, readonly));
            if SINK == STORED || SINK == TAKEN {
                asm!($store, in(reg) to, in($class) value, options(nostack, preserves_flags));
            }
            if CRC {
                state = $crc(state, value);
            }
        }};
    }
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    unsafe {
        while len >= 8 {
            word!(u64, "mov {}, [{}]", "mov [{}], {}", reg, |state, value| {
                _mm_crc32_u64(u64::from(state), value) as u32
            });
            (to, from, len) = advance(to, from, len, 8);
        }
        if len >= 4 {
            word!(u32, "mov {:e}, [{}]", "mov [{}], {:e}", reg, _mm_crc32_u32);
            (to, from, len) = advance(to, from, len, 4);
        }
        if len >= 2 {
            word!(u16, "mov {:x}, [{}]", "mov [{}], {:x}", reg, _mm_crc32_u16);
            (to, from, len) = advance(to, from, len, 2);
        }
        if len >= 1 {
            word!(u8, "mov {}, [{}]", "mov [{}], {}", reg_byte, _mm_crc32_u8);
        }
    }
    state
}

/// # Safety
/// There are `by` bytes. The target may be null where nothing is put.
#[inline]
pub(super) unsafe fn advance(
    to: *mut u8,
    from: *const u8,
    len: usize,
    by: usize,
) -> (*mut u8, *const u8, usize) {
    // SAFETY: by this function's contract the source has `by` bytes.
    (to.wrapping_add(by), unsafe { from.add(by) }, len - by)
}

/// What the low and the high half of a 128-bit sum are multiplied by to move it forward by
/// `distance` bytes. A carry-less product of reflected numbers comes out multiplied by x; the
/// low half stands 64 degrees above the high one.
pub(super) const fn fold_constants(distance: usize) -> [i64; 2] {
    let bits = 8 * distance as i64;
    [
        ((power_of_x(bits + 63) as u64) << 32) as i64,
        ((power_of_x(bits - 1) as u64) << 32) as i64,
    ]
}

#[inline]
#[target_feature(enable = "sse2")]
pub(super) fn fold_by<const DISTANCE: usize>() -> __m128i {
    let [low, high] = const { fold_constants(DISTANCE) };
    _mm_set_epi64x(high, low)
}

#[inline]
#[target_feature(enable = "pclmulqdq")]
pub(super) fn fold(sum: __m128i, constants: __m128i, lane: __m128i) -> __m128i {
    _mm_xor_si128(
        _mm_xor_si128(
            _mm_clmulepi64_si128::<0x00>(sum, constants),
            _mm_clmulepi64_si128::<0x11>(sum, constants),
        ),
        lane,
    )
}

/// The CRC state after one 128-bit lane.
#[inline]
#[target_feature(enable = "sse4.2")]
pub(super) fn reduce(lane: __m128i) -> u32 {
    let low = _mm_cvtsi128_si64(lane) as u64;
    let high = _mm_extract_epi64::<1>(lane) as u64;
    _mm_crc32_u64(_mm_crc32_u64(0, low), high) as u32
}
