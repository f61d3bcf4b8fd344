//! What a caller of the commit asks for: changes, one for each key.

use crate::log::record::{RECORD_BYTES_MAX, RECORD_ELEMENTS_MAX, padded, record_bytes};
use crate::media::entry::{Entry, Key};
use crate::media::packed::Packing;
use crate::table::index::{Bucket, Version};
use crate::table::slot_ref::SlotRef;

/// Bytes that replace part of a block.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub(crate) offset: usize,
    pub(crate) bytes: Vec<u8>,
}

/// What a transaction wants of one key. Keys of one commit differ.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) bucket: Bucket,
    pub(crate) action: Action,
    /// The change was computed from what the key held at this version of its stripe.
    pub(crate) based_on: Option<Version>,
}

/// How a key changes.
#[derive(Debug)]
pub(crate) enum Action {
    /// The block stands in this private slot, streamed by this thread but not fenced.
    Block { slot: u32, crc: u32 },
    /// The block is to be streamed into this private slot from `data[at..]`. With `valid_bytes`
    /// only that many of its bytes count, and the trailer says so already.
    Fresh {
        slot: u32,
        at: usize,
        valid_bytes: Option<usize>,
    },
    /// The block is to be streamed into this private slot from `data[at..]`, packed on a base that is
    /// held for it.
    Packed {
        slot: u32,
        at: usize,
        packing: Packing,
        crc: u32,
    },
    /// The block stands in this slot already, which is held for it.
    Share { held: SlotRef, crc: u32 },
    /// Parts of the cached block change in place. Where the CRC of the result is not given it follows
    /// from the present one.
    Delta {
        patches: Vec<Patch>,
        crc: Option<u32>,
    },
    /// Bytes join the cached partial block at its end, `at`.
    Append { at: usize, bytes: Vec<u8> },
    /// The block becomes zeroes.
    Zero,
    /// The block leaves the cache, if it is still this entry and clean.
    Evict { entry: Entry },
    /// The block leaves the cache, whatever it holds. No write-back of it is under way.
    Forget,
}

/// How a commit ended, beyond errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// Durable and published. So many changes had an effect.
    Done(usize),
    /// A change was based on what is no longer so; prepare it anew.
    Stale,
    /// No free entry; reclaim must run.
    NoEntry,
}

/// Bytes of the record that these changes need at most.
pub(crate) fn record_bound(changes: &[Change]) -> u64 {
    let (mut elements, mut payload) = (0, 0);
    for change in changes {
        if let Action::Delta { patches, .. } = &change.action {
            elements += patches.len();
            payload += patches.iter().map(|patch| patch.bytes.len()).sum::<usize>();
        } else {
            elements += 1;
        }
    }
    let bytes = padded(record_bytes(elements, payload));
    if elements > RECORD_ELEMENTS_MAX || bytes > RECORD_BYTES_MAX {
        // No header can tell of it, so it fits nowhere.
        return u64::MAX;
    }
    bytes
}
