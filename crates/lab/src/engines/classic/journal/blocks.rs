//! The blocks of the journal: making them, and telling what one is.
//!
//! A header of 32 bytes, in words: the magic with the kind, the sequence number, how many tags or
//! numbers follow, nothing. A commit block counts if its first two words do, so a torn one does not
//! unless it is as good as whole.

use super::super::layout::{
    Geometry, JOURNAL_HEADER_BYTES, JOURNAL_MAGIC, REVOKE_BYTES, TAG_BYTES, TAG_ESCAPED, Tail,
    word_at,
};
use crate::shared::ChangedBlock;

const KIND_DESCRIPTOR: u32 = 1;
const KIND_COMMIT: u32 = 2;
const KIND_SUPERBLOCK: u32 = 4;
const KIND_REVOKE: u32 = 5;

/// Words of the superblock.
const SUPERBLOCK_BLOCKS: usize = 8;
const SUPERBLOCK_BLOCK_BYTES: usize = 16;
const SUPERBLOCK_TAIL: usize = 24;

/// No journal comes as far, and what replays and commits add still fits the tail word.
const SEQUENCE_END: u64 = 1 << 39;

const _: () = assert!(SUPERBLOCK_TAIL + 8 <= JOURNAL_HEADER_BYTES);
const _: () = assert!(SUPERBLOCK_TAIL.is_multiple_of(8));

/// What a descriptor says of one log block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) number: u64,
    pub(super) is_escaped: bool,
}

/// A block of the log that is not a log block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Control {
    Descriptor(Vec<Tag>),
    Revoke(Vec<u64>),
    Commit,
}

pub(super) fn superblock(geometry: &Geometry, tail: Tail) -> Vec<u8> {
    let mut bytes = vec![0; geometry.block_bytes];
    put_word(&mut bytes, 0, kind_word(KIND_SUPERBLOCK));
    put_word(&mut bytes, SUPERBLOCK_BLOCKS, geometry.journal_blocks);
    let block_bytes = geometry.block_bytes as u64;
    put_word(&mut bytes, SUPERBLOCK_BLOCK_BYTES, block_bytes);
    put_word(&mut bytes, SUPERBLOCK_TAIL, tail.to_word());
    bytes
}

/// The tail that a superblock has; none if it is not the superblock of such a journal.
pub(super) fn tail_of(geometry: &Geometry, bytes: &[u8]) -> Option<Tail> {
    let tail = Tail::from_word(word_at(bytes, SUPERBLOCK_TAIL));
    let is_one = word_at(bytes, 0) == kind_word(KIND_SUPERBLOCK)
        && word_at(bytes, SUPERBLOCK_BLOCKS) == geometry.journal_blocks
        && word_at(bytes, SUPERBLOCK_BLOCK_BYTES) == geometry.block_bytes as u64
        && tail.position < geometry.journal_blocks - 1
        && tail.sequence < SEQUENCE_END;
    is_one.then_some(tail)
}

pub(super) fn descriptor(block_bytes: usize, sequence: u64, blocks: &[&ChangedBlock]) -> Vec<u8> {
    let mut bytes = with_header(block_bytes, KIND_DESCRIPTOR, sequence, blocks.len());
    let tags = bytes[JOURNAL_HEADER_BYTES..].chunks_exact_mut(TAG_BYTES);
    for (block, tag) in blocks.iter().zip(tags) {
        put_word(tag, 0, block.number);
        let flags = if begins_with_magic(&block.bytes) {
            TAG_ESCAPED
        } else {
            0
        };
        put_word(tag, 8, flags);
    }
    bytes
}

pub(super) fn revoke(block_bytes: usize, sequence: u64, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = with_header(block_bytes, KIND_REVOKE, sequence, numbers.len());
    let places = bytes[JOURNAL_HEADER_BYTES..].chunks_exact_mut(REVOKE_BYTES);
    for (&number, place) in numbers.iter().zip(places) {
        put_word(place, 0, number);
    }
    bytes
}

pub(super) fn commit(block_bytes: usize, sequence: u64) -> Vec<u8> {
    with_header(block_bytes, KIND_COMMIT, sequence, 0)
}

/// A block as it goes to the log: never with the magic at its beginning.
pub(super) fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if begins_with_magic(&bytes) {
        bytes[..4].fill(0);
    }
    bytes
}

/// What was escaped, as it was.
pub(super) fn unescape(bytes: &mut [u8]) {
    bytes[..4].copy_from_slice(&JOURNAL_MAGIC.to_le_bytes());
}

/// What the block is, if it belongs to the transaction of that number.
pub(super) fn control_of(bytes: &[u8], sequence: u64) -> Option<Control> {
    if word_at(bytes, 8) != sequence {
        return None;
    }
    let count = usize::try_from(word_at(bytes, 16)).ok()?;
    let body = &bytes[JOURNAL_HEADER_BYTES..];
    let kind = word_at(bytes, 0);
    if kind == kind_word(KIND_COMMIT) {
        Some(Control::Commit)
    } else if kind == kind_word(KIND_DESCRIPTOR) {
        let tags = body.chunks_exact(TAG_BYTES).map(|tag| Tag {
            number: word_at(tag, 0),
            is_escaped: word_at(tag, 8) & TAG_ESCAPED != 0,
        });
        let is_full = count <= tags.len();
        is_full.then(|| Control::Descriptor(tags.take(count).collect()))
    } else if kind == kind_word(KIND_REVOKE) {
        let numbers = body.chunks_exact(REVOKE_BYTES);
        let is_full = count <= numbers.len();
        is_full.then(|| {
            let numbers = numbers.map(|number| word_at(number, 0));
            Control::Revoke(numbers.take(count).collect())
        })
    } else {
        None
    }
}

fn with_header(block_bytes: usize, kind: u32, sequence: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; block_bytes];
    put_word(&mut bytes, 0, kind_word(kind));
    put_word(&mut bytes, 8, sequence);
    put_word(&mut bytes, 16, count as u64);
    bytes
}

fn kind_word(kind: u32) -> u64 {
    u64::from(kind) << 32 | u64::from(JOURNAL_MAGIC)
}

fn begins_with_magic(bytes: &[u8]) -> bool {
    bytes[..4] == JOURNAL_MAGIC.to_le_bytes()
}

fn put_word(bytes: &mut [u8], offset: usize, word: u64) {
    bytes[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
}
