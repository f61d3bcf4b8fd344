//! Every variant of every loop against plain copies and a bitwise CRC.

use super::choice::kernels_of;
use super::{Kernel, Kernels, multiply_by_shift, portable};
use crate::polynomial;
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const LEN_MAX: usize = 4200;
const ALIGNMENTS: usize = 64;

/// The definition, bit by bit.
fn bitwise_crc_state(state: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(state, |state, byte| {
        (0..8).fold(state ^ u32::from(*byte), |state, _| {
            (state >> 1) ^ (0x82F6_3B78 * (state & 1))
        })
    })
}

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    })
    .take(len)
    .collect()
}

/// Those this processor can run; says which it cannot.
fn supported_kernels() -> Vec<&'static Kernels> {
    let kernels = Kernel::ORDER.map(|kernel| {
        let kernels = kernels_of(kernel);
        if kernels.is_none() {
            eprintln!("skipped kernel {kernel}: this processor lacks what it needs");
        }
        kernels
    });
    kernels.into_iter().flatten().collect()
}

#[repr(align(64))]
#[derive(Clone)]
struct Aligned([u8; LEN_MAX + 2 * ALIGNMENTS]);

fn check_len(kernels: &Kernels, source: &[u8], state_after: u32, target_offset: usize) {
    let len = source.len();
    let context = || format!("{} len {len} target +{target_offset}", kernels.kernel);
    // SAFETY: the slice is valid for `len` bytes, and nothing writes to it meanwhile.
    let crc = unsafe { (kernels.crc)(source.as_ptr(), len, !0) };
    assert_eq!(crc, state_after, "crc {}", context());
    let mut target = Aligned([0xA5; _]);
    let at = target.0[target_offset..].as_mut_ptr();
    // SAFETY: `target` has room for `len` bytes behind any offset; both are this thread's own.
    let crc = unsafe { (kernels.read_with_crc)(at, source.as_ptr(), len, !0) };
    assert_eq!(crc, state_after, "read_with_crc {}", context());
    check_target(&target, target_offset, source, &context());
    for copy in [kernels.read, kernels.store] {
        let mut target = Aligned([0xA5; _]);
        // SAFETY: `target` has room for `len` bytes behind any offset; both are this thread's own.
        unsafe { copy(target.0[target_offset..].as_mut_ptr(), source.as_ptr(), len) };
        check_target(&target, target_offset, source, &context());
    }
    if len.is_multiple_of(64) && target_offset == 0 {
        let mut target = Aligned([0xA5; _]);
        // SAFETY: `len` bytes in whole lines on both sides, which are this thread's own.
        let crc =
            unsafe { (kernels.stream_with_crc)(target.0.as_mut_ptr(), source.as_ptr(), len, !0) };
        assert_eq!(crc, state_after, "stream_with_crc {}", context());
        check_target(&target, 0, source, &context());
        let mut target = Aligned([0xA5; _]);
        // SAFETY: `len` bytes in whole lines on both sides, which are this thread's own.
        unsafe { (kernels.stream)(target.0.as_mut_ptr(), source.as_ptr(), len) };
        check_target(&target, 0, source, &context());
    }
}

/// The bytes are there, and none beside them was touched.
fn check_target(target: &Aligned, offset: usize, source: &[u8], context: &str) {
    let (before, rest) = target.0.split_at(offset);
    let (copied, after) = rest.split_at(source.len());
    assert!(copied == source, "{context}");
    assert!(
        before.iter().chain(after).all(|byte| *byte == 0xA5),
        "{context}"
    );
}

#[test]
fn every_kernel_copies_and_sums_every_length() {
    let bytes = noise(LEN_MAX + ALIGNMENTS);
    for kernels in supported_kernels() {
        let mut state = !0;
        for len in 0..=LEN_MAX {
            check_len(kernels, &bytes[..len], state, 0);
            if len < LEN_MAX {
                state = bitwise_crc_state(state, &bytes[len..=len]);
            }
        }
    }
}

