//! The same operations, and the same recovery, write the same log as an earlier build, and that log is
//! still read. So are those of version 2 of the log, which has no attributes: they have no number in their names.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::Keep;
use super::{Crash, Step, World};
use crate::metadata::{Durable, FileId};
use crate::names::attributes::{Outcome, Rights, Theirs};
use crate::names::file_system::Mark;
use crate::names::log::Log;
use crate::names::log::tests::MemoryArea;
use crate::names::proof::Proof;
use crate::names::record::Record;
use crate::names::space::{BOOT_BYTES, Creation, Identity, Mounting, Place, Renaming};

/// Every kind of operation, with a checkpoint in between, after which the other half of the log counts.
const STEPS: [(u8, u16, u16, u8); 28] = [
    (2, 0, 0, 0),
    (0, 0, 0, 1),
    (4, 0, 1, 2),
    (13, 1, 0, 0),
    (5, 0, 0, 3),
    (9, 2, 1, 0),
    (13, 0, 0, 0),
    (12, 0, 0, 1),
    (11, 1, 1, 3),
    (6, 2, 0, 0),
    (14, 0, 0, 0),
    (15, 0, 0, 0),
    (3, 0, 1, 1),
    (1, 0, 2, 2),
    (13, 4, 0, 0),
    (10, 3, 0, 2),
    (8, 1, 0, 0),
    (4, 0, 0, 3),
    (5, 1, 1, 0),
    (13, 2, 0, 0),
    (12, 2, 1, 1),
    (7, 0, 0, 0),
    (0, 0, 0, 0),
    (9, 1, 0, 1),
    (12, 0, 0, 0),
    (12, 1, 0, 1),
    (12, 2, 0, 3),
    (12, 0, 1, 2),
];

/// Changes of attributes, of what is there after those; the last one is of the root's first name.
const ATTRIBUTE_STEPS: [(u8, u16, u16, u8); 5] = [
    (16, 0, 0, 5),
    (17, 1, 33, 7),
    (17, 1, 35, 8),
    (17, 1, 4, 7),
    (16, 2, 0, 9),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/names/tests/golden"
    ))
    .join(name)
}

fn without_zeroes(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(end);
    bytes
}

impl World {
    fn do_all(&mut self, steps: &[(u8, u16, u16, u8)], names: &super::Names<super::ModelSpace>) {
        for (kind, one, other, name) in steps.iter().copied() {
            let step = Step {
                kind,
                one,
                other,
                name,
            };
            self.act(names, step).unwrap();
        }
    }

    fn log(&self) -> Vec<u8> {
        without_zeroes(self.area.bytes.lock().unwrap().clone())
    }

    /// The same names, with this log.
    fn set_log(&self, golden: &[u8]) {
        let mut area = self.area.bytes.lock().unwrap();
        area.fill(0);
        area[..golden.len()].copy_from_slice(golden);
    }
}

/// What lies in the pool after those operations, and the names that there are.
fn written(more: &[(u8, u16, u16, u8)]) -> (World, Vec<u8>) {
    let mut world = World::new();
    let names = world.recover().unwrap();
    world.do_all(&STEPS, &names);
    world.do_all(more, &names);
    drop(names);
    let bytes = world.log();
    (world, bytes)
}

/// What recovery writes after a power failure that the backing lost everything in, and a rename that the
/// kernel refuses once it is recorded.
fn recovered() -> (World, Vec<u8>) {
    let mut world = World::new();
    let names = world.recover().unwrap();
    // A directory, a symbolic link, and two files of which one is in the directory.
    world.do_all(
        &[(2, 0, 0, 0), (0, 0, 1, 1), (4, 0, 0, 2), (0, 0, 0, 3)],
        &names,
    );
    let directory = world.tree().find("a".as_ref()).unwrap();
    let root = world.tree().find("".as_ref()).unwrap();
    let itself = (&directory, "inside".as_ref());
    let refused = names
        .rename((&root, "a".as_ref()), itself, Renaming::Replace)
        .unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    drop(names);
    world.crash(Crash {
        after: 0,
        keep: Keep::Prefix(0),
    });
    drop(world.recover().unwrap());
    let bytes = world.log();
    (world, bytes)
}

