//! The CRC of a changed block from the change alone: the CRC is linear.

use crate::arch;
use crate::polynomial::power_of_x;

/// Bytes combined at once: small enough for registers and the first-level cache.
const CHUNK_BYTES: usize = 256;

/// Powers are tabled for each of the lowest three bytes of a length; a block has 64 KiB at most.
const TABLED_LENGTH_BYTES: usize = 3;

/// `SHIFTS[i][b]` multiplies by x^(8 · b · 256^i) through [`arch::multiply_by_shift`], which
/// multiplies by x^33 besides.
static SHIFTS: [[u32; 256]; TABLED_LENGTH_BYTES] = {
    let mut tables = [[0; 256]; TABLED_LENGTH_BYTES];
    let mut table = 0;
    while table < TABLED_LENGTH_BYTES {
        let mut value = 0;
        while value < 256 {
            tables[table][value] = power_of_x(((8 * value) << (8 * table)) as i64 - 33);
            value += 1;
        }
        table += 1;
    }
    tables
};

/// The CRC-32C of a block in which the bytes `old` were replaced by `new`, with `tail_len` bytes
/// behind them, when it was `old_crc` before. The block itself is not read.
///
/// # Panics
/// If `old` and `new` differ in length.
pub fn crc32c_combine_delta(old_crc: u32, old: &[u8], new: &[u8], tail_len: usize) -> u32 {
    assert_eq!(
        old.len(),
        new.len(),
        "a delta replaces bytes by as many bytes"
    );
    let mut difference = 0;
    let mut chunk = [0; CHUNK_BYTES];
    for (old, new) in old.chunks(CHUNK_BYTES).zip(new.chunks(CHUNK_BYTES)) {
        let chunk = &mut chunk[..old.len()];
        for ((byte, old), new) in chunk.iter_mut().zip(old).zip(new) {
            *byte = old ^ new;
        }
        difference = arch::crc_state_of_slice(difference, chunk);
    }
    old_crc ^ shift(difference, tail_len)
}

/// The CRC state after `len` zero bytes.
fn shift(mut state: u32, len: usize) -> u32 {
    let mut rest = len;
    for table in &SHIFTS {
        let byte = rest & 0xFF;
        if byte != 0 {
            state = arch::multiply_by_shift(state, table[byte]);
        }
        rest >>= 8;
    }
    if rest != 0 {
        let bits = (rest as i64) << (8 * TABLED_LENGTH_BYTES + 3);
        state = arch::multiply_by_shift(state, power_of_x(bits - 33));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc32c;
    use proptest::prelude::*;

    #[test]
    fn a_shift_equals_that_many_zero_bytes() {
        for len in [
            0,
            1,
            7,
            255,
            256,
            257,
            4096,
            65_535,
            65_536,
            1 << 24,
            (1 << 24) + 77,
        ] {
            let by_zeroes = arch::crc_state_of_slice(0xDEAD_BEEF, &vec![0; len]);
            assert_eq!(shift(0xDEAD_BEEF, len), by_zeroes, "{len}");
        }
    }

    proptest! {
        #[test]
        fn a_delta_yields_the_crc_of_the_changed_block(
            mut block in prop::collection::vec(any::<u8>(), 1..9000),
            new in prop::collection::vec(any::<u8>(), 0..2000),
            at in any::<prop::sample::Index>(),
        ) {
            let old_crc = crc32c(&block);
            let start = at.index(block.len());
            let end = block.len().min(start + new.len());
            let new = &new[..end - start];
            let old = block[start..end].to_vec();
            block[start..end].copy_from_slice(new);
            let crc = crc32c_combine_delta(old_crc, &old, new, block.len() - end);
            prop_assert_eq!(crc, crc32c(&block));
        }
    }
}
