//! CRC-32C (Castagnoli, RFC 3720): initial value and final exclusive-or all ones.

mod combine;

pub use combine::crc32c_combine_delta;

/// The CRC-32C of `bytes`.
///
/// ```
/// assert_eq!(forebay_pmem::crc32c(b"123456789"), 0xE306_9283);
/// ```
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// The CRC-32C of what has the CRC-32C `crc`, followed by a line of little-endian words.
#[inline]
pub fn crc32c_append_line(crc: u32, line: &[u64; 8]) -> u32 {
    !(crate::arch::kernels().crc_of_line)(line, !crc)
}

/// The CRC-32C of what has the CRC-32C `crc`, followed by several lines.
#[inline]
pub fn crc32c_append_lines(crc: u32, lines: &[[u64; 8]]) -> u32 {
    let kernels = crate::arch::kernels();
    let states = lines.iter();
    !states.fold(!crc, |state, line| (kernels.crc_of_line)(line, state))
}

/// The CRC-32C of what has the CRC-32C `crc`, followed by `more`.
pub fn crc32c_append(crc: u32, more: &[u8]) -> u32 {
    !crate::arch::crc_state_of_slice(!crc, more)
}
