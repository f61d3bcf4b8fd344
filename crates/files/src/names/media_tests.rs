//! What is written to the log is read again, and nothing else is taken for it.

use proptest::prelude::*;

use super::*;
use crate::names::table::Table;

fn place(parent: u64, name: &str) -> Place {
    Place {
        parent: FileId(parent),
        name: name.into(),
    }
}

fn examples() -> Vec<Record> {
    let id = FileId(7);
    let identity = Identity {
        device: 3,
        inode: 99,
        proof: Proof::of_handle(1, &[5; 8], None),
    };
    let creation = Creation {
        mode: 0o120_777,
        user: 1,
        group: 2,
        device: 3,
        target: "../elsewhere".into(),
    };
    let mut records = vec![
        Record::Introduce {
            id,
            mode: 0o40_755,
            identity,
            place: place(1, "a"),
        },
        Record::Create {
            id,
            identity,
            creation,
            place: place(2, "b"),
        },
        Record::Link {
            id,
            place: place(1, &"long".repeat(63)),
        },
        Record::Unlink {
            id,
            place: place(1, "c"),
        },
        Record::Rename {
            id,
            from: place(1, "c"),
            to: place(2, "d"),
        },
        Record::Exchange {
            one: place(1, "c"),
            other: place(2, "d"),
        },
        Record::Abort,
        Record::Remade { id, identity },
        Record::Reconciling,
        Record::Mounted {
            device: 3,
            mounting: Mounting {
                boot: [8; BOOT_BYTES],
                mount: 1 << 31,
            },
        },
        Record::FileSystem {
            device: 3,
            mark: Mark::Uuid([9; MARK_BYTES]),
        },
        Record::FileSystem {
            device: 4,
            mark: Mark::RootBirth([1; MARK_BYTES]),
        },
    ];
    let changed = -6_000_000_001;
    records.extend(outcomes().into_iter().map(|outcome| Record::Attribute {
        id,
        changed,
        outcome,
    }));
    records.extend([
        Record::Settled { id },
        Record::Others {
            theirs: Theirs::from_bits(7).unwrap(),
            ids: vec![id; IDS_MAX],
        },
        Record::Others {
            theirs: Theirs::default(),
            ids: Vec::new(),
        },
        Record::Recovering {
            boot: [7; BOOT_BYTES],
            at: changed,
            ends: true,
        },
    ]);
    records
}

fn outcomes() -> Vec<Outcome> {
    let rights = Rights {
        mode: 0o2711,
        user: 1000,
        group: u32::MAX - 1,
    };
    vec![
        Outcome::Rights(rights),
        Outcome::Value("x".repeat(255).into(), Some(vec![0xAB; VALUE_BYTES_MAX])),
        Outcome::Value("user.empty".into(), Some(Vec::new())),
        Outcome::Value("user.gone".into(), None),
    ]
}

#[test]
fn records_come_back_as_they_went() {
    for (record, sequence) in examples().into_iter().zip(40..) {
        let mut bytes = Vec::new();
        encode(&record, sequence, &mut bytes);
        let len = bytes.len();
        bytes.extend_from_slice(&[0; RECORD_HEADER_BYTES]);
        assert_eq!(decode(&bytes, sequence), Ok(Next::Record(record, len)));
        assert_eq!(decode(&bytes[len..], sequence + 1), Ok(Next::End));
    }
}

#[test]
fn every_flipped_bit_is_seen() {
    let mut bytes = Vec::new();
    encode(&examples()[5], 17, &mut bytes);
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&bytes, 17).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(decode(&bytes, 18).is_err());
}

#[test]
fn headers_are_validated() {
    let header = HalfHeader::new(12);
    let mut bytes = header.encode();
    assert_eq!(HalfHeader::decode(&bytes), Ok(Some(header)));
    bytes[9] ^= 1;
    assert!(HalfHeader::decode(&bytes).is_err());
    bytes[7] = 1;
    let error = HalfHeader::decode(&bytes).unwrap_err();
    assert!(error.contains("format 1"), "{error}");
    assert_eq!(HalfHeader::decode(&[0; HALF_HEADER_BYTES]), Ok(None));
}

#[test]
fn the_version_before_is_read_and_later_ones_are_refused_by_name() {
    let sealed = |version| {
        let mut bytes = HalfHeader::new(12).encode();
        bytes[7] = version;
        let crc = forebay_pmem::crc32c(&bytes[..HALF_HEADER_BYTES - 4]);
        bytes[HALF_HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        HalfHeader::decode(&bytes)
    };
    assert_eq!(
        sealed(2).map(|header| header.map(|header| header.first_sequence)),
        Ok(Some(12))
    );
    for version in [1, 3, 5, 255] {
        let error = sealed(version).unwrap_err();
        assert!(error.contains(&format!("format {version}, ")), "{error}");
    }
}

proptest! {
    /// As a hostile writer would: any body under a right checksum.
    #[test]
    fn whatever_a_record_says_is_understood_or_refused(
        kind in 0..24u8,
        body in prop::collection::vec(any::<u8>(), 0..200),
        lens in prop::collection::vec(any::<u16>(), 0..3),
    ) {
        let mut bytes = vec![0; RECORD_HEADER_BYTES];
        bytes.extend_from_slice(&body);
        for (at, len) in lens.iter().enumerate() {
            let place = RECORD_HEADER_BYTES + 8 + at * 4;
            if let Some(place) = bytes.get_mut(place..place + 2) {
                place.copy_from_slice(&(len % 300).to_le_bytes());
            }
        }
        bytes.resize(bytes.len().next_multiple_of(RECORD_ALIGNMENT_BYTES), 0);
        let len = bytes.len() as u32;
        bytes[4..8].copy_from_slice(&len.to_le_bytes());
        bytes[8..16].copy_from_slice(&7u64.to_le_bytes());
        bytes[16] = kind;
        let crc = forebay_pmem::crc32c(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        if let Ok(Next::Record(record, _)) = decode(&bytes, 7) {
            let mut again = Vec::new();
            encode(&record, 7, &mut again);
            prop_assert_eq!(decode(&again, 7), Ok(Next::Record(record.clone(), again.len())));
            // Nothing is known that it could be about, or it makes something known.
            drop(Table::replay(&[record.clone(), record]));
        }
    }
}
