//! Every variant of every loop against plain copies and a bitwise CRC.

use super::{Kernels, multiply_by_shift, portable, supported_kernels};
use proptest::prelude::*;

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

#[repr(align(64))]
#[derive(Clone)]
struct Aligned([u8; LEN_MAX + 2 * ALIGNMENTS]);

fn check_len(kernels: &Kernels, source: &[u8], state_after: u32, target_offset: usize) {
    let len = source.len();
    let context = || format!("{} len {len} target +{target_offset}", kernels.name);
    // SAFETY: both sides are valid for `len` bytes and nobody else knows them.
    let crc = unsafe { (kernels.crc)(source.as_ptr(), len, !0) };
    assert_eq!(crc, state_after, "crc {}", context());
    let mut target = Aligned([0xA5; _]);
    let at = target.0[target_offset..].as_mut_ptr();
    // SAFETY: as above.
    let crc = unsafe { (kernels.read_with_crc)(at, source.as_ptr(), len, !0) };
    assert_eq!(crc, state_after, "read_with_crc {}", context());
    check_target(&target, target_offset, source, &context());
    for copy in [kernels.read, kernels.store] {
        let mut target = Aligned([0xA5; _]);
        // SAFETY: as above.
        unsafe { copy(target.0[target_offset..].as_mut_ptr(), source.as_ptr(), len) };
        check_target(&target, target_offset, source, &context());
    }
    if len.is_multiple_of(64) && target_offset == 0 {
        let mut target = Aligned([0xA5; _]);
        // SAFETY: as above, and whole lines.
        let crc =
            unsafe { (kernels.stream_with_crc)(target.0.as_mut_ptr(), source.as_ptr(), len, !0) };
        assert_eq!(crc, state_after, "stream_with_crc {}", context());
        check_target(&target, 0, source, &context());
        let mut target = Aligned([0xA5; _]);
        // SAFETY: as above.
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

#[test]
fn the_library_agrees_with_the_definition() {
    let bytes = noise(1000);
    assert_eq!(crc32c::crc32c(&bytes), !bitwise_crc_state(!0, &bytes));
}

proptest! {
    #[test]
    fn the_fast_product_equals_the_slow_one(a: u32, b: u32) {
        prop_assert_eq!(multiply_by_shift(a, b), portable::multiply_by_shift(a, b));
    }
}
