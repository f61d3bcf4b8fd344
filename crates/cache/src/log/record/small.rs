//! Writes a record of a few elements with little redo straight into its lane, and reads it back: gathered
//! in words on the stack, no memory asked for.

use forebay_pmem::Region;

use super::{
    CRC_AT, ELEMENT_KIND_SHIFT, ElementKind, INDEX_MASK, RawElement, RecordHeader, SEQUENCE_AT,
    Salt, lines_of, padded, record_bytes,
};
use crate::media::entry::Entry;
use crate::media::layout::{ELEMENT_BYTES, LINE_BYTES, RECORD_HEADER_BYTES};

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

/// A complete one.
pub(crate) struct SealedRecord {
    words: [u64; LINES_MAX * WORDS_OF_LINE],
    /// Its bytes in the lane.
    pub(crate) bytes: u64,
}

impl SealedRecord {
    /// Streams it into a lane.
    #[inline]
    pub(crate) fn stream(&self, region: &Region, offset: u64) {
        let (all, _) = self.words.as_chunks::<WORDS_OF_LINE>();
        let lines = (self.bytes / LINE_BYTES) as usize;
        for (line, number) in all[..lines].iter().zip(0u64..) {
            region.stream_line(offset + number * LINE_BYTES, line);
        }
    }
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
    pub(crate) fn element(&mut self, entry: Entry, index: u32, kind: ElementKind) {
        debug_assert!(index <= INDEX_MASK && self.redo_bytes == 0);
        let (kind, argument) = kind.encode();
        self.push(entry.key_half());
        self.push(entry.slot_half());
        self.push(u64::from(index | kind << ELEMENT_KIND_SHIFT) | u64::from(argument) << 32);
        self.elements += 1;
    }

    /// Adds the redo bytes of a delta.
    #[inline]
    pub(crate) fn redo(&mut self, bytes: [u8; 8]) {
        self.push(u64::from_le_bytes(bytes));
        self.redo_bytes += bytes.len();
    }

    /// Completes it with its header and CRC.
    #[inline]
    pub(crate) fn sealed(mut self, header: &RecordHeader) -> SealedRecord {
        let bytes = padded(record_bytes(self.elements, self.redo_bytes));
        let lines = (bytes / LINE_BYTES) as usize;
        let words = header.words(self.elements, lines as u64);
        self.words[..RECORD_HEADER_BYTES / 8].copy_from_slice(&words[..RECORD_HEADER_BYTES / 8]);
        let (all, _) = self.words.as_chunks_mut::<WORDS_OF_LINE>();
        let crc = crc_of(header.salt, &all[..lines]);
        all[0][CRC_AT / 8] |= u64::from(crc);
        SealedRecord {
            words: self.words,
            bytes,
        }
    }

    /// Reads the record with this tag that begins at `offset` into this one, if it is there and whole, is
    /// as short as these are, and has at most `room_bytes`. In place: what is moved about is read wider
    /// than it was written, and waits for that.
    #[inline]
    pub(crate) fn read_back(
        &mut self,
        region: &Region,
        offset: u64,
        room_bytes: u64,
        tag: u64,
        salt: Salt,
    ) -> bool {
        let first = region.line(offset);
        if first.word(0) != tag {
            return false;
        }
        let last = first.word(CRC_AT / 8);
        let bytes = lines_of(last) * LINE_BYTES;
        self.elements = usize::from((last >> 32) as u16);
        self.used = bytes as usize / 8;
        let is_short = bytes != 0 && bytes <= room_bytes.min(SmallRecord::BYTES_MAX);
        if !is_short || record_bytes(self.elements, 0) > bytes {
            return false;
        }
        let (lines, _) = self.words[..self.used].as_chunks_mut::<WORDS_OF_LINE>();
        for (to, number) in lines.iter_mut().zip(0u64..) {
            let line = region.line(offset + number * LINE_BYTES);
            *to = std::array::from_fn(|at| line.word(at));
        }
        // The CRC is computed without itself.
        let crc = lines[0][CRC_AT / 8] as u32;
        lines[0][CRC_AT / 8] ^= u64::from(crc);
        crc_of(salt, lines) == crc
    }

