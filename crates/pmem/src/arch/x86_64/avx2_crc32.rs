//! Loops for processors with AVX2: half a line a register, and the CRC by the instruction for it.
//!
//! The instruction takes a word a cycle and yields after three, so four sums are made side by side,
//! of four lanes that follow each other in memory. At the end of a group of lanes the first three
//! sums are moved forward over the lanes behind them, by carry-less multiplies with powers of x.

use super::super::{Kernel, Kernels};
use super::avx2::{BATCH, LINE, copy, copy_batch, copy_line};
use super::fetch::{AHEAD, DROPPED, PAIRED, STORED, STREAMED, TAKEN, apart, fetch};
use super::sse::{advance, pass_tail};
use crate::polynomial::power_of_x;
use std::arch::asm;
use std::arch::x86_64::*;

/// Bytes of a lane: the last two are for what is left of a block. Blocks are streamed in few long
/// lanes, so that few sums have to be moved.
const BLOCK_LANE: usize = 1024;
const LANE: usize = 256;
const SHORT_LANE: usize = LINE;

/// Lanes of a group.
const LANES: usize = 4;

/// Bytes of the groups that are read.
const GROUP: usize = LANES * LANE;
const SHORT_GROUP: usize = LANES * SHORT_LANE;

/// What is prefetched before the first load: the sums would keep the loads of as much from being
/// in flight together.
const AHEAD_AT_FIRST: usize = 1024;

