//! Loops for processors with AVX2 and VPCLMULQDQ: half a line a register. Folding is explained in
//! the AVX-512 module; here it is in eight lanes of 128 bits.

use super::super::{Kernel, Kernels};
use super::avx2::{HALF, LINE, copy, load, put, put_line};
use super::fetch::{AHEAD, DROPPED, PAIRED, STORED, STREAMED, TAKEN, apart, fetch, is_fetched};
use super::sse::{advance, fold_constants, pass_tail};
use std::arch::asm;
use std::arch::x86_64::*;

/// Bytes in flight, so that the multiplier's latency is hidden.
const BATCH: usize = 2 * LINE;

pub(super) static KERNELS: Kernels = Kernels {
    kernel: Kernel::Avx2Vpclmul,
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream: |to, from, len| unsafe { copy::<STREAMED>(to, from, len, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_with_crc: |to, from, len, state| unsafe { pass::<STREAMED>(to, from, len, state, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_pair: |to, twin, from, len| unsafe { copy::<PAIRED>(to, from, len, apart(to, twin)) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_pair_with_crc: |to, twin, from, len, state| unsafe {
        pass::<PAIRED>(to, from, len, state, apart(to, twin))
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_xor: |to, sources, len| unsafe { super::avx2::stream_xor(to, sources, len) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    store: |to, from, len| unsafe { copy::<STORED>(to, from, len, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    read: |to, from, len| unsafe { copy::<TAKEN>(to, from, len, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    read_with_crc: |to, from, len, state| unsafe { pass::<TAKEN>(to, from, len, state, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    crc: |from, len, state| unsafe { pass::<DROPPED>(std::ptr::null_mut(), from, len, state, 0) },
    // SAFETY: takes a reference, so any line will do; offered only where supported.
    crc_of_line: |line, state| unsafe { super::sse::crc_of_line(line, state) },
};

pub(super) fn is_supported() -> bool {
    super::avx2_crc32::is_supported() && is_x86_feature_detected!("vpclmulqdq")
}

/// Loads `len` bytes in ascending order, puts them where the sink says, and advances the CRC.
///
/// # Safety
/// As of the loops of `Kernels`; what is paired goes to `apart` bytes behind `to` as well.
#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,sse4.2")]
unsafe fn pass<const SINK: u8>(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    state: u32,
    apart: usize,
) -> u32 {
    if len < HALF {
        // SAFETY: the caller keeps the contract of `Kernels`, which is also that of `pass_tail`.
        return unsafe { pass_tail::<SINK, true>(to, from, len, state) };
    }
    // The state stands before the first bytes: the CRC is linear, so it is added to them.
    let mut start = _mm256_zextsi128_si256(_mm_cvtsi32_si128(state as i32));
    let mut sum = _mm256_setzero_si256();
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    unsafe {
        if len >= BATCH {
            sum = pass_batches::<SINK>(to, from, len, start, apart);
            start = _mm256_setzero_si256();
            (to, from, len) = advance(to, from, len, len - len % BATCH);
        }
        while len >= HALF {
            let half = load!(from, 0);
            put!(SINK, to, 0, half);
            if SINK == PAIRED {
                put!(STREAMED, to.wrapping_add(apart), 0, half);
            }
            sum = fold(sum, fold_by::<HALF>(), _mm256_xor_si256(half, start));
            start = _mm256_setzero_si256();
            (to, from, len) = advance(to, from, len, HALF);
        }
        pass_tail::<SINK, true>(to, from, len, reduce(sum))
    }
}

/// The folded sum of as many whole batches as there are, at least one.
///
/// # Safety
/// As of [`pass`].
#[inline]
#[target_feature(enable = "avx2,vpclmulqdq")]
unsafe fn pass_batches<const SINK: u8>(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    start: __m256i,
    apart: usize,
) -> __m256i {
    macro_rules! pass_batch {
        () => {{
            if is_fetched(SINK) && len > AHEAD {
                fetch(from.wrapping_add(AHEAD), BATCH);
            }
            let halves = [
                load!(from, 0),
                load!(from, HALF),
                load!(from, 2 * HALF),
                load!(from, 3 * HALF),
            ];
            put_line!(SINK, to, apart, 0, halves[0], halves[1]);
            put_line!(SINK, to, apart, LINE, halves[2], halves[3]);
            (to, from, len) = advance(to, from, len, BATCH);
            halves
        }};
    }
    if SINK == TAKEN {
        // The multiplies would keep the loads of as much from being in flight together.
        fetch(from, len.min(AHEAD));
    }
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    let mut sums = unsafe { pass_batch!() };
    sums[0] = _mm256_xor_si256(sums[0], start);
    while len >= BATCH {
        // SAFETY: `len` is a batch at least, inside the bytes that the contract of `Kernels` makes valid.
        let halves = unsafe { pass_batch!() };
        for (sum, half) in sums.iter_mut().zip(halves) {
            *sum = fold(*sum, fold_by::<BATCH>(), half);
        }
    }
    let sum = fold(sums[0], fold_by::<{ 3 * HALF }>(), sums[3]);
    let sum = fold(sums[1], fold_by::<{ 2 * HALF }>(), sum);
    fold(sums[2], fold_by::<HALF>(), sum)
}

#[target_feature(enable = "avx2")]
fn fold_by<const DISTANCE: usize>() -> __m256i {
    let [low, high] = const { fold_constants(DISTANCE) };
    _mm256_set_epi64x(high, low, high, low)
}

/// `sum` moved forward by the constants' distance, plus `half`.
#[target_feature(enable = "avx2,vpclmulqdq")]
fn fold(sum: __m256i, constants: __m256i, half: __m256i) -> __m256i {
    _mm256_xor_si256(
        _mm256_xor_si256(
            _mm256_clmulepi64_epi128::<0x00>(sum, constants),
            _mm256_clmulepi64_epi128::<0x11>(sum, constants),
        ),
        half,
    )
}

/// The CRC state after two lanes: the first is moved to the last, and the CRC instruction reduces
/// that.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
fn reduce(sum: __m256i) -> u32 {
    let (first, last) = (
        _mm256_castsi256_si128(sum),
        _mm256_extracti128_si256::<1>(sum),
    );
    super::sse::reduce(super::sse::fold(first, super::sse::fold_by::<16>(), last))
}
