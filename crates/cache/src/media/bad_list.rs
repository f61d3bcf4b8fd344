//! The list of places that keep nothing, on the medium: so that after a restart, too, nothing rests on a place that was
//! known to be bad.
//!
//! Each member has the list of all members' places, since one with bad places may not vouch for itself: two lines, which
//! are written in turn, so that a torn one leaves the other. They stand behind the roster lines, in their units, as far as
//! the units have room. What is believed of a list costs nothing if it is not true any more: a place is not used. What it
//! lacks is found again when it is used.

use std::ops::Range;

use forebay_pmem::Region;

use crate::media::geometry::{Geometry, MIRROR_MEMBERS_MAX};
use crate::media::layout::{
    BAD_LIST_HEAD_BYTES, BAD_PLACE_BYTES, BadListHead, LINE_BYTES, ROSTER_BYTES,
};
use crate::media::served::{BOTH, FIRST, SECOND};

/// Bits of a listed place: its first line; how many lines it has; the number of its member; and, a bit each, whether
/// first and second halves are there whose blocks may be in their other halves alone.
const FIRST_BITS: u32 = 40;
const COUNT_BITS: u32 = 16;
const MEMBER_BITS: u32 = 4;
const RESTING_BITS: u32 = 2;
const COUNT_SHIFT: u32 = FIRST_BITS;
const MEMBER_SHIFT: u32 = COUNT_SHIFT + COUNT_BITS;
const RESTING_SHIFT: u32 = MEMBER_SHIFT + MEMBER_BITS;

const _: () = assert!(RESTING_SHIFT + RESTING_BITS <= u64::BITS);
const _: () = assert!(MIRROR_MEMBERS_MAX <= 1 << MEMBER_BITS);
const _: () = assert!((BOTH as u64) < 1 << RESTING_BITS);

/// Bytes of a member that keep nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BadPlace {
    pub(super) member: u32,
    pub(super) bytes: Range<u64>,
    /// Halves of this kind are there, of slots whose blocks may be in the other half alone.
    pub(super) resting: u8,
}

impl BadPlace {
    /// Whether blocks may be on this one of so many members alone, because of this place.
    pub(super) fn rests_on(&self, number: u32, members: u32) -> bool {
        let next = |member: u32| (member + 1) % members;
        self.resting & FIRST != 0 && next(self.member) == number
            || self.resting & SECOND != 0 && next(number) == self.member
    }
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct BadList {
    /// 0 of one that was never stored.
    pub(super) version: u64,
    pub(super) places: Vec<BadPlace>,
}

/// How many places a list has room for.
pub(super) fn capacity(geometry: &Geometry) -> usize {
    let room = geometry.unit_bytes as usize - ROSTER_BYTES;
    room.saturating_sub(BAD_LIST_HEAD_BYTES) / BAD_PLACE_BYTES
}

/// Where the line of a version is.
pub(super) fn offset(geometry: &Geometry, version: u64) -> u64 {
    geometry.roster_line((version % 2) as usize) + ROSTER_BYTES as u64
}

impl BadList {
    /// The newest list that a member has; `None` if none is valid.
    pub(super) fn read(
        region: &Region,
        geometry: &Geometry,
        pool_uuid: &[u8; 16],
    ) -> Option<BadList> {
        if capacity(geometry) == 0 {
            return None;
        }
        let lines = (0..2).filter_map(|which| {
            let at = offset(geometry, which);
            let mut raw = [0; BAD_LIST_HEAD_BYTES];
            region.read(at, &mut raw);
            let head = BadListHead::decode(&raw)?;
            let is_ours = head.pool_uuid == *pool_uuid
                && head.version % 2 == which
                && head.count as usize <= capacity(geometry);
            if !is_ours {
                return None;
            }
            let mut places = vec![0; head.count as usize * BAD_PLACE_BYTES];
            region.read(at + BAD_LIST_HEAD_BYTES as u64, &mut places);
            let is_whole = forebay_pmem::crc32c(&places) == head.places_crc;
            is_whole.then(|| BadList {
                version: head.version,
                places: places.as_chunks().0.iter().map(decode).collect(),
            })
        });
        lines.max_by_key(|list| list.version)
    }