/// One record of each kind, and of each sort of what it holds.
fn every_kind() -> Vec<Record> {
    let place = |parent, name: &str| Place {
        parent: FileId(parent),
        name: name.into(),
    };
    let identity = |proof| Identity {
        device: 0x801,
        inode: 77,
        proof,
    };
    let creation = Creation {
        mode: libc::S_IFLNK | 0o777,
        user: 1000,
        group: 100,
        device: 0x103,
        target: "somewhere".into(),
    };
    let proofs = [
        Proof::NOTHING,
        Proof::of_handle(1, &[5; 8], None),
        Proof::of_handle(0x4d, &[6; 20], Some(1_700_000_000_000_000_000)),
        Proof::hash(b"a handle that is too long"),
        Proof::of_birth(1_700_000_000_000_000_001),
    ];
    let mut records = vec![Record::Introduce {
        id: FileId::ROOT,
        mode: libc::S_IFDIR | 0o755,
        identity: identity(Proof::NOTHING),
        place: place(0, ""),
    }];
    records.extend((2..).zip(proofs).map(|(id, proof)| Record::Create {
        id: FileId(id),
        identity: identity(proof),
        creation: creation.clone(),
        place: place(1, &format!("made-{id}")),
    }));
    records.extend([
        Record::Link {
            id: FileId(2),
            place: place(1, "linked"),
        },
        Record::Unlink {
            id: FileId(2),
            place: place(1, "made-2"),
        },
        Record::Rename {
            id: FileId(3),
            from: place(1, "made-3"),
            to: place(1, "renamed"),
        },
        Record::Exchange {
            one: place(1, "renamed"),
            other: place(1, "linked"),
        },
        Record::Unlink {
            id: FileId(4),
            place: place(1, "made-4"),
        },
        Record::Abort,
        Record::Remade {
            id: FileId(4),
            identity: identity(Proof::of_birth(-1)),
        },
        Record::Reconciling,
        Record::Mounted {
            device: 0x801,
            mounting: Mounting {
                boot: [9; BOOT_BYTES],
                mount: 42,
            },
        },
        Record::FileSystem {
            device: 0x801,
            mark: Mark::Uuid([0xAB; 16]),
        },
        Record::FileSystem {
            device: 0x802,
            mark: Mark::RootBirth([0xCD; 16]),
        },
    ]);
    records
}

fn every_outcome() -> Vec<Record> {
    let moment = |seconds: i128| seconds * 1_000_000_000 + 123_456_789;
    let value = |value: Option<&[u8]>| {
        let value = value.map(<[u8]>::to_vec);
        Outcome::Value("user.name".into(), value)
    };
    let rights = Rights {
        mode: 0o2750,
        user: 1000,
        group: 100,
    };
    let id = FileId(3);
    let outcomes = [
        (-5, Outcome::Rights(rights)),
        (1_700_000_002, value(Some(b"a value"))),
        (1_700_000_002, value(None)),
    ];
    let record = |(seconds, outcome)| Record::Attribute {
        id,
        changed: moment(seconds),
        outcome,
    };
    let mut records: Vec<Record> = outcomes.into_iter().map(record).collect();
    records.push(Record::Settled { id });
    let theirs = Theirs {
        rights: false,
        restarted: false,
        values: true,
    };
    records.push(Record::Others {
        theirs,
        ids: vec![FileId(3), FileId(7)],
    });
    records.extend([false, true].map(|ends| Record::Recovering {
        boot: [9; BOOT_BYTES],
        at: moment(1_700_000_003),
        ends,
    }));
    records
}

