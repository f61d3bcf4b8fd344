//! Writes a record of a few elements with little redo straight into its lane: gathered in words on the
//! stack, no memory asked for.

use forebay_pmem::Region;

use super::{CRC_AT, INDEX_MASK, SHAPE_SHIFT, Shape, Stamp, padded, record_bytes};
use crate::entry::Entry;
use crate::layout::{LINE_BYTES, RECORD_HEADER_BYTES};

const WORDS_OF_LINE: usize = LINE_BYTES as usize / 8;
/// Room for three elements and two words of redo.
const LINES_MAX: usize = 2;

/// A record in the making. Redo comes after all elements, in their order.
pub(crate) struct SmallRecord {
    words: [u64; LINES_MAX * WORDS_OF_LINE],
    used: usize,
    elements: usize,
    redo_bytes: usize,
}

impl SmallRecord {
    /// Bytes that any of them takes in its lane at most.
    pub(crate) const BYTES_MAX: u64 = LINES_MAX as u64 * LINE_BYTES;

    pub(crate) fn new() -> SmallRecord {
        SmallRecord {
            words: [0; LINES_MAX * WORDS_OF_LINE],
            used: RECORD_HEADER_BYTES / 8,
            elements: 0,
            redo_bytes: 0,
        }
    }

    #[inline]
    fn push(&mut self, word: u64) {
        self.words[self.used] = word;
        self.used += 1;
    }

    /// Adds an element.
    #[inline]
    pub(crate) fn element(&mut self, entry: Entry, index: u32, shape: Shape) {
        debug_assert!(index <= INDEX_MASK && self.redo_bytes == 0);
        let (shape, argument) = shape.encode();
        self.push(entry.key_half());
        self.push(entry.slot_half());
        self.push(u64::from(index | shape << SHAPE_SHIFT) | u64::from(argument) << 32);
        self.elements += 1;
    }

    /// Adds the redo bytes of a delta.
    #[inline]
    pub(crate) fn redo(&mut self, bytes: [u8; 8]) {
        self.push(u64::from_le_bytes(bytes));
        self.redo_bytes += bytes.len();
    }

    /// Streams it; returns its bytes in the lane.
    #[inline]
    pub(crate) fn stream(mut self, region: &Region, offset: u64, stamp: &Stamp) -> u64 {
        let bytes = padded(record_bytes(self.elements, self.redo_bytes));
        let lines = (bytes / LINE_BYTES) as usize;
        let header = stamp.header(self.elements, lines as u64);
        self.words[..RECORD_HEADER_BYTES / 8].copy_from_slice(&header[..RECORD_HEADER_BYTES / 8]);
        let (all, _) = self.words.as_chunks_mut::<WORDS_OF_LINE>();
        let seed = stamp.salt.crc_seed();
        let crc = all[..lines].iter().fold(seed, |crc, line| {
            forebay_pmem::crc32c_append_line(crc, line)
        });
        all[0][CRC_AT / 8] |= u64::from(crc);
        for (line, number) in all[..lines].iter().zip(0u64..) {
            region.stream_line(offset + number * LINE_BYTES, line);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Key;
    use crate::record::{Element, Salt, encode};

    #[test]
    fn a_small_record_is_the_encoded_one() {
        let stamp = Stamp {
            salt: Salt(7_654_321),
            lane: 3,
            position: 640,
            lap: 2,
            sequence: 99,
            acknowledged: 90,
        };
        let entry = |block| Entry::data(Key::new(5, block), 17, 0xABCD);
        let all = [
            (entry(1).as_partial(), 4, Shape::Append { valid_bytes: 300 }),
            (
                entry(1),
                4,
                Shape::Delta {
                    offset: 4088,
                    len: 8,
                },
            ),
            (entry(9), 70, Shape::Delta { offset: 16, len: 8 }),
        ];
        let redo = [[1, 2, 3, 4, 5, 6, 7, 8], [9; 8]];
        for (elements, deltas) in [(1, 0), (2, 1), (3, 2)] {
            let region = Region::shadow(4096);
            let mut small = SmallRecord::new();
            let mut listed = Vec::new();
            for (entry, index, shape) in &all[..elements] {
                small.element(*entry, *index, *shape);
                listed.push(Element {
                    entry: *entry,
                    index: *index,
                    shape: *shape,
                });
            }
            redo[..deltas].iter().for_each(|bytes| small.redo(*bytes));
            let bytes = small.stream(&region, 640, &stamp);
            let mut expected = Vec::new();
            encode(&stamp, &listed, &redo[..deltas].concat(), &mut expected);
            assert_eq!(bytes, expected.len() as u64);
            assert!(bytes <= SmallRecord::BYTES_MAX);
            let mut found = vec![0; expected.len()];
            region.read(640, &mut found);
            assert_eq!(found, expected);
        }
    }
}
