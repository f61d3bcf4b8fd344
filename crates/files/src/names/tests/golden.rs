//! The same operations write the same log as an earlier build, and that log is still read.

use std::fs;
use std::path::PathBuf;

use super::{Step, World};

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

fn path() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/names/tests/golden/names.log"
    ))
}

/// What lies in the pool after those operations, and the names that there are.
fn written() -> (World, Vec<u8>) {
    let mut world = World::new();
    let names = world.recover().unwrap();
    for (kind, one, other, name) in STEPS {
        let step = Step {
            kind,
            one,
            other,
            name,
        };
        world.act(&names, step).unwrap();
    }
    drop(names);
    let mut bytes = world.area.bytes.lock().unwrap().clone();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes.truncate(end);
    (world, bytes)
}

/// A log that is missing is written by `FOREBAY_WRITE_GOLDEN=1`; one that is there is never replaced.
#[test]
fn the_same_operations_write_the_same_log() {
    let (_, bytes) = written();
    if std::env::var_os("FOREBAY_WRITE_GOLDEN").is_some() && !path().exists() {
        fs::write(path(), &bytes).unwrap();
    }
    let golden = fs::read(path()).expect("the log");
    let differs = (0..bytes.len()).find(|at| bytes.get(*at) != golden.get(*at));
    assert_eq!((differs, bytes.len()), (None, golden.len()));
}

#[test]
fn the_log_of_an_earlier_build_is_read() {
    let (world, _) = written();
    let golden = fs::read(path()).expect("the log");
    {
        let mut area = world.area.bytes.lock().unwrap();
        area.fill(0);
        area[..golden.len()].copy_from_slice(&golden);
    }
    let before = world.tree().shape();
    drop(world.recover().expect("recovery"));
    assert_eq!(world.tree().shape(), before);
}
