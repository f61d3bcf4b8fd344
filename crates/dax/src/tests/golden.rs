//! The bytes of a region, as every version from the first on has them.

use forebay_pmem::crc32c;

use crate::format::{
    Copies, Evidence, FileLine, Generation, Geometry, History, LINE_BYTES, Line, Mark, NoLine,
    Relation, Sum,
};

fn line() -> Line {
    let file = |number: u64| FileLine {
        path: format!("/mnt/m{number}/pool.dax/r").into(),
        evidence: Evidence {
            inode: 0x0101 * number,
            size_bytes: 6 << 20,
            mtime_ns: 1_000_000_007 * number,
            ctime_ns: 1_000_000_009 * number,
        },
        since: Generation::from_word(number << 32 | 0x11),
    };
    let mut history = [0; 16];
    (history[0], history[1]) = (0xa1a2_a3a4_a5a6_a7a8, 0xb1b2_b3b4_b5b6_b7b8);
    Line {
        pool: *b"pool uuid 16 byt",
        region: *b"region id 16 byt",
        name: "r".into(),
        generation: Generation::from_word(0x0102_0304_0506_0708),
        history: History(history),
        mark: Mark::Sealed,
        boot: *b"boot id 16 bytes",
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
    assert_eq!(&bytes[..16], b"FBDAXLN\x01\x02\0\0\0\x02\0\0\0");
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
    assert_eq!(&bytes[168..184], b"boot id 16 bytes");
    assert_eq!(&bytes[184..192], b"\xa8\xa7\xa6\xa5\xa4\xa3\xa2\xa1");
    assert_eq!(&bytes[192..200], b"\xb8\xb7\xb6\xb5\xb4\xb3\xb2\xb1");
    assert_eq!(&bytes[464..472], b"\x01\x01\0\0\0\0\0\0");
    assert_eq!(&bytes[496..504], b"\x11\0\0\0\x01\0\0\0");
    assert_eq!(&bytes[504..526], b"\x12\0\0\0/mnt/m1/pool.dax/r");
    assert_eq!(&bytes[916..924], b"\x02\x02\0\0\0\0\0\0");
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
    newer[8] = 3;
    let crc = crc32c(&newer[..4092]).to_le_bytes();
    newer[4092..].copy_from_slice(&crc);
    assert_eq!(Line::decode(&newer), Err(NoLine::Version(3)));
    for (at, value) in [
        (12, 9),
        (60, 0),
        (60, 8),
        (64, 1),
        (96, 65),
        (56, 9),
        (505, 9),
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
    assert_eq!(Sum::of(&page, 0, 0, 1).unverified().0 >> 32, 1 | 1 << 30);
    assert_eq!(Sum::of(&page, 0, 0, 1).lost().0 >> 32, 1 | 1 << 31);
    let golden = [(0, 0), (0, 1), (1, 0), (6, 1 << 30)]
        .map(|(extent, row)| Sum::of(&page, extent, row, 0x1_0000_0002).0);
    assert_eq!(golden, GOLDEN);
    let zero = Sum::of(&[0; 4096], 0, 0, 0);
    assert_ne!(zero.0, 0, "a sidecar of zeroes vouches for nothing");
}

const GOLDEN: [u64; 4] = [9_880_486_374, 11_793_584_264, 9_232_333_352, 10_952_371_919];

#[test]
fn of_two_copies_the_later_pass_counts_and_of_one_pass_either() {
    let (old, new) = (Sum::from_check(7, 4), Sum::from_check(8, 5));
    for copies in [Copies::two(old, new), Copies::two(new, old)] {
        assert_eq!(copies.vouching_for(8), Some(new));
        assert_eq!(copies.vouching_for(7), None);
        assert_eq!(copies.newest(), new);
    }
    // The number of a pass begins anew.
    let (old, new) = (
        Sum::from_check(7, (1 << 30) - 1),
        Sum::from_check(8, 1 << 30),
    );
    assert_eq!(Copies::two(old, new).newest(), new);
    assert_eq!(new.passes_after((1 << 30) - 1), 1);
    let flipped = Sum::from_check(9, 5);
    let one = Sum::from_check(8, 5);
    assert_eq!(Copies::two(one, flipped).vouching_for(8), Some(one));
    assert_eq!(Copies::two(one, flipped).vouching_for(9), Some(flipped));
    // What either tells of the page is told.
    let told = Copies::two(one, one.unverified()).vouching_for(8);
    assert_eq!(told, Some(one.unverified()));
    assert!(told.unwrap().is_unverified() && !told.unwrap().is_lost());
}

#[test]
fn a_line_knows_what_it_follows_from() {
    let first = line();
    let second = first.next(Mark::Open);
    assert!(second.generation > first.generation && second.is_of_this_boot());
    assert_eq!(second.relation(&first), Relation::Ancestor);
    let (left, right) = (
        second.without(&[0], Mark::Open).unwrap(),
        second.without(&[1], Mark::Open).unwrap(),
    );
    assert_eq!(left.generation, right.generation);
    assert_eq!(left.relation(&first), Relation::Ancestor);
    assert_eq!(left.relation(&right), Relation::Foreign);
    assert!(first.generation < left.files[0].since && first.generation >= left.files[1].since);
    let mut later = left.clone();
    for _ in 0..14 {
        later = later.without(&[2], Mark::Sealed).unwrap();
    }
    assert_eq!(later.relation(&second), Relation::Ancestor);
    assert_eq!(later.relation(&right), Relation::Foreign);
    let later = later.without(&[2], Mark::Sealed).unwrap();
    assert_eq!(later.relation(&second), Relation::Unknown);
}
