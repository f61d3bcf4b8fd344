//! What the loops for processors with AVX2 share: half a line a register, and copies without a sum.

use super::fetch::{AHEAD, PAIRED, STORED, STREAMED, TAKEN, fetch, is_fetched};
use super::sse;
use std::arch::asm;
use std::arch::x86_64::{__m256i, _mm256_setzero_si256, _mm256_xor_si256};

pub(super) const LINE: usize = 64;

/// Bytes of a register.
pub(super) const HALF: usize = 32;

/// Bytes that are copied at once.
pub(super) const BATCH: usize = 4 * LINE;

/// Half a line at a constant distance, in assembly, since others may change it meanwhile.
macro_rules! load {
    ($from:expr, $at:expr) => {{
        let half: __m256i;
        asm!("vmovdqu {}, [{} + {}]", lateout(ymm_reg) half, in(reg) $from, const $at,
            options(nostack, preserves_flags, readonly));
        half
    }};
}
pub(super) use load;

/// Puts half a line where the sink says.
macro_rules! put {
    ($sink:expr, $to:expr, $at:expr, $half:expr) => {
        if $sink == STORED || $sink == TAKEN {
            asm!("vmovdqu [{} + {}], {}", in(reg) $to, const $at, in(ymm_reg) $half,
                options(nostack, preserves_flags));
        } else if $sink == STREAMED || $sink == PAIRED {
            asm!("vmovntdq [{} + {}], {}", in(reg) $to, const $at, in(ymm_reg) $half,
                options(nostack, preserves_flags));
        }
    };
}
pub(super) use put;

/// Puts a line where the sink says, both halves at one place before the other.
macro_rules! put_line {
    ($sink:expr, $to:expr, $apart:expr, $at:expr, $first:expr, $second:expr) => {
        put!($sink, $to, $at, $first);
        put!($sink, $to, $at + HALF, $second);
        if $sink == PAIRED {
            let twin = $to.wrapping_add($apart);
            put!(STREAMED, twin, $at, $first);
            put!(STREAMED, twin, $at + HALF, $second);
        }
    };
}
pub(super) use put_line;

/// Copies four lines in ascending order.
///
/// # Safety
/// Both sides are valid for [`BATCH`] bytes; where they are streamed the target is a line's start. What is paired
/// goes to `apart` bytes behind `to` as well.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn copy_batch<const SINK: u8>(to: *mut u8, from: *const u8, apart: usize) {
    macro_rules! copy_line {
        ($line:literal) => {
            let halves = (load!(from, $line * LINE), load!(from, $line * LINE + HALF));
            put_line!(SINK, to, apart, $line * LINE, halves.0, halves.1);
        };
    }
    // SAFETY: four lines are a batch, for which both sides are valid by this function's contract.
    unsafe {
        copy_line!(0);
        copy_line!(1);
        copy_line!(2);
        copy_line!(3);
    }
}

/// Copies one line.
///
/// # Safety
/// As of [`copy_batch`], for a line.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn copy_line<const SINK: u8>(to: *mut u8, from: *const u8, apart: usize) {
    // SAFETY: both sides are valid for a line by this function's contract.
    unsafe {
        let halves = (load!(from, 0), load!(from, HALF));
        put_line!(SINK, to, apart, 0, halves.0, halves.1);
    }
}

/// Copies `len` bytes in ascending order.
///
/// # Safety
/// Both sides are valid for as many bytes; streams are of whole lines. What is paired goes to `apart` bytes behind
/// `to` as well.
#[target_feature(enable = "avx2,sse4.2")]
pub(super) unsafe fn copy<const SINK: u8>(
    mut to: *mut u8,
    mut from: *const u8,
    mut len: usize,
    apart: usize,
) {
    // SAFETY: no access lies beyond the `len` bytes that this function's contract makes valid.
    unsafe {
        while len >= BATCH {
            if is_fetched(SINK) && len > AHEAD {
                fetch(from.wrapping_add(AHEAD), BATCH);
            }
            copy_batch::<SINK>(to, from, apart);
            (to, from, len) = sse::advance(to, from, len, BATCH);
        }
        while len >= LINE {
            copy_line::<SINK>(to, from, apart);
            (to, from, len) = sse::advance(to, from, len, LINE);
        }
        sse::pass_tail::<SINK, false>(to, from, len, 0);
    }
}

/// Streams the XOR of sources of `len` bytes each, in whole lines. Each line of it is made in registers: a cached store
/// between streams would wait for all before it.
///
/// # Safety
/// The sources and the target are valid for `len` bytes; the target is a line's start.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn stream_xor(to: *mut u8, sources: &[&[u8]], len: usize) {
    for at in (0..len).step_by(LINE) {
        let mut sums = [_mm256_setzero_si256(); 2];
        for source in sources {
            let from = source.as_ptr().wrapping_add(at);
            // SAFETY: a line of the `len` bytes that this function's contract makes valid.
            let halves = unsafe { [load!(from, 0), load!(from, HALF)] };
            for (sum, half) in sums.iter_mut().zip(halves) {
                *sum = _mm256_xor_si256(*sum, half);
            }
        }
        let to = to.wrapping_add(at);
        // SAFETY: the same line of the target.
        unsafe {
            put_line!(STREAMED, to, 0, 0, sums[0], sums[1]);
        }
    }
}