#[test]
fn every_kernel_copies_and_sums_at_every_alignment() {
    let bytes = noise(LEN_MAX + ALIGNMENTS);
    for kernels in supported_kernels() {
        for alignment in 0..ALIGNMENTS {
            for len in [0, 1, 7, 9, 63, 64, 65, 127, 255, 256, 257, 511, 1023, 4096] {
                let source = &bytes[alignment..alignment + len];
                let state = bitwise_crc_state(!0, source);
                check_len(kernels, source, state, 0);
                check_len(kernels, source, state, ALIGNMENTS - alignment);
            }
        }
    }
}

const PAIR_LINES_MAX: usize = 150;

/// The same lines at two places of one stretch, either place first; none beside them is touched.
fn check_pair(kernels: &Kernels, source: &[u8], is_swapped: bool) {
    let context = || format!("{} of {} bytes", kernels.kernel, source.len());
    let state = source.len() as u32;
    let mut once = vec![Line([0xA5; 64]); PAIR_LINES_MAX];
    let (to, from, len) = (once.as_mut_ptr().cast(), source.as_ptr(), source.len());
    // SAFETY: as many whole lines, which are this thread's own.
    let expected = unsafe { (kernels.stream_with_crc)(to, from, len, state) };
    for with_crc in [false, true] {
        let mut stretch = vec![Line([0xA5; 64]); 2 * PAIR_LINES_MAX + 3];
        // SAFETY: both places and the source are of as many whole lines, and this thread's own.
        let found = unsafe {
            let first = stretch.as_mut_ptr().add(1);
            let second = first.add(PAIR_LINES_MAX + 1);
            let (to, twin) = match is_swapped {
                false => (first.cast(), second.cast()),
                true => (second.cast(), first.cast()),
            };
            if with_crc {
                (kernels.stream_pair_with_crc)(to, twin, from, len, state)
            } else {
                (kernels.stream_pair)(to, twin, from, len);
                expected
            }
        };
        assert_eq!(found, expected, "{}", context());
        let streamed = |line: usize| once[line].0;
        for (number, line) in stretch.iter().enumerate() {
            let at = number % (PAIR_LINES_MAX + 1);
            let is_target = at >= 1 && at <= len / 64 && number < 2 * PAIR_LINES_MAX + 2;
            let wanted = if is_target {
                streamed(at - 1)
            } else {
                [0xA5; 64]
            };
            assert_eq!(line.0, wanted, "line {number}, {}", context());
        }
    }
}

#[test]
fn every_kernel_streams_a_pair_as_it_streams_once() {
    let bytes = noise(64 * PAIR_LINES_MAX + ALIGNMENTS);
    for kernels in supported_kernels() {
        for lines in 0..=PAIR_LINES_MAX {
            let source = &bytes[lines % ALIGNMENTS..][..64 * lines];
            check_pair(kernels, source, lines % 3 == 1);
        }
    }
}

#[test]
fn every_kernel_streams_the_xor_of_any_number_of_sources() {
    let bytes = noise(8 * (64 * PAIR_LINES_MAX + ALIGNMENTS));
    for kernels in supported_kernels() {
        for (lines, count) in (0..=PAIR_LINES_MAX).zip((1..=8).cycle()) {
            let len = 64 * lines;
            let source = |number: usize| &bytes[number * (len + 7 * number)..][..len];
            let sources: Vec<&[u8]> = (0..count).map(source).collect();
            let mut target = vec![Line([0xA5; 64]); PAIR_LINES_MAX + 2];
            // SAFETY: as many whole lines, which are this thread's own.
            unsafe { (kernels.stream_xor)(target[1..].as_mut_ptr().cast(), &sources, len) };
            for (number, line) in target.iter().enumerate() {
                for (at, found) in line.0.iter().enumerate() {
                    let wanted = match number.checked_sub(1).filter(|line| *line < lines) {
                        None => 0xA5,
                        Some(line) => sources.iter().fold(0, |sum, one| sum ^ one[64 * line + at]),
                    };
                    assert_eq!(
                        *found, wanted,
                        "{} line {number} of {lines}",
                        kernels.kernel
                    );
                }
            }
        }
    }
}

