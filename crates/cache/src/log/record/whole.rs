//! Writes the record of whole blocks into its lane, word by word.
//!
//! Nothing is read back wider than it was made: a load that is wider than the stores it sees waits
//! until they have left the processor, and these stand behind the block's.

use forebay_pmem::Region;

use super::{
    CRC_AT, ELEMENT_BYTES, INDEX_MASK, RecordHeader, SEQUENCE_AT, Salt, padded, record_bytes,
};
use crate::media::Media;
use crate::media::entry::Entry;
use crate::media::layout::{LINE_BYTES, RECORD_HEADER_BYTES};

const HEADER_WORDS: usize = RECORD_HEADER_BYTES / 8;
const ELEMENT_WORDS: usize = ELEMENT_BYTES / 8;
const LINE_WORDS: usize = LINE_BYTES as usize / 8;

/// Streams the record of one whole block.
#[inline(always)]
pub(crate) fn stream_one(
    region: &Region,
    offset: u64,
    header: &RecordHeader,
    entry: Entry,
    index: u32,
) {
    let mut line = header.words(1, padded(record_bytes(1, 0)) / LINE_BYTES);
    let words = words_of(entry, index);
    line[HEADER_WORDS..HEADER_WORDS + words.len()].copy_from_slice(&words);
    region.stream_checked_line(offset, &mut line, CRC_AT / 8, header.salt.crc_seed());
}

/// The same into both copies of the log. What it takes is copied for it, so that a commit to one need not have it in
/// memory.
#[cold]
pub(crate) fn stream_one_to_each(
    media: &Media,
    offset: u64,
    header: RecordHeader,
    entry: Entry,
    index: u32,
) {
    media.on_metadata(|region| stream_one(region, offset, &header, entry, index));
}

/// The sequence of the record with this tag at `offset` of the region, and where the entry goes that it holds, if such
/// a record of one whole block is there: nearly all of them are, and this looks at the line where it is.
#[inline]
pub(crate) fn read_back_one(
    region: &Region,
    offset: u64,
    tag: u64,
    salt: Salt,
) -> Option<(u64, u32)> {
    /// One element, one line.
    const COUNTS: u64 = 1 | 1 << 16;
    let line = region.line(offset);
    // Kind and argument of a whole block are zero.
    let index = line.word(HEADER_WORDS + 2);
    let is_one = line.word(0) == tag
        && line.word(CRC_AT / 8) >> 32 == COUNTS
        && index <= u64::from(INDEX_MASK);
    (is_one && line.is_checked(CRC_AT / 8, salt.crc_seed()))
        .then(|| (line.word(SEQUENCE_AT / 8), index as u32))
}

/// Streams the record of whole blocks, given by their entries and where these go. `memory` is its words', as
/// [`reserve_whole`] left it: they are made and read back as words, which need not wait for each other.
#[inline(always)]
pub(crate) fn stream_whole(
    region: &Region,
    offset: u64,
    header: &RecordHeader,
    elements: impl ExactSizeIterator<Item = (Entry, u32)>,
    memory: &mut [u64],
) {
    let (lines, _) = memory.as_chunks_mut::<LINE_WORDS>();
    let head = header.words(elements.len(), lines.len() as u64);
    let (start, behind) = memory.split_at_mut(HEADER_WORDS);
    start.copy_from_slice(&head[..HEADER_WORDS]);
    let (places, padding) = behind.split_at_mut(elements.len() * ELEMENT_WORDS);
    let (places, _) = places.as_chunks_mut::<ELEMENT_WORDS>();
    for (place, (entry, index)) in places.iter_mut().zip(elements) {
        *place = words_of(entry, index);
    }
    padding.fill(0);
    let (lines, _) = memory.as_chunks_mut::<LINE_WORDS>();
    let crc = forebay_pmem::crc32c_append_lines(header.salt.crc_seed(), lines);
    let [first, others @ ..] = lines else {
        unreachable!("a record has a header");
    };
    region.stream_lines(offset + LINE_BYTES, others);
    // The first line goes last, since it has the check of them all.
    first[CRC_AT / 8] |= u64::from(crc);
    region.stream_line(offset, first);
}