pub(super) static KERNELS: Kernels = Kernels {
    kernel: Kernel::Avx2Crc32,
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream: |to, from, len| unsafe { copy::<STREAMED>(to, from, len, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_with_crc: |to, from, len, state| unsafe {
        stream_with_crc::<STREAMED>(to, from, len, state, 0)
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_pair: |to, twin, from, len| unsafe { copy::<PAIRED>(to, from, len, apart(to, twin)) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_pair_with_crc: |to, twin, from, len, state| unsafe {
        stream_with_crc::<PAIRED>(to, from, len, state, apart(to, twin))
    },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    stream_xor: |to, sources, len| unsafe { super::avx2::stream_xor(to, sources, len) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    store: |to, from, len| unsafe { copy::<STORED>(to, from, len, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    read: |to, from, len| unsafe { copy::<TAKEN>(to, from, len, 0) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    read_with_crc: |to, from, len, state| unsafe { read_with_crc(to, from, len, state) },
    // SAFETY: the caller keeps the contract of `Kernels`; offered only where supported.
    crc: |from, len, state| unsafe { crc(from, len, state) },
    // SAFETY: takes a reference, so any line will do; offered only where supported.
    crc_of_line: |line, state| unsafe { super::sse::crc_of_line(line, state) },
};

pub(super) fn is_supported() -> bool {
    super::sse::is_supported() && is_x86_feature_detected!("avx2")
}

/// Advances a sum over the word at a constant distance. In assembly, since others may change it.
macro_rules! add_word {
    ($sum:expr, $from:expr, $at:expr) => {
        asm!("crc32 {}, qword ptr [{} + {}]", inout(reg) $sum, in(reg) $from, const $at,
            options(nostack, preserves_flags, readonly));
    };
}

/// Advances the CRC over a group of lanes at `summed`, and copies as many bytes meanwhile.
///
/// Streamed are the lines that were just summed. The processor takes a load for one of a store that
/// waits where their addresses have the last 12 bits in common, as those of two aligned blocks do;
/// in this order no load follows such a store.
///
/// # Safety
/// All three are valid for `LANES * LANE` bytes; nothing is copied where they are dropped. What is paired goes to
/// `apart` bytes behind `to` as well.
#[inline]
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
unsafe fn group<const SINK: u8, const LANE: usize>(
    to: *mut u8,
    from: *const u8,
    summed: *const u8,
    state: u32,
    apart: usize,
) -> u32 {
    let mut sums = [u64::from(state), 0, 0, 0];
    for line in 0..LANE / LINE {
        // SAFETY: a batch, and a line of each lane, inside the bytes that this function's contract names.
        unsafe {
            if SINK == TAKEN {
                copy_batch::<TAKEN>(to.add(line * BATCH), from.add(line * BATCH), 0);
            }
            let at = line * LINE;
            let summed = summed.add(at);
            macro_rules! add_words {
                ($($word:literal)*) => { $(
                    add_word!(sums[0], summed, 8 * $word);
                    add_word!(sums[1], summed, 8 * $word + LANE);
                    add_word!(sums[2], summed, 8 * $word + 2 * LANE);
                    add_word!(sums[3], summed, 8 * $word + 3 * LANE);
                )* };
            }
            add_words!(0 1 2 3 4 5 6 7);
            if SINK == STREAMED || SINK == PAIRED {
                for lane in 0..LANES {
                    let at = lane * LANE + at;
                    copy_line::<SINK>(to.add(at), from.add(at), apart);
                }
            }
        }
    }
    let moved = _mm_xor_si128(
        _mm_xor_si128(
            times(sums[0], const { power_over(3 * LANE) }),
            times(sums[1], const { power_over(2 * LANE) }),
        ),
        times(sums[2], const { power_over(LANE) }),
    );
    (_mm_crc32_u64(0, _mm_cvtsi128_si64(moved) as u64) ^ sums[3]) as u32
}

/// Advances the CRC over what is left of the lanes, a line.
///
/// # Safety
/// There are that many bytes.
#[inline]
#[target_feature(enable = "sse4.2")]
unsafe fn add_line(summed: *const u8, state: u32) -> u32 {
    let mut sum = u64::from(state);
    macro_rules! add_words {
        ($($word:literal)*) => { $( add_word!(sum, summed, 8 * $word); )* };
    }
    // SAFETY: the words of the line that is there by this function's contract.
    unsafe {
        add_words!(0 1 2 3 4 5 6 7);
    }
    sum as u32
}

/// What a sum is multiplied by to move it forward over `len` bytes: the product comes out
/// multiplied by x, and the CRC instruction that reduces it multiplies by x^32.
const fn power_over(len: usize) -> u32 {
    power_of_x(8 * len as i64 - 33)
}

#[inline]
#[target_feature(enable = "pclmulqdq,sse2")]
fn times(sum: u64, power: u32) -> __m128i {
    let power = _mm_cvtsi64_si128(i64::from(power));
    _mm_clmulepi64_si128::<0x00>(_mm_cvtsi64_si128(sum as i64), power)
}

/// The bytes are summed at their source, which nothing writes to meanwhile.
///
/// # Safety
/// As of the loops of `Kernels`; what is paired goes to `apart` bytes behind `to` as well.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
unsafe fn stream_with_crc<const SINK: u8>(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    mut state: u32,
    apart: usize,
) -> u32 {
    macro_rules! stream_groups {
        ($lane:expr) => {
            while len >= LANES * $lane {
                state = group::<SINK, { $lane }>(to, from, from, state, apart);
                (to, from, len) = advance(to, from, len, LANES * $lane);
            }
        };
    }
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    unsafe {
        stream_groups!(BLOCK_LANE);
        stream_groups!(LANE);
        stream_groups!(SHORT_LANE);
        while len >= LINE {
            state = add_line(from, state);
            copy_line::<SINK>(to, from, apart);
            (to, from, len) = advance(to, from, len, LINE);
        }
        pass_tail::<SINK, true>(to, from, len, state)
    }
}

/// The bytes are summed where they were copied to, in private memory: other threads may change
/// them in the region between two loads. A group is summed while the next one is copied, whose
/// loads may wait for the medium.
///
/// # Safety
/// As of the loops of `Kernels`.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
unsafe fn read_with_crc(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    mut state: u32,
) -> u32 {
    fetch(from, len.min(AHEAD_AT_FIRST));
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    unsafe {
        if len >= GROUP {
            copy_group(to, from, len);
            while len >= 2 * GROUP {
                fetch_ahead(from.add(GROUP), len - GROUP);
                state = group::<TAKEN, LANE>(to.add(GROUP), from.add(GROUP), to, state, 0);
                (to, from, len) = advance(to, from, len, GROUP);
            }
            state = group::<DROPPED, LANE>(to, from, to, state, 0);
            (to, from, len) = advance(to, from, len, GROUP);
        }
        while len >= SHORT_GROUP {
            copy_batch::<TAKEN>(to, from, 0);
            state = group::<DROPPED, SHORT_LANE>(to, from, to, state, 0);
            (to, from, len) = advance(to, from, len, SHORT_GROUP);
        }
        while len >= LINE {
            copy_line::<TAKEN>(to, from, 0);
            state = add_line(to, state);
            (to, from, len) = advance(to, from, len, LINE);
        }
        pass_tail::<TAKEN, true>(to, from, len, state)
    }
}

/// # Safety
/// Both sides are valid for `len` bytes, a group at least.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn copy_group(to: *mut u8, from: *const u8, len: usize) {
    fetch_ahead(from, len);
    for offset in (0..GROUP).step_by(BATCH) {
        // SAFETY: inside the group, for which both sides are valid by this function's contract.
        unsafe { copy_batch::<TAKEN>(to.add(offset), from.add(offset), 0) };
    }
}

/// Prefetches a group from [`AHEAD`], where there are that many bytes.
#[inline]
fn fetch_ahead(from: *const u8, len: usize) {
    if len > AHEAD {
        fetch(from.wrapping_add(AHEAD), GROUP.min(len - AHEAD));
    }
}

/// # Safety
/// As of the loops of `Kernels`.
#[target_feature(enable = "avx2,pclmulqdq,sse4.2")]
unsafe fn crc(mut from: *const u8, mut len: usize, mut state: u32) -> u32 {
    let nowhere = std::ptr::null_mut();
    // SAFETY: no access lies beyond the `len` bytes that the contract of `Kernels` makes valid.
    unsafe {
        while len >= GROUP {
            fetch_ahead(from, len);
            state = group::<DROPPED, LANE>(nowhere, from, from, state, 0);
            (_, from, len) = advance(nowhere, from, len, GROUP);
        }
        while len >= SHORT_GROUP {
            state = group::<DROPPED, SHORT_LANE>(nowhere, from, from, state, 0);
            (_, from, len) = advance(nowhere, from, len, SHORT_GROUP);
        }
        while len >= LINE {
            state = add_line(from, state);
            (_, from, len) = advance(nowhere, from, len, LINE);
        }
        pass_tail::<DROPPED, true>(nowhere, from, len, state)
    }
}