/// Begun with half of them, and the others appended.
fn log_of(records: &[Record]) -> Vec<u8> {
    let area = MemoryArea::new(super::AREA_BYTES);
    let (mut log, _) = Log::open(area.clone()).unwrap();
    let (first, others) = records.split_at(records.len() / 2);
    assert!(log.begin(first).unwrap() && log.append(others, Durable::AtOnce).unwrap());
    without_zeroes(area.0.lock().unwrap().clone())
}

/// A log that is missing is written by `FOREBAY_WRITE_GOLDEN=1`; one that is there is never replaced.
fn compare(name: &str, bytes: &[u8]) {
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() && !path(name).exists() {
        fs::write(path(name), bytes).unwrap();
    }
    let golden = fs::read(path(name)).expect("the log");
    let differs = (0..bytes.len()).find(|at| bytes.get(*at) != golden.get(*at));
    assert_eq!((differs, bytes.len()), (None, golden.len()), "{name}");
}

/// The kinds of the records that lie in the half at `start`.
fn kinds(log: &[u8], start: usize) -> BTreeSet<u8> {
    let mut at = start + 64;
    let mut kinds = BTreeSet::new();
    while let Some(header) = log.get(at..at + 24).filter(|header| header[16] != 0) {
        kinds.insert(header[16]);
        at += u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize;
    }
    kinds
}

#[test]
fn the_same_operations_write_the_same_log() {
    compare("names-4.log", &written(&ATTRIBUTE_STEPS).1);
    let golden = fs::read(path("names-4.log")).expect("the log");
    let kinds = [kinds(&golden, 0), kinds(&golden, super::AREA_BYTES / 2)];
    let is_there = |kind| kinds.iter().any(|kinds| kinds.contains(kind));
    assert!([12, 13, 14].iter().all(is_there), "{kinds:?}");
}

#[test]
fn the_same_recovery_writes_the_same_log() {
    compare("recovered-4.log", &recovered().1);
    let golden = fs::read(path("recovered-4.log")).expect("the log");
    let half_bytes = super::AREA_BYTES / 2;
    let kinds = [kinds(&golden, 0), kinds(&golden, half_bytes)];
    let is_there = |kind| kinds.iter().any(|kinds| kinds.contains(kind));
    assert!([8, 9, 17].iter().all(is_there), "{kinds:?}");
}

#[test]
fn the_same_records_of_every_kind_are_the_same_bytes_and_are_read_again() {
    let mut records = every_kind();
    are_read("kinds.log", 1..=11, &records);
    records.extend(every_outcome());
    compare("kinds-4.log", &log_of(&records));
    are_read("kinds-4.log", 1..=17, &records);
}

/// A log has records of these kinds, and says this.
fn are_read(name: &str, expected: RangeInclusive<u8>, records: &[Record]) {
    let golden = fs::read(path(name)).expect("the log");
    let kinds = (0..2).map(|half| kinds(&golden, half * super::AREA_BYTES / 2));
    assert_eq!(
        kinds.flatten().collect::<BTreeSet<u8>>(),
        expected.collect()
    );
    let area = MemoryArea::new(super::AREA_BYTES);
    area.0.lock().unwrap()[..golden.len()].copy_from_slice(&golden);
    assert_eq!(Log::open(Arc::clone(&area) as _).unwrap().1, records);
}

#[test]
fn the_log_of_an_earlier_build_is_read() {
    let with_attributes = written(&ATTRIBUTE_STEPS);
    for (name, (world, _)) in [
        ("names.log", written(&[])),
        ("names-4.log", with_attributes),
        ("recovered.log", recovered()),
        ("recovered-4.log", recovered()),
    ] {
        world.set_log(&fs::read(path(name)).expect("the log"));
        let before = world.tree().shape();
        drop(world.recover().expect("recovery"));
        assert_eq!(world.tree().shape(), before);
    }
}
