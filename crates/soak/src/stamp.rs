//! What a sector holds: its writer, its place, and its version, so that what is found in a wrong
//! place or a wrong time says where it came from.
//!
//! 64 little-endian words: mark, seed of the run, volume and version, sector number, 59 words drawn
//! from these, and a checksum over all before. Version 0 is a sector of zeroes.

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;

const WORDS: usize = SECTOR_BYTES / 8;
const MARK: u64 = u64::from_le_bytes(*b"4bsoak01");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub seed: u64,
    pub volume: u32,
    pub sector: u64,
}

/// What a sector turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Zeroes,
    Stamp(Origin, u32),
    /// Anything else: damaged, or never written by this program.
    Garbage,
}

pub fn fill(sector: &mut [u8], origin: Origin, version: u32) {
    if version == 0 {
        sector.fill(0);
        return;
    }
    let head = [
        MARK,
        origin.seed,
        u64::from(origin.volume) << 32 | u64::from(version),
        origin.sector,
    ];
    let mut state = head.iter().fold(0, |state, word| mix(state ^ word));
    let mut checksum = 0;
    for (index, bytes) in sector.chunks_exact_mut(8).enumerate() {
        let word = match index {
            0..4 => head[index],
            last if last == WORDS - 1 => checksum,
            _ => {
                state = mix(state);
                state
            }
        };
        checksum = (checksum ^ word).rotate_left(7);
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

pub fn read(sector: &[u8]) -> Found {
    if sector.iter().all(|byte| *byte == 0) {
        return Found::Zeroes;
    }
    let word = |index: usize| {
        let bytes = sector[index * 8..index * 8 + 8].try_into();
        u64::from_le_bytes(bytes.expect("eight bytes"))
    };
    let origin = Origin {
        seed: word(1),
        volume: (word(2) >> 32) as u32,
        sector: word(3),
    };
    let version = word(2) as u32;
    let mut expected = [0; SECTOR_BYTES];
    fill(&mut expected, origin, version);
    if expected == sector {
        Found::Stamp(origin, version)
    } else {
        Found::Garbage
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(state: u64) -> u64 {
    let mut word = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGIN: Origin = Origin {
        seed: 5,
        volume: 2,
        sector: 77,
    };

    #[test]
    fn a_stamp_reads_as_what_it_was_filled_with() {
        let mut sector = [1; SECTOR_BYTES];
        fill(&mut sector, ORIGIN, 9);
        assert_eq!(read(&sector), Found::Stamp(ORIGIN, 9));
        fill(&mut sector, ORIGIN, 0);
        assert_eq!(read(&sector), Found::Zeroes);
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut sector = [0; SECTOR_BYTES];
        fill(&mut sector, ORIGIN, 9);
        for bit in 0..SECTOR_BYTES * 8 {
            sector[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&sector), Found::Garbage, "bit {bit}");
            sector[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
