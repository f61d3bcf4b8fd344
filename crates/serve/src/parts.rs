//! Byte ranges in terms of blocks.

use std::ops::Range;

/// A byte range by what it covers: part of a block, whole blocks, part of a block.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts {
    /// Bytes before the first whole block.
    pub head: Range<u64>,
    /// Numbers of the blocks covered whole.
    pub whole: Range<u64>,
    /// Bytes after the last whole block.
    pub tail: Range<u64>,
}

impl Parts {
    /// The parts of `bytes`.
    #[must_use]
    pub fn of(bytes: &Range<u64>, block_bytes: u64) -> Self {
        let first_whole = bytes.start.div_ceil(block_bytes);
        let after_whole = bytes.end / block_bytes;
        if first_whole > after_whole {
            // Inside one block, touching neither of its ends.
            return Parts {
                head: bytes.clone(),
                whole: first_whole..first_whole,
                tail: bytes.end..bytes.end,
            };
        }
        Parts {
            head: bytes.start..first_whole * block_bytes,
            whole: first_whole..after_whole,
            tail: after_whole * block_bytes..bytes.end,
        }
    }

    /// How many bytes the head has, and how many the whole blocks.
    #[must_use]
    pub fn lengths(&self, block_bytes: u64) -> (usize, usize) {
        let head = self.head.end - self.head.start;
        let whole = (self.whole.end - self.whole.start) * block_bytes;
        (head as usize, whole as usize)
    }
}

/// Cuts `bytes` at block boundaries into ranges that touch at most `blocks_max` blocks each.
pub fn cut(
    bytes: Range<u64>,
    block_bytes: u64,
    blocks_max: u64,
) -> impl Iterator<Item = Range<u64>> {
    let mut start = bytes.start;
    std::iter::from_fn(move || {
        let limit = (start / block_bytes + blocks_max) * block_bytes;
        let part = start..limit.min(bytes.end);
        start = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// The bytes from `offset` on in such parts, each with where it begins.
pub fn cut_data(
    offset: u64,
    data: &[u8],
    block_bytes: u64,
    blocks_max: u64,
) -> impl Iterator<Item = (u64, &[u8])> {
    let bytes = offset..offset + data.len() as u64;
    cut(bytes, block_bytes, blocks_max).map(move |part| {
        let slice = &data[(part.start - offset) as usize..(part.end - offset) as usize];
        (part.start, slice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_cover_the_range_once_and_in_order(start in 0_u64..5000, length in 1_u64..5000) {
            let bytes = start..start + length;
            let parts = Parts::of(&bytes, 512);
            prop_assert_eq!(parts.head.start, bytes.start);
            prop_assert!(parts.head.end - parts.head.start < 512);
            prop_assert!(parts.tail.end - parts.tail.start < 512);
            prop_assert_eq!(parts.tail.end, bytes.end);
            let whole = parts.whole.start * 512..parts.whole.end * 512;
            if parts.whole.is_empty() {
                prop_assert_eq!(parts.head.end.max(bytes.start), parts.tail.start);
            } else {
                prop_assert_eq!(parts.head.end, whole.start);
                prop_assert_eq!(whole.end, parts.tail.start);
            }
        }

        #[test]
        fn cuts_meet_and_touch_few_blocks(start in 0_u64..5000, length in 0_u64..50_000, max in 1_u64..9) {
            let mut next = start;
            for part in cut(start..start + length, 512, max) {
                prop_assert_eq!(part.start, next);
                let touched = part.end.div_ceil(512) - part.start / 512;
                prop_assert!(touched <= max);
                next = part.end;
            }
            prop_assert_eq!(next, start + length);
        }
    }
}