#[test]
fn the_library_agrees_with_the_definition() {
    let bytes = noise(1000);
    assert_eq!(crc32c::crc32c(&bytes), !bitwise_crc_state(!0, &bytes));
}

/// A line is changed from one pattern to the other and back, word by word, while it is read.
#[test]
fn a_sum_is_of_the_bytes_that_were_copied_whatever_others_store_meanwhile() {
    const READS: usize = 2000;
    let region: Vec<AtomicU64> = (0..512).map(|_| AtomicU64::new(0)).collect();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut value = 0_u64;
            while !is_done.load(Ordering::Relaxed) {
                value = value.wrapping_add(0x0101_0101_0101_0101);
                for word in &region {
                    word.store(value, Ordering::Relaxed);
                }
            }
        });
        let failed = supported_kernels().into_iter().find(|kernels| {
            (0..READS).any(|number| {
                // Every length, so that all parts of the loops have their turn.
                let len = 4096 - number;
                let mut out = vec![0; len];
                // SAFETY: both sides are valid for the length; the region is only accessed by
                // loads and stores that bear races, `out` is ours.
                let state = unsafe {
                    (kernels.read_with_crc)(out.as_mut_ptr(), region.as_ptr().cast(), len, !0)
                };
                state != bitwise_crc_state(!0, &out)
            })
        });
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(failed.map(|kernels| kernels.kernel), None);
    });
}

/// Each of the three loops that sum, over the same bytes.
fn states_of(kernels: &Kernels, source: &[u8], state: u32) -> [u32; 3] {
    let len = source.len();
    let mut out = vec![0; len];
    let whole_lines = len - len % 64;
    let mut lines: Vec<Line> = vec![Line([0; 64]); whole_lines / 64];
    // SAFETY: all are this thread's own and valid for the lengths; streams are to a
    // line's start and in whole lines.
    let states = unsafe {
        let streamed = (kernels.stream_with_crc)(
            lines.as_mut_ptr().cast(),
            source.as_ptr(),
            whole_lines,
            state,
        );
        [
            (kernels.crc)(source.as_ptr(), len, state),
            (kernels.read_with_crc)(out.as_mut_ptr(), source.as_ptr(), len, state),
            (kernels.crc)(source[whole_lines..].as_ptr(), len - whole_lines, streamed),
        ]
    };
    assert_eq!(out, source, "{}", kernels.kernel);
    let streamed: Vec<u8> = lines.iter().flat_map(|line| line.0).collect();
    assert_eq!(streamed, source[..whole_lines], "{}", kernels.kernel);
    states
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

proptest! {
    #[test]
    fn every_kernel_sums_as_the_portable_one_from_any_state(
        bytes in prop::collection::vec(any::<u8>(), 0..10_000),
        start in any::<prop::sample::Index>(),
        state: u32,
    ) {
        let bytes = &bytes[start.index(bytes.len() + 1)..];
        let expected = states_of(&portable::KERNELS, bytes, state);
        prop_assert_eq!(expected, [bitwise_crc_state(state, bytes); 3]);
        for kernels in supported_kernels() {
            prop_assert_eq!(states_of(kernels, bytes, state), expected, "{}", kernels.kernel);
        }
    }

    #[test]
    fn a_sum_goes_on_where_another_ended(
        len in 0_usize..150_000,
        cut in any::<prop::sample::Index>(),
        state: u32,
    ) {
        let bytes = noise(len);
        let (first, second) = bytes.split_at(cut.index(len + 1));
        let expected = states_of(&portable::KERNELS, &bytes, state);
        for kernels in supported_kernels() {
            for middle in states_of(kernels, first, state) {
                let states = states_of(kernels, second, middle);
                prop_assert_eq!(states, expected, "{}", kernels.kernel);
            }
        }
    }

    #[test]
    fn the_fast_product_equals_the_slow_one(a: u32, b: u32) {
        prop_assert_eq!(multiply_by_shift(a, b), polynomial::multiply_by_shift(a, b));
    }
}
