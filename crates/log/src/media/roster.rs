//! Rosters: which of the two members of a mirrored pool count. Each member has two lines, written in turn, and the newest that holds
//! is what that member knows.

use super::layout::RosterLine;
use super::structs::{has_crc, seed_of_pool, store_crc};

const MAGIC: u64 = u64::from_le_bytes(*b"FBAYROST");
const IN: u32 = 1;
const OUT: u32 = 2;
const JOINING: u32 = 3;

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has everything.
    In,
    /// It lacks what was written since.
    Out,
    /// It is a copy that the other member has not called in: by itself it counts for nothing.
    Joining,
}

impl Standing {
    fn number(self) -> u32 {
        match self {
            Standing::In => IN,
            Standing::Out => OUT,
            Standing::Joining => JOINING,
        }
    }

    fn of_number(number: u32) -> Option<Standing> {
        let all = [Standing::In, Standing::Out, Standing::Joining];
        all.into_iter().find(|one| one.number() == number)
    }
}

/// A roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roster {
    /// It rises with every change.
    pub(crate) epoch: u64,
    /// Which files the members are: one that joins has another than the one before.
    pub(crate) ids: [u64; 2],
    /// How they stand.
    pub(crate) standings: [Standing; 2],
}

impl Roster {
    /// The next one, in which a member stands otherwise.
    pub(crate) fn with(self, member: usize, standing: Standing) -> Roster {
        let mut next = Roster {
            epoch: self.epoch + 1,
            ..self
        };
        next.standings[member] = standing;
        next
    }

    /// Whether it calls the file in that is its member of this number.
    pub(crate) fn calls_in(&self, member: usize, id: u64) -> bool {
        self.ids[member] == id && self.standings[member] == Standing::In
    }

    /// Its page on `member`, for the pool `uuid`.
    pub(crate) fn encode(&self, uuid: u128, member: usize, page: &mut [u8]) {
        let line = RosterLine {
            magic: MAGIC,
            uuid,
            epoch: self.epoch,
            id_0: self.ids[0],
            id_1: self.ids[1],
            member: member as u32,
            standing_0: self.standings[0].number(),
            standing_1: self.standings[1].number(),
            crc: 0,
        };
        line.encode(page);
        let (line, _) = page.split_at_mut(RosterLine::BYTES);
        store_crc(seed_of_pool(uuid), line, RosterLine::BYTES - 4);
    }

    /// What a page says, and on which member, if it is one of this pool.
    pub(crate) fn decode(uuid: u128, page: &[u8]) -> Option<(usize, Roster)> {
        let line = RosterLine::decode(page);
        let page = &page[..RosterLine::BYTES];
        let is_one = line.magic == MAGIC
            && line.uuid == uuid
            && (1..1 << 62).contains(&line.epoch)
            && line.member < 2
            && has_crc(seed_of_pool(uuid), page, RosterLine::BYTES - 4);
        if !is_one {
            return None;
        }
        let roster = Roster {
            epoch: line.epoch,
            ids: [line.id_0, line.id_1],
            standings: [
                Standing::of_number(line.standing_0)?,
                Standing::of_number(line.standing_1)?,
            ],
        };
        Some((line.member as usize, roster))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::PAGE_BYTES;

    #[test]
    fn a_roster_is_read_as_it_was_written_and_no_bit_of_it_may_differ() {
        let roster = Roster {
            epoch: 7,
            ids: [3, 4],
            standings: [Standing::In, Standing::Out],
        };
        let mut page = vec![0; PAGE_BYTES];
        roster.encode(5, 1, &mut page);
        assert_eq!(Roster::decode(5, &page), Some((1, roster)));
        assert_eq!(Roster::decode(6, &page), None);
        for byte in 0..RosterLine::BYTES {
            page[byte] ^= 4;
            assert_eq!(Roster::decode(5, &page), None, "byte {byte}");
            page[byte] ^= 4;
        }
    }
}