    /// Of a record that was read back: its elements, or none where one makes no sense.
    #[inline]
    pub(crate) fn elements(&self) -> impl Iterator<Item = Option<RawElement>> {
        let (elements, _) = self.words[RECORD_HEADER_BYTES / 8..].as_chunks();
        const _: () =
            assert!(ELEMENT_BYTES.is_multiple_of(8) && RECORD_HEADER_BYTES.is_multiple_of(8));
        elements[..self.elements].iter().map(RawElement::from_words)
    }

    /// The sequence of a record that was read back.
    #[inline]
    pub(crate) fn sequence(&self) -> u64 {
        self.words[SEQUENCE_AT / 8]
    }

    /// The bytes in the lane of a record that was read back.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.used as u64 * 8
    }
}

#[inline]
fn crc_of(salt: Salt, lines: &[[u64; WORDS_OF_LINE]]) -> u32 {
    lines.iter().fold(salt.crc_seed(), |crc, line| {
        forebay_pmem::crc32c_append_line(crc, line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{Element, encode};
    use crate::media::entry::Key;
    use crate::media::salt::Salt;

    #[test]
    fn a_small_record_is_the_encoded_one() {
        let header = RecordHeader {
            salt: Salt(7_654_321),
            lane: 3,
            position: 640,
            lap: 2,
            sequence: 99,
            acknowledged: 90,
        };
        let entry = |block| Entry::data(Key::new(5, block), 17, 0xABCD);
        let all = [
            (
                entry(1).as_partial(),
                4,
                ElementKind::Append { valid_bytes: 300 },
            ),
            (
                entry(1),
                4,
                ElementKind::Delta {
                    offset: 4088,
                    len: 8,
                },
            ),
            (entry(9), 70, ElementKind::Delta { offset: 16, len: 8 }),
        ];
        let redo = [[1, 2, 3, 4, 5, 6, 7, 8], [9; 8]];
        for (elements, deltas) in [(1, 0), (2, 1), (3, 2)] {
            let region = Region::shadow(4096);
            let mut small = SmallRecord::new();
            let mut listed = Vec::new();
            for (entry, index, kind) in &all[..elements] {
                small.element(*entry, *index, *kind);
                listed.push(Element {
                    entry: *entry,
                    index: *index,
                    kind: *kind,
                });
            }
            redo[..deltas].iter().for_each(|bytes| small.redo(*bytes));
            let sealed = small.sealed(&header);
            sealed.stream(&region, 640);
            let bytes = sealed.bytes;
            let mut expected = Vec::new();
            encode(&header, &listed, &redo[..deltas].concat(), &mut expected);
            assert_eq!(bytes, expected.len() as u64);
            assert!(bytes <= SmallRecord::BYTES_MAX);
            let mut found = vec![0; expected.len()];
            region.read(640, &mut found);
            assert_eq!(found, expected);
            let tag = header.salt.tag(header.lane, header.position);
            let mut back = SmallRecord::new();
            let mut read =
                |room_bytes, tag, salt| back.read_back(&region, 640, room_bytes, tag, salt);
            assert!(!read(bytes, tag + 1, header.salt) && !read(bytes - 64, tag, header.salt));
            assert!(!read(bytes, tag, Salt(1)) && read(bytes, tag, header.salt));
            let elements: Option<Vec<RawElement>> = back.elements().collect();
            let listed = listed.into_iter().map(RawElement::from).collect();
            assert_eq!((elements, back.bytes()), (Some(listed), bytes));
            for bit in 64..bytes * 8 {
                let mut flipped = found.clone();
                flipped[bit as usize / 8] ^= 1 << (bit % 8);
                region.store(640, &flipped);
                let is_whole = back.read_back(&region, 640, bytes, tag, header.salt);
                assert!(!is_whole, "bit {bit}");
            }
        }
    }
}
