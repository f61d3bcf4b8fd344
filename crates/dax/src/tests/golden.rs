//! The bytes of a region, as every version from the first on has them.

use forebay_pmem::crc32c;

use crate::format::{Evidence, FileLine, Geometry, LINE_BYTES, Line, NoLine, Sum};
use crate::report::RegionState;

fn line() -> Line {
    let file = |number: u64| FileLine {
        path: format!("/mnt/m{number}/pool.dax/r").into(),
        evidence: Evidence {
            inode: 0x0101 * number,
            size_bytes: 6 << 20,
            mtime_ns: 1_000_000_007 * number,
            ctime_ns: 1_000_000_009 * number,
        },
    };
    Line {
        pool: *b"pool uuid 16 byt",
        region: *b"region id 16 byt",
        name: "r".into(),
        generation: 0x0102_0304_0506_0708,
        state: RegionState::Sealed,
        geometry: Geometry::new(12 << 20, 2).unwrap(),
        pass: 77,
        unverified_pages: 5,
        lost_pages: 3,
        files: vec![file(1), file(2), file(3)],
    }
}

#[test]
fn a_line_s_bytes_stay_what_they_are() {
    let bytes = line().encode(2);
    assert_eq!(bytes.len(), 4096);
    assert_eq!(&bytes[..16], b"FBDAXLN\x01\x01\0\0\0\x02\0\0\0");
    assert_eq!(&bytes[16..48], b"pool uuid 16 bytregion id 16 byt");
    assert_eq!(
        &bytes[48..64],
        b"\x08\x07\x06\x05\x04\x03\x02\x01\x02\0\0\0\x02\0\0\0"
    );
    assert_eq!(&bytes[64..80], b"\0\0\xc0\0\0\0\0\0M\0\0\0\0\0\0\0");
    assert_eq!(
        &bytes[80..106],
        b"\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0r\0"
    );
    assert_eq!(&bytes[256..264], b"\x01\x01\0\0\0\0\0\0");
    assert_eq!(&bytes[288..310], b"\x12\0\0\0/mnt/m1/pool.dax/r");
    assert_eq!(&bytes[732..740], b"\x02\x02\0\0\0\0\0\0");
    assert_eq!(bytes[4092..], crc32c(&bytes[..4092]).to_le_bytes());
    assert_eq!(Line::decode(&bytes), Ok((line(), 2)));
}

#[test]
fn a_line_with_a_flip_is_none() {
    let bytes = line().encode(0);
    for at in (0..LINE_BYTES).step_by(3) {
        let mut flipped = bytes;
        flipped[at] ^= 1 << (at % 8);
        assert!(Line::decode(&flipped).is_err(), "{at}");
    }
    assert_eq!(Line::decode(&[0; LINE_BYTES]), Err(NoLine::Blank));
    // Bytes with a good check that make no sense.
    let mut newer = bytes;
    newer[8] = 2;
    let crc = crc32c(&newer[..4092]).to_le_bytes();
    newer[4092..].copy_from_slice(&crc);
    assert_eq!(Line::decode(&newer), Err(NoLine::Version(2)));
    for (at, value) in [
        (12, 9),
        (60, 0),
        (60, 8),
        (64, 1),
        (96, 65),
        (56, 9),
        (289, 9),
    ] {
        let mut strange = bytes;
        strange[at] = value;
        let crc = crc32c(&strange[..4092]).to_le_bytes();
        strange[4092..].copy_from_slice(&crc);
        assert_eq!(Line::decode(&strange), Err(NoLine::Damaged), "{at}");
    }
}

#[test]
fn sums_stay_what_they_are_and_know_their_place() {
    let page = [0x5a; 4096];
    assert_eq!(Sum::of(&page, 0, 0, 1).0 >> 32, 1);
    let golden = [(0, 0), (0, 1), (1, 0), (6, 1 << 30)]
        .map(|(extent, row)| Sum::of(&page, extent, row, 0x1_0000_0002).0);
    assert_eq!(golden, GOLDEN);
    let zero = Sum::of(&[0; 4096], 0, 0, 0);
    assert_ne!(zero.0, 0, "a sidecar of zeroes vouches for nothing");
}

const GOLDEN: [u64; 4] = [9_880_486_374, 11_793_584_264, 9_232_333_352, 10_952_371_919];
