//! Incarnation lines: what tells the groups of one incarnation of the pool from everything else on the device.

use super::layout::IncarnationStruct;
use super::structs::{has_crc, seed_of_pool, store_crc};

/// Groups that may be under way at once, at most.
pub(crate) const DEPTH_MAX: u32 = 4;

const MAGIC: u64 = u64::from_le_bytes(*b"FBAYINCN");

/// The secret that tags and CRCs of one incarnation's records are keyed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Salt(pub(crate) u64);

impl Salt {
    /// What only a record of this incarnation, at this page of this segment, begins with. Neither an earlier lap nor a
    /// guest's bytes that look like a record have it.
    pub(crate) fn tag(self, segment: u64, page: u32) -> u64 {
        let mut h = segment ^ u64::from(page).rotate_left(40);
        h = (h ^ self.0).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        h ^= h >> 33;
        h = (h ^ self.0.rotate_left(23)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        h ^ h >> 29
    }

    /// What the CRCs of its records begin with.
    pub(crate) fn crc_seed(self) -> u32 {
        (self.0 ^ self.0 >> 32) as u32
    }
}

/// An incarnation of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IncarnationLine {
    /// Its number, from 1 on.
    pub(crate) number: u64,
    /// Its secret.
    pub(crate) salt: Salt,
    /// The first segment that it may write; all before it have summaries.
    pub(crate) first_segment: u64,
    /// Groups that it may have under way at once.
    pub(crate) depth: u32,
}

impl IncarnationLine {
    /// Its page, for the pool `uuid`.
    pub(crate) fn encode(&self, uuid: u128, page: &mut [u8]) {
        let line = IncarnationStruct {
            magic: MAGIC,
            uuid,
            number: self.number,
            salt: self.salt.0,
            first_segment: self.first_segment,
            depth: self.depth,
            ..IncarnationStruct::default()
        };
        line.encode(page);
        let (line, _) = page.split_at_mut(IncarnationStruct::BYTES);
        store_crc(seed_of_pool(uuid), line, IncarnationStruct::BYTES - 4);
    }

    /// What a page says, if it is one of this pool.
    pub(crate) fn decode(uuid: u128, page: &[u8]) -> Option<IncarnationLine> {
        let line = IncarnationStruct::decode(page);
        let page = &page[..IncarnationStruct::BYTES];
        let is_one = line.magic == MAGIC
            && line.uuid == uuid
            && line.number > 0
            && line.number < u64::MAX
            && line.first_segment < 1 << 62
            && (1..=DEPTH_MAX).contains(&line.depth)
            && has_crc(seed_of_pool(uuid), page, IncarnationStruct::BYTES - 4);
        is_one.then_some(IncarnationLine {
            number: line.number,
            salt: Salt(line.salt),
            first_segment: line.first_segment,
            depth: line.depth,
        })
    }
}
