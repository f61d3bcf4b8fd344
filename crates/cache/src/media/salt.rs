//! What tells one incarnation's log from everything else that may lie on the medium.

use super::layout::LINE_BYTES;

/// The part of a commit word that is the position, in lines.
const COMMIT_POSITION_MASK: u64 = (1 << 40) - 1;

/// The secret that tags and CRCs of one incarnation are keyed with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) u64);

impl Salt {
    /// What only a record of this incarnation, lane and absolute position starts with. Neither an earlier
    /// lap nor a guest's bytes that look like a record have it.
    #[inline]
    pub(crate) fn tag(self, lane: u32, position: u64) -> u64 {
        let mut h = position ^ u64::from(lane).rotate_left(48);
        h = (h ^ self.0).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        h ^= h >> 33;
        h = (h ^ self.0.rotate_left(23)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        h ^ h >> 29
    }
    /// Strict mode: everything in the lane up to `end` is committed. The upper 24 bits tie the word
    /// to incarnation, lane and position.
    pub(crate) fn commit_word(self, lane: u32, end: u64) -> u64 {
        let position = (end / LINE_BYTES) & COMMIT_POSITION_MASK;
        position | (self.tag(lane, !end) & !COMMIT_POSITION_MASK)
    }
    /// The end that a commit word of this incarnation and lane names. The word has the low bits of its
    /// number of lines; a lane is shorter by far, so `position`, of any of its records, has the rest.
    pub(crate) fn committed_end(self, lane: u32, word: u64, position: u64) -> Option<u64> {
        let from = (position / LINE_BYTES).saturating_sub(COMMIT_POSITION_MASK / 2);
        let lines =
            from + ((word & COMMIT_POSITION_MASK).wrapping_sub(from) & COMMIT_POSITION_MASK);
        let end = lines * LINE_BYTES;
        (word == self.commit_word(lane, end)).then_some(end)
    }
    pub(crate) fn crc_seed(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_word_names_its_end_also_after_its_bits_have_wrapped() {
        let (salt, lap) = (Salt(77), (COMMIT_POSITION_MASK + 1) * LINE_BYTES);
        for start in [0, 4096, lap - 4096, lap, lap + 64, 9 * lap - 64] {
            for end in [start + 64, start + 8192] {
                let word = salt.commit_word(3, end);
                for position in [start, end, end + 4096] {
                    assert_eq!(salt.committed_end(3, word, position), Some(end), "{start}");
                }
                assert_eq!(salt.committed_end(2, word, start), None);
                assert_eq!(salt.committed_end(3, word ^ 1, start), None);
                assert_eq!(salt.committed_end(3, word, start + lap), None);
            }
        }
    }
}
