//! Sums without carry, which parity is made of.

/// Adds bytes to as many others, bit by bit without carry.
#[inline]
pub fn xor_into(sum: &mut [u8], bytes: &[u8]) {
    for (sum, byte) in sum.iter_mut().zip(bytes) {
        *sum ^= byte;
    }
}
