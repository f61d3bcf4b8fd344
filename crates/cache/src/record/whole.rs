//! Writes the record of whole blocks straight into its lane, line by line as its words come.
//!
//! Nothing is gathered in memory and read back: a load that is wider than the stores it sees waits
//! until they have left the processor, and these stand behind the block's.

use forebay_pmem::Region;

use super::{CRC_AT, INDEX_MASK, Stamp, padded, record_bytes};
use crate::entry::Entry;
use crate::layout::{LINE_BYTES, RECORD_HEADER_BYTES};

const HEADER_WORDS: usize = RECORD_HEADER_BYTES / 8;

/// Streams the record of one whole block.
#[inline]
pub(crate) fn stream_one(region: &Region, offset: u64, stamp: &Stamp, entry: Entry, index: u32) {
    let mut line = stamp.header(1, padded(record_bytes(1, 0)) / LINE_BYTES);
    let words = words_of(entry, index);
    line[HEADER_WORDS..HEADER_WORDS + words.len()].copy_from_slice(&words);
    let crc = forebay_pmem::crc32c_append_line(stamp.salt.crc_seed(), &line);
    line[CRC_AT / 8] |= u64::from(crc);
    region.stream_line(offset, &line);
}

/// Streams the record of `count` whole blocks, given by their entries and where these go.
pub(crate) fn stream_whole(
    region: &Region,
    offset: u64,
    stamp: &Stamp,
    count: usize,
    elements: impl Iterator<Item = (Entry, u32)>,
) {
    let mut first = stamp.header(count, padded(record_bytes(count, 0)) / LINE_BYTES);
    let crc = stamp.salt.crc_seed();
    let crc = stream_behind(region, offset, &mut first, crc, elements);
    // The first line goes last, since it has the check of them all.
    first[CRC_AT / 8] |= u64::from(crc);
    region.stream_line(offset, &first);
}

#[inline]
fn words_of(entry: Entry, index: u32) -> [u64; 3] {
    debug_assert!(index <= INDEX_MASK);
    [entry.key_half(), entry.slot_half(), u64::from(index)]
}

/// Streams all lines but the first, which it completes; returns the check of all.
fn stream_behind(
    region: &Region,
    offset: u64,
    first: &mut [u64; 8],
    mut crc: u32,
    elements: impl Iterator<Item = (Entry, u32)>,
) -> u32 {
    let (mut line, mut at, mut number) = (*first, HEADER_WORDS, 0);
    let mut end_line = |line: &mut [u64; 8]| {
        crc = forebay_pmem::crc32c_append_line(crc, line);
        if number == 0 {
            *first = *line;
        } else {
            region.stream_line(offset + number * LINE_BYTES, line);
        }
        number += 1;
        *line = [0; 8];
    };
    for (entry, index) in elements {
        for word in words_of(entry, index) {
            line[at] = word;
            at = (at + 1) % line.len();
            if at == 0 {
                end_line(&mut line);
            }
        }
    }
    if at > 0 {
        end_line(&mut line);
    }
    crc
}
