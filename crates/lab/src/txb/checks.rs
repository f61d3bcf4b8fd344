//! What vouches for an object, and for a page: a CRC-32C that knows the place.

use forebay_pmem::{crc32c, crc32c_combine_delta};

use super::changes::{Change, Changes};
use super::layout::{Header, Object, PAGE, WORD};
use super::media::Media;

/// What a place adds, so that a write that went astray is found.
fn of_place(place: u64, size: u64) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&place.to_le_bytes());
    bytes[8..].copy_from_slice(&size.to_le_bytes());
    crc32c(&bytes)
}

/// The check of an object of so many words, all of which are read.
pub(super) fn of_object(media: &Media, object: Object, words: u64) -> u32 {
    media.crc32c(object.word(0), words * WORD) ^ of_place(object.header(), words)
}

/// The same of words that are not in the object.
pub(super) fn of_words(object: Object, words: &[u64]) -> u32 {
    crc32c(&bytes_of(words.iter().copied())) ^ of_place(object.header(), words.len() as u64)
}

/// The check of an object of which only the changed words are read.
pub(super) fn of_changed_object<'c>(
    media: &Media,
    (object, old): (Object, Header),
    changes: &Changes,
    its_own: impl Iterator<Item = &'c Change>,
) -> u32 {
    let end = object.word(old.words);
    its_own.fold(old.check, |check, change| {
        let old = bytes_of(changes.old_words(change).iter().copied());
        let new = bytes_of(change.places().map(|at| media.load(at)));
        crc32c_combine_delta(check, &old, &new, (end - change.end()) as usize)
    })
}

/// Whether an object's header vouches for its words.
pub(super) fn is_object_vouched(media: &Media, object: Object, header: Header) -> bool {
    of_object(media, object, header.words) == header.check
}

/// The checksum of the page of this number, which is read: `crc:32 | check of that:32`, low first.
pub(super) fn of_page(media: &Media, page: u64) -> u64 {
    sum(page, media.crc32c(page * PAGE, PAGE))
}

/// The same of bytes that are not in the page.
pub(super) fn of_page_words(page: u64, words: &[u64]) -> u64 {
    sum(page, crc32c(&bytes_of(words.iter().copied())))
}

/// Whether a page's checksum can be one. What is none says nothing of its page, where what is one and does not match says
/// that the page is damaged.
pub(super) fn is_sum(page: u64, sum: u64) -> bool {
    (sum >> 32) as u32 == of_sum(page, sum as u32)
}

fn sum(page: u64, crc: u32) -> u64 {
    let crc = crc ^ of_place(page, PAGE);
    u64::from(crc) | u64::from(of_sum(page, crc)) << 32
}

fn of_sum(page: u64, crc: u32) -> u32 {
    of_place(page, u64::from(crc))
}

fn bytes_of(words: impl Iterator<Item = u64>) -> Vec<u8> {
    words.flat_map(u64::to_le_bytes).collect()
}