/// Makes room for the words of a record of so many whole blocks.
#[inline(always)]
pub(crate) fn reserve_whole(memory: &mut Vec<u64>, blocks: usize) {
    let words = padded(record_bytes(blocks, 0)) as usize / 8;
    if memory.len() != words {
        memory.resize(words, 0);
    }
}

/// Gives back what more than so many blocks needed.
pub(crate) fn trim_whole(memory: &mut Vec<u64>, blocks: usize) {
    let words = padded(record_bytes(blocks, 0)) as usize / 8;
    memory.truncate(words);
    memory.shrink_to(words);
}

#[inline]
fn words_of(entry: Entry, index: u32) -> [u64; ELEMENT_WORDS] {
    debug_assert!(index <= INDEX_MASK);
    [entry.key_half(), entry.slot_half(), u64::from(index)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::record::{Element, ElementKind, encode};
    use crate::media::entry::Key;

    fn random_effects(rng: &mut fastrand::Rng, count: usize) -> Vec<(Entry, u32)> {
        let mut effect = || {
            let key = Key::new(rng.u32(1..1 << 20), rng.u64(..1 << 36));
            let entry = Entry::data(key, rng.u32(..1 << 27), rng.u32(..));
            (entry, rng.u32(..1 << 30))
        };
        (0..count).map(|_| effect()).collect()
    }

    fn durable(region: &Region) -> Vec<u8> {
        region.fence().expect("the shadow's fence");
        let shadow = region.shadow_state().expect("a shadow region");
        shadow.crash_state().durable().to_vec()
    }

    #[test]
    fn a_streamed_record_is_the_encoded_one_and_nothing_beside_it_changes() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut words = Vec::new();
        for count in (1..100).chain([1000]) {
            let header = RecordHeader {
                salt: Salt(rng.u64(..)),
                lane: rng.u32(..64),
                position: rng.u64(..1 << 40) * LINE_BYTES,
                lap: rng.u32(..),
                sequence: 1 << 33,
                acknowledged: rng.u64(..1 << 33),
            };
            let effects = random_effects(&mut rng, count);
            let whole = |(entry, index): &(Entry, u32)| Element {
                entry: *entry,
                index: *index,
                kind: ElementKind::Whole,
            };
            let elements: Vec<Element> = effects.iter().map(whole).collect();
            let mut raw = Vec::new();
            encode(&header, &elements, &[], &mut raw);
            let region = Region::shadow(64 << 10);
            region.stream(0, &[0xA5; 64 << 10]);
            reserve_whole(&mut words, count);
            stream_whole(&region, 4096, &header, effects.iter().copied(), &mut words);
            let image = durable(&region);
            let end = 4096 + raw.len();
            assert!(image[4096..end] == raw[..], "{count} blocks");
            assert!(
                image[..4096]
                    .iter()
                    .chain(&image[end..])
                    .all(|byte| *byte == 0xA5)
            );
            let (entry, index) = effects[0];
            if count == 1 {
                stream_one(&region, 8192, &header, entry, index);
                assert!(durable(&region)[8192..8192 + raw.len()] == raw[..]);
                let tag = header.salt.tag(header.lane, header.position);
                let read = |tag, salt| read_back_one(&region, 8192, tag, salt);
                assert_eq!(read(tag, header.salt), Some((header.sequence, index)));
                assert_eq!(
                    (read(tag + 1, header.salt), read(tag, Salt(1))),
                    (None, None)
                );
                for bit in 0..raw.len() * 8 {
                    let mut flipped = raw.clone();
                    flipped[bit / 8] ^= 1 << (bit % 8);
                    region.store(8192, &flipped);
                    assert_eq!(read(tag, header.salt), None, "bit {bit}");
                }
            } else {
                let tag = header.salt.tag(header.lane, header.position);
                assert_eq!(read_back_one(&region, 4096, tag, header.salt), None);
            }
        }
    }
}