    /// As it stands on the medium, in whole lines.
    pub(super) fn encode(&self, pool_uuid: [u8; 16]) -> Vec<u8> {
        let places: Vec<u8> = self.places.iter().flat_map(encode).collect();
        let head = BadListHead {
            pool_uuid,
            version: self.version,
            count: self.places.len() as u32,
            places_crc: forebay_pmem::crc32c(&places),
            reserved: [0; 28],
            crc: 0,
        };
        let mut line = head.encode().to_vec();
        line.extend(places);
        line.resize(line.len().next_multiple_of(LINE_BYTES as usize), 0);
        line
    }
}

fn encode(place: &BadPlace) -> [u8; BAD_PLACE_BYTES] {
    let first = place.bytes.start / LINE_BYTES;
    let count = place.bytes.end.div_ceil(LINE_BYTES) - first;
    let fields = [
        (first, 0, FIRST_BITS),
        (count, COUNT_SHIFT, COUNT_BITS),
        (u64::from(place.member), MEMBER_SHIFT, MEMBER_BITS),
        (u64::from(place.resting), RESTING_SHIFT, RESTING_BITS),
    ];
    let put = |all: u64, (value, shift, bits): (u64, u32, u32)| {
        assert!(value < 1 << bits, "a place of a pool has room in the list");
        all | value << shift
    };
    fields.into_iter().fold(0, put).to_le_bytes()
}

fn decode(raw: &[u8; BAD_PLACE_BYTES]) -> BadPlace {
    let all = u64::from_le_bytes(*raw);
    let take = |shift: u32, bits: u32| all >> shift & ((1 << bits) - 1);
    let first = take(0, FIRST_BITS) * LINE_BYTES;
    let count = take(COUNT_SHIFT, COUNT_BITS) * LINE_BYTES;
    BadPlace {
        member: take(MEMBER_SHIFT, MEMBER_BITS) as u32,
        bytes: first..first + count,
        resting: take(RESTING_SHIFT, RESTING_BITS) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{FormatOptions, Redundancy};

    fn geometry(unit_bytes: u32) -> Geometry {
        let options = FormatOptions {
            unit_bytes,
            redundancy: Redundancy::Mirror,
            ..FormatOptions::default()
        };
        Geometry::plan(&options, 2, 4 << 20).expect("plan")
    }

    fn place(member: u32, bytes: Range<u64>, resting: u8) -> BadPlace {
        BadPlace {
            member,
            bytes,
            resting,
        }
    }

    fn store(region: &Region, geometry: &Geometry, list: &BadList) -> Range<u64> {
        let (line, at) = (list.encode([7; 16]), offset(geometry, list.version));
        region.store(at, &line);
        at..at + line.len() as u64
    }

    #[test]
    fn the_newest_whole_list_counts_and_a_flipped_bit_leaves_the_one_before() {
        let geometry = geometry(4096);
        let region = Region::shadow(4 << 20);
        let read = || BadList::read(&region, &geometry, &[7; 16]);
        assert_eq!(read(), None);
        let places = [
            place(1, 1 << 20..(1 << 20) + 4096, 0),
            place(0, 64..128, FIRST),
            place(MIRROR_MEMBERS_MAX - 1, 0..65536, BOTH),
        ];
        let list = |version, count| BadList {
            version,
            places: places[..count].to_vec(),
        };
        store(&region, &geometry, &list(1, 2));
        assert_eq!(read(), Some(list(1, 2)));
        let bytes = store(&region, &geometry, &list(2, 3));
        assert_eq!(read(), Some(list(2, 3)));
        assert_eq!(BadList::read(&region, &geometry, &[8; 16]), None);
        let used = BAD_LIST_HEAD_BYTES + 3 * BAD_PLACE_BYTES;
        for at in bytes.start..bytes.start + used as u64 {
            let mut byte = [0];
            region.read(at, &mut byte);
            region.store(at, &[byte[0] ^ 4]);
            assert_eq!(read(), Some(list(1, 2)), "byte {at}");
            region.store(at, &byte);
        }
    }

    #[test]
    fn blocks_rest_on_the_member_of_the_other_half() {
        let rests = |resting, number, members| place(1, 0..64, resting).rests_on(number, members);
        assert!(!rests(0, 0, 2) && rests(FIRST, 0, 2) && rests(SECOND, 0, 2));
        assert!(rests(FIRST, 2, 3) && !rests(FIRST, 0, 3));
        assert!(rests(SECOND, 0, 3) && !rests(SECOND, 2, 3));
        assert!(place(0, 0..64, SECOND).rests_on(3, 4) && place(3, 0..64, FIRST).rests_on(0, 4));
    }

    #[test]
    fn a_full_list_ends_within_its_unit() {
        for unit_bytes in [512, 4096] {
            let geometry = geometry(unit_bytes);
            let all = capacity(&geometry);
            let list = BadList {
                version: 6,
                places: vec![place(1, 4096..8192, SECOND); all],
            };
            let region = Region::shadow(4 << 20);
            let bytes = store(&region, &geometry, &list);
            assert!(bytes.end <= geometry.roster_line(0) + u64::from(unit_bytes));
            assert_eq!(BadList::read(&region, &geometry, &[7; 16]), Some(list));
        }
        assert_eq!(capacity(&geometry(256)), 0);
    }
}
