//! Loops for processors with AVX-512 and VPCLMULQDQ: one 64-byte line a register.
//!
//! The CRC is folded as in Gopal et al., "Fast CRC Computation for Generic Polynomials Using
//! PCLMULQDQ Instruction" (Intel, 2009), in 16 lanes of 128 bits. A fold moves a lane's sum
//! forward by a fixed distance: both its halves are multiplied by a power of x.

use super::super::{Kernel, Kernels};
use super::fetch::{AHEAD, DROPPED, PAIRED, STORED, STREAMED, TAKEN, apart, fetch, is_fetched};
use super::sse::{advance, fold_constants};
use std::arch::asm;
use std::arch::x86_64::*;

const LINE: usize = 64;

/// Lines in flight, so that the multiplier's latency is hidden.
const BATCH: usize = 4;

pub(super) static KERNELS: Kernels = Kernels {
    kernel: Kernel::Avx512,
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
    // SAFETY: the caller keeps the contract of `Kernels`; whatever has this kernel's instructions has AVX2.
    stream_xor: |to, sources, len| unsafe { super::avx2::stream_xor(to, sources, len) },
    store: |to, from, len| {
        // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
        unsafe { pass::<STORED, false>(to, from, len, 0, 0) };
    },
    read: |to, from, len| {
        // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
        unsafe { pass::<TAKEN, false>(to, from, len, 0, 0) };
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    read_with_crc: |to, from, len, state| unsafe { pass::<TAKEN, true>(to, from, len, state, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    crc: |from, len, state| unsafe {
        pass::<DROPPED, true>(std::ptr::null_mut(), from, len, state, 0)
    },
    // SAFETY: takes a reference, so any line will do; offered only where supported.
    crc_of_line: |line, state| unsafe { super::sse::crc_of_line(line, state) },
};

pub(super) fn is_supported() -> bool {
    super::sse::is_supported()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("vpclmulqdq")
}

macro_rules! load {
    ($from:expr, $line:expr) => {{
        let value: __m512i;
        asm!("vmovdqu64 {}, [{} + {}]", lateout(zmm_reg) value, in(reg) $from, const $line * LINE,
            options(nostack, preserves_flags, readonly));
        value
    }};
}

macro_rules! put {
    ($sink:expr, $to:expr, $apart:expr, $line:expr, $value:expr) => {
        if $sink == STORED || $sink == TAKEN {
            asm!("vmovdqu64 [{} + {}], {}", in(reg) $to, const $line * LINE, in(zmm_reg) $value,
                options(nostack, preserves_flags));
        } else if $sink == STREAMED || $sink == PAIRED {
            asm!("vmovntdq [{} + {}], {}", in(reg) $to, const $line * LINE, in(zmm_reg) $value,
                options(nostack, preserves_flags));
            if $sink == PAIRED {
                asm!("vmovntdq [{} + {}], {}", in(reg) $to.wrapping_add($apart),
                    const $line * LINE, in(zmm_reg) $value, options(nostack, preserves_flags));
            }
        }
    };
}

/// What is left of a copy, and the folded sum of what is done.
struct Progress {
    to: *mut u8,
    from: *const u8,
    len: usize,
    sum: __m512i,
}

/// Loads `len` bytes in ascending order, puts them where the sink says, and advances the CRC.
///
/// # Safety
/// As of the loops of `Kernels`; what is paired goes to `apart` bytes behind `to` as well.
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.2")]
unsafe fn pass<const SINK: u8, const CRC: bool>(
    to: *mut u8,
    from: *const u8,
    len: usize,
    state: u32,
    apart: usize,
) -> u32 {
    if len < LINE {
        // SAFETY: the caller keeps the contract of `Kernels`, which is also that of `pass_tail`.
        return unsafe { super::sse::pass_tail::<SINK, CRC>(to, from, len, state) };
    }
    // The state stands before the first bytes: the CRC is linear, so it is added to them.
    let start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(state as i32));
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    unsafe {
        let Progress {
            mut to,
            mut from,
            mut len,
            mut sum,
        } = if len >= BATCH * LINE {
            pass_batches::<SINK, CRC>(to, from, len, start, apart)
        } else {
            let line = load!(from, 0);
            put!(SINK, to, apart, 0, line);
            let sum = _mm512_xor_si512(line, start);
            let (to, from, len) = advance(to, from, len, LINE);
            Progress { to, from, len, sum }
        };
        while len >= LINE {
            let line = load!(from, 0);
            put!(SINK, to, apart, 0, line);
            if CRC {
                sum = fold(sum, fold_by::<LINE>(), line);
            }
            (to, from, len) = advance(to, from, len, LINE);
        }
        let state = if CRC { reduce(sum) } else { state };
        super::sse::pass_tail::<SINK, CRC>(to, from, len, state)
    }
}

/// The same for as many whole batches as there are, at least one.
///
/// # Safety
/// As of [`pass`].
#[inline]
#[target_feature(enable = "avx512f,vpclmulqdq")]
unsafe fn pass_batches<const SINK: u8, const CRC: bool>(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    start: __m512i,
    apart: usize,
) -> Progress {
    macro_rules! pass_batch {
        () => {{
            if is_fetched(SINK) && len > AHEAD {
                fetch(from.wrapping_add(AHEAD), BATCH * LINE);
            }
            let lines = [
                load!(from, 0),
                load!(from, 1),
                load!(from, 2),
                load!(from, 3),
            ];
            put!(SINK, to, apart, 0, lines[0]);
            put!(SINK, to, apart, 1, lines[1]);
            put!(SINK, to, apart, 2, lines[2]);
            put!(SINK, to, apart, 3, lines[3]);
            (to, from, len) = advance(to, from, len, BATCH * LINE);
            lines
        }};
    }
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    let mut sums = unsafe { pass_batch!() };
    sums[0] = _mm512_xor_si512(sums[0], start);
    while len >= BATCH * LINE {
        // SAFETY: `len` is a batch at least, inside the bytes that the contract of `Kernels` makes valid.
        let lines = unsafe { pass_batch!() };
        if CRC {
            for (sum, line) in sums.iter_mut().zip(lines) {
                *sum = fold(*sum, fold_by::<{ BATCH * LINE }>(), line);
            }
        }
    }
    let mut sum = sums[3];
    if CRC {
        sum = fold(sums[0], fold_by::<{ 3 * LINE }>(), sum);
        sum = fold(sums[1], fold_by::<{ 2 * LINE }>(), sum);
        sum = fold(sums[2], fold_by::<LINE>(), sum);
    }
    Progress { to, from, len, sum }
}

#[target_feature(enable = "avx512f")]
fn fold_by<const DISTANCE: usize>() -> __m512i {
    let [low, high] = const { fold_constants(DISTANCE) };
    _mm512_set_epi64(high, low, high, low, high, low, high, low)
}

/// `sum` moved forward by the constants' distance, plus `line`.
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn fold(sum: __m512i, constants: __m512i, line: __m512i) -> __m512i {
    const EXCLUSIVE_OR_OF_THREE: i32 = 0x96;
    _mm512_ternarylogic_epi64::<EXCLUSIVE_OR_OF_THREE>(
        _mm512_clmulepi64_epi128::<0x00>(sum, constants),
        _mm512_clmulepi64_epi128::<0x11>(sum, constants),
        line,
    )
}

/// The CRC state after one line of four lanes: the first three are moved to the last, and the CRC
/// instruction reduces that.
#[target_feature(enable = "avx512f,avx512vl,vpclmulqdq,pclmulqdq,sse4.2")]
fn reduce(sum: __m512i) -> u32 {
    let [low_0, high_0] = const { fold_constants(48) };
    let [low_1, high_1] = const { fold_constants(32) };
    let [low_2, high_2] = const { fold_constants(16) };
    let constants = _mm512_set_epi64(0, 0, high_2, low_2, high_1, low_1, high_0, low_0);
    let last = _mm512_maskz_mov_epi64(0b1100_0000, sum);
    let moved = fold(sum, constants, last);
    let pairs = _mm256_xor_si256(
        _mm512_castsi512_si256(moved),
        _mm512_extracti64x4_epi64::<1>(moved),
    );
    let lane = _mm_xor_si128(
        _mm256_castsi256_si128(pairs),
        _mm256_extracti128_si256::<1>(pairs),
    );
    super::sse::reduce(lane)
}
